"""A report in Markdown, and as one HTML page that holds its pictures and shows its tables in colour."""

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from keyhole.errors import MissingExtraError

_BLOCK = ' class="block"'  # of a row whose first words are not those of the row above


@dataclass(frozen=True)
class Entry:
    """A number or word in a grid; the tone says whether it is "near" the paper or "far" from it."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Grid:
    """A table. ``groups`` are (title, columns) above the header; words stand left, numbers right."""

    groups: Sequence[tuple[str, int]]
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    words: int


@dataclass(frozen=True)
class Figure:
    """A picture, by the path of its SVG without the suffix, relative to the report."""

    stem: str
    caption: str


Block = str | Grid | Figure  # text is Markdown


def write_bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def write_markdown(blocks: Sequence[Block]) -> str:
    def write(block: Block) -> str:
        if isinstance(block, Grid):
            return _write_grid(block)
        if isinstance(block, Figure):
            return f"![{_plain(block.caption)}]({block.stem}.png)\n\n*{block.caption}*"
        return block

    return "\n\n".join(map(write, blocks)) + "\n"


def _write_grid(grid: Grid) -> str:
    titles = [title for title, span in grid.groups for _ in range(span)]
    header = [f"{title} {name}".strip() for title, name in zip(titles, grid.header, strict=True)]
    rules = [":--" if place < grid.words else "--:" for place in range(len(header))]
    rows = [[f"**{e.text}**" if e.tone == "far" else e.text for e in row] for row in grid.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rules, *rows))


def write_page(blocks: Sequence[Block], folder: Path) -> str:
    """Return the blocks as one HTML page, with the pictures of the folder inside it."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError(
            "the report needs markdown-it-py; pip install 'keyhole-conformal[paper]'"
        ) from None
    render = MarkdownIt("commonmark", {"html": False}).render

    def write(block: Block) -> str:
        if isinstance(block, Grid):
            return _write_table(block)
        if isinstance(block, Figure):
            picture = base64.b64encode((folder / f"{block.stem}.svg").read_bytes()).decode()
            return (
                f'<figure><img alt="{_plain(block.caption)}" src="data:image/svg+xml;base64,{picture}">'
                f"<figcaption>{html.escape(block.caption, quote=False)}</figcaption></figure>"
            )
        return str(render(block)).strip()

    body = re.sub(
        r"<(h\d)>(.*?)</h\d>",
        lambda found: f'<{found[1]} id="{_anchor(found[2])}">{found[2]}</{found[1]}>',
        "\n".join(map(write, blocks)),
    )
    title, *_ = re.findall(r"<h1.*?>(.*?)</h1>", body)
    sections = re.findall(r'<h2 id="(.*?)">(.*?)</h2>', body)
    contents = "".join(f'<a href="#{anchor}">{text}</a>' for anchor, text in sections)
    style = (resources.files("keyhole.studies.paper") / "report.css").read_text()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<nav>{contents}</nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _write_table(grid: Grid) -> str:
    groups = "".join(f'<th colspan="{span}">{html.escape(title)}</th>' for title, span in grid.groups)
    starts = {sum(span for _, span in grid.groups[:place]) for place in range(1, len(grid.groups))}

    def write_row(tag: str, entries: Sequence[Entry]) -> str:
        classes = [
            " ".join(filter(None, ("word" * (k < grid.words), "start" * (k in starts), entry.tone)))
            for k, entry in enumerate(entries)
        ]
        return "".join(
            f'<{tag} class="{kinds}">{html.escape(entry.text, quote=False)}</{tag}>'
            for kinds, entry in zip(classes, entries, strict=True)
        )

    words = slice(min(2, grid.words - 1))
    above = [grid.rows[0], *grid.rows] if grid.rows else []
    rows = "\n".join(
        f"<tr{_BLOCK if row[words] != before[words] else ''}>{write_row('td', row)}</tr>"
        for before, row in zip(above, grid.rows, strict=False)
    )
    first = f'<tr class="groups">{groups}</tr>\n' if len(grid.groups) > 1 else ""
    header = write_row("th", [Entry(name) for name in grid.header])
    return (
        f'<div class="grid"><table>\n<thead>\n{first}<tr>{header}</tr>\n</thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _plain(text: str) -> str:
    return html.escape(text.replace("`", "").replace("**", ""))


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", html.unescape(text).lower()).strip("-")
