"""Streams in one SQLite file, in WAL mode: many readers, and one writer at a time."""

import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from keyhole.errors import (
    BusyError,
    DamagedDatabaseError,
    DatabaseError,
    KeyholeError,
    LostDatabaseError,
)
from keyhole.service.store.sql.backend import (
    Pool,
    Statement,
    Timeouts,
    Transaction,
    Values,
    find_reason,
    named_errors,
)
from keyhole.service.store.sql.schema import Row, Table, Words

_READERS = 32
_OWNER_ALONE = 0o600
# What is deleted is overwritten in the file.
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
_SECONDS_TO_SCRUB = 0.5
_WORDS = Words(
    counted="INTEGER PRIMARY KEY AUTOINCREMENT",  # or a new stream may answer to an old one's ids
    kinds={int: "BIGINT", float: "FLOAT", str: "TEXT", bytes: "BLOB"},
    in_order=" WITHOUT ROWID",
    find_meta="SELECT 1 FROM sqlite_master WHERE name = 'meta'",
    lock_schema="SELECT 1",  # Whoever writes is alone.
)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# What the system says when a file cannot grow.
_FULL = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,
)


class SqliteBackend:
    """See ``Backend``."""

    words = _WORDS

    def __init__(self, path: Path, *, timeouts: Timeouts, read_only: bool) -> None:
        self._path, self._timeouts = path, timeouts
        self._pragmas = () if read_only else _PRAGMAS
        self._file: DatabaseFile | None = None
        self._turn = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers = Pool(
            partial(self._connect, timeouts.lock),
            reset=sqlite3.Connection.rollback,
            close=sqlite3.Connection.close,
            most=_READERS,
            seconds=timeouts.lock,
        )
        if read_only:
            find_file(path)
        self.lacks_log = _check_log(path)
        # Whoever only reads must leave no empty log where one is missing.
        way = "immutable=1" if self.lacks_log else "mode=ro"
        self._target = f"file:{quote(str(path))}?{way}" if read_only else str(path)
        if not read_only:
            with suppress(OSError):  # Whatever is wrong with the path, SQLite will say.
                # Readable by its owner alone; SQLite's other files follow it.
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, _OWNER_ALONE))

    def _connect(self, seconds: float) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._target,
            timeout=seconds,
            isolation_level=None,  # Otherwise the driver begins transactions by itself.
            check_same_thread=False,
            uri=self._target.startswith("file:"),
        )
        # A row whose text is none spoils itself, not the others.
        connection.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")
        for pragma in self._pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def read(self) -> AbstractContextManager[Transaction]:
        self.check()
        return _transaction(self._readers.take, "BEGIN")

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        seconds = self._timeouts.lock
        # Threads of one process take turns here: SQLite's own waiting is by sleeping and retrying.
        if not self._turn.acquire(timeout=seconds):
            raise BusyError(f"no turn to write within {seconds:g} seconds; try again")
        try:
            self._writer = self._writer or self._connect(seconds)
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield SqliteTransaction(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.rollback()
                raise
        except sqlite3.Error as error:
            if (named := name_error(error)) is None:
                raise
            raise named from error
        finally:
            self._turn.release()
        if self._file is not None:
            self._file.check()  # What went into a file that is gone is not to be acknowledged.

    def probe(self) -> AbstractContextManager[Transaction]:
        self.check()
        return _transaction(lambda: closing(self._connect(self._timeouts.probe)), "BEGIN IMMEDIATE")

    def start(self) -> None:
        # Whoever was killed while the log was brought into the file has left a header that is ahead of
        # its file. Nothing is lost, but it looks like a file that was cut short.
        self._bring_in_log()
        self._file = DatabaseFile(self._path, self._bring_in_log)

    def _bring_in_log(self) -> bool:
        """Copy what the write-ahead log holds into the file; return False if the disk has no room."""
        try:
            with closing(self._connect(self._timeouts.probe)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode not in _FULL
        except sqlite3.DatabaseError:
            pass  # It is damaged, which whoever reads it will be told.
        return True

    def scrub(self) -> bool:
        # What was in the log before is there until the log begins anew; whoever reads stops that.
        with named_errors(name_error), closing(self._connect(_SECONDS_TO_SCRUB)) as connection:
            ((busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    def vacuum(self) -> None:
        # Pages that were split may hold a copy of a row in their unused part.
        with named_errors(name_error), closing(self._connect(self._timeouts.lock)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(self, path: Path) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE))
            with (
                named_errors(name_error),
                self._readers.take() as source,
                closing(sqlite3.connect(aside)) as target,
            ):
                source.backup(target)
                target.execute("PRAGMA journal_mode=DELETE")  # One file, and nothing beside it.
            _sync(aside)
            aside.replace(path)
            _sync(path.parent)
        finally:
            aside.unlink(missing_ok=True)

    def check(self) -> None:
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        self._readers.clear()
        # Whoever writes just now may finish; what waits for longer than a lock is waited for no more.
        if self._turn.acquire(timeout=self._timeouts.lock):
            if self._writer is not None:
                if self._file is None or self._file.is_in_place():
                    _close_whole(self._writer)
                self._writer.close()
                self._writer = None
            self._turn.release()
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def _transaction(
    connect: Callable[[], AbstractContextManager[sqlite3.Connection]], begin: str
) -> Iterator[Transaction]:
    with named_errors(name_error), connect() as connection:
        connection.execute(begin)
        try:
            yield SqliteTransaction(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise


class SqliteTransaction(NamedTuple):
    """See ``Transaction``."""

    connection: sqlite3.Connection

    def fetch(self, statement: Statement[Row], *values: object) -> list[Row]:
        return [*map(statement.make_row, self.execute(statement, *values))]

    def fetch_all(self, *asked: tuple[Statement[Any], Values]) -> list[list[Any]]:
        found = []
        for statement, values in asked:
            found.append([*map(statement.make_row, self.execute(statement, *values))])
        return found

    def execute(self, statement: Statement[Any], *values: object) -> sqlite3.Cursor:
        text, has_list = _translate(statement)
        if has_list:
            values = (*values[:-1], json.dumps(values[-1]))
        return self.connection.execute(text, values)

    def insert(self, table: Table[Row], rows: Sequence[Any]) -> None:
        self.connection.executemany(table.insert, rows)


@cache
def _translate(statement: Statement[Any]) -> tuple[str, bool]:
    """Return a statement in SQLite's words, and whether it takes a list, which it takes as JSON."""
    text = statement.text.removesuffix(" FOR UPDATE")  # Whoever writes is alone.
    listed = text.replace("= ANY(?)", "IN (SELECT value FROM json_each(?))")
    return listed, listed != text


def name_error(error: BaseException) -> KeyholeError | None:
    """Return what an error of the driver is to us, None if it is none of the database's troubles."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # An extended code has the plain one below.
    if code in _BUSY:
        return BusyError(f"the database is busy ({find_reason(error)}); try again")
    if code in _DAMAGED:
        reason = find_reason(error)
        return DamagedDatabaseError(
            f"the database file is damaged ({reason}); restore it from a backup"
        )
    if getattr(error, "sqlite_errorcode", 0) in _FULL:
        return DatabaseError(
            f"the disk of the database is full ({find_reason(error)}): nothing was changed; make room, "
            "and the service goes on by itself"
        )
    if isinstance(error, (sqlite3.OperationalError, sqlite3.InterfaceError, sqlite3.InternalError)):
        return DatabaseError(f"the database does not answer ({find_reason(error)}); try again")
    return None


def _close_whole(connection: sqlite3.Connection) -> None:
    """Bring the log into the file and let its header say so, unless others use it or the disk is full.

    Outside WAL mode nothing belongs beside the file: that is how a copy is known to be whole.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA journal_mode=DELETE")


def _check_log(path: Path) -> bool:
    """Return whether the log of a file is missing; raise if the one beside it is of another file."""
    log = Path(f"{path}-wal")
    # Looked at before and after: somebody may just be opening or closing the database.
    before, mode, after = _find_size(log), _read_mode(path), _find_size(log)
    if mode == _ROLLBACK_MODE and before and after:
        raise DatabaseError(
            f"{log} does not belong to {path}, which is a copy or was closed in order and holds all "
            f"its rounds; move {log.name} and {path.name}-shm away, and start again"
        )
    return mode == _WAL_MODE and before is None and after is None


def _find_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


_ROLLBACK_MODE, _WAL_MODE = 1, 2


def _read_mode(path: Path) -> int:
    """Return the mode in which a file was last written, 0 if it is no database."""
    try:
        with path.open("rb") as opened:
            header = opened.read(_HEADER_SIZE)
    except OSError:
        return 0
    return header[18] if len(header) == _HEADER_SIZE else 0


def find_file(path: Path) -> None:
    if not path.is_file():
        raise DatabaseError(f"there is no database file {path}; check --database")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_HEADER_SIZE = 100
_RESTORE = "restore it (see keyhole backup)"
_LOOKS, _SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_TRIES = 100, 0.1, 1.0


class DatabaseFile:
    """A file as it was when it was opened.

    SQLite goes on working in a file that has no name any more: what it writes there is lost. The same
    is true of the write-ahead log beside it, which is there for as long as a connection is open.
    """

    def __init__(self, path: Path, bring_in_log: Callable[[], bool] = lambda: True) -> None:
        self._path, self._log = path, Path(f"{path}-wal")
        self._bring_in_log, self._tried = bring_in_log, -math.inf
        self._opened = [(path, _identify(path.stat()))]  # and its log
        self._seen: tuple[int, int] | None = None
        # Opened once: when a process closes any handle to a file, the system takes away all its locks
        # there, SQLite's too, and the next to close the database would remove the log in use.
        self._handle = os.open(path, os.O_RDONLY)
        if self._log.is_file():
            self._opened.append((self._log, _identify(self._log.stat())))

    def check(self) -> None:
        """Raise if the file or its log is not the one that was opened, or the file was cut short."""
        found = self._find(self._opened)
        # Changes go into the write-ahead log; the file itself changes only now and then.
        seen = (found.st_size, found.st_mtime_ns)
        if seen != self._seen and self._check_length():
            self._seen = seen

    def is_in_place(self) -> bool:
        """Return whether the file that was opened has its name still, whatever became of its log."""
        try:
            self._find(self._opened[:1])
        except LostDatabaseError:
            return False
        return True

    def close(self) -> None:
        """Close the file, which no connection may use any more."""
        os.close(self._handle)

    def _find(self, opened: Sequence[tuple[Path, tuple[int, int]]]) -> os.stat_result:
        """Return what is known of the first of these files; raise if one is not what was opened."""
        found = list[os.stat_result]()
        for path, identity in opened:
            try:
                found.append(os.stat(path))  # noqa: PTH116 - half the price of Path.stat
            except FileNotFoundError:
                raise self._lost("was deleted", path) from None
            if (found[-1].st_dev, found[-1].st_ino) != identity:
                raise self._lost("was replaced by another", path)
        return found[0]

    def _check_length(self) -> bool:
        """Return whether the file is as long as its own header says, or raise if it was cut short.

        The header is written first: on a full disk the rest waits in the log until there is room.
        """
        for _ in range(_LOOKS):
            if self._is_whole():
                return True
            if time.monotonic() - self._tried < _SECONDS_BETWEEN_TRIES:
                return False
            if not self._bring_in_log():
                self._tried = time.monotonic()
                return False
            # It may be growing just now, by a process that is slow.
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise self._lost("was cut short")

    def _is_whole(self) -> bool:
        header = os.pread(self._handle, _HEADER_SIZE, 0)
        length = os.fstat(self._handle).st_size
        size = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        # The largest size does not fit into its two bytes, and is written as 1.
        return len(header) == _HEADER_SIZE and pages * (65_536 if size == 1 else size) <= length

    def _lost(self, what: str, path: Path | None = None) -> LostDatabaseError:
        # The log is read once more when the last connection to it closes.
        remedy = "see with keyhole verify what is there" if path == self._log else _RESTORE
        return LostDatabaseError(
            f"the database file {path or self._path} {what} while the service used it; nothing is "
            f"written any more: {remedy}, and start again"
        )


def _identify(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
