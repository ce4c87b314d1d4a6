"""A stream: one row, locked while a request changes it; and changes of it in one transaction.

All that the changes need is read first, all is written last. A commit waits for the disk, and the row
of a stream has one writer at a time; so whoever waits for the same stream shares both. No change is
acknowledged before it is durable, and what one asks for wrongly changes nothing for the others.
"""

import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from keyhole.errors import (
    ArchivedError,
    BusyError,
    DatabaseError,
    KeyholeError,
    QuarantinedError,
    UnknownStreamError,
)
from keyhole.learners import compile_learner
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally
from keyhole.service.store.log.chain import FIRST
from keyhole.service.store.sql import schema, statements
from keyhole.service.store.sql.backend import Statement, Transaction, Values
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import AlarmRow, AnswerRow, OpenRow, RoundRow, StreamRow
from keyhole.service.store.streams import settings
from keyhole.service.store.streams.shadows import Shadow, dump_shadows, load_shadows

_MOST_KEPT = 1024
NOT_BEGUN: Any = None  # the progress of a stream in which nothing has happened yet


@dataclass(slots=True)
class Stream:
    """A stream's row: a predictor's setup and progress, and how long its rounds may wait."""

    id: int
    name: str
    setup: Setup
    lifetime: float
    window: int
    created: float
    progress: Progress = NOT_BEGUN
    archived: float | None = None
    version: int = -1
    next_expiry: float = math.inf  # No open round expires before this time.
    recent: int = 0  # The last rounds as bits, 1 for a miss.
    link: bytes = FIRST  # of the last row of its log
    description: str | None = None  # what people say of it
    retargeted: int | None = None  # how many answers had come when alpha or the learner was changed
    retention: float | None = None  # seconds after which what rounds hold is erased
    shadows: list[Shadow] = field(default_factory=list)
    alarmed: AlarmRow | None = None  # The last alarm; only there for who asks to see the stream.
    overdue: int = 0  # Open rounds whose time is over, for the same: the next prediction drops them.

    def __post_init__(self) -> None:
        if self.progress is NOT_BEGUN:
            self.progress = self.setup.kind.start(self.setup, watch=True)

    @property
    def tally(self) -> Tally:
        return self.progress.tally

    @property
    def watch(self) -> Watch:
        return self.progress.watch or Watch()

    @property
    def levels(self) -> list[Shadow]:
        """The inner levels of several, the smallest alpha first; the stream's own is the outermost."""
        return [one for one in self.shadows if one.is_level]

    @property
    def alphas(self) -> tuple[float, ...]:
        """The targets of several levels, the smallest first; none where there is one."""
        if not self.shadows or not self.shadows[0].is_level:
            return ()
        return (self.setup.learner.alpha, *(one.setup.learner.alpha for one in self.levels))

    @property
    def open(self) -> int:
        return self.setup.kind.count_open(self.setup, self.progress.tally) - self.overdue

    @property
    def expired(self) -> int:
        return self.tally.expired + self.overdue

    @property
    def recent_rounds(self) -> int:
        """How many rounds the recent miss rate runs over: none that had another target."""
        return min(self.watch.rounds - (self.retargeted or 0), self.window)

    @property
    def recent_misses(self) -> int:
        return (self.recent & ((1 << self.recent_rounds) - 1)).bit_count()

    @property
    def recent_miss_rate(self) -> float | None:
        return self.recent_misses / self.recent_rounds if self.recent_rounds else None


_PACKED = {"setup", "seed", "shadows", "progress", "recent", "link"}
_SAME = [name for name in StreamRow._fields if name not in _PACKED]


