"""What the runs add up to: means, standard errors, and how far they are from the paper."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.numeric import Array
from keyhole.studies.paper.plan import Plan
from keyhole.studies.paper.play import RunOutcome
from keyhole.studies.paper.settings import AIRFOIL, IMAGENET, Setting
from keyhole.studies.paper.sources import Pair, Source
from keyhole.studies.paper.tables import MISS_RATE, SIZE, SLACK, Table, TableCell

FIELDS = {MISS_RATE: "miss_rate", SIZE: "mean_size", SLACK: "slack"}
_DIGITS = 6

_TOLERANCES = {
    (AIRFOIL, "iid", MISS_RATE): 0.008,
    (AIRFOIL, "iid", SLACK): 0.008,
    (AIRFOIL, "shift", MISS_RATE): 0.015,
    (AIRFOIL, "shift", SLACK): 0.015,
    (IMAGENET, "iid", MISS_RATE): 0.012,
    (IMAGENET, "iid", SIZE): 0.08,
    (IMAGENET, "iid", SLACK): 0.015,
    (IMAGENET, "shift", MISS_RATE): 0.012,
    (IMAGENET, "shift", SIZE): 0.08,
    (IMAGENET, "shift", SLACK): 0.015,
}
_OTHER_MODEL_TOLERANCE = 0.025  # of the miss rate, where a file's model is not the paper's


@dataclass(frozen=True)
class Results:
    """The outcomes of a plan, with what was asked for."""

    plan: Plan
    outcomes: Mapping[Pair, Mapping[int, RunOutcome]]
    runs: int
    seed: int
    command: str

    def values(self, pair: Pair, metric: str) -> Array:
        """Return a metric of every run, in order."""
        return np.array([getattr(run, FIELDS[metric]) for run in self.outcomes[pair].values()])

    def mean(self, pair: Pair, metric: str) -> float:
        """Return the mean over runs."""
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


def _standard_error(values: Array) -> float | None:
    if values.size < 2:
        return None
    return round(float(values.std(ddof=1) / np.sqrt(values.size)), _DIGITS)


def tolerance(source: Source, cell: TableCell) -> float | None:
    """Return how far from the paper a cell may be; None where the two cannot be compared."""
    if source.path:
        return _OTHER_MODEL_TOLERANCE if cell.metric == MISS_RATE else None
    return _TOLERANCES.get((source.data, cell.setting.scenario, cell.metric))


def difference(table: Table, cell: TableCell, measured: float) -> float:
    """Return ours less the paper's; of set sizes, as a share of the paper's."""
    paper = table.find_published(cell)
    return measured / paper - 1.0 if cell.metric == SIZE else measured - paper


def write(results: Results, folder: Path) -> None:
    """Write the tables as data: means, standard errors, and every setting that was run.

    A file of classifier outputs has tables of its own.
    """
    sources = results.plan.sources
    files = [([source], f"-{source.name}") for source in sources if source.path]
    for group, suffix in [([source for source in sources if not source.path], ""), *files]:
        for name, read in (("tables", results.mean), ("standard_errors", results.error)):
            _dump(folder / f"{name}{suffix}.json", _fill(results.plan, group, read))
    _dump(folder / "settings.json", [_row(results, pair) for pair in results.plan.pairs])
    _dump(folder / "sources.json", {source.name: _facts(source) for source in sources})


def _fill(
    wanted: Plan, sources: list[Source], read: Callable[[Pair, str], float | None]
) -> dict[str, Any]:
    return {
        table.key: _table(table, source, read)
        for table in wanted.tables
        for source in sources
        if source.data == table.data
    }


def _table(table: Table, source: Source, read: Callable[[Pair, str], float | None]) -> dict[str, Any]:
    return table.fill(lambda cell: read(Pair(source, cell.setting), cell.metric))


def _row(results: Results, pair: Pair) -> dict[str, Any]:
    return {
        "source": pair.source.name,
        "setting": pair.setting.name,
        "runs": results.runs,
        **{metric: results.mean(pair, metric) for metric in FIELDS},
        **{f"{metric}_error": results.error(pair, metric) for metric in FIELDS},
    }


def _facts(source: Source) -> dict[str, Any]:
    facts: dict[str, Any] = {"data": source.data, "title": source.title, "sha256": source.digest}
    if source.data == IMAGENET:
        facts["top_1"], facts["top_5"] = source.accuracy
    return facts


def _dump(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
