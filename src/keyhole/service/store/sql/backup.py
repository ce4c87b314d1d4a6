"""A copy of a database that is in use, whole and as of one moment."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sql

from keyhole.errors import DatabaseError
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import rounds, streams


def copy(database: Database, path: Path) -> tuple[int, int]:
    """Put a copy at the path, readable by its owner alone; return how many streams and rounds it has.

    A copy of the file by other means would miss what is still in SQLite's write-ahead log. Until the
    copy is whole, what was at the path before stays.
    """
    if not database.is_file:
        raise DatabaseError(
            "keyhole backup copies SQLite files; of PostgreSQL make copies with "
            "pg_dump --format=custom --file=FILE, and restore them with pg_restore"
        )
    _check_other(database, path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with database.read() as connection:
            source = connection.connection.driver_connection
            with closing(sqlite3.connect(aside)) as target:
                source.backup(target)  # type: ignore[union-attr]
                target.execute("PRAGMA journal_mode=DELETE")  # One file, and nothing beside it.
            counts = [
                connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one()
                for table in (streams, rounds)
            ]
        _sync(aside)
        aside.replace(path)
        _sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)
    return counts[0], counts[1]


def _check_other(database: Database, path: Path) -> None:
    """Raise if the copy would take the place of the database that it is made of."""
    with database.read() as connection:
        source = connection.exec_driver_sql("PRAGMA database_list").one().file
    if path.exists() and path.samefile(source):
        raise DatabaseError(f"{path} is the database itself; give the copy a file of its own")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
