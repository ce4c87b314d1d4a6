"""What a kind of database must do to hold streams, and what the kinds share.

A statement is SQL of ours, written as PostgreSQL takes it but for a ``?`` where a value stands; each
backend turns it into its own words once. ``= ANY(?)`` takes a list, the last of the values.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from keyhole.errors import BusyError, KeyholeError
from keyhole.service.store.sql.schema import Row, Table, Words

Connection = TypeVar("Connection")
Values = Sequence[Any]  # of the kinds that columns hold, or a list of them


@dataclass(frozen=True, eq=False, slots=True)
class Statement(Generic[Row]):
    text: str
    make_row: Callable[[Any], Row]


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds to wait: for a lock or a connection of ours, for a statement, for the server.

    ``statement`` holds on PostgreSQL, and 0 waits an hour; SQLite knows no such limit. A server that
    says nothing, not even that a statement took too long, is given up ``lock`` seconds later.
    """

    lock: float = 5.0
    statement: float = 30.0
    connect: float = 5.0
    probe: float = 1.0


class Transaction(Protocol):
    """What sees the tables as of one moment, and changes all that it changes or nothing."""

    def fetch(self, statement: Statement[Row], *values: object) -> list[Row]:
        """Return the rows of a statement."""

    def fetch_all(self, *asked: tuple[Statement[Any], Values]) -> list[list[Any]]:
        """Return the rows of statements with their values, run one by one, in one exchange."""

    def execute(self, statement: Statement[None], *values: object) -> object:
        """Run a statement before the transaction ends; what goes wrong may be raised later."""

    def insert(self, table: Table[Row], rows: Sequence[Row]) -> None:
        """Add rows before the transaction ends; what goes wrong may be raised later."""


class Backend(Protocol):
    """One kind of database.

    What it refuses for now is raised as ``DatabaseError``; if it is only busy, as ``BusyError``.
    ``lacks_log`` says that a file which belongs beside the database was not there, and may have held
    its newest rounds. ``words`` are those that make its tables.
    """

    lacks_log: bool
    words: Words

    def read(self) -> AbstractContextManager[Transaction]:
        """Give a transaction that changes nothing."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Give a transaction whose changes are durable once the block is left."""

    def probe(self) -> AbstractContextManager[Transaction]:
        """Give one that writes, by a connection of its own that waits for no other of ours."""

    def start(self) -> None:
        """Be ready to serve: the tables are there."""

    def check(self) -> None:
        """Raise if the file of the database was deleted, replaced or cut short while it is open."""

    def scrub(self) -> bool:
        """Let what was deleted be unreadable, as far as is done at once; return whether it is."""

    def vacuum(self) -> None:
        """Write everything anew without what was deleted, or raise; it takes long."""

    def copy_to(self, path: Path) -> None:
        """Put a copy of everything, as of one moment, into a new file."""

    def close(self) -> None:
        """Close every connection."""


def read_scalar(values: Sequence[object]) -> Any:
    return values[0]


def find_reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]


@contextmanager
def named_errors(name: Callable[[BaseException], KeyholeError | None]) -> Iterator[None]:
    """Raise a driver's errors under the names that a function gives them, if it gives them any."""
    try:
        yield
    except Exception as error:
        named = name(error)
        if named is None:
            raise
        raise named from error


class Pool(Generic[Connection]):
    """Connections that are in use or wait to be: so many at the most.

    ``reset`` makes one fit for use that was left with an exception, or raises; ``seconds`` is how long
    to wait for one.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        reset: Callable[[Connection], object],
        close: Callable[[Connection], object],
        most: int,
        seconds: float,
    ) -> None:
        self._connect, self._reset, self._close = connect, reset, close
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(most)
        self._idle: deque[Connection] = deque()

    @contextmanager
    def take(self) -> Iterator[Connection]:
        if not self._free.acquire(timeout=self._seconds):
            raise BusyError("every connection to the database is in use; try again")
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            except BaseException:
                self._restore(connection)
                raise
            self._idle.append(connection)
        finally:
            self._free.release()

    def _restore(self, connection: Connection) -> None:
        try:
            self._reset(connection)
        except Exception:  # noqa: BLE001 - it is lost, and what it was lost by is raised.
            self._close(connection)
            self.clear()  # The others of its age are gone as well.
        else:
            self._idle.append(connection)

    def clear(self) -> None:
        while self._idle:
            self._close(self._idle.pop())
