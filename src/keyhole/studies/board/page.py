"""The board in a terminal, 80 columns wide, and as parts of a page: tables, and a panel a scenario."""

import html
import math
import re
import textwrap
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from keyhole.errors import InvalidError
from keyhole.learners import find
from keyhole.studies.board.board import (
    ALPHA,
    DIVISIONS,
    FULL,
    LONG_RUN,
    PARTS,
    SCENARIOS,
    VERSION,
    Board,
    BoardCell,
    BoardScenario,
    Division,
    Standing,
)
from keyhole.studies.board.peers import PEERS
from keyhole.studies.compare.contest import Estimate
from keyhole.studies.compare.contest_page import make_html

_MORE = "label always"  # what an entrant is told that the others are not
_KEY = (
    "kept: on how many scenarios no more than {alpha:g} miss, chance allowed for, as keyhole compare "
    "judges it (in brackets how many it played, if not all; the others count as not kept). Then by "
    "size: that of the sets over that of the best thresholds in hindsight, geometric mean; or "
    "the share accepted. ± standard error over runs. † is told every label that comes back, missed or "
    "not. * promise not kept. Against an adversary no size can be compared."
)
_BEGIN, _END = "<!-- board: begin -->", "<!-- board: end -->"
_WIDTH, _HEIGHT, _EDGE = 240.0, 170.0, 26.0  # of a panel
_MOST_RATE, _SMALLEST, _LARGEST = 0.3, 0.8, 20.0  # what is beyond stands at the edge


def write_text(board: Board) -> Iterator[str]:
    """Yield the lines for a terminal: the ranks of each part, then each scenario."""
    for title, rows in _list_tables(board):
        yield from textwrap.wrap(title, 80)
        yield from _align(rows)
        yield ""
    lines = [*_list_refusals(board), _KEY.format(alpha=ALPHA)]
    yield from (part for line in lines for part in textwrap.wrap(line, 80, subsequent_indent="  "))


def _list_tables(board: Board) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    yield from _list_ranks(board)
    for division in DIVISIONS:
        for scenario in board.find_scenarios(division):
            yield _describe(scenario), _list_scenario(board, scenario)


def _list_ranks(board: Board) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    for division in DIVISIONS:
        for part in PARTS:
            standings = board.rank(part, division)
            if standings:
                yield f"{division.title}: {part}", [division.heads, *map(_list_standing, standings)]


def _describe(scenario: BoardScenario) -> str:
    return f"{scenario.name}: {scenario.about}; answers {scenario.answers}"


def _list_standing(one: Standing) -> tuple[str, ...]:
    return (
        _mark(one),
        f"{one.kept}/{one.scenarios}" + (f" ({one.ran})" if one.ran < one.scenarios else ""),
        _write(one.rate, 4),
        _write(one.worst, 3),
        _write(one.size, 2),
    )


def _mark(one: Standing | BoardCell) -> str:
    """Return an entrant's name, with a mark if it was told more than the others."""
    return f"{one.entrant} †" if one.told == _MORE else one.entrant


def _list_scenario(board: Board, scenario: BoardScenario) -> list[tuple[str, ...]]:
    """Return a row for each who played, in the order of the long run; * marks a promise not kept."""
    rate, size = scenario.division.rate, scenario.division.size
    rows: list[tuple[str, ...]] = [
        ("entrant", rate, size, f"day 1: {rate}", size)[: 1 + 2 * len(scenario.parts)]
    ]
    for one in board.of_scenario(scenario.name, LONG_RUN):
        row = [_mark(one)]
        for part in scenario.parts:
            mark = " " if board.keeps(one, part) else "*"
            row += [_write(one.rate(part), 3) + mark, _write(one.size(part), 2)]
        rows.append(tuple(row))
    return rows


def _write(value: Estimate, places: int) -> str:
    if math.isnan(value.mean):
        return "-"
    error = "" if math.isnan(value.error) else f"±{value.error:.{places}f}"
    return f"{value.mean:.{places}f}{error}"


