"""Alarms: since when the misses of a stream were too many or too few, and until when."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import sqlalchemy as sql

from keyhole.predictor.monitor import Watch
from keyhole.service.store.sql.schema import alarms, feedback
from keyhole.service.store.sql.transactions import Connection

_AT_ONCE = 500  # A statement holds so many values, and not any number of them.


class Alarmed(NamedTuple):
    """One alarm: answers are counted from 1, and what is not over has no ``cleared``."""

    raised: int
    raised_at: float
    kind: int
    since: int
    since_at: float
    cleared: int | None = None
    cleared_at: float | None = None


def follow(
    watch: Watch, last: Alarmed | None, *, at: float, time_of: Callable[[int], float]
) -> Alarmed | None:
    """Return the alarm that this very answer raised or cleared, if it did either."""
    if watch.raised == watch.rounds and watch.alarm:
        since_at = time_of(watch.since)
        return Alarmed(watch.raised, at, int(watch.alarm), watch.since, since_at)
    if watch.cleared == watch.rounds and last is not None and watch.rounds:
        return last._replace(cleared=watch.cleared, cleared_at=at)
    return None


def note(
    connection: Connection, stream: int, watch: Watch, *, at: float, unwritten: Sequence[float] = ()
) -> None:
    """Write down the alarm that the last answer raised or cleared, if it did either.

    ``unwritten`` are the times of the last answers that are not in the log yet.
    """
    if watch.rounds not in (watch.raised, watch.cleared):
        return

    def time_of(count: int) -> float:
        later = watch.rounds - count
        if later < len(unwritten):
            return unwritten[-1 - later]
        return _read_time(connection, stream, later - len(unwritten))

    turned = follow(watch, find_last(connection, stream), at=at, time_of=time_of)
    if turned is not None:
        mine = (alarms.c.stream == stream, alarms.c.raised == turned.raised)
        connection.execute(alarms.delete().where(*mine))
        connection.execute(alarms.insert().values(stream=stream, **turned._asdict()))


def _read_time(connection: Connection, stream: int, before: int) -> float:
    """Return when the answer came that has so many after it: few, as alarms are soon raised."""
    return float(
        connection.execute(
            sql.select(feedback.c.at)
            .where(feedback.c.stream == stream, feedback.c.weight > 0.0)
            .order_by(feedback.c.version.desc())
            .offset(before)
            .limit(1)
        ).all()[0][0]
    )


_COLUMNS = sql.select(*(alarms.c[name] for name in Alarmed._fields))


def find_last(connection: Connection, stream: int) -> Alarmed | None:
    """Return the newest alarm of a stream."""
    found = _COLUMNS.where(alarms.c.stream == stream).order_by(alarms.c.raised.desc()).limit(1)
    rows = connection.execute(found).all()
    return Alarmed(*rows[0]) if rows else None


def find_newest(connection: sql.Connection, streams: Sequence[int]) -> dict[int, Alarmed]:
    """Return the newest alarm of each of these streams that had one."""
    found: dict[int, Alarmed] = {}
    query = sql.select(alarms.c.stream, *(alarms.c[name] for name in Alarmed._fields))
    for start in range(0, len(streams), _AT_ONCE):
        some = alarms.c.stream.in_(streams[start : start + _AT_ONCE])
        for row in connection.execute(query.where(some).order_by(alarms.c.raised)):
            found[row[0]] = Alarmed(*row[1:])
    return found


def list_alarms(connection: sql.Connection, stream: int, *, most: int) -> list[Alarmed]:
    """Return the newest alarms of a stream, the oldest of them first."""
    found = _COLUMNS.where(alarms.c.stream == stream).order_by(alarms.c.raised.desc()).limit(most)
    return [Alarmed(*row) for row in connection.execute(found)][::-1]
