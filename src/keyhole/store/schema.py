"""The tables, their version, and how an older database becomes one of this version.

``streams`` holds what each stream is and where it stands; ``rounds`` and ``feedback`` are its log,
only ever added to; ``open`` holds what a round must remember until its answer comes; ``marks`` are
snapshots of a stream every so many answers.
"""

from collections.abc import Callable, Mapping

import sqlalchemy as sql
from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, LargeBinary, Text

from keyhole.errors import NewerStoreError

VERSION = 1
tables = sql.MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what it calls INTEGER.

meta = sql.Table("meta", tables, Column("version", Integer, nullable=False))

streams = sql.Table(
    "streams",
    tables,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("blueprint", Text, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("archived", Float(53)),
    Column("version", BigInteger, nullable=False),
    Column("predicted", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("misses", BigInteger, nullable=False),
    Column("size", Float(53), nullable=False),
    Column("expired", BigInteger, nullable=False),
    Column("bound_broken", BigInteger, nullable=False),
    Column("sweep", Float(53), nullable=False),
    Column("recent", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

rounds = sql.Table(
    "rounds",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("threshold", Float(53), nullable=False),
    Column("size", Float(53), nullable=False),
    Column("output", LargeBinary, nullable=False),
    Column("labels", Text),
    Column("key", Text),
    sqlite_with_rowid=False,
)
sql.Index(
    "rounds_key",
    rounds.c.stream,
    rounds.c.key,
    unique=True,
    sqlite_where=rounds.c.key.is_not(None),
    postgresql_where=rounds.c.key.is_not(None),
)

feedback = sql.Table(
    "feedback",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("answer", Text, nullable=False),
    Column("missed", Boolean, nullable=False),
    Column("score", Float(53)),
    Column("size", Float(53), nullable=False),
    sql.UniqueConstraint("stream", "number"),
    sqlite_with_rowid=False,
)

open_rounds = sql.Table(
    "open",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("expires", Float(53), nullable=False),
    Column("memo", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

marks = sql.Table(
    "marks",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("misses", BigInteger, nullable=False),
    Column("size", Float(53), nullable=False),
    Column("state", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

tokens = sql.Table(
    "tokens",
    tables,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("revoked", Float(53)),
)

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
    found = connection.execute(sql.select(meta.c.version)).scalar_one()
    if found > version:
        raise NewerStoreError(
            f"the database has schema version {found}, this Keyhole knows up to {version}; "
            "upgrade keyhole"
        )
    for step in range(found, version):
        migrations[step](connection)
    if found < version:
        connection.execute(meta.update().values(version=version))
