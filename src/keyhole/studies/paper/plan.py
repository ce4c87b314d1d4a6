"""Which of the paper's tables and figures are wanted, and what must be run for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.studies.paper.panels import Panel, panels
from keyhole.studies.paper.sources import Pair, Source
from keyhole.studies.paper.tables import Table, tables


@dataclass(frozen=True)
class Plan:
    """Tables and panels, and the sources their data sets come from."""

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    sources: tuple[Source, ...]

    def sources_of(self, data: str) -> tuple[Source, ...]:
        """Return what a data set runs on: the default first, then files."""
        return tuple(source for source in self.sources if source.data == data)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Everything to run, each thing once, however many tables and figures share it."""
        parts: list[Panel | Table] = [*self.panels, *self.tables]
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


def plan(only: Sequence[str], sources: Sequence[Source]) -> Plan:
    """Return the part of the paper that the names select; without names, all of it.

    A name is the beginning of an experiment's id (``exp3``, ``exp1/imagenet/iid``) or of a key of
    the published tables (``table2``).
    """
    for name in only:
        _check(name)
    chosen_tables = tuple(t for t in tables() if not only or any(_selects(n, t) for n in only))
    chosen_panels = tuple(p for p in panels() if not only or any(p.id.startswith(n) for n in only))
    needed = {t.data for t in chosen_tables} | {p.data for p in chosen_panels}
    return Plan(chosen_tables, chosen_panels, tuple(s for s in sources if s.data in needed))


def _selects(name: str, table: Table) -> bool:
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
