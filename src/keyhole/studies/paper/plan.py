"""The paper's tables: which setting stands in which cell, and what the paper found there."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.studies.paper.one_run import (
    AIRFOIL,
    IMAGENET,
    LITERAL,
    SCENARIOS,
    VARIANTS,
    Pair,
    Setting,
    Source,
)

MISS_RATE, SIZE, SLACK = "mc", "ineff", "cmc"
LABELS = {
    "ocp-bandit": "OCP-Bandit",
    "ocp-unlock": "OCP-Unlock",
    "ocp-unlock+": "OCP-Unlock+",
    "sps": "SPS",
    "mvp": "MVP",
}
SCENARIO_NAMES = {
    (IMAGENET, "iid"): "i.i.d.",
    (IMAGENET, "shift"): "non-i.i.d.",
    (AIRFOIL, "iid"): "i.i.d.",
    (AIRFOIL, "shift"): "covariate shift",
}
Path = tuple[str | int, ...]
_BEFORE = 3  # tables without results, which stand first in the paper
_WRITTEN_FOR = 50_000  # rounds of a figure, for which the paper writes down its shift of ImageNet


@dataclass(frozen=True)
class TableCell:
    """One number of a table: where it stands, what was run for it, what was measured, and published."""

    path: Path
    setting: Setting
    metric: str
    published: float


@dataclass(frozen=True)
class PaperTable:
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
        return int(self.key.removeprefix("table").split("_")[0])

    @property
    def settings(self) -> tuple[Setting, ...]:
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
    return json.loads((resources.files("keyhole.studies.paper") / "published.json").read_text())


@cache
def tables() -> tuple[PaperTable, ...]:
    return tuple(map(_table, read_published()))


NAMES = {IMAGENET: "ImageNet", AIRFOIL: "Airfoil"}
_BY_ALPHA = ("horizon", "scenario", "alpha")
_KINDS = {  # by the end of a key: the experiment that fills the table, its title, what tells rows apart
    "alpha": (
        "exp6", "miss rate MC(T) and mean set size Ineff(T) of OCP-Unlock+ by T and α", _BY_ALPHA,
    ),
    "K": (
        "exp3", "miss rate MC(T) and mean set size Ineff(T) by number of thresholds K",
        ("learner", "scenario", "arms"),
    ),
    "cmc": ("exp6", "the term C_mc(T) of the coverage bound, OCP-Unlock+", _BY_ALPHA),
}  # fmt: skip


def _table(key: str) -> PaperTable:
    _, data, kind = key.split("_")
    experiment, title, rows = _KINDS[kind]
    list_cells = _list_by_arms if kind == "K" else _list_by_alpha
    cells = tuple(list_cells(read_published()[key], data))
    return PaperTable(key, f"{experiment}/{data}", data, f"{NAMES[data]}: {title}", rows, cells)


def _list_by_alpha(table: Mapping[str, Any], data: str) -> Iterator[TableCell]:
    for horizon, found in table["T"].items():
        for scenario in SCENARIOS:
            for column, alpha in enumerate(table["alpha"]):
                setting = Setting(data, scenario, "ocp-unlock+", alpha, int(horizon), table["K"])
                if MISS_RATE not in found:  # the slack, which fills a table by itself
                    number = found[scenario][column]
                    yield TableCell(("T", horizon, scenario, column), setting, SLACK, number)
                    continue
                for metric in (MISS_RATE, SIZE):
                    number = found[metric][scenario][column]
                    yield TableCell(("T", horizon, metric, scenario, column), setting, metric, number)


def _list_by_arms(table: Mapping[str, Any], data: str) -> Iterator[TableCell]:
    for learner in VARIANTS:
        for scenario in SCENARIOS:
            for column, arms in enumerate(table["K"]):
                setting = Setting(data, scenario, learner, table["alpha"], table["T"], arms)
                for metric in (MISS_RATE, SIZE):
                    number = table[learner][metric][scenario][column]
                    yield TableCell((learner, metric, scenario, column), setting, metric, number)


_ALPHA = {IMAGENET: 0.15, AIRFOIL: 0.1}
_ARMS = {IMAGENET: 200, AIRFOIL: 20}
_PANELS = (
    ("exp1", IMAGENET), ("exp2", AIRFOIL), ("exp4", IMAGENET), ("exp4", AIRFOIL),
    ("exp5", IMAGENET), ("exp5", AIRFOIL),
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One scenario of a figure; its id reads ``exp1/imagenet/iid``."""

    experiment: str
    data: str
    scenario: str

    @property
    def id(self) -> str:
        return f"{self.experiment}/{self.data}/{self.scenario}"

    @property
    def has_boxes(self) -> bool:
        """Whether it shows how miss rates spread, by target, instead of curves, by learner."""
        return self.experiment == "exp5"

    @property
    def settings(self) -> tuple[Setting, ...]:
        alpha, arms = _ALPHA[self.data], _ARMS[self.data]
        played = [("ocp-unlock+", alpha, arms), ("sps", alpha, None), ("mvp", alpha, None)]
        if self.experiment == "exp4":
            played = [(learner, alpha, arms) for learner in VARIANTS]
        elif self.has_boxes:
            played = [("ocp-unlock+", alpha, arms) for alpha in (0.1, 0.2, 0.3, 0.4)]
        return tuple(
            Setting(self.data, self.scenario, learner, alpha, _WRITTEN_FOR, arms)
            for learner, alpha, arms in played
        )


