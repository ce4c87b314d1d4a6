"""Changes of one stream in one transaction: all that they need is read first, all is written last.

A commit waits for the disk, and the row of a stream has one writer at a time; so whoever waits for the
same stream shares both. Nobody is told of a change before it is durable, and what one asks for wrongly
changes nothing for the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.errors import BusyError, DatabaseError, KeyholeError
from keyhole.predictor.progress import Progress
from keyhole.service.store.log.chain import link_rows
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import feedback, marks, open_rounds, rounds, streams
from keyhole.service.store.sql.transactions import Direct, Statement, insert
from keyhole.service.store.streams import stream
from keyhole.service.store.streams.settings import NAME
from keyhole.service.store.streams.stream import Stream

_MOST_KEPT = 1024


class Task(NamedTuple):
    """A change of a stream, by its name or id; and the rounds it is about, by number or by key.

    ``positions`` are theirs among all that were sent with them, some perhaps to other streams.
    """

    stream: str | int
    change: Callable[["UnitOfWork"], Any]
    numbers: Sequence[int] = ()
    keys: Sequence[str] = ()
    positions: Sequence[int] = ()
    alone: Callable[[], Any] | None = None  # what makes it in a transaction of its own


class Results(NamedTuple):
    """What each task came to, or the error that it raised; and the id and name of the stream."""

    outcomes: list[Any]
    id: int | None = None
    name: str = ""


class _ApartError(Exception):
    """These tasks cannot share a transaction."""


def make_separate_task(wanted: str, alone: Callable[[], Any]) -> Task:
    """Return a change of a stream that takes its turn with the others, and a transaction of its own."""

    def refuse(_work: "UnitOfWork") -> None:
        raise _ApartError

    return Task(wanted, refuse, alone=alone)


def run_tasks(database: Database, tasks: Sequence[Task]) -> Results:
    """Return what the tasks came to, once all of it is durable."""
    try:
        if len(tasks) == 1 and tasks[0].alone is not None:
            return Results([tasks[0].alone()])
        return _carry_out(database, tasks)
    except (BusyError, DatabaseError) as error:
        return Results([error] * len(tasks))
    except Exception as error:  # noqa: BLE001 - it is raised again where the change was asked for.
        if len(tasks) == 1:
            return Results([error])
        # Whose fault it is shows when each is alone.
        return Results([run_tasks(database, [task]).outcomes[0] for task in tasks])


def _carry_out(database: Database, tasks: Sequence[Task]) -> Results:
    asked, keys = _list_asked(tasks)
    with database.change() as connection:
        rows, *found = connection.read(*asked)
        known = None if not rows else _kept.pop((rows[0].setup, rows[0].progress), None)
        work = UnitOfWork(connection, *stream.take(rows, tasks[0].stream, rounds=found, kept=known))
        if keys:
            work.find_keys(keys)
        is_one = len(tasks) == 1
        outcomes = [tasks[0].change(work)] if is_one else [_make(work, task) for task in tasks]
        work.write()
    if work.written is not None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[rows[0].setup, work.written] = work.here.progress
    return Results(outcomes, work.here.id, work.here.name)


def _list_asked(tasks: Sequence[Task]) -> tuple[list[tuple[Statement, Any]], list[str]]:
    """Return what holds the stream and finds the rounds that tasks are about, and their keys."""
    wanted = tasks[0].stream
    if isinstance(wanted, str) and not NAME.fullmatch(wanted):
        raise stream.find_none(wanted)
    asked: list[tuple[Statement, Any]] = [(_LOCKS[type(wanted)], (wanted,))]
    numbers: list[int] = []
    keys: list[str] = []
    for task in tasks:
        numbers += task.numbers
        keys += task.keys
        if task.numbers and len(asked) == 1:
            # Asked for after the lock: it sees all that whoever held it before has written.
            asked.append((_FIND, (task.stream, numbers)))
    return asked, keys


def run(database: Database, task: Task) -> Any:
    """Return what a task comes to, once it is durable, or raise."""
    (outcome,) = run_tasks(database, [task]).outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _make(work: "UnitOfWork", task: Task) -> Any:
    here, version = work.here, work.here.version
    if task.stream not in (here.id, here.name):
        raise _ApartError
    if work.is_outdated:
        work.find_again(task)
    try:
        return task.change(work)
    except KeyholeError as error:
        if isinstance(error, (BusyError, DatabaseError)):
            raise
        if here.version != version:  # It was refused half-way, and the others must not build on it.
            raise _ApartError from None
        return error


# What was written last, by its bytes and its setup: who finds the same need not unpack it. Whoever
# takes one has it alone, and puts it back once what became of it is durable.
_kept: dict[tuple[str, bytes], Progress] = {}


@dataclass(slots=True)
class UnitOfWork:
    """A stream that is held until the transaction ends, the rounds that are asked for, what is new.

    ``found`` has rounds by their public id, ``keyed`` those that were asked for with a key. What is new
    is put into ``log`` (tables and rows, without their links), ``waiting``, ``closed`` and ``marks``;
    ``answered`` has by their ids the answers of this transaction, as text, and what they came to.
    """

    connection: Direct
    here: Stream
    found: dict[str, Any]
    keyed: dict[str, Any] = field(default_factory=dict)
    log: list[tuple[sql.Table, tuple[Any, ...]]] = field(default_factory=list)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    marks: list[tuple[Any, ...]] = field(default_factory=list)
    answered: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    is_outdated: bool = False  # Whether rounds have expired since they were found.
    written: bytes | None = None  # The progress, as it was written last.
    _is_moved: bool = False

    def find_again(self, task: Task) -> None:
        """Read the rounds of a task as they are now."""
        self.flush()
        self.is_outdated = False
        if task.numbers:
            (found,) = self.connection.read((_FIND, (self.here.id, task.numbers)))
            self.found.update({self.here.prediction_id(row.number): row for row in found})
        if task.keys:
            self.find_keys(task.keys)

    def find_keys(self, keys: Sequence[str]) -> None:
        """Read the rounds that were asked for with these keys."""
        (found,) = self.connection.read((_FIND_KEYS, (self.here.id, keys)))
        self.keyed.update({row.key: row for row in found})

    def note_key(self, row: tuple[Any, ...]) -> None:
        """Let a new round be found by its key, as one that is written already."""
        made = _FIND_KEYS.make_row((*row, b""))  # Its link is made last.
        self.keyed[made.key] = made

    def flush(self) -> None:
        """Write what is new in the log and beside it, not yet the stream itself."""
        self.connection.write(self._list_new())

    def write(self) -> None:
        """Write all that is new, and the stream as it is now."""
        new = self._list_new()
        if self._is_moved:
            here = self.here
            self.written = here.progress.pack(here.setup.learner)
            # What ``stream.MOVING`` names, in its order.
            moving = (here.version, self.written, here.sweep, here.pack_recent(), here.link, here.id)
            new.append((_MOVE, [moving]))
            self.connection.write(new)

    def _list_new(self) -> list[tuple[Statement, list[Any]]]:
        here = self.here
        if not self.log:
            return []
        here.link, made = link_rows(here.link, self.log)
        new: list[tuple[Statement, list[Any]]] = []
        for add, rows in (
            (_ADD_ROUNDS, made.get(rounds)),
            (_ADD_FEEDBACK, made.get(feedback)),
            (_ADD_OPEN, self.waiting),
            (_CLOSE, [(here.id, self.closed)] if self.closed else None),
            (_ADD_MARKS, self.marks),
        ):
            if rows:
                new.append((add, rows))
        self.log, self.waiting, self.closed, self.marks = [], [], [], []
        self._is_moved = True
        return new


_WANTED: Any = sql.bindparam("wanted")
_LOCKS = {
    kind: Statement(sql.select(streams).where(column == _WANTED).with_for_update(), "wanted")
    for kind, column in ((str, streams.c.name), (int, streams.c.id))
}
_MOVE = Statement(streams.update().where(streams.c.id == _WANTED), *stream.MOVING, "wanted")
_ADD_ROUNDS, _ADD_FEEDBACK = insert(rounds), insert(feedback)
_ADD_OPEN, _ADD_MARKS = insert(open_rounds), insert(marks)
_CLOSE = Statement(
    open_rounds.delete().where(
        open_rounds.c.stream == _WANTED, open_rounds.c.number.in_(sql.bindparam("many", expanding=True))
    ),
    "wanted",
    "many",
)
_FIND = Statement(
    sql.select(
        rounds.c.number,
        rounds.c.threshold,
        rounds.c.size,
        rounds.c.output,
        rounds.c.labels,
        rounds.c.context,
        open_rounds.c.then,
        open_rounds.c.memo,
        open_rounds.c.expires,
        feedback.c.answer,
        feedback.c.miss,
    )
    .select_from(
        rounds.outerjoin(
            open_rounds,
            sql.and_(open_rounds.c.stream == rounds.c.stream, open_rounds.c.number == rounds.c.number),
        ).outerjoin(
            feedback,
            sql.and_(feedback.c.stream == rounds.c.stream, feedback.c.number == rounds.c.number),
        )
    )
    .where(rounds.c.stream == _WANTED, rounds.c.number.in_(sql.bindparam("many", expanding=True))),
    "wanted",
    "many",
)
_FIND_KEYS = Statement(
    sql.select(rounds).where(
        rounds.c.stream == _WANTED, rounds.c.key.in_(sql.bindparam("many", expanding=True))
    ),
    "wanted",
    "many",
)
