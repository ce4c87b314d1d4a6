"""A report as blocks, and the two ways to write it: Markdown, and one HTML page that stands alone."""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_STRESSED = re.compile(r"\*([^*]+)\*")


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the document's."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; backticks mark code, one star what is stressed, two what is strong."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Lines to type or to read as they are."""

    text: str


@dataclass(frozen=True)
class GridEntry:
    """A number or word in a grid; the tone says whether it is near the paper or far from it."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Grid:
    """A table. ``groups`` are (title, columns) above the header; words stand left, numbers right."""

    groups: Sequence[tuple[str, int]]
    header: Sequence[str]
    rows: Sequence[Sequence[GridEntry]]
    words: int


@dataclass(frozen=True)
class Figure:
    """A picture, by the path of its SVG without the suffix, relative to the report."""

    stem: str
    caption: str


Block = Heading | Text | Bullets | Code | Grid | Figure


def markdown(blocks: Sequence[Block]) -> str:
    """Return the blocks as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Text():
            return block.text
        case Bullets():
            return "\n".join(f"- {item}" for item in block.items)
        case Code():
            return f"```\n{block.text}\n```"
        case Figure():
            return f"![{_plain(block.caption)}]({block.stem}.png)\n\n*{block.caption}*"
        case Grid():
            return _markdown_grid(block)


def _markdown_grid(grid: Grid) -> str:
    titles = [title for title, span in grid.groups for _ in range(span)]
    header = [f"{title} {name}".strip() for title, name in zip(titles, grid.header, strict=True)]
    rules = [":--" if place < grid.words else "--:" for place in range(len(header))]
    rows = [[_write_entry(entry) for entry in row] for row in grid.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rules, *rows))


def _write_entry(entry: GridEntry) -> str:
    return f"**{entry.text}**" if entry.tone == "far" else entry.text


def page(blocks: Sequence[Block], folder: Path) -> str:
    """Return the blocks as one HTML page, with the pictures of the folder inside it."""
    style = (resources.files("keyhole.studies.paper") / "report.css").read_text()
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body = "\n".join(_html(block, folder) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_plain(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<nav>{_contents(blocks)}</nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _contents(blocks: Sequence[Block]) -> str:
    sections = [b.text for b in blocks if isinstance(b, Heading) and b.level == 2]
    return "".join(f'<a href="#{_anchor(text)}">{_inline(text)}</a>' for text in sections)


def _html(block: Block, folder: Path) -> str:
    match block:
        case Heading():
            tag = f"h{block.level}"
            return f'<{tag} id="{_anchor(block.text)}">{_inline(block.text)}</{tag}>'
        case Text():
            return f"<p>{_inline(block.text)}</p>"
        case Bullets():
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block.items) + "</ul>"
        case Code():
            return f"<pre>{html.escape(block.text)}</pre>"
        case Figure():
            picture = base64.b64encode((folder / f"{block.stem}.svg").read_bytes()).decode()
            return (
                f'<figure><img alt="{_plain(block.caption)}" src="data:image/svg+xml;base64,{picture}">'
                f"<figcaption>{_inline(block.caption)}</figcaption></figure>"
            )
        case Grid():
            return _html_grid(block)


def _html_grid(grid: Grid) -> str:
    groups = "".join(f'<th colspan="{span}">{_inline(title)}</th>' for title, span in grid.groups)
    starts = {sum(span for _, span in grid.groups[:place]) for place in range(1, len(grid.groups))}
    header = _cells("th", [GridEntry(name) for name in grid.header], grid.words, starts)
    rows = "\n".join(
        f"<tr{_block(grid, place)}>{_cells('td', row, grid.words, starts)}</tr>"
        for place, row in enumerate(grid.rows)
    )
    first = f'<tr class="groups">{groups}</tr>\n' if len(grid.groups) > 1 else ""
    return (
        f'<div class="grid"><table>\n<thead>\n{first}<tr>{header}</tr>\n</thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _block(grid: Grid, place: int) -> str:
    """Return the mark of a row whose first words are not those of the row above."""
    words = slice(min(2, grid.words - 1))
    same = place == 0 or grid.rows[place][words] == grid.rows[place - 1][words]
    return "" if same else ' class="block"'


def _cells(tag: str, entries: Sequence[GridEntry], words: int, starts: set[int]) -> str:
    def classes(place: int, entry: GridEntry) -> str:
        kinds = ("word" if place < words else "", "start" if place in starts else "", entry.tone)
        return " ".join(kind for kind in kinds if kind)

    return "".join(
        f'<{tag} class="{classes(place, entry)}">{_inline(entry.text)}</{tag}>'
        for place, entry in enumerate(entries)
    )


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    marked = _STRONG.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", escaped))
    return _STRESSED.sub(r"<em>\1</em>", marked)


def _plain(text: str) -> str:
    return html.escape(text.replace("`", "").replace("**", ""))


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
