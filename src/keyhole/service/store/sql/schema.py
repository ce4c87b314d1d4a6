"""The tables, their columns and their version.

``streams`` holds what each stream is and where it stands; ``rounds``, ``answers``, ``amendments`` and
``changes`` are its log, only ever added to, each row linked to the one before (see ``log.chain``);
``open_rounds`` holds what a round must remember until its answer comes; ``metadata`` finds rounds by
what was sent with them; ``snapshots`` show a stream every so many answers; ``alarms`` say when its
misses were too many or too few.

A row is a named tuple whose fields are the columns of its table: a field that may be None is a column
that may be null.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

from keyhole.predictor.tally import Sums

VERSION = 4


class MetaRow(NamedTuple):
    version: int


class StreamRow(NamedTuple):
    id: int
    name: str
    setup: str  # JSON without the seed, so that streams that are otherwise alike share it
    seed: str  # up to 2**64 - 1: no column of whole numbers holds it
    lifetime: float
    window: int
    created: float
    archived: float | None
    description: str | None
    retargeted: int | None  # how many answers had come when alpha or the learner was last changed
    retention: float | None  # seconds after which the content of rounds is erased
    shadows: str | None  # JSON, where there are any
    version: int
    progress: bytes
    next_expiry: float
    recent: bytes
    link: bytes


class RoundRow(NamedTuple):
    stream: int
    number: int
    format: int
    version: int
    at: float
    threshold: float
    size: float
    output: bytes
    labels: str | None
    key: str | None
    context: bytes | None
    metadata: str | None
    levels: bytes | None = None  # the thresholds of the inner levels, where there are any
    salt: bytes = b""
    digest: bytes | None = None  # what is left of the content once it is erased
    link: bytes = b""


class AnswerRow(NamedTuple):
    stream: int
    version: int
    format: int
    number: int
    at: float
    kind: str  # "label", "hit", "miss", "score", "loss", "right" or "skip"
    answer: str
    miss: float | None  # None where the round was skipped
    weight: float  # how many rounds the answer counts for
    score: float | None
    size: float
    levels: bytes | None = None  # of each inner level its miss and its size
    salt: bytes = b""
    digest: bytes | None = None
    link: bytes = b""


class AmendmentRow(NamedTuple):
    """What an answer turned out to be: its columns are those of the answer, but for the size."""

    stream: int
    version: int
    format: int
    number: int
    at: float
    kind: str
    answer: str
    miss: float
    weight: float
    score: float | None
    levels: bytes | None = None
    salt: bytes = b""
    digest: bytes | None = None
    link: bytes = b""


class ChangeRow(NamedTuple):
    stream: int
    version: int
    format: int
    at: float
    kind: str
    content: str
    progress: bytes | None
    link: bytes = b""


class OpenRow(NamedTuple):
    stream: int
    number: int
    expires: float
    then: int  # how many rounds had been answered when this one was opened
    memo: bytes
    shadows: str | None = None  # what they remember, as JSON


class MetadataRow(NamedTuple):
    stream: int
    name: str
    value: str  # as JSON
    number: int


class SnapshotRow(NamedTuple):
    stream: int
    version: int
    at: float
    answered: int
    misses: float
    weight: float
    size: float
    bounded: int
    predicted: int
    accepted: int
    progress: bytes
    shadows: str | None = None


SUMS = Sums._fields  # of a tally, in a snapshot


class AlarmRow(NamedTuple):
    """Answers are counted from 1, and what is not over has no ``cleared``."""

    stream: int
    raised: int
    raised_at: float
    kind: int  # 1 for too many misses, -1 for too few
    since: int
    since_at: float
    cleared: int | None = None
    cleared_at: float | None = None
    level: int = 0  # which of several, the smallest alpha first


class TokenRow(NamedTuple):
    id: str
    name: str
    scopes: str
    digest: bytes
    created: float
    revoked: float | None
    expires: float | None = None
    streams: str = ""  # what the names of the streams begin with that it is for


Row = TypeVar("Row")


class Column(NamedTuple):
    name: str
    kind: type
    nullable: bool


@dataclass(frozen=True, eq=False)
class Table(Generic[Row]):
    """A table: its primary key, what else there must be once, and whether rows lie in its order.

    ``counted`` tables give out numbers of their own, none of them twice.
    """

    name: str
    row: Callable[..., Row]
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()  # as SQL writes them: columns, and a condition
    in_order: bool = True
    counted: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        found = []
        for name, hint in get_type_hints(self.row).items():
            kinds = get_args(hint) or (hint,)
            found.append(Column(name, kinds[0], type(None) in kinds))
        return tuple(found)

    @cached_property
    def listed(self) -> str:
        """The columns in their order, as SQL; some have the name of a word of SQL."""
        return ", ".join(f'"{column.name}"' for column in self.columns)

    @cached_property
    def insert(self) -> str:
        marks = ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {self.name} ({self.listed}) VALUES ({marks})"  # noqa: S608

    @cached_property
    def make_row(self) -> Callable[[Iterable[Any]], Row]:
        row: Any = self.row  # a named tuple
        made: Callable[[Iterable[Any]], Row] = row._make
        return made


meta = Table("meta", MetaRow, in_order=False)
streams = Table("streams", StreamRow, ("id",), ("(name)",), in_order=False, counted=True)
rounds = Table("rounds", RoundRow, ("stream", "number"), ('(stream, "key") WHERE "key" IS NOT NULL',))
answers = Table("answers", AnswerRow, ("stream", "version"), ("(stream, number)",))
amendments = Table("amendments", AmendmentRow, ("stream", "version"), ("(stream, number, version)",))
changes = Table("changes", ChangeRow, ("stream", "version"))
# Not in order, unlike the others of a stream: a memo may take a kilobyte and more, and in SQLite every
# such row of more than a quarter of a page takes a page of its own.
open_rounds = Table("open_rounds", OpenRow, ("stream", "number"), in_order=False)
metadata = Table("metadata", MetadataRow, ("stream", "name", "value", "number"))
snapshots = Table("snapshots", SnapshotRow, ("stream", "version"), ("(stream, answered)",))
alarms = Table("alarms", AlarmRow, ("stream", "raised", "level"))
tokens = Table("tokens", TokenRow, ("id",), in_order=False)

# What ``log.chain`` hashes of a row of the log, by table and format: what stays for ever,
HASHED: Mapping[tuple[str, int], str] = {
    ("rounds", 1): "stream number version at threshold size levels",
    ("answers", 1): "stream version number at kind miss weight size levels",
    ("amendments", 1): "stream version number at kind miss weight levels",
    ("changes", 1): "stream version at kind content progress",
}
# and what may be erased, of which it hashes a digest: with a salt that is erased too, so that nobody
# can find out by trying what it was.
ERASABLE: Mapping[tuple[str, int], str] = {
    ("rounds", 1): "output labels key context metadata",
    ("answers", 1): "answer score",
    ("amendments", 1): "answer score",
}
FORMAT = dict(sorted(HASHED))  # of the rows that are written now, by table: the last that is named
# Those that hold rows of streams.
OF_STREAMS: tuple[Table[Any], ...] = (
    open_rounds, answers, amendments, metadata, rounds, changes, snapshots, alarms
)  # fmt: skip
TABLES: tuple[Table[Any], ...] = (meta, streams, *reversed(OF_STREAMS), tokens)


@dataclass(frozen=True)
class Words:
    """What one kind of database calls what the others call otherwise."""

    counted: str  # a primary key that it counts up itself
    kinds: dict[type, str]
    in_order: str  # what lets rows lie in the order of their key
    find_meta: str  # finds a row if the tables were ever made
    lock_schema: str  # lets nobody else look for tables until a transaction ends


def define(table: Table[Any], words: Words) -> list[str]:
    lines = []
    for name, kind, nullable in table.columns:
        if table.counted and (name,) == table.key:
            lines.append(f'"{name}" {words.counted}')
        else:
            of_stream = " REFERENCES streams (id)" if name == "stream" else ""
            lines.append(f'"{name}" {words.kinds[kind]}{"" if nullable else " NOT NULL"}{of_stream}')
    if table.key and not table.counted:
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    made = [f"CREATE TABLE {table.name} ({', '.join(lines)}){words.in_order if table.in_order else ''}"]
    for number, unique in enumerate(table.unique):
        made.append(f"CREATE UNIQUE INDEX {table.name}_{number} ON {table.name} {unique}")
    return made