def make_stream_row(stream: Stream) -> StreamRow:
    return StreamRow(
        **{name: getattr(stream, name) for name in _SAME},
        setup=settings.dump_setup(stream.setup),
        seed=str(stream.setup.seed),
        shadows=dump_shadows(stream.shadows),
        progress=stream.progress.pack(stream.setup.learner),
        recent=stream.recent.to_bytes(stream.window // 8 + 1, "big"),
        link=stream.link,
    )


def read_stream_row(row: StreamRow) -> Stream:
    """Return the stream of a row, or raise ``QuarantinedError`` if it cannot be used."""
    try:
        setup = settings.load_setup(row.setup, row.seed)
        return Stream(
            **{name: getattr(row, name) for name in _SAME},
            setup=setup,
            shadows=load_shadows(row.shadows, setup),
            progress=Progress.unpack(row.progress, setup=setup),
            recent=int.from_bytes(row.recent, "big"),
            link=b"" + row.link,  # or raise: SQLite keeps whatever it is given
        )
    except (KeyholeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise make_quarantine_error(row.name, f"its row cannot be read: {error}") from None


def make_quarantine_error(name: str, fault: str) -> QuarantinedError:
    # What was raised below has a remedy of its own, for the sender.
    wrong = fault.partition("; ")[0]
    return QuarantinedError(
        f"stream {name!r} is quarantined: {wrong}; restore it from a backup, or make a new one"
    )


def make_round_error(name: str, number: int | str, error: object) -> QuarantinedError:
    return make_quarantine_error(name, f"its round {number} cannot be read: {error}")


def find_stream(transaction: Transaction, name: str) -> Stream:
    return read_stream_row(find_stream_row(transaction, name))


def find_stream_row(
    transaction: Transaction, name: str, query: Statement[StreamRow] = statements.FIND_STREAM
) -> StreamRow:
    rows = transaction.fetch(query, name) if settings.NAME.fullmatch(name) else []
    if not rows:
        raise make_unknown_stream_error(name)
    return rows[0]


def write_stream(transaction: Transaction, stream: Stream) -> None:
    _, *columns = make_stream_row(stream)  # its id comes last
    transaction.execute(statements.WRITE_STREAM, *columns, stream.id)


def make_archived_error(name: str) -> ArchivedError:
    return ArchivedError(f"stream {name!r} is archived; it takes no more rounds")


def make_unknown_stream_error(name_or_id: str | int) -> UnknownStreamError:
    return UnknownStreamError(
        f"there is no stream {name_or_id!r}; create it first, or see the list of streams"
    )


def compile_streams(streams: Iterable[Stream]) -> None:
    """Compile, or load, what these streams use: kernels otherwise compile at their first call."""
    setups = list[Setup]()
    for stream in streams:
        setups += [stream.setup, *(shadow.setup for shadow in stream.shadows)]
    for learner in {setup.learner.name: setup.learner for setup in setups}.values():
        if not learner.runs_interpreted:
            compile_learner(learner)


class Task(NamedTuple):
    """A change of a stream, by its name or id; and the rounds it is about, by number or by key.

    ``positions`` are theirs among all that were sent with them, some perhaps to other streams.
    """

    stream: str | int
    change: Callable[["UnitOfWork"], object]
    numbers: Sequence[int] = ()
    keys: Sequence[str] = ()
    positions: Sequence[int] = ()
    run_alone: Callable[[], object] | None = None  # what makes the change in a transaction of its own


class Results(NamedTuple):
    """What each task came to, or the error that it raised; and the id and name of the stream."""

    outcomes: list[Any]
    id: int | None = None
    name: str = ""


class _ApartError(Exception):
    """These tasks cannot share a transaction."""


def make_separate_task(name: str, run: Callable[[], object]) -> Task:
    """Return a change of a stream that waits with the others, and has a transaction of its own."""

    def refuse(_work: "UnitOfWork") -> None:
        raise _ApartError

    return Task(name, refuse, run_alone=run)


def run_tasks(database: Database, tasks: Sequence[Task]) -> Results:
    """Return what the tasks came to, once all of it is durable."""
    try:
        if len(tasks) == 1 and tasks[0].run_alone is not None:
            return Results([tasks[0].run_alone()])
        return _run_tasks(database, tasks)
    except (BusyError, DatabaseError) as error:
        return Results([error] * len(tasks))
    except Exception as error:  # noqa: BLE001 - it is raised again where the change was asked for.
        if len(tasks) == 1:
            return Results([error])
        # Whose fault it is shows when each is alone.
        return Results([run_tasks(database, [task]).outcomes[0] for task in tasks])


def run_task(database: Database, task: Task) -> Any:
    (outcome,) = run_tasks(database, [task]).outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


# Streams as they were written last, by their rows: who finds the same row need not read it. Whoever
# takes one has it alone, and puts it back once what became of it is durable.
_kept: dict[StreamRow, Stream] = {}


def _run_tasks(database: Database, tasks: Sequence[Task]) -> Results:
    asked = _list_asked(tasks)
    with database.write() as transaction:
        rows, *found = transaction.fetch_all(*asked)
        if not rows:
            raise make_unknown_stream_error(tasks[0].stream)
        row = rows[0]
        stream = _kept.pop(row, None) or read_stream_row(row)
        work = UnitOfWork(transaction, stream)
        maps: tuple[dict[Any, Any], ...] = (work.rounds, work.open, work.keyed)
        for known, find_name, part in zip(maps, _NAMES, found, strict=False):
            known.update(zip(map(find_name, part), part, strict=True))
        is_one = len(tasks) == 1
        outcomes = [tasks[0].change(work)] if is_one else [_run(work, task) for task in tasks]
        if stream.version != row.version:
            row = row._replace(
                version=stream.version,
                progress=stream.progress.pack(stream.setup.learner),
                next_expiry=stream.next_expiry,
                recent=stream.recent.to_bytes(stream.window // 8 + 1, "big"),
                link=stream.link,
                shadows=dump_shadows(stream.shadows) if stream.shadows else None,
            )
            for table, new in work.new.items():
                transaction.insert(table, new)
            if work.closed:
                transaction.execute(statements.CLOSE_ROUNDS, stream.id, work.closed)
            moved = (row.version, row.progress, row.next_expiry, row.recent, row.link, row.shadows)
            transaction.execute(statements.MOVE_STREAM, *moved, stream.id)
            if len(_kept) >= _MOST_KEPT:
                _kept.clear()
            # Before it is durable: it is found by a row that is there only if it was committed.
            _kept[row] = stream
    return Results(outcomes, stream.id, stream.name)


_NAMES: tuple[Callable[[Any], Any], ...] = (
    attrgetter("number"), attrgetter("number"), attrgetter("key")
)  # fmt: skip


def _list_asked(tasks: Sequence[Task]) -> list[tuple[Statement[Any], Values]]:
    name_or_id, name = tasks[0].stream, tasks[0].stream
    owner: str | int = 0  # No stream has this id.
    if isinstance(name_or_id, str) and not settings.NAME.fullmatch(name_or_id):
        raise make_unknown_stream_error(name_or_id)
    numbers, keys = list[int](), list[str]()
    for task in tasks:
        if task.numbers:
            owner = task.stream  # its id, which rounds are found by
            numbers += task.numbers
        if task.keys:
            name = task.stream
            keys += task.keys
    lock = statements.LOCK_STREAM if isinstance(name_or_id, str) else statements.LOCK_STREAM_BY_ID
    asked: list[tuple[Statement[Any], Values]] = [(lock, (name_or_id,))]
    if numbers or keys:
        # Asked for after the lock: they see all that whoever held it before has written.
        asked += [(statements.FIND_ASKED, (owner, numbers)), (statements.FIND_OPEN, (owner, numbers))]
    if keys:
        asked.append((statements.FIND_KEYED, (name, keys)))
    return asked


def _run(work: "UnitOfWork", task: Task) -> object:
    """Return what one of several tasks comes to, or the error that it is refused with."""
    stream, version = work.stream, work.stream.version
    if task.stream not in (stream.id, stream.name):
        raise _ApartError
    try:
        return task.change(work)
    except KeyholeError as error:
        if isinstance(error, (BusyError, DatabaseError)):
            raise
        if stream.version != version:  # It was refused half-way, and the others must not build on it.
            raise _ApartError from None
        return error


@dataclass(slots=True)
class UnitOfWork:
    """A stream that is held until the transaction ends, the rounds that are asked for, what is new.

    ``rounds`` and ``open`` have rounds by their numbers, and what they remember while they are open;
    ``keyed`` has those that were asked for with a key. ``answers`` are those of the rounds that are
    closed, of this transaction too, where somebody asked for one. What is new is put into the lists of
    its tables, rows of the log by ``chain.add_row``.
    """

    transaction: Transaction
    stream: Stream
    rounds: dict[int, RoundRow] = field(default_factory=dict)
    open: dict[int, OpenRow] = field(default_factory=dict)
    keyed: dict[str, RoundRow] = field(default_factory=dict)
    answers: dict[int, AnswerRow | None] = field(default_factory=dict)
    new: dict[schema.Table[Any], list[Any]] = field(default_factory=partial(defaultdict, list))
    closed: list[int] = field(default_factory=list)

    def find_answer(self, number: int) -> AnswerRow | None:
        """Return the answer of a round that is not open; those of all such rounds are read at once."""
        if number not in self.answers:
            closed = [one for one in self.rounds if one not in self.open and one not in self.answers]
            self.answers.update(dict.fromkeys(closed))
            for row in self.transaction.fetch(statements.FIND_ANSWERS, self.stream.id, closed):
                self.answers[row.number] = row
        return self.answers.get(number)

    def flush(self) -> None:
        """Write what is new in the log and beside it, not yet the stream itself."""
        for table, rows in self.new.items():
            self.transaction.insert(table, rows)
        if self.closed:
            self.transaction.execute(statements.CLOSE_ROUNDS, self.stream.id, self.closed)
        self.new.clear()
        self.closed.clear()


@contextmanager
def change_stream(
    database: Database, name: str, *, takes_archived: bool = False
) -> Iterator[UnitOfWork]:
    """Hold a stream, that is not archived unless those are taken; write what it became in the end."""
    with database.write() as transaction:
        stream = read_stream_row(find_stream_row(transaction, name, statements.LOCK_STREAM))
        if stream.archived is not None and not takes_archived:
            raise make_archived_error(name)
        work, version = UnitOfWork(transaction, stream), stream.version
        yield work
        if stream.version != version:
            work.flush()
            write_stream(transaction, stream)
