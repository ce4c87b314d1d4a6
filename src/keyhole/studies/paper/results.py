"""What the runs add up to: means, standard errors, and how far they are from the paper."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from keyhole.learners import bounds
from keyhole.numeric import Array
from keyhole.simulation.metrics import coverage_gap
from keyhole.studies.paper.document import Entry, Grid
from keyhole.studies.paper.one_run import (
    AIRFOIL,
    IMAGENET,
    VARIANTS,
    Pair,
    RunOutcome,
    Setting,
    Source,
    learner_of,
)
from keyhole.studies.paper.plan import (
    LABELS,
    MISS_RATE,
    SCENARIO_NAMES,
    SIZE,
    SLACK,
    Panel,
    PaperPlan,
    PaperTable,
    TableCell,
)

FIELDS = {MISS_RATE: "miss_rate", SIZE: "mean_size", SLACK: "slack"}
_DIGITS = 6

_TOLERANCES = {
    (AIRFOIL, "iid"): {MISS_RATE: 0.008, SLACK: 0.008},
    (AIRFOIL, "shift"): {MISS_RATE: 0.015, SLACK: 0.015},
    (IMAGENET, "iid"): {MISS_RATE: 0.012, SIZE: 0.08, SLACK: 0.015},
    (IMAGENET, "shift"): {MISS_RATE: 0.012, SIZE: 0.08, SLACK: 0.015},
}
_OTHER_MODEL_TOLERANCE = 0.025  # of the miss rate, where a file's model is not the paper's


@dataclass(frozen=True)
class PaperResults:
    plan: PaperPlan
    outcomes: Mapping[Pair, Mapping[int, RunOutcome]]
    runs: int
    seed: int
    command: str

    def values(self, pair: Pair, metric: str) -> Array:
        return np.array([getattr(run, FIELDS[metric]) for run in self.outcomes[pair].values()])

    def mean(self, pair: Pair, metric: str) -> float:
        return round(float(self.values(pair, metric).mean()), _DIGITS)

    def error(self, pair: Pair, metric: str) -> float | None:
        """Return the standard error of the mean; None if there was one run only."""
        return _standard_error(self.values(pair, metric))

    def gap(self, source: Source, larger: Setting, smaller: Setting) -> tuple[float, float | None]:
        """Return by how much the miss rates of two settings differ, run by run on the same rounds."""
        gaps = self.values(Pair(source, larger), MISS_RATE) - self.values(
            Pair(source, smaller), MISS_RATE
        )
        return round(float(gaps.mean()), _DIGITS), _standard_error(gaps)

    def compare(self, table: PaperTable, cell: TableCell, source: Source) -> "Comparison":
        pair = Pair(source, cell.setting)
        return Comparison(
            table, cell, source, self.mean(pair, cell.metric), self.error(pair, cell.metric)
        )

    def compare_all(self) -> list["Comparison"]:
        return [
            self.compare(table, cell, source)
            for table in self.plan.tables
            for source in self.plan.sources_of(table.data)
            for cell in table.cells
        ]


@dataclass(frozen=True)
class Comparison:
    """A number of the paper's, and what it came to on one source."""

    table: PaperTable
    cell: TableCell
    source: Source
    mean: float
    error: float | None

    @property
    def away(self) -> float:
        """Ours less the paper's; of set sizes, as a share of the paper's."""
        if self.cell.metric == SIZE:
            return self.mean / self.cell.published - 1.0
        return self.mean - self.cell.published

    @property
    def allowed(self) -> float | None:
        """How far from the paper it may be; None where the two cannot be compared."""
        if self.source.path:
            return _OTHER_MODEL_TOLERANCE if self.cell.metric == MISS_RATE else None
        return _TOLERANCES[self.source.data, self.cell.setting.scenario].get(self.cell.metric)

    @property
    def tone(self) -> str:
        if self.allowed is None:
            return ""
        return "near" if abs(self.away) <= self.allowed else "far"

    @property
    def is_length(self) -> bool:
        """Whether it is of intervals, whose unit the paper does not state."""
        return self.cell.metric == SIZE and self.table.data == AIRFOIL


