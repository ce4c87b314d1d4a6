"""Connections to the tables: in one SQLite file, or in a PostgreSQL that several processes share.

And what their drivers say when something is wrong, in our words.
"""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql

from keyhole.errors import BusyError, DatabaseError, KeyholeError

_OWNER_ALONE = 0o600
_HOUR = 3600.0


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


def parse_url(url: str) -> sql.URL:
    """Return where the tables are, or raise."""
    try:
        parsed = sql.make_url(url)
    except sql.exc.ArgumentError:
        raise DatabaseError(f"{url!r} is not a database URL; {_REMEDY}") from None
    match parsed.get_backend_name():
        case "sqlite" if parsed.database not in (None, "", ":memory:"):
            return parsed
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg")
    raise DatabaseError(f"{parsed.render_as_string()!r} cannot hold streams; {_REMEDY}")


_REMEDY = "use sqlite:///keyhole.db (a file) or postgresql://user:password@host/name"


def make_engines(
    url: sql.URL, timeouts: Timeouts, *, read_only: bool
) -> tuple[sql.Engine, sql.Engine, sql.Engine, sql.Engine]:
    """Return what reads, what writes, what changes streams, and what tries whether it can be done."""
    if url.get_backend_name() == "sqlite":
        pragmas = () if read_only else _PRAGMAS
        reader = _sqlite(url, "BEGIN", seconds=timeouts.lock, pragmas=pragmas)
        writer = _sqlite(url, "BEGIN IMMEDIATE", seconds=timeouts.lock, pragmas=pragmas)
        prober = _sqlite(url, "BEGIN IMMEDIATE", seconds=timeouts.probe, pragmas=pragmas)
        return reader, writer, writer, prober
    return _server(url, timeouts)


def _server(url: sql.URL, timeouts: Timeouts) -> tuple[sql.Engine, sql.Engine, sql.Engine, sql.Engine]:
    from keyhole.service.store.sql.server_connection import limit_waiting

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # What breaks is raised, and said once.
    usual = _connect_arguments(timeouts, lock=timeouts.lock, statement=timeouts.statement)
    pool = {"pool_size": 16, "max_overflow": 16, "pool_timeout": timeouts.lock}
    writer = sql.create_engine(url, **pool, connect_args=usual)
    # Its transactions are begun and ended by statements, which go with the others. They find rows by
    # their keys: a plan made while a table was small, and kept, must not read the whole of it.
    changer = sql.create_engine(
        url,
        **pool,
        pool_reset_on_return=None,
        connect_args={**usual, "options": f"{usual['options']} -c enable_seqscan=off"},
        isolation_level="AUTOCOMMIT",
        paramstyle="format",
    )
    prober = sql.create_engine(
        url,
        poolclass=sql.NullPool,
        connect_args=_connect_arguments(timeouts, lock=timeouts.probe, statement=timeouts.probe),
    )
    for engine, statement in (
        (writer, timeouts.statement),
        (changer, timeouts.statement),
        (prober, timeouts.probe),
    ):
        limit_waiting(engine, find_limit(timeouts, statement))
    return writer.execution_options(isolation_level="REPEATABLE READ"), writer, changer, prober


def find_limit(timeouts: Timeouts, statement: float) -> float:
    """Return after how many seconds a server that says nothing is given up.

    It is more than the server itself lets a statement take, which it would say.
    """
    return timeouts.lock + (statement or _HOUR)


def _connect_arguments(timeouts: Timeouts, *, lock: float, statement: float) -> dict[str, Any]:
    settings = {"lock_timeout": lock, "statement_timeout": statement}
    options = " ".join(f"-c {name}={round(seconds * 1000)}" for name, seconds in settings.items())
    # A server behind a cable that was cut is given up by the kernel; one that is frozen is not, as its
    # kernel goes on answering, but by ``server_connection``.
    most = round(1000 * find_limit(timeouts, statement))
    return {
        "options": options,
        # Statements are written out here, values and all: both ends must read their bytes alike.
        "client_encoding": "utf8",
        "connect_timeout": max(2, round(timeouts.connect)),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": most,
    }


_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


def _sqlite(url: sql.URL, begin: str, *, seconds: float, pragmas: Sequence[str]) -> sql.Engine:
    engine = sql.create_engine(url, connect_args={"timeout": seconds})

    @sql.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # Otherwise the driver begins transactions by itself.
        connection.text_factory = _read_text
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @sql.event.listens_for(engine, "begin")
    def _begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _read_text(content: bytes) -> str:
    """Return text, whatever its bytes are: a row that holds none spoils itself, not the others."""
    return content.decode(errors="backslashreplace")


def keep_private(url: sql.URL) -> None:
    """Make the file, if it is not there, readable by its owner alone; SQLite's others follow it."""
    if url.database is not None and not url.database.startswith("file:"):
        with suppress(OSError):  # Whatever is wrong with the path, SQLite will say.
            Path(url.database).touch(mode=_OWNER_ALONE)


def find_file(url: sql.URL) -> sql.URL:
    """Return the URL that opens the file, which must be there, for reading alone."""
    path = Path(str(url.database))
    if not path.is_file():
        raise DatabaseError(f"there is no database file {path}; check --database")
    return url.set(database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_AWAY = {"OperationalError", "InterfaceError", "InternalError"}  # as every driver calls them
# Lock not available, query cancelled by its timeout, deadlock, serialisation failure.
_BUSY_STATES = ("55P03", "57014", "40P01", "40001")


def name_error(error: BaseException | None) -> KeyholeError | None:
    """Return what a driver's error is to us, None if it is none of the database's troubles."""
    reason = find_reason(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # PostgreSQL's errors have none.
    busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if busy or getattr(error, "sqlstate", None) in _BUSY_STATES:
        return BusyError(f"the database is busy ({reason}); try again")
    if code in _DAMAGED:
        return DatabaseError(f"the database file is damaged ({reason}); restore it from a backup")
    if _AWAY & {kind.__name__ for kind in type(error).__mro__}:
        return DatabaseError(f"the database does not answer ({reason}); try again")
    return None


def find_reason(error: BaseException | None) -> str:
    """Return the first line of what a driver says."""
    return (str(error).strip().splitlines() or ["no reason given"])[0]
