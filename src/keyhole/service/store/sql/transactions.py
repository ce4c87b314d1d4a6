"""Transactions whose statements the driver runs by itself, for what every request does.

SQLAlchemy writes the SQL, once for each statement and kind of database. What it does around every
execution costs several times what SQLite takes to run the statement.
"""

import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sql

from keyhole.errors import BusyError, KeyholeError
from keyhole.service.store.sql.engines import name_error

_MOST_AT_ONCE = 256  # Rows in one statement for a file.
_LIST = "__[POSTCOMPILE_"  # where SQLAlchemy would write out a list


class _Text(NamedTuple):
    """The SQL, and which of the given values stand in which place; a whole one is a constant's."""

    before: str
    after: str  # what follows the list, if there is one
    order: tuple[int, ...] | None  # None where the values are in place as they are given
    constants: tuple[Any, ...]


class Statement:
    """A statement whose values are given in the order of their names.

    Parameters
    ----------
    expression
        The statement; where it holds a list, that is the last of its values.
    names
        Those of its values, in the order in which they will be given.
    """

    def __init__(self, expression: Any, *names: str) -> None:
        self._expression, self._names = expression, names
        self._texts: dict[str, _Text] = {}
        self._inserts: dict[tuple[str, int], str] = {}
        columns = expression.selected_columns.keys() if expression.is_select else ()
        kind: Any = namedtuple("_Row", columns)  # type: ignore[misc]
        self.make_row: Any = kind._make

    def write(self, dialect: sql.Dialect, values: Any) -> tuple[str, Any]:
        """Return the SQL and the values as the driver takes them."""
        text = self._texts.get(dialect.name) or self._compile(dialect)
        if text.after:
            # As many places as the next power of two, so that few texts are made; what is left over
            # repeats the last value.
            *others, many = values
            size = 1 << (len(many) - 1).bit_length()
            mark = "?" if dialect.paramstyle == "qmark" else "%s"
            written = f"{text.before}{', '.join([mark] * size)}{text.after}"
            return written, (*others, *many, *[many[-1]] * (size - len(many)))
        if text.order is None:
            return text.before, values
        known = (*values, *text.constants)
        return text.before, tuple([known[place] for place in text.order])

    def write_all(self, dialect: sql.Dialect, rows: list[Any]) -> tuple[str, list[Any]]:
        """Return the SQL that inserts all of these rows at once, and their values one after another."""
        kind = (dialect.name, len(rows))
        written = self._inserts.get(kind)
        if written is None:
            text = self._texts.get(dialect.name) or self._compile(dialect)
            head, _, places = text.before.partition(" VALUES ")
            written = f"{head} VALUES {', '.join([places] * len(rows))}"
            self._inserts[kind] = written
        return written, list(chain.from_iterable(rows))

    def write_copy(self, dialect: sql.Dialect) -> str:
        """Return the SQL that takes the rows to insert from a stream."""
        text = self._texts.get(dialect.name) or self._compile(dialect)
        head = text.before.partition(" VALUES ")[0].removeprefix("INSERT INTO ")
        return f"COPY {head} FROM STDIN"

    def _compile(self, dialect: sql.Dialect) -> _Text:
        is_select = self._expression.is_select
        keys = None if is_select else [name for name in self._names if name != "wanted"] or None
        compiled = self._expression.compile(dialect=dialect, column_keys=keys)
        written, order = str(compiled), tuple(compiled.positiontup)
        constants = {name: value for name, value in compiled.params.items() if name not in self._names}
        known = (*self._names, *constants)
        places = tuple(known.index(name) for name in order)
        before, listed, rest = written.partition(_LIST)
        text = _Text(
            before=before,
            after=rest.partition("]")[2] if listed else "",
            order=None if places == tuple(range(len(self._names))) else places,
            constants=tuple(constants.values()),
        )
        self._texts[dialect.name] = text
        return text


def insert(table: sql.Table) -> Statement:
    """Return the statement that inserts a row, its values in the order of the table's columns."""
    return Statement(table.insert(), *table.c.keys())


