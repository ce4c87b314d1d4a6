"""Streams: made, listed, archived, deleted."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keyhole.errors import InvalidError, QuarantinedError, StreamExistsError
from keyhole.learners import Learner
from keyhole.predictor.setup import Setup
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import StreamRow
from keyhole.service.store.streams import alarms, calibrations, changes, settings
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.shadows import (
    NewShadow,
    add_shadow,
    describe,
    list_levels,
    start_levels,
)
from keyhole.service.store.streams.stream import (
    Stream,
    UnitOfWork,
    change_stream,
    find_stream,
    find_stream_row,
    make_stream_row,
    read_stream_row,
    write_stream,
)


def create(
    database: Database,
    name: str,
    *,
    setup: Setup,
    now: float,
    lifetime: float = settings.LIFETIME,
    window: int = settings.WINDOW,
    description: str | None = None,
    retention: float | None = None,
    calibrate_from: str | None = None,
    shadows: Sequence[NewShadow] = (),
    levels: Sequence[Learner] = (),
) -> Stream:
    """Make a stream, taught by another one's log if asked for, or raise if the name is taken.

    ``levels`` are the learners of its inner levels.
    """
    settings.check_limits(lifetime=lifetime, window=window, retention=retention)
    settings.check_description(description)
    stream = Stream(0, settings.check_name(name), setup, lifetime, window, created=now)
    stream.description, stream.retention = description, retention or None
    stream.shadows = start_levels(setup, levels, at=now)
    for new in shadows:  # after its making, in the log
        add_shadow(stream.shadows, setup, new, since=1 + len(stream.shadows), at=now)
    learnt = [] if calibrate_from is None else _calibrate(database, stream, calibrate_from, now=now)
    content = {"name": name, "setup": setup.dump(), "lifetime": lifetime, "window": window}
    content.update({} if description is None else {"description": description})
    content.update({} if stream.retention is None else {"retention": stream.retention})
    with database.write() as transaction:
        _, *columns = make_stream_row(stream)  # but the id, which it gets now
        made = transaction.fetch(statements.ADD_STREAM, *columns)
        if not made:
            raise _taken(name)
        stream.id = made[0]
        work, beside = UnitOfWork(transaction, stream), map(describe, stream.shadows)
        changes.note(work, Change(now, changes.CREATED, content))
        for change in (*(Change(now, changes.SHADOWED, one) for one in beside), *learnt):
            changes.note(work, change)
        work.flush()
        write_stream(transaction, stream)
    return stream


def _calibrate(database: Database, stream: Stream, old: str, *, now: float) -> list[Change]:
    with database.read() as transaction:  # So that whoever writes goes on meanwhile.
        if transaction.fetch(statements.FIND_STREAM, stream.name):
            raise _taken(stream.name)
        return calibrations.learn_log(transaction, stream, old, now=now)


def _taken(name: str) -> StreamExistsError:
    return StreamExistsError(f"there is a stream {name!r} already; choose another name")


def get(database: Database, name: str, *, now: float = -math.inf) -> Stream:
    """Return a stream as it is at a time, with its last alarm."""
    with database.read() as transaction:
        return find_with_alarm(transaction, name, now=now)


def find_with_alarm(transaction: Transaction, name: str, *, now: float = -math.inf) -> Stream:
    stream = find_stream(transaction, name)
    _add_alarms(transaction, [stream])
    _count_overdue(transaction, [stream], now)
    return stream


def _count_overdue(transaction: Transaction, streams: Sequence[Stream], now: float) -> None:
    """Note how many rounds of each stream wait in vain: they are dropped when the next one is made."""
    past = {stream.id: stream for stream in streams if stream.next_expiry <= now}
    if past:
        for id_, count in transaction.fetch(statements.COUNT_OVERDUE, now, list(past)):
            past[id_].overdue = count


def list_names(database: Database) -> list[str]:
    """Return the names of all streams, the oldest first, usable or not."""
    with database.read() as transaction:
        return transaction.fetch(statements.LIST_NAMES)


_ALL = 2**62  # streams


class Survey(NamedTuple):
    """Streams that can be used, of the others by name what is wrong, and after which there are more."""

    usable: list[Stream]
    quarantined: dict[str, str]
    next: str | None


def survey(
    database: Database,
    *,
    after: str | None = None,
    limit: int | None = None,
    now: float = -math.inf,
) -> Survey:
    """Return every stream, the oldest first; or those made after one, and at most so many."""
    with database.read() as transaction:
        first = 0 if after is None else find_stream_row(transaction, after).id  # Ids begin at 1.
        rows = transaction.fetch(statements.LIST_STREAMS, first, limit or _ALL)
        usable, quarantined = _read_rows(rows)
        _add_alarms(transaction, usable)
        _count_overdue(transaction, usable, now)
    return Survey(usable, quarantined, str(rows[-1].name) if len(rows) == limit else None)


def _read_rows(rows: Sequence[StreamRow]) -> tuple[list[Stream], dict[str, str]]:
    """Return the streams of rows that can be used, and of the others by name what is wrong."""
    usable, quarantined = list[Stream](), dict[str, str]()
    for row in rows:
        try:
            usable.append(read_stream_row(row))
        except QuarantinedError as error:
            quarantined[str(row.name)] = str(error)
    return usable, quarantined


def _add_alarms(transaction: Transaction, streams: Sequence[Stream]) -> None:
    raised = [one.id for one in streams if any(level.watch.raised for level in list_levels(one))]
    alarmed = alarms.find_newest(transaction, raised) if raised else {}
    for stream in streams:
        for place, level in enumerate(list_levels(stream)):
            level.alarmed = alarmed.get((stream.id, place))


class Changed(NamedTuple):
    """A digest of every row that can be used, by id; the streams of those that were not seen so."""

    digests: dict[int, int]
    changed: list[Stream]
    quarantined: dict[str, str]


def survey_changed(database: Database, seen: Mapping[int, int], *, now: float = -math.inf) -> Changed:
    with database.read() as transaction:
        rows = transaction.fetch(statements.LIST_STREAMS, 0, _ALL)
        # Reading the row costs little, and what it says much. What waits in vain is not in it.
        digests = {row.id: hash((row, now if _is_past(row, now) else None)) for row in rows}
        changed, quarantined = _read_rows([one for one in rows if seen.get(one.id) != digests[one.id]])
        _add_alarms(transaction, changed)
        _count_overdue(transaction, changed, now)
    usable = {row.id: digests[row.id] for row in rows if str(row.name) not in quarantined}
    return Changed(usable, changed, quarantined)


def _is_past(row: StreamRow, now: float) -> bool:
    expiry: object = row.next_expiry  # SQLite keeps whatever it is given.
    return isinstance(expiry, float) and expiry <= now


def archive(database: Database, name: str, *, now: float) -> Stream:
    """Close a stream for good: it can be read and takes no more rounds. Twice is as good as once."""
    with change_stream(database, name, takes_archived=True) as work:
        if work.stream.archived is None:
            changes.note(work, Change(now, changes.ARCHIVED, {}))
            work.stream.archived = now
    return work.stream


def delete(database: Database, name: str) -> None:
    """Remove a stream that is archived, or cannot be used, and its log for good."""
    with database.write() as transaction:
        row = find_stream_row(transaction, name)
        if row.archived is None and _read_rows([row])[0]:
            raise InvalidError(f"stream {name!r} takes rounds still; archive it before you delete it")
        for statement in (*statements.DELETE_ROWS, statements.DELETE_STREAM):
            transaction.execute(statement, row.id)
    database.scrub()
