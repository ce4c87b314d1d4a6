"""Grids that set our numbers beside the paper's."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from keyhole.studies.paper.document import Grid, GridEntry
from keyhole.studies.paper.figures import LABELS, SCENARIOS
from keyhole.studies.paper.panels import Panel
from keyhole.studies.paper.results import Results, difference, tolerance
from keyhole.studies.paper.settings import AIRFOIL, VARIANTS, Setting
from keyhole.studies.paper.sources import Pair, Source
from keyhole.studies.paper.tables import MISS_RATE, SIZE, SLACK, Table, TableCell

METRICS = {MISS_RATE: "MC", SIZE: "Ineff", SLACK: "C_mc"}
_ROW_NAMES = {"horizon": "T", "scenario": "scenario", "alpha": "α", "learner": "learner", "arms": "K"}


def compare(results: Results, table: Table) -> Grid:
    """Return a table with the paper's numbers, ours, and the difference, for every source."""
    sources = results.plan.sources_of(table.data)
    metrics = list(dict.fromkeys(cell.metric for cell in table.cells))
    groups, header = [("", len(table.rows))], [_ROW_NAMES[name] for name in table.rows]
    for metric in metrics:
        groups.append((METRICS[metric], 1 + 2 * len(sources)))
        header.append("paper")
        for source in sources:
            header += [_column(source), _name_comparison(table, metric)]
    rows = [
        [*_labels(table, setting), *(e for cell in cells for e in _entries(results, table, cell))]
        for setting, cells in _rows(table)
    ]
    return Grid(groups, header, rows, words=len(table.rows))


def _rows(table: Table) -> list[tuple[Setting, list[TableCell]]]:
    return [(setting, list(cells)) for setting, cells in groupby(table.cells, key=lambda c: c.setting)]


def _column(source: Source) -> str:
    return source.title.split(",")[0] if source.data != AIRFOIL else "ours"


def _name_comparison(table: Table, metric: str) -> str:
    return "ratio" if metric == SIZE and table.data == AIRFOIL else "diff."


def _labels(table: Table, setting: Setting) -> list[GridEntry]:
    shown = {
        "horizon": f"{setting.horizon:,}",
        "scenario": SCENARIOS[setting.data, setting.scenario],
        "alpha": f"{setting.alpha:g}",
        "learner": LABELS[setting.learner],
        "arms": str(setting.arms),
    }
    return [GridEntry(shown[name]) for name in table.rows]


def _entries(results: Results, table: Table, cell: TableCell) -> list[GridEntry]:
    entries = [GridEntry(_number(cell.metric, table.find_published(cell)))]
    for source in results.plan.sources_of(table.data):
        pair = Pair(source, cell.setting)
        entries.append(GridEntry(_with_error(results, pair, cell.metric)))
        entries.append(_difference(results, table, cell, source))
    return entries


def _difference(results: Results, table: Table, cell: TableCell, source: Source) -> GridEntry:
    measured = results.mean(Pair(source, cell.setting), cell.metric)
    away = difference(table, cell, measured)
    if _name_comparison(table, cell.metric) == "ratio":
        return GridEntry(f"{1.0 + away:.2f}")
    return GridEntry(_away(cell.metric, away), _tone(away, tolerance(source, cell)))


def _tone(away: float, allowed: float | None) -> str:
    if allowed is None:
        return ""
    return "near" if abs(away) <= allowed else "far"


def _number(metric: str, value: float) -> str:
    return f"{value:.2f}" if metric == SIZE else f"{value:.3f}"


def _with_error(results: Results, pair: Pair, metric: str) -> str:
    error = results.error(pair, metric)
    shown = _number(metric, results.mean(pair, metric))
    return shown if error is None else f"{shown} ± {error:.{2 if metric == SIZE else 4}f}"


def agreement(results: Results) -> Grid:
    """Return, for each table and metric, how many cells are within their tolerance, and the worst."""
    rows = [
        _agreement(results, table, source, cells)
        for table in results.plan.tables
        for source in results.plan.sources_of(table.data)
        for cells in _kinds(table)
    ]
    header = [
        "table",
        "ran on",
        "scenario",
        "number",
        "allowed",
        "cells within",
        "mean distance",
        "worst",
        "where",
    ]
    return Grid([("", len(header))], header, [row for row in rows if row], words=4)


def count_within(results: Results) -> tuple[int, int]:
    """Return how many cells are within their tolerance, of how many that can be compared."""
    within = [
        abs(difference(table, cell, results.mean(Pair(source, cell.setting), cell.metric))) <= allowed
        for table in results.plan.tables
        for source in results.plan.sources_of(table.data)
        for cell in table.cells
        if (allowed := tolerance(source, cell)) is not None
    ]
    return sum(within), len(within)


def _kinds(table: Table) -> list[list[TableCell]]:
    """Return the cells that share a metric and a scenario, and so a tolerance."""
    kinds: dict[tuple[str, str], list[TableCell]] = {}
    for cell in table.cells:
        kinds.setdefault((cell.metric, cell.setting.scenario), []).append(cell)
    return list(kinds.values())