class Direct(Protocol):
    """A transaction whose statements the driver runs by itself."""

    def read(self, *asked: tuple[Statement, Any]) -> list[list[Any]]:
        """Return the rows of each of these statements with its values, in one exchange."""

    def change(self, statement: Statement, values: Any) -> int:
        """Run a statement, and return how many rows it changed."""

    def write(self, changes: Sequence[tuple[Statement, list[Any]]]) -> None:
        """Run each statement with each of its rows of values, before the transaction ends."""

    def execute(self, statement: Any) -> "Rows":
        """Run any other statement, as ``sqlalchemy.Connection`` does."""


class FileTransactions:
    """Transactions on a file, by the driver alone; those of a server are in ``server_transactions``.

    Parameters
    ----------
    engine
        Where the connection is from, which is kept.
    turn
        What threads of one process hold while they write.
    seconds
        How long to wait for it.
    """

    def __init__(self, engine: sql.Engine, turn: threading.Lock, *, seconds: float) -> None:
        self._engine, self._turn, self._seconds = engine, turn, seconds
        self._held: sql.PoolProxiedConnection | None = None
        self.check_file: Callable[[], None] | None = None

    @contextmanager
    def begin(self) -> Iterator[Direct]:
        """Give a transaction whose changes are durable, all or none, once the block is left."""
        with named_errors(), take_turn(self._turn, self._seconds):
            if self._held is None:
                self._held = self._engine.raw_connection()
            file: Any = self._held.driver_connection
            file.execute("BEGIN IMMEDIATE")
            try:
                yield FileTransaction(file, self._engine.dialect)
                file.execute("COMMIT")
            except BaseException:
                if file.in_transaction:
                    file.execute("ROLLBACK")
                raise
        if self.check_file is not None:
            self.check_file()  # What went into a file that is gone is not to be acknowledged.

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._held is not None:
            self._held.close()
            self._held = None


@dataclass(slots=True)
class FileTransaction:
    """See ``Direct``."""

    _file: Any
    _dialect: sql.Dialect

    def read(self, *asked: tuple[Statement, Any]) -> list[list[Any]]:
        found = []
        for statement, values in asked:
            rows = self._file.execute(*statement.write(self._dialect, values))
            found.append([*map(statement.make_row, rows)])
        return found

    def change(self, statement: Statement, values: Any) -> int:
        return int(self._file.execute(*statement.write(self._dialect, values)).rowcount)

    def write(self, changes: Sequence[tuple[Statement, list[Any]]]) -> None:
        for statement, rows in changes:
            if len(rows) == 1:
                self._file.execute(*statement.write(self._dialect, rows[0]))
                continue
            for some in _cut(rows):
                self._file.execute(*statement.write_all(self._dialect, some))

    def execute(self, statement: Any) -> "Rows":
        found = self._file.execute(*write_out(statement, self._dialect))
        return Rows(found.fetchall() if found.description else [])


def _cut(rows: list[Any]) -> Iterator[list[Any]]:
    """Yield the rows in pieces of 2, 4, 8 ...: few lengths, so that SQLite parses few statements."""
    start = 0
    while start < len(rows):
        size = min(_MOST_AT_ONCE, 1 << (len(rows) - start).bit_length() - 1)
        yield rows[start : start + size]
        start += size


def write_out(statement: Any, dialect: sql.Dialect) -> tuple[str, list[Any]]:
    """Return any statement of SQLAlchemy as SQL, and its values."""
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    return str(compiled), [compiled.params[name] for name in compiled.positiontup]


class Rows(NamedTuple):
    """What a statement returned, read to its end as ``sqlalchemy.Result`` is."""

    found: list[Any]

    def all(self) -> list[Any]:
        """Return every row."""
        return self.found


@contextmanager
def take_turn(turn: threading.Lock, seconds: float) -> Iterator[None]:
    """Hold the lock, or raise if others do for too long."""
    # Threads of one process take turns here: SQLite's own waiting is by sleeping and retrying.
    if not turn.acquire(timeout=seconds):
        raise BusyError(f"no turn to write within {seconds:g} seconds; try again")
    try:
        yield
    finally:
        turn.release()


Connection = sql.Connection | Direct


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise what the driver says of a database that is away or busy as errors of ours."""
    try:
        yield
    except sql.exc.TimeoutError:
        raise BusyError("every connection to the database is in use; try again") from None
    except KeyholeError:
        raise
    except Exception as error:
        named = name_error(error.orig if isinstance(error, sql.exc.DBAPIError) else error)
        if named is None:
            raise
        raise named from None