def _align(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        yield (
            f"{first:<{widths[0]}}"
            + "".join(f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        ).rstrip()


def _list_refusals(board: Board) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in board.played:
        if one.refusal is not None:
            reasons.setdefault((one.entrant, one.refusal), []).append(one.scenario)
    for (entrant, reason), scenarios in reasons.items():
        yield f"{entrant} cannot play {', '.join(scenarios)}: {reason}"
    for entrant, scenarios in _find_unplayed(board).items():
        yield f"{entrant} has not been played on {', '.join(scenarios)}; the same command adds it"


def _find_unplayed(board: Board) -> dict[str, list[str]]:
    """Return the scenarios of the record on which an entrant of it was neither played nor refused."""
    played = {(one.entrant, one.scenario) for one in board.played}
    found: dict[str, list[str]] = {}
    for division in DIVISIONS:
        names = [one.name for one in board.find_scenarios(division)]
        for entrant in dict.fromkeys(one.entrant for one in board.played if one.scenario in names):
            missing = [name for name in names if (entrant, name) not in played]
            if missing:
                found[entrant] = missing
    return found


def fill_page(board: Board, path: Path) -> None:
    """Replace what stands between the two marks of a page by the tables and panels of a board."""
    text = path.read_text(encoding="utf-8")
    if _BEGIN not in text or _END not in text:
        raise InvalidError(f"{path} lacks the lines {_BEGIN} and {_END}; add them where tables belong")
    before, _, rest = text.partition(_BEGIN)
    path.write_text(
        f"{before}{_BEGIN}\n{write_fragment(board)}{_END}{rest.partition(_END)[2]}", encoding="utf-8"
    )


def write_page(board: Board, path: Path) -> None:
    folder = resources.files("keyhole.studies.board")
    style = "".join((folder / name).read_text(encoding="utf-8") for name in ("page.css", "board.css"))
    path.parent.mkdir(parents=True, exist_ok=True)
    body = f"<main><h1>The board, version {VERSION}</h1>{write_fragment(board)}</main>"
    path.write_text(make_html("Keyhole: the board", style, body), encoding="utf-8")


def write_fragment(board: Board) -> str:
    """Return the tables and panels as HTML, without blank lines: Markdown lets it pass as it is."""
    return "\n".join(_list_elements(board)) + "\n"


def _list_elements(board: Board) -> Iterator[str]:
    quick = "" if board.size == FULL else " --quick"
    for title, rows in _list_ranks(board):
        yield f'<h2 id="{re.sub(r"[^a-z]+", "-", title.lower())}">{title}</h2>'
        yield f"<p><code>keyhole bench{quick}</code></p>"
        yield _write_table(rows)
    yield '<h2 id="promise-against-size">Promise against size</h2>'
    yield _legend()
    yield '<div class="board-panels">'
    yield from (_draw_panel(board, one) for one in SCENARIOS.values() if _has_sizes(board, one))
    yield "</div>"
    yield '<h2 id="scenario-by-scenario">Scenario by scenario</h2>'
    for division in DIVISIONS:
        for scenario in board.find_scenarios(division):
            yield f'<h3 id="{scenario.name}">{scenario.name}</h3>'
            yield f"<p>{html.escape(_describe(scenario).partition(': ')[2])}."
            yield f"<code>keyhole bench{quick} --scenarios {scenario.name}</code></p>"
            yield _write_table(_list_scenario(board, scenario))
    refusals = [f"<li>{html.escape(line)}</li>" for line in _list_refusals(board)]
    if refusals:
        yield '<h2 id="not-played">Not played</h2>'
        yield f"<ul>{''.join(refusals)}</ul>"


def _write_table(table: list[tuple[str, ...]]) -> str:
    head, *rows = table
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        f'<tr class="{_classify(row[0])}">'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    rows_of_all = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="board-table"><table>{rows_of_all}</table></div>'


def _classify(shown: str) -> str:
    entrant = shown.removesuffix(" †")
    if entrant in PEERS:
        return "peer"
    return "default" if entrant == find(entrant).kind.default else "learner"


def _legend() -> str:
    shown = {"default": "the default", "learner": "other learners", "peer": "other libraries"}
    marks = "".join(
        f'<span><svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">'
        f'<circle class="{kind}" cx="5" cy="5" r="4"/></svg> {name}</span>'
        for kind, name in shown.items()
    )
    return (
        f'<p class="board-legend">{marks}<span>rings: told every label</span></p>'
        f"<p>A dot is an entrant in the long run of a scenario: to the right of the dashed line it "
        f"misses more than {ALPHA:g} of the time; {' '.join(one.legend for one in DIVISIONS)} "
        "Hover over a dot for its name.</p>"
    )


def _has_sizes(board: Board, scenario: BoardScenario) -> bool:
    played = board.of_scenario(scenario.name, LONG_RUN)
    return any(not math.isnan(one.size(LONG_RUN).mean) for one in played)


def _draw_panel(board: Board, scenario: BoardScenario) -> str:
    division = scenario.division
    ranked = board.of_scenario(scenario.name, LONG_RUN)
    lines = [
        f'<line class="axis" x1="{_EDGE}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_EDGE - 4}" y="{y + 3.5:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in division.ticks
        for y in (_place_size(tick, division),)
    ]
    lines += [
        f'<text x="{_place_rate(rate):.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{rate:g}</text>'
        for rate in (0.0, 0.1, 0.2, 0.3)
    ]
    at = _place_rate(ALPHA)
    lines.append(f'<line class="target" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT - 16}"/>')
    order = {"learner": 0, "peer": 1, "default": 2}  # the default on top
    dots = "".join(
        _draw_dot(one, division)
        for one in sorted(ranked, key=lambda one: order[_classify(one.entrant)])
    )
    best = ranked[0]
    told = (
        f"{best.entrant}, {_write(best.size(LONG_RUN), 2)}" if board.keeps(best, LONG_RUN) else "nobody"
    )
    return (
        f"<figure><figcaption><b>{scenario.name}</b><br>{division.best} that keeps the promise: "
        f'{html.escape(told)}</figcaption><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="miss rate against size on {scenario.name}">{"".join(lines)}{dots}</svg></figure>'
    )


def _draw_dot(one: BoardCell, division: Division) -> str:
    rate, size = one.rate(LONG_RUN), one.size(LONG_RUN)
    if math.isnan(size.mean):
        return ""
    ring = " ring" if one.told == _MORE else ""
    return (
        f'<circle class="{_classify(one.entrant)}{ring}" cx="{_place_rate(rate.mean):.1f}" '
        f'cy="{_place_size(size.mean, division):.1f}" r="4"><title>{html.escape(one.entrant)}: '
        f"{_write(rate, 3)}, {_write(size, 2)}</title></circle>"
    )


def _place_rate(rate: float) -> float:
    return _EDGE + 6.0 + (_WIDTH - _EDGE - 12.0) * min(rate, _MOST_RATE) / _MOST_RATE


def _place_size(size: float, division: Division) -> float:
    if division.sign < 0.0:  # a share of at most about 1
        share = min(1.2, max(0.0, size)) / 1.2
    else:
        kept = min(_LARGEST, max(_SMALLEST, size))
        share = math.log(kept / _SMALLEST) / math.log(_LARGEST / _SMALLEST)
    return 6.0 + (_HEIGHT - 28.0) * (1.0 - share)