def panels() -> tuple[Panel, ...]:
    return tuple(
        Panel(experiment, data, scenario) for experiment, data in _PANELS for scenario in SCENARIOS
    )


@dataclass(frozen=True)
class PaperPlan:
    """Tables and panels, and the sources their data sets come from."""

    tables: tuple[PaperTable, ...]
    panels: tuple[Panel, ...]
    sources: tuple[Source, ...]

    def sources_of(self, data: str) -> tuple[Source, ...]:
        """Return what a data set runs on: the default first, then files."""
        return tuple(source for source in self.sources if source.data == data)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Everything to run, each thing once, however many tables and figures share it."""
        parts: list[Panel | PaperTable] = [*self.panels, *self.tables]
        wanted = dict.fromkeys(
            Pair(source, setting)
            for part in parts
            for source in self.sources_of(part.data)
            for setting in part.settings
        )
        for table in self.tables:
            for source in self.sources_of(table.data):
                wanted.update(dict.fromkeys(Pair(source, one) for one in table.literal_settings))
        return tuple(wanted)


def plan(only: Sequence[str], sources: Sequence[Source]) -> PaperPlan:
    """Return the part of the paper that the names select; without names, all of it.

    A name is the beginning of an experiment's id (``exp3``, ``exp1/imagenet/iid``) or of a key of
    the published tables (``table2``).
    """
    for name in only:
        _check(name)
    chosen_tables = tuple(t for t in tables() if not only or any(_selects(n, t) for n in only))
    chosen_panels = tuple(p for p in panels() if not only or any(p.id.startswith(n) for n in only))
    needed = {t.data for t in chosen_tables} | {p.data for p in chosen_panels}
    return PaperPlan(chosen_tables, chosen_panels, tuple(s for s in sources if s.data in needed))


def _selects(name: str, table: PaperTable) -> bool:
    whole_experiment = f"{table.experiment}/".startswith(name)
    part_of_it = name.startswith(f"{table.experiment}/")
    return table.key.startswith(name) or whole_experiment or part_of_it


def _check(name: str) -> None:
    ids = [panel.id for panel in panels()]
    if name and (any(i.startswith(name) for i in ids) or any(_selects(name, t) for t in tables())):
        return
    known = sorted({*(table.key for table in tables()), *ids, *(f"exp{n}" for n in range(1, 7))})
    near = find_near(name, known)
    hint = f"did you mean {near!r}?" if near else "use exp1 to exp6 or table1 to table6"
    raise InvalidError(f"the paper has no {name!r}; {hint}")
