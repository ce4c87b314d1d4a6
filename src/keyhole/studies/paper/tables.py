"""The paper's tables: which setting stands in which cell, and what the paper found there."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from keyhole.studies.paper.settings import AIRFOIL, IMAGENET, LITERAL, SCENARIOS, VARIANTS, Setting

MISS_RATE, SIZE, SLACK = "mc", "ineff", "cmc"
Path = tuple[str | int, ...]
_BEFORE = 3  # tables without results, which stand first in the paper
_WRITTEN_FOR = 50_000  # rounds: the horizon for which the paper writes down its shift of ImageNet


@dataclass(frozen=True)
class TableCell:
    """One number of a table: where it stands, what was run for it, what was measured."""

    path: Path
    setting: Setting
    metric: str


@dataclass(frozen=True)
class Table:
    """One table of the paper.

    ``experiment`` is the id of the experiment that fills it; ``rows`` are the fields of a setting
    that tell its rows apart.
    """

    key: str
    experiment: str
    data: str
    title: str
    rows: tuple[str, ...]
    cells: tuple[TableCell, ...]

    @property
    def number(self) -> int:
        """Its number in the paper."""
        return int(self.key.removeprefix("table").split("_")[0])

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What must be run to fill it."""
        return tuple(dict.fromkeys(cell.setting for cell in self.cells))

    @property
    def paper_number(self) -> int:
        """Its number as the paper prints it, whose first three tables hold no results."""
        return self.number + _BEFORE

    @property
    def literal_settings(self) -> tuple[Setting, ...]:
        """Those of its settings whose shift, as written, comes at other rounds than as we read it."""
        return tuple(
            replace(setting, scenario=LITERAL)
            for setting in self.settings
            if self.number == 1 and setting.shift and setting.horizon != _WRITTEN_FOR
        )

    def find_published(self, cell: TableCell) -> float:
        """Return what the paper has in this cell."""
        found: Any = read_published()[self.key]
        for step in cell.path:
            found = found[step]
        return float(found)

    def fill(self, value: Callable[[TableCell], float | None]) -> dict[str, Any]:
        """Return the table in the structure of the published one, with other numbers."""
        table = copy.deepcopy(read_published()[self.key])
        for cell in self.cells:
            place = table
            for step in cell.path[:-1]:
                place = place[step]
            place[cell.path[-1]] = value(cell)
        return table


@cache
def read_published() -> dict[str, Any]:
    """Return every number of the paper's tables."""
    return json.loads((resources.files("keyhole.studies.paper") / "published.json").read_text())


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables in the paper's order."""
    return (
        _table("table1_imagenet_alpha", "exp6", IMAGENET, _RATES, _by_alpha),
        _table("table2_airfoil_alpha", "exp6", AIRFOIL, _RATES, _by_alpha),
        _table("table3_imagenet_K", "exp3", IMAGENET, _ARMS, _by_arms),
        _table("table4_airfoil_K", "exp3", AIRFOIL, _ARMS, _by_arms),
        _table("table5_imagenet_cmc", "exp6", IMAGENET, _SLACK, _slack_by_alpha),
        _table("table6_airfoil_cmc", "exp6", AIRFOIL, _SLACK, _slack_by_alpha),
    )


_NAMES = {IMAGENET: "ImageNet", AIRFOIL: "Airfoil"}
_RATES = "miss rate MC(T) and mean set size Ineff(T) of OCP-Unlock+ by T and α"
_ARMS = "miss rate MC(T) and mean set size Ineff(T) by number of thresholds K"
_SLACK = "the term C_mc(T) of the coverage bound, OCP-Unlock+"
_Cells = Callable[[Mapping[str, Any], str], Iterator[TableCell]]


def _table(key: str, experiment: str, data: str, title: str, cells: _Cells) -> Table:
    rows = ("learner", "scenario", "arms") if cells is _by_arms else ("horizon", "scenario", "alpha")
    found = tuple(cells(read_published()[key], data))
    return Table(key, f"{experiment}/{data}", data, f"{_NAMES[data]}: {title}", rows, found)


def _by_alpha(table: Mapping[str, Any], data: str) -> Iterator[TableCell]:
    for place, setting in _settings_by_alpha(table, data):
        for metric in (MISS_RATE, SIZE):
            horizon, scenario, column = place
            yield TableCell(("T", horizon, metric, scenario, column), setting, metric)


def _slack_by_alpha(table: Mapping[str, Any], data: str) -> Iterator[TableCell]:
    for place, setting in _settings_by_alpha(table, data):
        yield TableCell(("T", *place), setting, SLACK)


def _settings_by_alpha(
    table: Mapping[str, Any], data: str
) -> Iterator[tuple[tuple[str, str, int], Setting]]:
    for horizon in table["T"]:
        for scenario in SCENARIOS:
            for column, alpha in enumerate(table["alpha"]):
                place = (horizon, scenario, column)
                yield place, Setting(data, scenario, "ocp-unlock+", alpha, int(horizon), table["K"])


def _by_arms(table: Mapping[str, Any], data: str) -> Iterator[TableCell]:
    for learner in VARIANTS:
        for scenario in SCENARIOS:
            for column, arms in enumerate(table["K"]):
                setting = Setting(data, scenario, learner, table["alpha"], table["T"], arms)
                for metric in (MISS_RATE, SIZE):
                    yield TableCell((learner, metric, scenario, column), setting, metric)
