"""Transactions on the tables: those that read, those that write, and those that every request makes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sql

from keyhole.errors import DatabaseError, MissingExtraError
from keyhole.service.store.sql import migrations, schema
from keyhole.service.store.sql.engines import (
    Timeouts,
    find_file,
    find_reason,
    keep_private,
    make_engines,
    parse_url,
)
from keyhole.service.store.sql.file import DatabaseFile
from keyhole.service.store.sql.server_transactions import ServerTransactions
from keyhole.service.store.sql.transactions import FileTransactions, named_errors, take_turn

_PREPARE_LOCK = 7203665


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
        Whether to take it as it is: nothing is made, carried over or changed.
    """

    def __init__(self, url: str, *, timeouts: Timeouts | None = None, read_only: bool = False) -> None:
        parsed = parse_url(url)
        self.timeouts = Timeouts() if timeouts is None else timeouts
        self.is_file = parsed.get_backend_name() == "sqlite"
        self._turn = threading.Lock()
        self._file: DatabaseFile | None = None
        if self.is_file:
            parsed = find_file(parsed) if read_only else parsed
        try:
            self._reader, self._writer, self._changer, self._prober = make_engines(
                parsed, self.timeouts, read_only=read_only
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"PostgreSQL needs {error.name}; pip install 'keyhole-conformal[postgres]'"
            ) from None
        self._transactions = (
            FileTransactions(self._changer, self._turn, seconds=self.timeouts.lock)
            if self.is_file
            else ServerTransactions(self._changer)
        )
        # Give what ``write`` gives, by the driver alone: for what every request does.
        self.change = self._transactions.begin
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
                f"cannot open the database {shown}: {find_reason(error.orig)}; check that it is there, "
                "reachable and writable"
            ) from None
        except BaseException:
            self.close()
            raise

    def _prepare(self, url: sql.URL) -> None:
        if self.is_file:
            keep_private(url)
        with self._write() as connection:
            if not self.is_file:
                connection.execute(sql.text(f"SELECT pg_advisory_xact_lock({_PREPARE_LOCK})"))
            migrations.prepare(connection)
        named = url.database is not None and not url.database.startswith("file:")
        if named and isinstance(self._transactions, FileTransactions):
            self._finish_checkpoint()
            self._file = DatabaseFile(Path(str(url.database)))
            self._transactions.check_file = self._file.check

    @contextmanager
    def read(self) -> Iterator[sql.Connection]:
        """Give a connection that sees the tables and changes nothing."""
        self.check_file()
        with named_errors(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sql.Connection]:
        """Give a connection whose changes are durable, all or none, once the block is left."""
        with named_errors(), self._write() as connection:
            yield connection
        self.check_file()  # What went into a file that is gone is not to be acknowledged.

    def check_file(self) -> None:
        """Raise if the file of the database was deleted, replaced or cut short while it is open."""
        if self._file is not None:
            self._file.check()

    def _finish_checkpoint(self) -> None:
        """Bring into the file what its log holds.

        Whoever was killed in the middle of that has left a header that is ahead of its file. Nothing is
        lost, but it looks like a file that was cut short.
        """
        with self._reader.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def _write(self) -> Iterator[sql.Connection]:
        if not self.is_file:
            with self._writer.begin() as connection:
                yield connection
            return
        with take_turn(self._turn, self.timeouts.lock), self._writer.begin() as connection:
            yield connection

    def try_write(self) -> None:
        """Raise unless the database takes a write now, by a connection that waits for no other."""
        self.check_file()
        with named_errors(), self._prober.begin() as connection:
            # What stays the same SQLite does not write: there, and back again.
            for step in (1, -1):
                connection.execute(schema.meta.update().values(version=schema.meta.c.version + step))

    def close(self) -> None:
        """Close every connection."""
        self._transactions.close()
        for engine in (self._reader, self._writer, self._changer, self._prober):
            engine.dispose()
        if self._file is not None:
            self._file.close()
            self._file = None
