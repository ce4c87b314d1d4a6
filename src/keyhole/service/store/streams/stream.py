"""A stream: one row, locked while a request changes it."""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from keyhole.errors import ArchivedError, KeyholeError, QuarantinedError, UnknownStreamError
from keyhole.learners import compile_learner
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import RoundTally
from keyhole.scores import Region
from keyhole.service.store.log.chain import FIRST
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Statement, Transaction
from keyhole.service.store.sql.schema import AlarmRow, StreamRow
from keyhole.service.store.streams import settings

_TAG_BYTES = 5


@dataclass(slots=True)
class Stream:
    """A stream's row: a predictor's setup and progress, and how long its rounds may wait."""

    id: int
    name: str
    setup: Setup[Region]
    lifetime: float
    window: int
    created: float
    progress: Progress[Any]
    archived: float | None = None
    version: int = -1
    next_expiry: float = math.inf  # No open round expires before this time.
    recent: int = 0  # The last rounds as bits, 1 for a miss.
    link: bytes = FIRST  # of the last row of its log
    description: str | None = None  # what people say of it
    retargeted: int | None = None  # how many answers had come when alpha was changed, if it ever was
    alarmed: AlarmRow | None = None  # The last alarm; only there for who asks to see the stream.

    @property
    def tally(self) -> RoundTally:
        tally: RoundTally = self.progress.tally
        return tally

    @property
    def watch(self) -> Watch:
        return self.progress.watch or Watch()

    @property
    def open(self) -> int:
        tally = self.tally
        awaited = self.setup.kind.count_awaited(self.setup, tally)
        return awaited - tally.answered - tally.expired - tally.skipped

    @property
    def recent_rounds(self) -> int:
        """How many rounds the recent miss rate runs over: none that had another target."""
        return min(self.watch.rounds - (self.retargeted or 0), self.window)

    @property
    def recent_misses(self) -> int:
        return (self.recent & ((1 << self.recent_rounds) - 1)).bit_count()

    def note_recent(self, miss: float) -> None:
        self.recent = (self.recent << 1 | (miss >= 0.5)) & ((1 << self.window) - 1)

    def pack_recent(self) -> bytes:
        """Return the last rounds as bytes, as many for every stream of the same window."""
        return self.recent.to_bytes(self.window // 8 + 1, "big")

    def prediction_id(self, number: int) -> str:
        # The tag makes an id hard to guess, and a mistyped one unknown.
        tag = _begin_tag(self.setup.seed).copy()
        tag.update(str(number).encode())
        return f"{self.id}-{number}-{tag.hexdigest()}"


@lru_cache(maxsize=1024)
def _begin_tag(seed: int) -> blake2b:
    return blake2b(key=seed.to_bytes(8, "big"), digest_size=_TAG_BYTES)


def start_stream(
    setup: Setup[Region],
    *,
    id: int,  # noqa: A002
    name: str,
    lifetime: float,
    window: int,
    created: float,
) -> Stream:
    """Return a stream in which nothing has happened, not even its making."""
    return Stream(
        id=id,
        name=name,
        setup=setup,
        lifetime=lifetime,
        window=window,
        created=created,
        progress=setup.kind.start(setup, watch=True),
    )


def make_stream_row(stream: Stream) -> StreamRow:
    return StreamRow(
        id=stream.id,
        name=stream.name,
        setup=settings.dump_setup(stream.setup),
        seed=str(stream.setup.seed),
        lifetime=stream.lifetime,
        window=stream.window,
        created=stream.created,
        archived=stream.archived,
        description=stream.description,
        retargeted=stream.retargeted,
        version=stream.version,
        progress=stream.progress.pack(stream.setup.learner),
        next_expiry=stream.next_expiry,
        recent=stream.pack_recent(),
        link=stream.link,
    )


def read_stream_row(row: StreamRow, *, kept: Progress[Any] | None = None) -> Stream:
    """Return the stream of a row, or raise ``QuarantinedError`` if it cannot be used.

    ``kept`` is what its progress unpacks to, for who knows it.
    """
    try:
        setup = settings.load_setup(row.setup, row.seed)
        progress = kept or Progress.unpack(row.progress, setup=setup)
        return Stream(
            id=row.id,
            name=row.name,
            setup=setup,
            lifetime=row.lifetime,
            window=row.window,
            created=row.created,
            archived=row.archived,
            version=row.version,
            progress=progress,
            next_expiry=row.next_expiry,
            recent=int.from_bytes(row.recent, "big"),
            link=b"" + row.link,  # or raise: SQLite keeps whatever it is given
            description=row.description,
            retargeted=row.retargeted,
        )
    except (KeyholeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise make_quarantine_error(row.name, f"its row cannot be read: {error}") from None


def make_quarantine_error(name: str, fault: str) -> QuarantinedError:
    # What was raised below has a remedy of its own, for the sender.
    wrong = fault.partition("; ")[0]
    return QuarantinedError(
        f"stream {name!r} is quarantined: {wrong}; restore it from a backup, or make a new one"
    )


def find_stream(transaction: Transaction, name: str) -> Stream:
    return read_stream_row(find_stream_row(transaction, name))


def find_stream_row(
    transaction: Transaction, name: str, query: Statement[StreamRow] = statements.FIND_STREAM
) -> StreamRow:
    """Return the row of the stream of this name, whatever it holds, or raise."""
    rows = transaction.fetch(query, name) if settings.is_name(name) else []
    if not rows:
        raise make_unknown_stream_error(name)
    return rows[0]


def lock_stream(transaction: Transaction, name: str) -> Stream:
    """Return where a stream that is not archived stands, held as by ``lock_any_stream``, or raise."""
    stream = lock_any_stream(transaction, name)
    if stream.archived is not None:
        raise make_archived_error(name)
    return stream


def lock_any_stream(transaction: Transaction, name: str) -> Stream:
    """Return where a stream stands; nobody else changes it until the commit."""
    return read_stream_row(find_stream_row(transaction, name, statements.LOCK_STREAM))


def write_stream(transaction: Transaction, stream: Stream) -> None:
    _, *columns = make_stream_row(stream)  # its id comes last
    transaction.execute(statements.WRITE_STREAM, *columns, stream.id)


def make_archived_error(name: str) -> ArchivedError:
    return ArchivedError(f"stream {name!r} is archived; it takes no more rounds")


def make_unknown_stream_error(name_or_id: str | int) -> UnknownStreamError:
    return UnknownStreamError(f"there is no stream {name_or_id!r}; see the list of streams")


def compile_streams(streams: Iterable[Stream]) -> None:
    """Compile, or load, what these streams use: kernels otherwise compile at their first call."""
    learners = {stream.setup.learner.name: stream.setup.learner for stream in streams}
    for learner in learners.values():
        if not learner.runs_interpreted:
            compile_learner(learner)
