"""Make the site: the pages of this folder, and pages made from the code; then look at every link.

    python docs/site.py          builds out/site/ and fails at a broken link or a name without a page

Names, command line and HTTP come from the code itself at every build, so that they cannot go stale.
"""

import argparse
import ast
import contextlib
import html
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import latex2mathml.converter
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

import keyhole
from keyhole.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "out" / "docs"
SITE = PAGES.parent / "site"
INTEGRATIONS = ("sklearn", "river", "frames", "tables", "spark", "bytewax")
FIRST = ("Predictor", "Gate", "HIT", "MISS", "LEARNERS", "GATES", "make", "simulate")  # then the others
INHERITING = ("keyhole.Predictor", "keyhole.Gate")  # what they share is of a class without a page
ROOMS = {  # where what fewer people need is found
    "keyhole.scores": (
        "BoundedResiduals", "CustomScores", "CustomIntervals", "LabelSet", "Interval", "Decision",
    ),
    "keyhole.feedback": ("Answer",),
    "keyhole.learners": ("Learner", "Rule", "safety_valve"),
    "keyhole.simulation": ("simulate_against", "Simulation", "Channel", "metrics"),
    "keyhole.studies.compare.contest": ("Contest",),
    "keyhole.predictor.levels": ("LevelPredictor",),
    "keyhole.predictor.bandit": ("Exp3P",),
    "keyhole": ("grid", "errors"),
}  # fmt: skip
VALUES = {
    "HIT": "The set held the truth: `predictor.learn(shown, keyhole.HIT)`.",
    "MISS": 'It did not, "none of these": `predictor.learn(shown, keyhole.MISS)`.',
    "LEARNERS": "The rules for sets by name, [each with what it needs and promises](learners.md): "
    '`keyhole.LEARNERS["kt"]`. `keyhole.register` adds one.',
    "GATES": "The rules for gates by name, [each with what it promises](learners.md): "
    '`keyhole.GATES["gate-tracker"]`.',
}
_FORMULA = re.compile(r'(?<=class="arithmatex">)(?:\\\(.*?\\\)|\\\[.*?\\\])(?=</)', re.DOTALL)
_SPACED = (  # what the converter leaves to fonts for mathematics, which not everybody has
    (r"(<mo[^>]*>(?:&#x0003[CDE];|&#x0226[45];|&#x02190;|&#x0002C;|&#x00028;|[(\[])</mo>"
     r"(?:<mspace[^>]*/>)?)<mo>(&#x02212;|&#x0002B;)",
     r'\1<mo form="prefix">\2'),
    (r"<m[io]>(arctan|exp|ln|max|min)</m[io]>(?=<mo[^>]*>(?:&#x00028;|&#x0007B;|\())",
     r'<mo lspace="0.1em" rspace="0">\1</mo>'),
    (r"<m[io]>(arctan|exp|ln|max|min)</m[io]>", r'<mo lspace="0.1em" rspace="0.17em">\1</mo>'),
    (r"<mi>&#x000B1;</mi>", "<mo>&#x000B1;</mo>"),
    (r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>", r"<mrow>\1<mo>&#x02032;</mo></mrow>"),
    (r"<msubsup>(<mi>[^<]*</mi>)(<m[in]>[^<]*</m[in]>)<mi>&#x02032;</mi></msubsup>",
     r"<msub><mrow>\1<mo>&#x02032;</mo></mrow>\2</msub>"),
)  # fmt: skip
# Browsers draw what a formula does not write: a root's sign, and a variable x as U+1D465, one of the
# italic letters, of which h is elsewhere, and Greek.
_DRAWN = "".join(map(chr, (0x221A, 0x210E, *range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C))))
# The board's own headings, which the list of a page's contents would not see.
_RAW_HEADING = re.compile(r'<h([23]) id="[^"]*">(.*?)</h\1>')
# A number and its per cent sign stay in one line, but for code, whose spaces are copied.
_PER_CENT = re.compile(r"(<(pre|code|math|script|style)\b.*?</\2>|<[^>]*>)|(?<=\d) (?=%)", re.DOTALL)
# What may be wider than the page.
_SCROLLS = re.compile(r'<pre>|<div class="arithmatex">|<table.*?</table>', re.DOTALL)
GENERATED = (
    "changelog.md",
    *(
        f"reference/{name}.md"
        for name in ("names", "learners", "integrations", "keyed", "errors", "cli", "http")
    ),
)


