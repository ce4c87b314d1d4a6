"""The tables, and their version.

``streams`` holds what each stream is and where it stands; ``rounds``, ``feedback`` and ``changes`` are
its log, only ever added to, each row linked to the one before (see ``chain``); ``open`` holds what a
round must remember until its answer comes; ``marks`` are snapshots of a stream every so many answers;
``alarms`` say when its misses were too many or too few.

A table or column that is new here is also filled in by ``migrations``.
"""

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, Text

from keyhole.predictor.tally import Sums

VERSION = 2
tables = sql.MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what it calls INTEGER.

meta = sql.Table("meta", tables, Column("version", Integer, nullable=False))

streams = sql.Table(
    "streams",
    tables,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("setup", Text, nullable=False),
    Column("lifetime", Float(53), nullable=False),
    Column("window", BigInteger, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("archived", Float(53)),
    Column("description", Text),
    Column("version", BigInteger, nullable=False),
    Column("progress", LargeBinary, nullable=False),
    Column("sweep", Float(53), nullable=False),
    Column("recent", LargeBinary, nullable=False),
    Column("link", LargeBinary, nullable=False),
    Column("fault", Text),
    sqlite_autoincrement=True,  # A new stream must not answer to the ids of one that was deleted.
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
    Column("context", LargeBinary),
    Column("metadata", Text),
    Column("link", LargeBinary, nullable=False),
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
    Column("miss", Float(53)),  # None where the round was skipped
    Column("weight", Float(53), nullable=False),  # how many rounds the answer counts for
    Column("score", Float(53)),
    Column("size", Float(53), nullable=False),
    Column("link", LargeBinary, nullable=False),
    sql.UniqueConstraint("stream", "number"),
    sqlite_with_rowid=False,
)

changes = sql.Table(
    "changes",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("progress", LargeBinary),
    Column("link", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

open_rounds = sql.Table(
    "open",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("expires", Float(53), nullable=False),
    Column("then", BigInteger, nullable=False),
    Column("memo", LargeBinary, nullable=False),
    # With row ids, unlike the others: a memo may take a kilobyte and more, and without them every row
    # of more than a quarter of a page takes one of its own.
)

marks = sql.Table(
    "marks",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("misses", Float(53), nullable=False),
    Column("weight", Float(53), nullable=False),
    Column("size", Float(53), nullable=False),
    Column("bounded", BigInteger, nullable=False),
    Column("predicted", BigInteger, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("progress", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

sql.Index("marks_answered", marks.c.stream, marks.c.answered, unique=True)

alarms = sql.Table(
    "alarms",
    tables,
    Column("stream", _Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("raised", BigInteger, primary_key=True, autoincrement=False),  # at which answer, from 1
    Column("raised_at", Float(53), nullable=False),
    Column("kind", Integer, nullable=False),  # 1 for too many misses, -1 for too few
    Column("since", BigInteger, nullable=False),
    Column("since_at", Float(53), nullable=False),
    Column("cleared", BigInteger),
    Column("cleared_at", Float(53)),
    sqlite_with_rowid=False,
)

SUMS = Sums._fields  # of a tally, in a mark

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
