"""Where the tables are: one SQLite file, or a PostgreSQL that several processes share."""

import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql

from keyhole.errors import BusyError, DatabaseError, KeyholeError, MissingExtraError
from keyhole.service.store import migrations, schema
from keyhole.service.store.direct import Connection, Direct
from keyhole.service.store.file import DatabaseFile

_PREPARE_LOCK = 7203665
_OWNER_ALONE = 0o600


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds to wait: for a lock or a connection of ours, for a statement, for the server.

    ``statement`` holds on PostgreSQL, and 0 waits as long as it takes; SQLite knows no such limit.
    """

    lock: float = 5.0
    statement: float = 30.0
    connect: float = 5.0
    probe: float = 1.0


class Database:
    """Transactions on the tables: many that read, and one at a time that writes a stream.

    Whatever the database refuses for now is raised as ``DatabaseError``; if it is only busy, as
    ``BusyError``. Nothing was changed then, and the same may be asked again.

    Parameters
    ----------
    url
        ``sqlite:///path`` (one file, in WAL mode) or ``postgresql://user:password@host/name``.
    patience
        How long to wait for it.
    read_only
        Whether to take it as it is: nothing is made, carried over or changed.
    """

    def __init__(self, url: str, *, patience: Patience | None = None, read_only: bool = False) -> None:
        parsed = _parsed(url)
        self.patience = Patience() if patience is None else patience
        self.is_file = parsed.get_backend_name() == "sqlite"
        self._turn = threading.Lock()
        self._file: DatabaseFile | None = None
        self._direct: sql.PoolProxiedConnection | None = None
        if self.is_file:
            parsed = _find_file(parsed) if read_only else parsed
        try:
            self._reader, self._writer, self._changer, self._prober = _engines(
                parsed, self.patience, read_only=read_only
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"PostgreSQL needs {error.name}; pip install 'keyhole-conformal[postgres]'"
            ) from None
        self._open(parsed, read_only=read_only)

    def _open(self, url: sql.URL, *, read_only: bool) -> None:
        shown = url.render_as_string()
        try:
            if read_only:
                with self._reader.connect() as connection:
                    migrations.check(connection, shown)
            else:
                self._prepare(url)
        except sql.exc.DatabaseError as error:
            self.close()
            raise DatabaseError(
                f"cannot open the database {shown}: {_reason(error.orig)}; check that it is there, "
                "reachable and writable"
            ) from None
        except BaseException:
            self.close()
            raise

    def _prepare(self, url: sql.URL) -> None:
        if self.is_file:
            _keep_private(url)
        with self._write() as connection:
            if not self.is_file:
                connection.execute(sql.text(f"SELECT pg_advisory_xact_lock({_PREPARE_LOCK})"))
            migrations.prepare(connection)
        if self.is_file and url.database is not None and not url.database.startswith("file:"):
            self._file = DatabaseFile(Path(url.database))

    @contextmanager
    def read(self) -> Iterator[sql.Connection]:
        """Give a connection that sees the tables and changes nothing."""
        self.check_file()
        with _named_errors(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sql.Connection]:
        """Give a connection whose changes are durable, all or none, once the block is left."""
        with _named_errors(), self._write() as connection:
            yield connection
        self.check_file()  # What went into a file that is gone is not to be acknowledged.

    @contextmanager
    def change(self) -> Iterator[Direct]:
        """Give what ``write`` gives, by the driver alone: for what every request does."""
        with _named_errors(), self._change() as connection:
            yield connection
        self.check_file()

    @contextmanager
    def _change(self) -> Iterator[Direct]:
        if not self.is_file:
            with self._change_server() as connection:
                yield connection
            return
        with self._take_turn():
            if self._direct is None:
                self._direct = self._writer.raw_connection()
            file: Any = self._direct.driver_connection
            file.execute("BEGIN IMMEDIATE")
            try:
                yield Direct(file, self._writer.dialect)
                file.execute("COMMIT")
            except BaseException:
                if file.in_transaction:
                    file.execute("ROLLBACK")
                raise

    @contextmanager
    def _change_server(self) -> Iterator[Direct]:
        from psycopg import ClientCursor

        held = self._changer.raw_connection()
        server: Any = held.driver_connection
        try:
            direct = Direct(server, self._changer.dialect, writer=ClientCursor(server))
            yield direct
            direct.send("COMMIT")
        except BaseException:
            if not server.closed:
                server.execute("ROLLBACK")
            if server.closed:
                held.invalidate()
                self._changer.dispose()  # The others of its age are gone as well.
            raise
        finally:
            held.close()

    def check_file(self) -> None:
        """Raise if the file of the database was deleted, replaced or cut short while it is open."""
        if self._file is not None:
            self._file.check()

    @contextmanager
    def _write(self) -> Iterator[sql.Connection]:
        if not self.is_file:
            with self._writer.begin() as connection:
                yield connection
            return
        with self._take_turn(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        # Threads of one process take turns here: SQLite's own waiting is by sleeping and retrying.
        if not self._turn.acquire(timeout=self.patience.lock):
            raise BusyError(f"no turn to write within {self.patience.lock:g} seconds; try again")
        try:
            yield
        finally:
            self._turn.release()

    def try_write(self) -> None:
        """Raise unless the database takes a write now, by a connection that waits for no other."""
        self.check_file()
        with _named_errors(), self._prober.begin() as connection:
            # What stays the same SQLite does not write: there, and back again.
            for step in (1, -1):
                connection.execute(schema.meta.update().values(version=schema.meta.c.version + step))

    def close(self) -> None:
        """Close every connection."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        for engine in (self._reader, self._writer, self._changer, self._prober):
            engine.dispose()
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def _named_errors() -> Iterator[None]:
    """Raise what the driver says of a database that is away or busy as errors of ours."""
    try:
        yield
    except sql.exc.TimeoutError:
        raise BusyError("every connection to the database is in use; try again") from None
    except KeyholeError:
        raise
    except Exception as error:
        named = _name_error(error.orig if isinstance(error, sql.exc.DBAPIError) else error)
        if named is None:
            raise
        raise named from None


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_AWAY = {"OperationalError", "InterfaceError", "InternalError"}  # as every driver calls them
# Lock not available, query cancelled by its timeout, deadlock, serialisation failure.
_BUSY_STATES = ("55P03", "57014", "40P01", "40001")