def main() -> int:
    """Build the site; return how many faults were found and said."""
    write_pages(PAGES)
    config = write_config(ROOT / "out" / "zensical.toml")
    program = Path(sys.executable).parent / "zensical"
    build = [str(program), "build", "--clean", "--strict", "--config-file", str(config)]
    finished = subprocess.run(build, cwd=ROOT, check=False)
    faults = [*undocumented_names(), *finish_pages(SITE), *broken_links(SITE)]
    write_font(SITE)
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    print(f"{SITE / 'index.html'}: {len(list(SITE.rglob('*.html')))} pages, {len(faults)} faults")
    return int(bool(faults)) or finished.returncode


def write_pages(folder: Path) -> None:
    """Put every page of the site into the folder: those that are written and those that are made."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "src" / "keyhole" / "studies" / "board" / "board.css", folder / "assets")
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    board = folder / "board.md"
    board.write_text(_RAW_HEADING.sub(_write_heading, board.read_text()))
    for page in (folder / "howto").glob("*.md"):
        page.write_text(page.read_text().replace("(../../examples/", "(../examples/"))
    made = {
        "changelog.md": (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "]("),
        "reference/names.md": names_page(),
        "reference/learners.md": learners_page(),
        "reference/integrations.md": integrations_page(),
        "reference/keyed.md": keyed_page(),
        "reference/errors.md": errors_page(),
        "reference/cli.md": cli_page(),
        "reference/http.md": http_page(),
    }
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _write_heading(found: re.Match[str]) -> str:
    return f"\n{int(found[1]) * '#'} {html.unescape(found[2])}\n"


def write_config(path: Path) -> Path:
    """Write the generator's settings, with the version and the address of the source."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    text = (ROOT / "zensical.toml").read_text()
    path.write_text(text.replace("@source@", urls["Source"]).replace("@version@", keyhole.__version__))
    return path


def finish_pages(site: Path) -> Iterator[str]:
    """Typeset the formulas of the built pages, let keys scroll what scrolls; yield what fails.

    MathML needs no program, is read aloud and can be copied; its font is served with the pages.
    """
    for path in site.rglob("*.html"):
        text = path.read_text()
        for tex in dict.fromkeys(_FORMULA.findall(text)):
            source, wide = html.unescape(tex[2:-2]).strip(), tex.startswith(r"\[")
            try:
                typeset = typeset_formula(source, wide=wide)
            except Exception as fault:  # noqa: BLE001 - whatever it stumbles over is a fault of the page
                yield f"{path.relative_to(site)}: {source} cannot be typeset: {fault!r}"
                continue
            label = html.escape(source, quote=True)
            text = text.replace(tex, typeset.replace("<math ", f'<math alttext="{label}" ', 1))
        text = re.sub(r"</math></span>([.,;:)]+)", r"</math>\1</span>", text)  # in one line with it
        text = re.sub(r'\((<span class="arithmatex">)', r"\1(", text)
        text = _PER_CENT.sub(lambda found: found[1] or "\N{NO-BREAK SPACE}", text)
        path.write_text(_SCROLLS.sub(_let_keys_scroll, text))


def typeset_formula(tex: str, *, wide: bool) -> str:
    """Return the MathML of a formula, with signs, names of functions and primes where they belong."""
    fenced = tex.replace(r"\lvert", r"\left\lvert").replace(r"\rvert", r"\right\rvert")
    typeset = latex2mathml.converter.convert(fenced, display="block" if wide else "inline")
    for found, mended in _SPACED:
        typeset = re.sub(found, mended, typeset)
    return typeset


