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
from keyhole.service.store import stream
from keyhole.service.store.chain import link_rows
from keyhole.service.store.database import Database
from keyhole.service.store.schema import feedback, marks, open_rounds, rounds, streams
from keyhole.service.store.settings import NAME
from keyhole.service.store.stream import Stream
from keyhole.service.store.transactions import Direct, Statement, insert

_MOST_KEPT = 1024


class Job(NamedTuple):
    """A change of a stream, by its name or id; and the rounds it is about, by number or by key.

    ``places`` are theirs among all that were sent with them, some perhaps to other streams.
    """

    wanted: str | int
    change: Callable[["Draft"], Any]
    numbers: Sequence[int] = ()
    keys: Sequence[str] = ()
    places: Sequence[int] = ()
    alone: Callable[[], Any] | None = None  # what makes it in a transaction of its own


class Done(NamedTuple):
    """What each job came to, or the error that it raised; and the id and name of the stream."""

    outcomes: list[Any]
    id: int | None = None
    name: str = ""


class _ApartError(Exception):
    """These jobs cannot share a transaction."""


def make_lone_job(wanted: str, alone: Callable[[], Any]) -> Job:
    """Return a change of a stream that takes its turn with the others, and a transaction of its own."""

    def refuse(_draft: "Draft") -> None:
        raise _ApartError

    return Job(wanted, refuse, alone=alone)


def carry_out(database: Database, jobs: Sequence[Job]) -> Done:
    """Return what the jobs came to, once all of it is durable."""
    try:
        if len(jobs) == 1 and jobs[0].alone is not None:
            return Done([jobs[0].alone()])
        return _carry_out(database, jobs)
    except (BusyError, DatabaseError) as error:
        return Done([error] * len(jobs))
    except Exception as error:  # noqa: BLE001 - it is raised again where the change was asked for.
        if len(jobs) == 1:
            return Done([error])
        # Whose fault it is shows when each is alone.
        return Done([carry_out(database, [job]).outcomes[0] for job in jobs])


def _carry_out(database: Database, jobs: Sequence[Job]) -> Done:
    asked, keys = _list_asked(jobs)
    with database.change() as connection:
        rows, *found = connection.read(*asked)
        known = None if not rows else _kept.pop((rows[0].setup, rows[0].progress), None)
        draft = Draft(connection, *stream.take(rows, jobs[0].wanted, rounds=found, kept=known))
        if keys:
            draft.find_keys(keys)
        is_one = len(jobs) == 1
        outcomes = [jobs[0].change(draft)] if is_one else [_make(draft, job) for job in jobs]
        draft.write()
    if draft.written is not None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[rows[0].setup, draft.written] = draft.here.progress
    return Done(outcomes, draft.here.id, draft.here.name)


def _list_asked(jobs: Sequence[Job]) -> tuple[list[tuple[Statement, Any]], list[str]]:
    """Return what holds the stream and finds the rounds that jobs are about, and their keys."""
    wanted = jobs[0].wanted
    if isinstance(wanted, str) and not NAME.fullmatch(wanted):
        raise stream.find_none(wanted)
    asked: list[tuple[Statement, Any]] = [(_LOCKS[type(wanted)], (wanted,))]
    numbers: list[int] = []
    keys: list[str] = []
    for job in jobs:
        numbers += job.numbers
        keys += job.keys
        if job.numbers and len(asked) == 1:
            # Asked for after the lock: it sees all that whoever held it before has written.
            asked.append((_FIND, (job.wanted, numbers)))
    return asked, keys


def run(database: Database, job: Job) -> Any:
    """Return what a job comes to, once it is durable, or raise."""
    (outcome,) = carry_out(database, [job]).outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _make(draft: "Draft", job: Job) -> Any:
    here, version = draft.here, draft.here.version
    if job.wanted not in (here.id, here.name):
        raise _ApartError
    if draft.is_outdated:
        draft.find_again(job)
    try:
        return job.change(draft)
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
class Draft:
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

    def find_again(self, job: Job) -> None:
        """Read the rounds of a job as they are now."""
        self.flush()
        self.is_outdated = False
        if job.numbers:
            (found,) = self.connection.read((_FIND, (self.here.id, job.numbers)))
            self.found.update({self.here.prediction_id(row.number): row for row in found})
        if job.keys:
            self.find_keys(job.keys)

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