def _name_error(error: BaseException | None) -> KeyholeError | None:
    """Return what a driver's error is to us, None if it is none of the database's troubles."""
    reason = _reason(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # It has none where text is no UTF-8.
    busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    if busy or getattr(error, "sqlstate", None) in _BUSY_STATES:
        return BusyError(f"the database is busy ({reason}); try again")
    if code in _DAMAGED:
        return DatabaseError(f"the database file is damaged ({reason}); restore it from a backup")
    if _AWAY & {kind.__name__ for kind in type(error).__mro__}:
        return DatabaseError(f"the database does not answer ({reason}); try again")
    return None


def append(connection: Connection, table: sql.Table, rows: list[dict[str, Any]]) -> None:
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


def _engines(
    url: sql.URL, patience: Patience, *, read_only: bool
) -> tuple[sql.Engine, sql.Engine, sql.Engine, sql.Engine]:
    """Return what reads, what writes, what changes streams, and what tries whether it can be done."""
    if url.get_backend_name() == "sqlite":
        pragmas = () if read_only else _PRAGMAS
        reader = _sqlite(url, "BEGIN", seconds=patience.lock, pragmas=pragmas)
        writer = _sqlite(url, "BEGIN IMMEDIATE", seconds=patience.lock, pragmas=pragmas)
        prober = _sqlite(url, "BEGIN IMMEDIATE", seconds=patience.probe, pragmas=pragmas)
        return reader, writer, writer, prober
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # What breaks is raised, and said once.
    usual = _connect_arguments(patience, lock=patience.lock, statement=patience.statement)
    pool = {"pool_size": 16, "max_overflow": 16, "pool_timeout": patience.lock}
    writer = sql.create_engine(url, **pool, connect_args=usual)
    # Its transactions are begun and ended by statements, which go with the others.
    changer = sql.create_engine(url, **pool, connect_args=usual, isolation_level="AUTOCOMMIT")
    prober = sql.create_engine(
        url,
        poolclass=sql.NullPool,
        connect_args=_connect_arguments(patience, lock=patience.probe, statement=patience.probe),
    )
    return writer.execution_options(isolation_level="REPEATABLE READ"), writer, changer, prober


def _connect_arguments(patience: Patience, *, lock: float, statement: float) -> dict[str, Any]:
    settings = {"lock_timeout": lock, "statement_timeout": statement}
    options = " ".join(f"-c {name}={round(seconds * 1000)}" for name, seconds in settings.items())
    # A server that is frozen, or behind a cable that was cut, is given up by the kernel.
    most = round(1000 * (patience.lock + (statement or 3600.0)))
    return {
        "options": options,
        "connect_timeout": max(2, round(patience.connect)),
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
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @sql.event.listens_for(engine, "begin")
    def _begun(connection: sql.Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _keep_private(url: sql.URL) -> None:
    """Make the file, if it is not there, readable by its owner alone; SQLite's others follow it."""
    if url.database is not None and not url.database.startswith("file:"):
        with suppress(OSError):  # Whatever is wrong with the path, SQLite will say.
            Path(url.database).touch(mode=_OWNER_ALONE, exist_ok=True)


def _find_file(url: sql.URL) -> sql.URL:
    """Return the URL that opens the file, which must be there, for reading alone."""
    path = Path(str(url.database))
    if not path.is_file():
        raise DatabaseError(f"there is no database file {path}; check --database")
    return url.set(database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})


def _reason(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