def _standard_error(values: Array) -> float | None:
    if values.size < 2:
        return None
    return round(float(values.std(ddof=1) / np.sqrt(values.size)), _DIGITS)


def write_data(results: PaperResults, folder: Path) -> None:
    """Write the tables as data: means, standard errors, and every setting that was run.

    A file of classifier outputs has tables of its own.
    """
    sources, tables = results.plan.sources, results.plan.tables
    files = [([source], f"-{source.name}") for source in sources if source.path]
    for group, suffix in [([source for source in sources if not source.path], ""), *files]:
        for name, read in (("tables", results.mean), ("standard_errors", results.error)):
            pairs = [(table, one) for table in tables for one in group if one.data == table.data]
            filled = {table.key: _fill(table, source, read) for table, source in pairs}
            _dump(folder / f"{name}{suffix}.json", filled)
    _dump(folder / "settings.json", [_row(results, pair) for pair in results.plan.pairs])
    _dump(folder / "sources.json", {source.name: _facts(source) for source in sources})


def _fill(
    table: PaperTable, source: Source, read: Callable[[Pair, str], float | None]
) -> dict[str, object]:
    return table.fill(lambda cell: read(Pair(source, cell.setting), cell.metric))


def _row(results: PaperResults, pair: Pair) -> dict[str, object]:
    return {
        "source": pair.source.name,
        "setting": pair.setting.name,
        "runs": results.runs,
        **{metric: results.mean(pair, metric) for metric in FIELDS},
        **{f"{metric}_error": results.error(pair, metric) for metric in FIELDS},
    }


def _facts(source: Source) -> dict[str, object]:
    facts: dict[str, object] = {"data": source.data, "title": source.title, "sha256": source.digest}
    if source.data == IMAGENET:
        facts["top_1"], facts["top_5"] = source.accuracy
    return facts


