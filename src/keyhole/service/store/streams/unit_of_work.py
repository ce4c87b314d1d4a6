"""Changes of one stream in one transaction: all that they need is read first, all is written last.

A commit waits for the disk, and the row of a stream has one writer at a time; so whoever waits for the
same stream shares both. No change is acknowledged before it is durable, and what one asks for wrongly
changes nothing for the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keyhole.errors import BusyError, DatabaseError, KeyholeError
from keyhole.predictor.progress import Progress
from keyhole.service.store.log.chain import make_link
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import (
    AnswerRow,
    MetadataRow,
    OpenRow,
    RoundRow,
    SnapshotRow,
    StreamRow,
    answers,
    metadata,
    open_rounds,
    rounds,
    snapshots,
)
from keyhole.service.store.sql.statements import FoundRound
from keyhole.service.store.streams.settings import NAME
from keyhole.service.store.streams.stream import Stream, make_unknown_stream_error, read_stream_row

_MOST_KEPT = 1024


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


def run(database: Database, task: Task) -> Any:
    """Return what a task comes to, once it is durable, or raise."""
    (outcome,) = run_tasks(database, [task]).outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _run_tasks(database: Database, tasks: Sequence[Task]) -> Results:
    keys = [key for task in tasks for key in task.keys]
    with database.write() as transaction:
        row, found = _find(transaction, tasks)
        known = _kept.pop((row.setup, row.progress), None)
        work = UnitOfWork(transaction, read_stream_row(row, kept=known))
        work.note_found(found)
        if keys:
            work.find_keys(keys)
        is_one = len(tasks) == 1
        outcomes = [tasks[0].change(work)] if is_one else [_run(work, task) for task in tasks]
        work.write()
    if work.written is not None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[row.setup, work.written] = work.stream.progress
    return Results(outcomes, work.stream.id, work.stream.name)


def _find(transaction: Transaction, tasks: Sequence[Task]) -> tuple[StreamRow, list[FoundRound]]:
    """Return the row of the stream, which is held until the end, and the rounds tasks are about."""
    name_or_id, found = tasks[0].stream, list[FoundRound]()
    numbers = [number for task in tasks for number in task.numbers]
    by_id = isinstance(name_or_id, int)
    if not by_id and not NAME.fullmatch(str(name_or_id)):
        raise make_unknown_stream_error(name_or_id)
    lock = statements.LOCK_STREAM_BY_ID if by_id else statements.LOCK_STREAM
    if numbers:
        # Asked for after the lock: it sees all that whoever held it before has written.
        owner = next(task.stream for task in tasks if task.numbers)
        rows, found = transaction.fetch_both(
            lock, (name_or_id,), statements.FIND_ROUNDS, (owner, numbers)
        )
    else:
        rows = transaction.fetch(lock, name_or_id)
    if not rows:
        raise make_unknown_stream_error(name_or_id)
    return rows[0], found


def _run(work: "UnitOfWork", task: Task) -> object:
    """Return what one of several tasks comes to, or the error that it is refused with."""
    stream, version = work.stream, work.stream.version
    if task.stream not in (stream.id, stream.name):
        raise _ApartError
    if work.is_outdated:
        work.find_again(task)
    try:
        return task.change(work)
    except KeyholeError as error:
        if isinstance(error, (BusyError, DatabaseError)):
            raise
        if stream.version != version:  # It was refused half-way, and the others must not build on it.
            raise _ApartError from None
        return error


# What was written last, by its bytes and its setup: who finds the same need not unpack it. Whoever
# takes one has it alone, and puts it back once what became of it is durable.
_kept: dict[tuple[str, bytes], Progress] = {}


@dataclass(slots=True)
class UnitOfWork:
    """A stream that is held until the transaction ends, the rounds that are asked for, what is new.

    ``found`` has rounds by their public id, ``keyed`` those that were asked for with a key. What is new
    is put into the lists, rows of the log without their links; ``answered`` has by their ids the
    answers of this transaction, as text, and what they came to.
    """

    transaction: Transaction
    stream: Stream
    found: dict[str, FoundRound] = field(default_factory=dict)
    keyed: dict[str, RoundRow] = field(default_factory=dict)
    log: list[RoundRow | AnswerRow] = field(default_factory=list)
    opened: list[OpenRow] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    snapshots: list[SnapshotRow] = field(default_factory=list)
    answered: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    is_outdated: bool = False  # Whether rounds have expired since they were found.
    written: bytes | None = None  # The progress, as it was written last.
    _is_moved: bool = False

    def note_found(self, found: Sequence[FoundRound]) -> None:
        for row in found:
            self.found[self.stream.prediction_id(row.number)] = row

    def find_keys(self, keys: Sequence[str]) -> None:
        for row in self.transaction.fetch(statements.FIND_KEYS, self.stream.id, list(keys)):
            self.keyed[str(row.key)] = row

    def find_again(self, task: Task) -> None:
        """Read the rounds of a task as they are now."""
        self.flush()
        self.is_outdated = False
        if task.numbers:
            numbers = list(task.numbers)
            rows = self.transaction.fetch(statements.FIND_ROUNDS, self.stream.id, numbers)
            self.note_found(rows)
        if task.keys:
            self.find_keys(task.keys)

    def flush(self) -> None:
        """Write what is new in the log and beside it, not yet the stream itself."""
        if not self.log:
            return
        stream, link = self.stream, self.stream.link
        new_rounds, new_answers = list[RoundRow](), list[AnswerRow]()
        for row in self.log:
            link = make_link(link, row)
            if isinstance(row, RoundRow):
                new_rounds.append(row._replace(link=link))
            else:
                new_answers.append(row._replace(link=link))
        stream.link = link
        transaction = self.transaction
        transaction.insert(rounds, new_rounds)
        transaction.insert(answers, new_answers)
        transaction.insert(open_rounds, self.opened)
        transaction.insert(metadata, self.metadata)
        transaction.insert(snapshots, self.snapshots)
        if self.closed:
            transaction.execute(statements.CLOSE_ROUNDS, stream.id, self.closed)
        self.log, self.opened, self.closed, self.metadata, self.snapshots = [], [], [], [], []
        self._is_moved = True

    def write(self) -> None:
        """Write all that is new, and the stream as it is now."""
        self.flush()
        if self._is_moved:
            stream = self.stream
            self.written = stream.progress.pack(stream.setup.learner)
            moved = (
                stream.version,
                self.written,
                stream.next_expiry,
                stream.pack_recent(),
                stream.link,
            )
            self.transaction.execute(statements.MOVE_STREAM, *moved, stream.id)
