"""Transactions whose statements the driver runs by itself, for what every request does.

SQLAlchemy writes the SQL, once for each statement and kind of database. What it does around every
execution costs several times what SQLite takes to run the statement.
"""

import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.errors import BusyError, KeyholeError
from keyhole.service.store.engines import name_error

_MANY = 16  # Rows from which on a server takes them faster as a stream.
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
        text = self._texts.get(dialect.name) or self._compile(dialect)
        head, _, places = text.before.partition(" VALUES ")
        values = [value for row in rows for value in row]
        return f"{head} VALUES {', '.join([places] * len(rows))}", values

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


class Transactions:
    """Transactions of one kind of database, by its driver alone.

    Parameters
    ----------
    engine
        Where the connections are from.
    turn
        What threads of one process hold while they write, where there is a file; None for a server.
    seconds
        How long to wait for it.
    """

    def __init__(self, engine: sql.Engine, turn: "threading.Lock | None", *, seconds: float) -> None:
        self._engine, self._turn, self._seconds = engine, turn, seconds
        self._held: sql.PoolProxiedConnection | None = None
        self.check_file: Callable[[], None] | None = None

    @contextmanager
    def begin(self) -> Iterator["Direct"]:
        """Give a transaction whose changes are durable, all or none, once the block is left."""
        with named_errors():
            if self._turn is None:
                with self._begin_on_server() as connection:
                    yield connection
            else:
                with take_turn(self._turn, self._seconds), self._begin_in_file() as connection:
                    yield connection
        if self.check_file is not None:
            self.check_file()  # What went into a file that is gone is not to be acknowledged.

    @contextmanager
    def _begin_in_file(self) -> Iterator["Direct"]:
        if self._held is None:
            self._held = self._engine.raw_connection()
        file: Any = self._held.driver_connection
        file.execute("BEGIN IMMEDIATE")
        try:
            yield Direct(file, self._engine.dialect)
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:
                file.execute("ROLLBACK")
            raise

    @contextmanager
    def _begin_on_server(self) -> Iterator["Direct"]:
        from psycopg import ClientCursor

        held = self._engine.raw_connection()
        server: Any = held.driver_connection
        try:
            direct = Direct(ClientCursor(server), self._engine.dialect, is_server=True)
            yield direct
            direct.send("COMMIT")
        except BaseException:
            if not server.closed:
                server.execute("ROLLBACK")
            if server.closed:
                held.invalidate()
                self._engine.dispose()  # The others of its age are gone as well.
            raise
        finally:
            held.close()

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._held is not None:
            self._held.close()
            self._held = None


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


@dataclass(slots=True)
class Direct:
    """A transaction whose statements the driver runs by itself.

    Where a server is at the other end, what is written is held back, and sent together with what is
    waited for next: with what is read, or with the end of the transaction.
    """

    _driver: Any
    _dialect: sql.Dialect
    is_server: bool = False
    _held: list[str] = field(default_factory=lambda: ["BEGIN"])

    def read(self, *asked: tuple[Statement, Any]) -> list[list[Any]]:
        """Return the rows of each of these statements with its values, in one exchange."""
        dialect, driver, found = self._dialect, self._driver, []
        texts = [statement.write(dialect, values) for statement, values in asked]
        if self.is_server:
            before = len(self._held)
            self.send(*(driver.mogrify(text, values) for text, values in texts), to_end=False)
            for _ in range(before):
                driver.nextset()
        for (statement, _), (text, values) in zip(asked, texts, strict=True):
            rows = driver.fetchall() if self.is_server else driver.execute(text, values).fetchall()
            found.append([statement.make_row(row) for row in rows])
            if self.is_server:
                driver.nextset()
        return found

    def change(self, statement: Statement, values: Any) -> int:
        """Run a statement, and return how many rows it changed."""
        text, given = statement.write(self._dialect, values)
        if not self.is_server:
            return int(self._driver.execute(text, given).rowcount)
        self.send(self._driver.mogrify(text, given))
        return int(self._driver.rowcount)

    def write(self, changes: Sequence[tuple[Statement, list[Any]]]) -> None:
        """Run each statement with each of its rows of values, before the transaction ends."""
        dialect, driver = self._dialect, self._driver
        for statement, rows in changes:
            if len(rows) == 1:
                text, values = statement.write(dialect, rows[0])
            elif self.is_server and len(rows) >= _MANY:
                self._copy(statement, rows)
                continue
            elif self.is_server:
                text, values = statement.write_all(dialect, rows)
            else:
                text, _ = statement.write(dialect, rows[0])
                driver.executemany(text, rows)
                continue
            if self.is_server:
                self._held.append(driver.mogrify(text, values))
            else:
                driver.execute(text, values)

    def _copy(self, statement: Statement, rows: list[Any]) -> None:
        self.send()
        with self._driver.copy(statement.write_copy(self._dialect)) as copy:
            for row in rows:
                copy.write_row(row)

    def execute(self, statement: Any) -> "Rows":
        """Run any other statement, as ``sqlalchemy.Connection`` does."""
        compiled = statement.compile(dialect=self._dialect, compile_kwargs={"render_postcompile": True})
        values, cursor = [compiled.params[name] for name in compiled.positiontup], self._driver
        if self.is_server:
            self.send(cursor.mogrify(str(compiled), values))
        else:
            cursor = cursor.execute(str(compiled), values)
        return Rows(cursor.fetchall() if cursor.description else [])

    def send(self, *last: str, to_end: bool = True) -> None:
        """Send what is held back, and these; go on to the results of the last of them, if told so."""
        text, self._held = ";".join([*self._held, *last]), []
        if text:
            self._driver.execute(text.encode())
        while to_end and self._driver.nextset():
            pass


class Rows(NamedTuple):
    """What a statement returned, read to its end as ``sqlalchemy.Result`` is."""

    found: list[Any]

    def all(self) -> list[Any]:
        """Return every row."""
        return self.found


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