def _dump(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


METRICS = {MISS_RATE: "MC", SIZE: "Ineff", SLACK: "C_mc"}
_ROW_NAMES = {"horizon": "T", "scenario": "scenario", "alpha": "α", "learner": "learner", "arms": "K"}


def compare(results: PaperResults, table: PaperTable) -> Grid:
    sources = results.plan.sources_of(table.data)
    metrics = list(dict.fromkeys(cell.metric for cell in table.cells))
    groups, header = [("", len(table.rows))], [_ROW_NAMES[name] for name in table.rows]
    for metric in metrics:
        compared = "ratio" if metric == SIZE and table.data == AIRFOIL else "diff."
        groups.append((METRICS[metric], 1 + 2 * len(sources)))
        header += ["paper", *(name for source in sources for name in (_column(source), compared))]
    rows = [
        [*_labels(table, setting), *(e for cell in cells for e in _entries(results, table, cell))]
        for setting, cells in groupby(table.cells, key=lambda cell: cell.setting)
    ]
    return Grid(groups, header, rows, words=len(table.rows))


def _column(source: Source) -> str:
    return source.title.split(",")[0] if source.data != AIRFOIL else "ours"


def _labels(table: PaperTable, setting: Setting) -> list[Entry]:
    shown = {
        "horizon": f"{setting.horizon:,}",
        "scenario": SCENARIO_NAMES[setting.data, setting.scenario],
        "alpha": f"{setting.alpha:g}",
        "learner": LABELS[setting.learner],
        "arms": str(setting.arms),
    }
    return [Entry(shown[name]) for name in table.rows]


def _entries(results: PaperResults, table: PaperTable, cell: TableCell) -> Iterator[Entry]:
    yield Entry(_number(cell.metric, cell.published))
    for source in results.plan.sources_of(table.data):
        one = results.compare(table, cell, source)
        yield Entry(_with_error(results, Pair(source, cell.setting), cell.metric))
        if one.is_length:
            yield Entry(f"{1.0 + one.away:.2f}")
        else:
            yield Entry(_away(cell.metric, one.away), one.tone)


def _number(metric: str, value: float) -> str:
    return f"{value:.2f}" if metric == SIZE else f"{value:.3f}"


def _with_error(results: PaperResults, pair: Pair, metric: str) -> str:
    error = results.error(pair, metric)
    shown = _number(metric, results.mean(pair, metric))
    return shown if error is None else f"{shown} ± {error:.{2 if metric == SIZE else 4}f}"


def agreement(results: PaperResults) -> Grid:
    kinds: dict[tuple[str, Source, str, str], list[Comparison]] = {}  # that share a tolerance
    for one in results.compare_all():
        if one.allowed is not None:
            kind = one.table.key, one.source, one.cell.metric, one.cell.setting.scenario
            kinds.setdefault(kind, []).append(one)
    header = [
        "table",
        "ran on",
        "scenario",
        "number",
        "allowed",
        "cells within",
        "cells below",
        "mean diff.",
        "in standard errors",
        "worst",
        "where",
    ]
    return Grid([("", len(header))], header, [_agreement(kind) for kind in kinds.values()], words=4)


def count_within(results: PaperResults) -> tuple[int, int]:
    """Return how many cells are within their tolerance, of how many that can be compared."""
    tones = [one.tone for one in results.compare_all() if one.allowed is not None]
    return tones.count("near"), len(tones)


def _agreement(compared: list[Comparison]) -> list[Entry]:
    table, cell, source = compared[0].table, compared[0].cell, compared[0].source
    metric, aways = cell.metric, [one.away for one in compared]
    inside = sum(one.tone == "near" for one in compared)
    below = sum(away < 0.0 for away in aways)
    worst = max(compared, key=lambda one: abs(one.away))
    where = " ".join(
        f"{_ROW_NAMES[name]} {entry.text}"
        for name, entry in zip(table.rows, _labels(table, worst.cell.setting), strict=True)
        if name != "scenario"
    )
    return [
        Entry(f"Table {table.number}"),
        Entry(_column(source) if table.data != AIRFOIL else "measurements"),
        Entry(SCENARIO_NAMES[table.data, cell.setting.scenario]),
        Entry(METRICS[metric]),
        Entry(_away(metric, compared[0].allowed or 0.0).removeprefix("+")),
        Entry(f"{inside} of {len(compared)}", "near" if inside == len(compared) else "far"),
        Entry(f"{below} of {len(compared)}"),
        Entry(_away(metric, sum(aways) / len(aways))),
        Entry(_in_errors(compared)),
        Entry(_away(metric, worst.away), worst.tone),
        Entry(where),
    ]


def _in_errors(compared: list[Comparison]) -> str:
    """Return the least and the largest difference from the paper in standard errors of our means."""
    if not all(one.error for one in compared):
        return ""
    found = [(one.mean - one.cell.published) / (one.error or 1.0) for one in compared]
    return f"{min(found):+.0f} to {max(found):+.0f}"


def _away(metric: str, away: float) -> str:
    return f"{100.0 * away:+.1f} %" if metric == SIZE else f"{away:+.3f}"


def literal(results: PaperResults, table: PaperTable) -> Grid:
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
        entries = [Entry(f"{setting.horizon:,}"), Entry(f"{setting.alpha:g}")]
        stretched = replace(setting, scenario="shift")
        for metric in metrics:
            cell = next(c for c in table.cells if (c.setting, c.metric) == (stretched, metric))
            entries.append(Entry(_number(metric, cell.published)))
            entries += [
                Entry(_with_error(results, Pair(source, one), metric))
                for source in sources
                for one in (stretched, setting)
            ]
        rows.append(entries)
    return Grid(groups, header, rows, words=2)


def gaps(results: PaperResults, table: PaperTable) -> Grid:
    """Return C_gap(T) by horizon, as the paper's own miss rates have it and as ours do."""
    horizons = list(dict.fromkeys(setting.horizon for setting in table.settings))
    sources = results.plan.sources_of(table.data)
    groups = [("", 2), ("paper", len(horizons) + 1)]
    groups += [(_column(source), len(horizons) + 1) for source in sources]
    columns = [*(f"{horizon:,}" for horizon in horizons), "falls"]
    cells = {cell.setting: cell for cell in table.cells if cell.metric == MISS_RATE}
    rows = []
    for first in [setting for setting in cells if setting.horizon == horizons[0]]:
        row = [replace(first, horizon=horizon) for horizon in horizons]
        entries = [_labels(table, first)[1], _labels(table, first)[2]]
        rates = [np.array([cells[setting].published]) for setting in row]
        entries += _gaps(row, rates)
        for source in sources:
            entries += _gaps(row, [results.values(Pair(source, one), MISS_RATE) for one in row])
        rows.append(entries)
    return Grid(groups, ["scenario", "α", *columns * (1 + len(sources))], rows, words=2)


def _gaps(row: Sequence[Setting], rates: Sequence[Array]) -> list[Entry]:
    found = [
        float(coverage_gap(rate, loss=setting.loss).mean())
        for setting, rate in zip(row, rates, strict=True)
    ]
    falls = all(later < earlier for earlier, later in pairwise(found))
    return [*(Entry(f"{gap:+.1f}") for gap in found), Entry("yes" if falls else "no")]


def range_of_lengths(results: PaperResults) -> tuple[float, float]:
    """Return the least and the largest ratio of our Airfoil intervals' lengths to the paper's."""
    ratios = [1.0 + one.away for one in results.compare_all() if one.is_length]
    return min(ratios), max(ratios)


def finals(results: PaperResults, panels: Sequence[Panel]) -> Grid:
    sources = results.plan.sources_of(panels[0].data)
    groups, header = [("", 2)], ["scenario", "learner"]
    for source in sources:
        groups.append((source.title, 2))
        header += ["MC(T)", "Ineff(T)"]
    rows = [
        [
            Entry(SCENARIO_NAMES[panel.data, panel.scenario]),
            Entry(LABELS[setting.learner]),
            *(
                Entry(_with_error(results, Pair(source, setting), metric))
                for source in sources
                for metric in (MISS_RATE, SIZE)
            ),
        ]
        for panel in panels
        for setting in panel.settings
    ]
    return Grid(groups, header, rows, words=2)


def order(results: PaperResults, table: PaperTable) -> Grid:
    header = ["ran on", "scenario", "K", "OCP-Bandit - OCP-Unlock", "OCP-Unlock - OCP-Unlock+"]
    first = [setting for setting in table.settings if setting.learner == VARIANTS[0]]
    rows = [
        [
            Entry(_column(source)),
            Entry(SCENARIO_NAMES[setting.data, setting.scenario]),
            Entry(str(setting.arms)),
            *(_gap(results, table, source, setting, place) for place in (0, 1)),
        ]
        for source in results.plan.sources_of(table.data)
        for setting in first
    ]
    return Grid([("", len(header))], header, rows, words=2)


def tightness(table: PaperTable) -> Grid:
    """Return the paper's condition for OCP-Unlock+ to have the tightest bound, and the three bounds.

    C is taken to be 1, the least that it can be.
    """
    header = ["K", "(√K - 1) √(T ln K)", "2 T^(3/4)", "e T", *(LABELS[name] for name in VARIANTS)]
    rows = []
    for arms in dict.fromkeys(setting.arms for setting in table.settings):
        alike = {s.learner: learner_of(s) for s in table.settings if s.arms == arms}
        loss = bounds.loss_of(alike["ocp-unlock+"])
        rounds, count = loss.horizon, len(alike["ocp-unlock+"].settings.grid)
        saved = (math.sqrt(count) - 1.0) * math.sqrt(rounds * math.log(count))
        shared = bounds.gap_of(alike["ocp-unlock+"]) * rounds
        least = [bounds.regret(alike[name], complexity=1.0) / loss.span for name in VARIANTS]
        numbers = (saved, 2.0 * loss.slack * rounds, shared, *least)
        rows.append([Entry(str(count)), *(Entry(f"{number:,.0f}") for number in numbers)])
    groups = [("", 4), ("regret / L at most", len(VARIANTS))]
    return Grid(groups, header, rows, words=1)


def _gap(results: PaperResults, table: PaperTable, source: Source, like: Setting, place: int) -> Entry:
    alike = [s for s in table.settings if (s.scenario, s.arms) == (like.scenario, like.arms)]
    by_learner = {setting.learner: setting for setting in alike}
    gap, error = results.gap(source, by_learner[VARIANTS[place]], by_learner[VARIANTS[place + 1]])
    if error is None:
        return Entry(f"{gap:+.4f}")
    return Entry(f"{gap:+.4f} ± {error:.4f}", "near" if gap > error else "far")
