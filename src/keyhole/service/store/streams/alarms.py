"""Alarms: since when the misses of a stream were too many or too few, and until when."""

from collections.abc import Callable, Sequence

from keyhole.predictor.monitor import Watch
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.schema import AlarmRow, alarms


def follow(
    watch: Watch,
    last: AlarmRow | None,
    *,
    stream: int,
    at: float,
    time_of: Callable[[int], float],
    level: int = 0,
) -> AlarmRow | None:
    """Return the alarm that was raised or cleared just now, if the last one does not say so yet."""
    is_noted = last is not None and last.raised == watch.raised
    if watch.alarm and watch.raised == watch.rounds and not is_noted:
        since_at = time_of(watch.since)
        raised = (stream, watch.raised, at, int(watch.alarm), watch.since, since_at)
        return AlarmRow(*raised, level=level)
    is_over = watch.rounds and watch.cleared == watch.rounds and not watch.alarm
    if is_over and last is not None and last.cleared is None:
        return last._replace(cleared=watch.cleared, cleared_at=at)
    return None


def note(
    transaction: Transaction,
    stream: int,
    watch: Watch,
    *,
    at: float,
    unwritten: Sequence[float] = (),
    level: int = 0,
) -> None:
    """Write down the alarm that the last answer raised or cleared, if it did either.

    ``unwritten`` are the times of the last answers that are not in the log yet.
    """

    def time_of(count: int) -> float:
        later = watch.rounds - count
        if later < len(unwritten):
            return unwritten[-1 - later]
        # There are few answers after it, as alarms are soon raised.
        before = later - len(unwritten)
        return transaction.fetch(statements.FIND_ANSWER_TIME, stream, 1, before)[0]

    last = find_last(transaction, stream, level)
    found = follow(watch, last, stream=stream, at=at, time_of=time_of, level=level)
    if found is not None:
        transaction.execute(statements.DELETE_ALARM, stream, found.raised, level)
        transaction.insert(alarms, [found])


def find_last(transaction: Transaction, stream: int, level: int = 0) -> AlarmRow | None:
    rows = transaction.fetch(statements.FIND_ALARM, stream, level)
    return rows[0] if rows else None


def find_newest(transaction: Transaction, streams: list[int]) -> dict[tuple[int, int], AlarmRow]:
    """Return the last alarm of each level, by stream and level."""
    found = transaction.fetch(statements.LIST_ALARMS_OF, streams)
    return {(alarm.stream, alarm.level): alarm for alarm in found}


def list_alarms(transaction: Transaction, stream: int, *, most: int) -> list[AlarmRow]:
    """Return the newest alarms of a stream, the oldest of them first."""
    return transaction.fetch(statements.LIST_ALARMS, stream, most)[::-1]
