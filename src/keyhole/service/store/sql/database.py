"""The database of a service: transactions on its tables, whatever kind it is of."""

import re
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

from keyhole.errors import BusyError, DatabaseError, KeyholeWarning, MissingExtraError, warn_user
from keyhole.service.store.sql import sqlite, statements
from keyhole.service.store.sql.backend import (
    Backend,
    Statement,
    Timeouts,
    Transaction,
    find_reason,
    read_scalar,
)
from keyhole.service.store.sql.schema import TABLES, VERSION, MetaRow, define, meta

_SQLITE = re.compile(r"sqlite(?:\+pysqlite)?:///([^?]+)")
_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://(.*)")
_PASSWORD = re.compile(r"(://[^:/@]*:).*(?=@)")
MISSING_LOG = (
    "was not closed in order, and its write-ahead log (-wal) is not beside it: the newest rounds may "
    "be missing; copy both files, or make copies with keyhole backup"
)
_REMEDY = "use sqlite:///keyhole.db (a file) or postgresql://user:password@host/name"


class Database:
    """Transactions on the tables: many that read, and one at a time that writes a stream.

    Whatever the database refuses for now is raised as ``DatabaseError``; if it is only busy, as
    ``BusyError``. Nothing was changed then, and the same may be asked again.

    Parameters
    ----------
    url
        ``sqlite:///path`` (one file, in WAL mode) or ``postgresql://user:password@host/name``.
    timeouts
        How long to wait for it.
    read_only
        Whether to take it as it is: nothing is made or changed.
    must_exist
        Whether a file that is not there is an error; else it is made.
    """

    def __init__(
        self,
        url: str,
        *,
        timeouts: Timeouts | None = None,
        read_only: bool = False,
        must_exist: bool = False,
    ) -> None:
        self.timeouts = Timeouts() if timeouts is None else timeouts
        self.backend = _open_backend(url, self.timeouts, read_only=read_only, must_exist=must_exist)
        self.check_file = self.backend.check
        found = _SQLITE.fullmatch(url)
        self.file = Path(found[1]) if found else None
        # Where the first token is kept: beside the file, or where the service works.
        self.token_file = Path(f"{self.file}.token" if self.file else "keyhole.token")
        self.must_scrub = False  # whether what was deleted may be readable in the file still
        # Give a transaction that sees the tables as of one moment, and changes nothing.
        self.read = self.backend.read
        # Give one whose changes are durable, all or none, once the block is left.
        self.write = self.backend.write
        if self.backend.lacks_log:
            warn_user(f"{url.rpartition('///')[2]} {MISSING_LOG}", KeyholeWarning)
        try:
            self._check(url) if read_only else self._prepare()
        except (BusyError, DatabaseError) as error:
            self.close()
            if error.__cause__ is None:  # It is ours, and says what is wrong.
                raise
            raise DatabaseError(
                f"cannot open the database {_hide_password(url)}: {find_reason(error.__cause__)}; "
                "check that it is there, reachable and writable"
            ) from None
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with self.write() as transaction:
            self.lock_schema(transaction)
            if self._has_tables(transaction):
                _check_version(transaction)
            else:
                for text in chain.from_iterable(define(one, self.backend.words) for one in TABLES):
                    transaction.execute(Statement(text, read_scalar))
                transaction.insert(meta, [MetaRow(VERSION)])
        self.backend.start()

    def _check(self, url: str) -> None:
        with self.read() as transaction:
            if not self._has_tables(transaction):
                raise DatabaseError(
                    f"{_hide_password(url)} holds no streams: it has no tables of Keyhole's; make "
                    "copies with keyhole backup"
                )
            _check_version(transaction)

    def lock_schema(self, transaction: Transaction) -> None:
        """Let nobody else look for tables, or make them, until the transaction ends."""
        transaction.fetch(Statement(self.backend.words.lock_schema, read_scalar))

    def _has_tables(self, transaction: Transaction) -> bool:
        return bool(transaction.fetch(Statement(self.backend.words.find_meta, read_scalar)))

    def try_write(self) -> None:
        """Raise unless the database takes a write now, by a connection that waits for no other."""
        with self.backend.probe() as transaction:
            # What stays the same SQLite does not write: there, and back again.
            for step in (1, -1):
                transaction.execute(statements.STEP_VERSION, step)

    def scrub(self) -> None:
        """Let what was deleted be unreadable, now or as soon as nobody reads what was before."""
        self.must_scrub = True
        with suppress(BusyError):  # It is deleted, and this is tried again.
            self.must_scrub = not self.backend.scrub()

    def copy_to(self, path: Path) -> tuple[int, int]:
        """Put a copy at a path, readable by its owner alone; return how many streams and rounds it has.

        A copy of the file by other means would miss what is still in SQLite's write-ahead log. Until
        the copy is whole, what was at the path before stays.
        """
        self.backend.copy_to(path)
        copied = sqlite.SqliteBackend(path, timeouts=self.timeouts, read_only=True)
        with closing(copied), copied.read() as transaction:
            (streams,) = transaction.fetch(statements.COUNT_STREAMS)
            (rounds,) = transaction.fetch(statements.COUNT_ROUNDS)
        return streams, rounds

    def close(self) -> None:
        self.backend.close()


def _open_backend(url: str, timeouts: Timeouts, *, read_only: bool, must_exist: bool) -> Backend:
    if (match := _SQLITE.fullmatch(url)) and match[1] != ":memory:":
        if must_exist:
            sqlite.find_file(Path(match[1]))
        return sqlite.SqliteBackend(Path(match[1]), timeouts=timeouts, read_only=read_only)
    if match := _POSTGRES.fullmatch(url):
        try:
            from keyhole.service.store.sql.postgres import PostgresBackend
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"PostgreSQL needs {error.name}; pip install 'keyhole-conformal[postgres]'"
            ) from None
        return PostgresBackend(f"postgresql://{match[1]}", timeouts=timeouts, read_only=read_only)
    kind = "cannot hold streams" if "://" in url else "is not a database URL"
    raise DatabaseError(f"{_hide_password(url)!r} {kind}; {_REMEDY}")


def _hide_password(url: str) -> str:
    return _PASSWORD.sub(r"\1***", url)


def _check_version(transaction: Transaction) -> None:
    rows = transaction.fetch(statements.READ_VERSION)
    if len(rows) != 1:
        raise DatabaseError(
            f"the table meta has {len(rows)} rows where there is one version of the schema: it was "
            "changed by other means; restore a backup"
        )
    found = rows[0]
    if found > VERSION:
        raise DatabaseError(
            f"the database has schema version {found}, this Keyhole knows up to {VERSION}; "
            "upgrade keyhole-conformal"
        )
    if found < VERSION:
        raise DatabaseError(
            f"the database was written by an older Keyhole (schema version {found}, now {VERSION}) and "
            "is not carried over; begin with a new one"
        )