def write_font(site: Path) -> None:
    """Serve STIX Two Math with the pages, cut down to the characters that their formulas use.

    Without a font for mathematics indices and exponents stand at the wrong height, and readers seldom
    have one. It comes with a package of the extra docs; its licence, the OFL, lets it be served if
    it names itself in the file.
    """
    formulas = [re.findall(r"<math .*?</math>", path.read_text()) for path in site.rglob("*.html")]
    letters = {letter for page in formulas for one in page for letter in html.unescape(one)}
    package = importlib.metadata.distribution("ziamath")
    font = TTFont(str(package.locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf")))
    wanted = Subsetter(Options(layout_features=["*"], name_IDs=["*"]))
    wanted.populate(text="".join(sorted(letters)) + _DRAWN)
    wanted.subset(font)
    font.flavor = "woff"
    font.save(site / "assets" / "math.woff")


def _let_keys_scroll(found: re.Match[str]) -> str:
    if not found[0].startswith("<table"):
        return f'{found[0][:-1]} tabindex="0">'
    return f'<div class="scroll" tabindex="0">{found[0]}</div>'


def names_page() -> str:
    """Return the page of everything that ``import keyhole`` offers, and what its rooms do."""
    lines = [
        "# Names",
        "",
        "What `import keyhole` offers. Each name is imported when it is first used; a first round needs "
        "numpy and nothing heavier. Every rule is also available by name: `help(keyhole.ocp_unlock)`.",
    ]
    for name in (*FIRST, *(name for name in keyhole.__all__ if name not in FIRST)):
        lines += ["", *_describe_name(f"keyhole.{name}", getattr(keyhole, name))]
        if name == "Client":
            lines += list_methods(keyhole.Client)
    lines += [
        "",
        "## In submodules",
        "",
        "Names that fewer people need are imported from their modules.",
    ]
    for path, thing in list_rooms().items():
        lines += ["", *_describe_name(path, thing)]
    return "\n".join(lines) + "\n"


def list_methods(client: type) -> Iterator[str]:
    """Yield what a client can do: its methods are made from functions, where no source shows them."""
    for name, method in inspect.getmembers(client, inspect.isfunction):
        if not name.startswith("_"):
            _, *given = inspect.signature(method).parameters.values()
            bare = [one.replace(annotation=one.empty) for one in given]
            call = name + re.sub(r"<object object at \w+>", "...", str(inspect.Signature(bare)))
            lines = textwrap.wrap(call, 84, subsequent_indent="    ", break_long_words=False)
            yield from ("", f"### Client.{name}", "", "```python", *lines, "```", "")
            yield inspect.getdoc(method) or ""


def list_rooms() -> dict[str, Any]:
    """Return what the rooms offer, by the path it is imported from."""
    found = {}
    for room, names in ROOMS.items():
        module = importlib.import_module(room)
        found |= {f"{room}.{name}": getattr(module, name) for name in names}
    return found


def _describe_name(path: str, thing: Any) -> list[str]:
    if path == "keyhole.errors":
        return [f"## {path}", "", "[Every error and warning](errors.md)."]
    if inspect.ismodule(thing):
        return _directive(thing.__name__, title=path)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        lines = _directive(f"{thing.__module__}.{thing.__qualname__}", title=path)
        return [*lines, "      inherited_members: true"] if path in INHERITING else lines
    return [f"## {path}", "", VALUES[path.removeprefix("keyhole.")]]


def _directive(path: str, *, title: str) -> list[str]:
    return [f"::: {path}", "    options:", f"      heading: {title}", f"      toc_label: {title}"]


def learners_page() -> str:
    """Return the page of every learner: what it needs, takes and promises."""
    from keyhole import cli
    from keyhole.learners import GATES, LEARNERS

    lines = ["# Learners", "", "As `keyhole learners` prints them; [which to use](../choosing.md)."]
    for name, rule in [*LEARNERS.items(), *GATES.items()]:
        needs = rule.kind.use or f"needs: {rule.needs.value}"
        lines += ["", f"## {name}", "", rule.about.summary, "", f"- {needs}", f"- {cli._takes(rule)}"]
        lines += [
            f"- promises: {rule.about.guarantee}",
            f"- late answers: {rule.about.late or 'not measured'}",
        ]
        lines += [f"- source: {rule.about.source}"]
    return "\n".join(lines) + "\n"


def integrations_page() -> str:
    """Return the page of the adapters."""
    lines = [
        "# Integrations",
        "",
        "Each needs the extra of its name: `pip install 'keyhole-conformal[sklearn]'`.",
    ]
    for name in INTEGRATIONS:
        module = f"keyhole.integrations.{name}"
        for public in _public_names(module):
            directive = _directive(f"{module}.{public}", title=f"{public} ({name})")
            lines += ["", *directive, "      inherited_members: true"]  # of what wrappers share
    return "\n".join(lines) + "\n"


def _public_names(module: str) -> list[str]:
    """Return the ``__all__`` of a module, read from its source: what it needs may not be there."""
    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(str(spec and spec.origin)).read_text())
    named = (node for node in tree.body if isinstance(node, ast.Assign))
    listed = [node.value for node in named if ast.unparse(node.targets[0]) == "__all__"]
    return list(ast.literal_eval(listed[0]))


def keyed_page() -> str:
    """Return the page of the fold that keyed engines run."""
    keyed = importlib.import_module("keyhole.keyed")
    lines = ["# keyhole.keyed", "", inspect.getdoc(keyed) or ""]
    for name in keyed.__all__:
        thing = getattr(keyed, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            lines += ["", *_directive(f"{thing.__module__}.{thing.__qualname__}", title=name)]
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Return the page of errors, each with its one sentence and what it is a kind of."""
    errors = importlib.import_module("keyhole.errors")
    lines = ["# Errors", "", "A message says the fault, the value and the remedy.", ""]
    lines += ["| name | when | a kind of |", "|---|---|---|"]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == errors.__name__:
            parents = ", ".join(f"`{parent.__name__}`" for parent in kind.__bases__)
            sentence = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
            lines.append(f"| `{name}` | {sentence} | {parents} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """Return the page of the command line: every command's own help."""
    from keyhole import cli

    os.environ["COLUMNS"] = "80"  # what fits the width of a page
    lines = ["# Command line"]
    for command, parser in _commands(cli._parser()):  # the only place that knows every command
        lines += ["", f"## {command}", "", "```text", parser.format_help().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _commands(below)


def http_page() -> str:
    """Return the page of the service's routes, from its own OpenAPI description."""
    schema = _openapi()
    lines = [
        "# HTTP",
        "",
        "The routes of `keyhole serve`, from its OpenAPI description; a running service shows",
    ]
    lines += ['them at `/docs`. Errors are `{"error": {"code", "message", "field"}}`.']
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", route.get("description", route["summary"])]
            lines += _parameters(route)
            body = (
                route.get("requestBody", {})
                .get("content", {})
                .get("application/json", {})
                .get("schema")
            )
            if body:
                lines += ["", "The body:", "", *_fields(schema, body)]
    return "\n".join(lines) + "\n"


def _openapi() -> dict[str, Any]:
    """Return what a running service says of itself."""
    from keyhole.service.http.app import create_app
    from keyhole.service.store.sql.database import Database

    with tempfile.TemporaryDirectory() as folder:
        return create_app(Database(f"sqlite:///{folder}/keyhole.db")).openapi()


def _parameters(route: dict[str, Any]) -> list[str]:
    asked = [f"`{one['name']}` ({one['in']})" for one in route.get("parameters", [])]
    return ["", "Takes " + ", ".join(asked) + "."] if asked else []


def _fields(schema: dict[str, Any], body: dict[str, Any]) -> list[str]:
    """Return a table of the body's fields."""
    shape = body
    if "$ref" in body:
        shape = schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    rows = ["| field | what it is | default |", "|---|---|---|"]
    for name, one in shape.get("properties", {}).items():
        needed = name in shape.get("required", [])
        default = "required" if needed else f"`{json.dumps(one.get('default'))}`"
        about = one.get("description", "")
        told = f"{about} *({_kind(one)})*" if about else f"*{_kind(one)}*"
        rows.append(f"| `{name}` | {told} | {default} |")
    return rows if len(rows) > 2 else ["```json", json.dumps(shape, indent=1), "```"]


def _kind(field: dict[str, Any]) -> str:
    """Return the type of a field in a word or two."""
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_kind(one) for one in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "any"))


def undocumented_names() -> Iterator[str]:
    """Yield every public name, method and parameter list without a sentence."""
    things = {f"keyhole.{name}": getattr(keyhole, name) for name in keyhole.__all__} | list_rooms()
    modules = ["keyhole.keyed", *(f"keyhole.integrations.{name}" for name in INTEGRATIONS)]
    for path in modules:
        with contextlib.suppress(MissingExtraError):  # Spark has an environment of its own.
            module = importlib.import_module(path)
            things |= {f"{path}.{public}": getattr(module, public) for public in module.__all__}
    for path, thing in things.items():
        if not inspect.getdoc(thing):
            yield f"{path} has no docstring"
        if inspect.isclass(thing):
            for name, member in vars(thing).items():
                called = inspect.isfunction(member) or isinstance(member, (property, classmethod))
                if called and not name.startswith("_") and not inspect.getdoc(member):
                    yield f"{path}.{name} has no docstring"


class _Page(HTMLParser):
    """The anchors and the links of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what can be linked to, and what is."""
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag in ("a", "img", "link", "script"):
            self.links += [value for name in ("href", "src") if (value := given.get(name))]


def broken_links(site: Path) -> Iterator[str]:
    """Yield every link of the built site that leads to no file or no anchor."""
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # it is served at any address, so that its links are absolute
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{path.relative_to(site)} links to {link}"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{path.relative_to(site)} links to {link}, which is no heading"


if __name__ == "__main__":
    sys.exit(main())
