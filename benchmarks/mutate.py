"""Small changes of a source file, made by cosmic-ray: of every operator its nearest replacements."""

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# Of cosmic-ray's replacements of an operator those nearest to it: the others die more easily.
NEAR = {
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Div", "Mod_FloorDiv", "Pow_Mul"),
    *("BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitOr", "RShift_LShift", "LShift_RShift"),
    *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt"),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "Delete_Not", "Delete_USub"),
}
SIMPLE = {
    *("AddNot", "ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ReplaceAndWithOr"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ReplaceFalseWithTrue"),
    *("ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ZeroIterationForLoop"),
}
# Decorators that only mark, which the interpreted lane does not run, and those that only keep results.
MARKS = {"kernel", "called", "overload", "cache", "lru_cache"}
# Arguments that a type checker guards, that say what a cache keeps or which line a warning names, and
# those of pictures that change no number of theirs.
WORDS = {"frozen", "slots", "kw_only", "strict", "maxsize", "stacklevel"}
WORDS |= {"figsize", "ncols", "bbox_to_anchor", "zorder", "linewidth", "frameon", "sharex"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: this occurrence of what the operator replaces."""

    path: str
    operator: str
    occurrence: int
    line: int
    lines: range  # those that a test executes which may notice it; none if only the import does
    digest: str  # of the source

    @property
    def key(self) -> str:
        return f"{self.path} {self.operator} {self.occurrence} {self.digest}"

    def place(self, seed: int) -> float:
        """Return where it stands in the random order of the seed, in [0, 1)."""
        return int(digest_of(str(seed), self.path, self.operator, str(self.occurrence)), 16) / 2**64


def digest_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def list_mutants(folder: Path, path: str) -> list[Mutant]:
    """Return every mutant of a file, but for annotations, marks, caches and what else is the same.

    The first number of an array is mostly its only one, so that its last is no other; and a lone star
    among parameters is no product.
    """
    source = (folder / path).read_text(encoding="utf-8")
    spared, digest = find_spared(source), digest_of(source)
    heads, inside = find_bodies(source)
    nodes, lines, found = list(ast_nodes(get_ast(source))), source.splitlines(), []
    for name in operator_names():
        short = name.removeprefix("core/")
        if short not in SIMPLE and short.partition("_")[2] not in NEAR:
            continue
        operator = get_operator(name)()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, stop) in enumerate(places):
            around = lines[start[0] - 1][max(0, start[1] - 1) : start[1] + 2]
            last = around == "[0]" and occurrence % 2 == 1  # cosmic-ray adds 1, then takes 1 away
            if tuple(start) not in spared and not last and around != " *,":
                own = range(start[0], stop[0] + 1)
                seen = own if start[0] in inside else heads.get(start[0], range(0))
                found.append(Mutant(path, name, occurrence, start[0], seen, digest))
    return found


def find_bodies(source: str) -> tuple[dict[int, range], set[int]]:
    """Return the body of the function that each line of a head belongs to, and the lines of bodies."""
    heads: dict[int, range] = {}
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
            begin = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            heads |= dict.fromkeys(range(begin, first), range(first, last + 1))
            inside |= set(range(first, last + 1))
    return heads, inside


def find_spared(source: str) -> set[tuple[int, int]]:
    """Return the lines and columns of annotations, marks, caches, guarded arguments and protocols."""
    places = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and "Protocol" in map(name_of, node.bases):
            places |= {
                (n, at) for n in range(node.lineno, 1 + (node.end_lineno or 0)) for at in range(120)
            }
        notes = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        notes += [x for x in getattr(node, "decorator_list", ()) if name_of(x) in MARKS]
        notes += [x.value for x in getattr(node, "keywords", ()) if x.arg in WORDS]
        for part in (inner for note in notes if note is not None for inner in ast.walk(note)):
            if isinstance(part, ast.expr):
                for line in range(part.lineno, (part.end_lineno or part.lineno) + 1):
                    first = part.col_offset if line == part.lineno else 0
                    last = (part.end_col_offset or 0) if line == part.end_lineno else 200
                    places |= {(line, column) for column in range(first - 1, last)}
    return places


def name_of(used: ast.expr) -> str:
    return re.split(r"[(\[]", ast.unparse(used))[0]


def mutate(source: str, mutant: Mutant) -> str | None:
    """Return the source with the change; None where that is no Python, or none can be made."""
    try:
        changed = str(mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence))
        compile(changed, mutant.path, "exec")
    except (AttributeError, SyntaxError):  # cosmic-ray knows no dotted names among exceptions
        return None
    return changed


def find_change(source: str, mutant: Mutant) -> str:
    """Return the line of the mutant as it became."""
    pairs = zip(source.splitlines(), (mutate(source, mutant) or "").splitlines(), strict=False)
    return next((after.strip() for before, after in pairs if after != before), "")
