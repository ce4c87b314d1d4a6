"""The snippets of a page: python blocks in order, each with the text block that follows it."""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


class Snippet(NamedTuple):
    """Code, what the page says it prints (None: nothing is said), and where it stands."""

    code: str
    printed: str | None
    line: int


def find_snippets(page: Path) -> list[Snippet]:
    """Return the python blocks of a page."""
    text = page.read_text()
    return [
        Snippet(found[1], found[2], text.count("\n", 0, found.start()) + 2)
        for found in _BLOCK.finditer(text)
    ]


def run(snippet: Snippet, page: Path, names: dict[str, object]) -> str:
    """Run a snippet with the names of those before it; return what it printed."""
    said = io.StringIO()
    code = "\n" * (snippet.line - 1) + snippet.code  # so that a traceback names the page's line
    with contextlib.redirect_stdout(said):
        exec(compile(code, str(page), "exec"), names)  # noqa: S102
    return said.getvalue()


def is_as_said(printed: str, said: str) -> bool:
    """Return whether this was printed, where '...' stands for anything."""
    pattern = re.escape(said.strip()).replace(r"\.\.\.", ".*?")
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
