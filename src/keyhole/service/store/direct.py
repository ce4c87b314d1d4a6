"""Statements run by the driver itself, for the two paths that every request takes.

SQLAlchemy writes the SQL, once for each statement and kind of database. What it does around every
execution costs several times what SQLite takes to run the statement; here the driver is called at once.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sql


class _Plan(NamedTuple):
    """A statement as the driver takes it: its text, its parameters, its rows."""

    text: str
    order: tuple[str, ...] | None  # Names in their places, where the driver counts them.
    values: dict[str, Any]  # Those that the statement brings itself.
    make_row: Callable[[Any], Any] | None
    truths: tuple[int, ...]  # Places of truth values, which SQLite keeps as 0 and 1.
    compiled: Any  # Only where lists are to be written out anew each time.

    def bind(self, given: dict[str, Any]) -> Any:
        """Return the parameters as the driver takes them."""
        values = {**self.values, **given} if self.values else given
        return values if self.order is None else [values[name] for name in self.order]

    def write(self, given: dict[str, Any]) -> tuple[str, Any]:
        """Return the text and the parameters, with lists written out."""
        if self.compiled is None:
            return self.text, self.bind(given)
        full = self.compiled.construct_expanded_state({**self.values, **given})
        return full.statement, full.parameters if self.order is None else full.positional_parameters


_plans: dict[str, WeakKeyDictionary[Any, dict[tuple[str, ...], _Plan]]] = {}


class Rows:
    """What a statement returned, read to its end as ``sqlalchemy.Result`` is."""

    def __init__(self, find_cursor: Callable[[], Any], plan: _Plan) -> None:
        self._find_cursor, self._plan = find_cursor, plan

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        return int(self._find_cursor().rowcount)

    def all(self) -> list[Any]:
        """Return every row."""
        plan = self._plan
        assert plan.make_row is not None  # noqa: S101
        found = self._find_cursor().fetchall()
        if plan.truths:
            found = [_read_truths(row, plan.truths) for row in found]
        return [plan.make_row(row) for row in found]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def mappings(self) -> list[dict[str, Any]]:
        """Return every row as a mapping."""
        return [row._asdict() for row in self.all()]

    def one_or_none(self) -> Any:
        """Return the first row, if there is one."""
        found = self.all()
        return found[0] if found else None

    def scalar(self) -> Any:
        """Return the first value of the first row, if there is one."""
        found = self.one_or_none()
        return None if found is None else found[0]

    def scalar_one(self) -> Any:
        """Return the first value of the one row."""
        (found,) = self.all()
        return found[0]

    def scalars(self) -> list[Any]:
        """Return the first value of every row."""
        return [row[0] for row in self.all()]


class Direct:
    """A connection within a transaction that executes statements by its driver alone.

    Where a server is at the other end, what returns nothing is held back, and sent together with what
    is waited for next: with a statement that returns rows, or with the end of the transaction.
    """

    def __init__(self, connection: Any, dialect: sql.Dialect, *, writer: Any = None) -> None:
        self._connection, self._dialect, self._writer = connection, dialect, writer
        self._held: list[str] = [] if writer is None else ["BEGIN"]

    def execute(self, statement: Any, parameters: Any = None) -> Rows:
        """Execute a statement once, or for each of a list of parameters."""
        many = isinstance(parameters, list)
        given = parameters[0] if many else parameters or {}
        plan = _find_plan(statement, self._dialect, given)
        if many:
            self.send()
            cursor = self._connection.cursor()
            cursor.executemany(plan.text, [plan.bind(each) for each in parameters])
            return Rows(lambda: cursor, plan)
        text, values = plan.write(given)
        if self._writer is None:
            done = self._connection.execute(text, values)
            return Rows(lambda: done, plan)
        self._held.append(self._writer.mogrify(text, values))
        return Rows(self.send, plan)

    def send(self, *last: str) -> Any:
        """Send what is held back, and return where the results of its last statement are."""
        cursor, self._held = self._writer, [*self._held, *last]
        if self._held and cursor is not None:
            text, self._held = ";".join(self._held), []
            cursor.execute(text.encode())
            while cursor.nextset():
                pass
        return cursor


Connection = sql.Connection | Direct


def _find_plan(statement: Any, dialect: sql.Dialect, given: dict[str, Any]) -> _Plan:
    known = _plans.setdefault(dialect.name, WeakKeyDictionary())
    plans = known.get(statement)
    keys = tuple(given)
    if plans is not None and keys in plans:
        return plans[keys]
    plan = _make_plan(statement, dialect, keys)
    if plan.compiled is None:  # It would hold the statement, and so itself, for ever.
        known.setdefault(statement, {})[keys] = plan
    return plan


def _make_plan(statement: Any, dialect: sql.Dialect, keys: Sequence[str]) -> _Plan:
    columns = None if statement.is_select else list(keys) or None
    compiled = statement.compile(dialect=dialect, column_keys=columns)
    returned = [] if not statement.is_select else list(statement.selected_columns)
    return _Plan(
        text=str(compiled),
        order=tuple(compiled.positiontup) if compiled.positional else None,
        values={name: value for name, value in compiled.params.items() if name not in keys},
        make_row=_make_row(returned) if returned else None,
        truths=tuple(
            place
            for place, column in enumerate(returned)
            if isinstance(column.type, sql.Boolean) and dialect.name == "sqlite"
        ),
        compiled=compiled if compiled.post_compile_params else None,
    )


def _make_row(columns: Sequence[Any]) -> Callable[[Any], Any]:
    names = [getattr(column, "key", None) or f"column_{place}" for place, column in enumerate(columns)]
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    make: Callable[[Any], Any] = row._make
    return make


def _read_truths(row: Sequence[Any], places: Sequence[int]) -> list[Any]:
    read = list(row)
    for place in places:
        read[place] = None if read[place] is None else bool(read[place])
    return read
