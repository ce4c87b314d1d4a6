"""How a database comes to have the tables of this version."""

from collections.abc import Callable, Mapping

import sqlalchemy as sql

from keyhole.errors import DatabaseError
from keyhole.service.store.sql.schema import VERSION, meta, tables

Migration = Callable[[sql.Connection], None]
MIGRATIONS: Mapping[int, Migration] = {}  # From this version to the next.


def prepare(
    connection: sql.Connection,
    *,
    version: int = VERSION,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> None:
    """Make the tables, or bring those that are there to this version, or raise if they are newer."""
    if not sql.inspect(connection).has_table(meta.name):
        tables.create_all(connection)
        connection.execute(meta.insert().values(version=version))
        return
    found = _read_version(connection, newest=version)
    for step in range(found, version):
        migrations[step](connection)
        connection.execute(meta.update().values(version=step + 1))


def check(connection: sql.Connection, name: str) -> None:
    """Raise unless the tables are there and of this version."""
    if not sql.inspect(connection).has_table(meta.name):
        raise DatabaseError(
            f"{name} holds no streams: it has no tables of Keyhole's; make copies with keyhole backup"
        )
    found = _read_version(connection, newest=VERSION)
    if found < VERSION:
        raise DatabaseError(
            f"{name} was written by an older Keyhole; open it once with keyhole serve, which carries "
            "it over, and keep a copy"
        )


def _read_version(connection: sql.Connection, *, newest: int) -> int:
    found = int(connection.execute(sql.select(meta.c.version)).scalar_one())
    if found > newest:
        raise DatabaseError(
            f"the database has schema version {found}, this Keyhole knows up to {newest}; "
            "upgrade keyhole-conformal"
        )
    return found
