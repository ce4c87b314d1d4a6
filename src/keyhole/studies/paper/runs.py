"""All runs of all settings: what is there already is read, what is missing is played and kept."""

import ast
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from keyhole.errors import KeyholeError
from keyhole.live_line import live_line
from keyhole.predictor import file as snapshot
from keyhole.studies.engine import Engine
from keyhole.studies.paper.one_run import Pair, RunOutcome, learner_of, play_run

_SECONDS_BETWEEN_SAVES = 5.0
_PLAYS = "keyhole.studies.paper.one_run"


Outcomes = dict[int, RunOutcome]


@dataclass(frozen=True)
class FinishedRuns:
    folder: Path
    seed: int

    def path(self, pair: Pair) -> Path:
        """Return the file of a setting; it changes with anything that could change its runs."""
        content = json.dumps(self._header(pair), sort_keys=True)
        rule = learner_of(pair.setting).rule.choose.__module__
        key = hashlib.sha256((content + _sources(rule)).encode()).hexdigest()[:8]
        return self.folder / pair.source.name / f"{pair.setting.name}-{key}.npz"

    def _header(self, pair: Pair) -> dict[str, object]:
        parameters = learner_of(pair.setting).parameters
        return {
            "setting": asdict(pair.setting),
            "learner": asdict(parameters),
            "source": {"name": pair.source.name, "digest": pair.source.digest},
            "seed": self.seed,
        }

    def load(self, pair: Pair) -> Outcomes:
        path = self.path(pair)
        if not path.exists():
            return {}
        try:
            with np.load(path, allow_pickle=False) as arrays:
                numbers = arrays["run"].tolist()
                columns = [arrays[name] for name in RunOutcome._fields]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise KeyholeError(
                f"{path} cannot be read ({error}); delete it and it is run again"
            ) from None
        rows = zip(*(column if column.ndim > 1 else column.tolist() for column in columns), strict=True)
        return dict(zip(numbers, map(RunOutcome._make, rows), strict=True))

    def save(self, pair: Pair, outcomes: Outcomes) -> None:
        """Write the runs, in order, whole or not at all."""
        numbers = sorted(outcomes)
        rows = [outcomes[number] for number in numbers]
        arrays = {name: np.array([getattr(row, name) for row in rows]) for name in RunOutcome._fields}
        header = np.array(json.dumps(self._header(pair)))
        buffer = io.BytesIO()
        np.savez(buffer, header=header, run=np.array(numbers), **arrays)  # type: ignore[arg-type]
        path = self.path(pair)
        path.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write(path, buffer.getvalue())


@cache
def _sources(rule: str) -> str:
    """Return what tells the code that plays a run, and its data, from any that might play another.

    A rule is imported by its name, so that its module is named beside the one that plays.
    """
    return digest_sources((_PLAYS, rule), package=Path(__file__).parents[2])


def digest_sources(modules: Iterable[str], *, package: Path) -> str:
    """Return what tells the sources behind some modules, and the data with them, from any others."""
    total = hashlib.sha256()
    for path in find_sources(modules, package=package):
        total.update(f"{path.relative_to(package)}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def find_sources(modules: Iterable[str], *, package: Path) -> list[Path]:
    """Return the modules' files and those of the package that they import, however indirectly.

    The package's own ``__init__`` is left out: it gives names to what is elsewhere. What lies in a
    folder ``data`` beside a module belongs to it.
    """
    found: set[Path] = set()
    waiting = [*modules]
    while waiting:
        path = _locate(waiting.pop(), package)
        if path is None or path in found or (path.parent == package and path.stem == "__init__"):
            continue
        found.add(path)
        waiting += _imports(path)
    data = {file for path in found for file in (path.parent / "data").glob("*") if file.is_file()}
    return sorted(found | data)


def _locate(module: str, package: Path) -> Path | None:
    first, *rest = module.split(".")
    if first != package.name:
        return None
    place = package.joinpath(*rest)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _imports(path: Path) -> Iterator[str]:
    """Yield every module that a file names in an import, and the packages they lie in."""
    for node in _statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # What is imported may itself be a module: `from keyhole import grid`.
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in named:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(2, len(parts) + 1))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _statements(child)


def run(
    pairs: Iterable[Pair], folder: Path, *, runs: int, seed: int, engine: Engine
) -> Mapping[Pair, Outcomes]:
    """Return the outcomes of every pair; what the folder holds already is not run again.

    Finished runs are saved every few seconds and when the work is interrupted.
    """
    kept = FinishedRuns(folder, seed)
    finished = {pair: kept.load(pair) for pair in pairs}
    missing = [
        (pair, number) for pair in finished for number in range(runs) if number not in finished[pair]
    ]
    changed: set[Pair] = set()

    def save() -> None:
        while changed:
            pair = changed.pop()
            kept.save(pair, finished[pair])

    saved_at = time.monotonic()
    units = [(pair, seed + number) for pair, number in missing]
    cost = sum(pair.setting.cost for pair, _ in missing)
    try:
        with live_line("paper", cost) as advance:
            for place, outcome in engine.map(play_run, units):
                pair, number = missing[place]
                finished[pair][number] = outcome
                changed.add(pair)
                advance(
                    pair.setting.cost,
                    title=f"{pair.setting.data} {pair.setting.scenario} {pair.setting.learner}",
                )
                if time.monotonic() - saved_at > _SECONDS_BETWEEN_SAVES:
                    save()
                    saved_at = time.monotonic()
    finally:
        save()
    return {pair: {n: outcomes[n] for n in range(runs)} for pair, outcomes in finished.items()}
