"""Where the tables are: one SQLite file, or a PostgreSQL that several processes share."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sql

from keyhole.errors import DatabaseError, MissingExtraError
from keyhole.store import schema

_PREPARE_LOCK = 7203665
_SECONDS_TO_WAIT = 30


class Database:
    """Transactions on the tables: many that read, and one at a time that writes a stream.

    Parameters
    ----------
    url
        ``sqlite:///path`` (one file, in WAL mode) or ``postgresql://user:password@host/name``.
    """

    def __init__(self, url: str) -> None:
        parsed = _parsed(url)
        self._sqlite = parsed.get_backend_name() == "sqlite"
        self._turn: Any = threading.Lock()
        try:
            if self._sqlite:
                self._reader, self._writer = (
                    _sqlite(parsed, "BEGIN"),
                    _sqlite(parsed, "BEGIN IMMEDIATE"),
                )
            else:
                self._writer = sql.create_engine(parsed, pool_size=16, max_overflow=32)
                self._reader = self._writer.execution_options(isolation_level="REPEATABLE READ")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"PostgreSQL needs {error.name}; pip install 'keyhole[postgres]'"
            ) from None
        self._prepare(parsed)

    def _prepare(self, url: sql.URL) -> None:
        try:
            with self.write() as connection:
                if not self._sqlite:
                    connection.execute(sql.text(f"SELECT pg_advisory_xact_lock({_PREPARE_LOCK})"))
                schema.prepare(connection)
        except sql.exc.DatabaseError as error:
            raise DatabaseError(
                f"cannot open the database {url.render_as_string()}: {_reason(error)}; "
                "check that it is there, reachable and writable"
            ) from None
        except DatabaseError:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sql.Connection]:
        """Give a connection that sees the tables and changes nothing."""
        with self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sql.Connection]:
        """Give a connection whose changes are durable, all or none, once the block is left."""
        if not self._sqlite:
            with self._writer.begin() as connection:
                yield connection
            return
        # Threads of one process take turns here: SQLite's own waiting is by sleeping and retrying.
        with self._turn, self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._writer.dispose()


def append(connection: sql.Connection, table: sql.Table, rows: list[dict[str, Any]]) -> None:
    """Add rows; one alone takes the driver's shorter way."""
    connection.execute(_INSERTS[table.name], rows if len(rows) > 1 else rows[0])


_INSERTS = {table.name: table.insert() for table in schema.tables.sorted_tables}


def _parsed(url: str) -> sql.URL:
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


def _sqlite(url: sql.URL, begin: str) -> sql.Engine:
    engine = sql.create_engine(url, connect_args={"timeout": _SECONDS_TO_WAIT})

    @sql.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # Otherwise the driver begins transactions by itself.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sql.event.listens_for(engine, "begin")
    def _begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _reason(error: sql.exc.DatabaseError) -> str:
    return str(error.orig).strip().splitlines()[0]