def _agreement(
    results: Results, table: Table, source: Source, cells: list[TableCell]
) -> list[GridEntry]:
    allowed = tolerance(source, cells[0])
    if allowed is None:
        return []
    metric, scenario = cells[0].metric, cells[0].setting.scenario
    aways = [difference(table, c, results.mean(Pair(source, c.setting), metric)) for c in cells]
    inside = sum(abs(away) <= allowed for away in aways)
    worst = max(range(len(cells)), key=lambda place: abs(aways[place]))
    where = " ".join(
        f"{_ROW_NAMES[name]} {entry.text}"
        for name, entry in zip(table.rows, _labels(table, cells[worst].setting), strict=True)
        if name != "scenario"
    )
    return [
        GridEntry(f"Table {table.number}"),
        GridEntry(_column(source) if table.data != AIRFOIL else "measurements"),
        GridEntry(SCENARIOS[table.data, scenario]),
        GridEntry(METRICS[metric]),
        GridEntry(_away(metric, allowed).removeprefix("+")),
        GridEntry(f"{inside} of {len(cells)}", "near" if inside == len(cells) else "far"),
        GridEntry(_away(metric, sum(map(abs, aways)) / len(aways)).removeprefix("+")),
        GridEntry(_away(metric, aways[worst]), _tone(aways[worst], allowed)),
        GridEntry(where),
    ]


def _away(metric: str, away: float) -> str:
    return f"{100.0 * away:+.1f} %" if metric == SIZE else f"{away:+.3f}"


def literal(results: Results, table: Table) -> Grid:
    """Return the shift as the paper writes it beside the one stretched to the horizon."""
    sources = results.plan.sources_of(table.data)
    metrics = (MISS_RATE, SIZE)
    groups, header = [("", 2)], ["T", "α"]
    for metric in metrics:
        groups.append((METRICS[metric], 1 + 2 * len(sources)))
        header.append("paper")
        for source in sources:
            header += [f"{_column(source)} stretched", f"{_column(source)} as written"]
    rows = []
    for setting in table.literal_settings:
        entries = [GridEntry(f"{setting.horizon:,}"), GridEntry(f"{setting.alpha:g}")]
        stretched = replace(setting, scenario="shift")
        for metric in metrics:
            cell = next(c for c in table.cells if (c.setting, c.metric) == (stretched, metric))
            entries.append(GridEntry(_number(metric, table.find_published(cell))))
            entries += [
                GridEntry(_with_error(results, Pair(source, one), metric))
                for source in sources
                for one in (stretched, setting)
            ]
        rows.append(entries)
    return Grid(groups, header, rows, words=2)


def range_of_lengths(results: Results) -> tuple[float, float]:
    """Return the least and the largest ratio of our Airfoil intervals' lengths to the paper's."""
    ratios = [
        1.0 + difference(table, cell, results.mean(Pair(source, cell.setting), SIZE))
        for table in results.plan.tables
        if table.data == AIRFOIL
        for source in results.plan.sources_of(AIRFOIL)
        for cell in table.cells
        if cell.metric == SIZE
    ]
    return min(ratios), max(ratios)


def finals(results: Results, panels: Sequence[Panel]) -> Grid:
    """Return where the curves end."""
    sources = results.plan.sources_of(panels[0].data)
    groups, header = [("", 2)], ["scenario", "learner"]
    for source in sources:
        groups.append((source.title, 2))
        header += ["MC(T)", "Ineff(T)"]
    rows = [
        [
            GridEntry(SCENARIOS[panel.data, panel.scenario]),
            GridEntry(LABELS[setting.learner]),
            *(
                GridEntry(_with_error(results, Pair(source, setting), metric))
                for source in sources
                for metric in (MISS_RATE, SIZE)
            ),
        ]
        for panel in panels
        for setting in panel.settings
    ]
    return Grid(groups, header, rows, words=2)


def order(results: Results, table: Table) -> Grid:
    """Return by how much the miss rates of neighbouring variants differ."""
    header = ["ran on", "scenario", "K", "OCP-Bandit - OCP-Unlock", "OCP-Unlock - OCP-Unlock+"]
    first = [setting for setting in table.settings if setting.learner == VARIANTS[0]]
    rows = [
        [
            GridEntry(_column(source)),
            GridEntry(SCENARIOS[setting.data, setting.scenario]),
            GridEntry(str(setting.arms)),
            *(_gap(results, table, source, setting, place) for place in (0, 1)),
        ]
        for source in results.plan.sources_of(table.data)
        for setting in first
    ]
    return Grid([("", len(header))], header, rows, words=2)


def _gap(results: Results, table: Table, source: Source, like: Setting, place: int) -> GridEntry:
    alike = [s for s in table.settings if (s.scenario, s.arms) == (like.scenario, like.arms)]
    by_learner = {setting.learner: setting for setting in alike}
    gap, error = results.gap(source, by_learner[VARIANTS[place]], by_learner[VARIANTS[place + 1]])
    if error is None:
        return GridEntry(f"{gap:+.4f}")
    return GridEntry(f"{gap:+.4f} ± {error:.4f}", "near" if gap > error else "far")
