"""When an alarm is written down, and how it is found again."""

from collections.abc import Sequence

import pytest

from keyhole.predictor.monitor import Alarm, Watch
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import AlarmRow
from keyhole.service.store.streams import (
    alarms,
    answers,
    calibrations,
    proposals,
    registry,
    settings,
    updates,
)
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.calibrations import Past
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import run_tasks
from keyhole.service.store.streams.updates import Update

NOW = 1_800_000_000.0
RAISED = AlarmRow(stream=1, raised=12, raised_at=5.0, kind=1, since=3, since_at=103.0)


def follow(watch: Watch, last: AlarmRow | None) -> AlarmRow | None:
    return alarms.follow(watch, last, stream=1, at=5.0, time_of=lambda count: 100.0 + count)


@pytest.mark.parametrize(("alarm", "kind"), [(Alarm.TOO_MANY, 1), (Alarm.TOO_FEW, -1)])
def test_an_alarm_is_noted_at_the_answer_that_raised_it(alarm: Alarm, kind: int) -> None:
    watch = Watch(rounds=12, alarm=alarm, since=3, raised=12)
    assert follow(watch, None) == RAISED._replace(kind=kind)
    watch.rounds = 13
    assert follow(watch, RAISED) is None


def test_its_end_is_noted_at_the_answer_that_cleared_it() -> None:
    watch = Watch(rounds=40, since=3, raised=12, cleared=40)
    assert follow(watch, RAISED) == RAISED._replace(cleared=40, cleared_at=5.0)
    assert follow(watch, None) is None
    watch.rounds = 41
    assert follow(watch, RAISED) is None


def test_before_the_first_answer_nothing_is_noted() -> None:
    assert follow(Watch(), RAISED) is None


@pytest.fixture
def alarmed(light: Database) -> Database:
    """Three streams; the first had three alarms, the second one, the last none."""
    setup, _ = settings.make_setup("kt", alpha=0.1)
    for name in ("first", "second", "third"):
        registry.create(light, name, setup=setup, now=NOW)
    with light.write() as connection:
        for stream, raised in ((1, 30), (1, 10), (1, 20), (2, 5)):
            row = RAISED._replace(stream=stream, raised=raised)
            connection.insert(schema.alarms, [row])
    return light


def test_the_newest_alarm_of_each_stream_is_found(alarmed: Database) -> None:
    with alarmed.read() as connection:
        newest = {one: row for (one, _), row in alarms.find_newest(connection, [1, 2, 3]).items()}
        alone = [alarms.find_last(connection, stream) for stream in (1, 2, 3)]
        assert alarms.find_newest(connection, []) == {}
    assert newest == {1: RAISED._replace(raised=30), 2: RAISED._replace(stream=2, raised=5)}
    assert alone == [newest[1], newest[2], None]


def test_alarms_are_listed_the_oldest_of_the_newest_first(alarmed: Database) -> None:
    with alarmed.read() as connection:
        assert [one.raised for one in alarms.list_alarms(connection, 1, most=2)] == [20, 30]
        assert [one.raised for one in alarms.list_alarms(connection, 1, most=9)] == [10, 20, 30]
        assert alarms.list_alarms(connection, 3, most=9) == []


def begin(database: Database) -> None:
    """Create a stream whose promise can be judged from its first answer on."""
    setup, _ = settings.make_setup("kt", alpha=0.1)
    registry.create(database, "first", setup=setup, now=NOW)
    calibrations.calibrate(database, "first", [Past([1.0], 0)] * 1_500, now=NOW)


def answer(database: Database, given: str, *, times: Sequence[float]) -> None:
    """Open rounds together and answer each at its time."""
    opened = proposals.predict(database, "first", asks=[Query([1.0])] * len(times), now=NOW)
    for one, at in zip(opened, times, strict=True):
        answers.answer(database, [Reply(one.id, given)], now=at)


def test_misses_raise_an_alarm_that_says_when_it_began_and_the_log_replays(light: Database) -> None:
    """Twenty misses of a batch in a row at alpha 0.1, after three hits: since the fourth answer."""
    begin(light)
    answer(light, "hit", times=[NOW + 1.0, NOW + 2.0, NOW + 3.0])
    answer(light, "skip", times=[NOW + 3.5])  # which is not watched
    answer(light, "miss", times=[NOW + 4.0 + n for n in range(20)])
    found = registry.get(light, "first").alarmed
    assert found is not None
    assert (found.kind, found.since, found.cleared) == (1, 4, None)
    assert found.since_at == NOW + 4.0
    assert found.raised_at == NOW + found.raised
    assert replay.replay(light, "first").difference is None
    updates.update(light, "first", Update(alpha=0.2), now=NOW + 60.0)
    over = registry.get(light, "first").alarmed
    assert over == found._replace(cleared=23, cleared_at=NOW + 60.0)
    updates.update(light, "first", Update(alpha=0.3), now=NOW + 90.0)
    assert registry.get(light, "first").alarmed == over  # which had ended before
    assert replay.replay(light, "first").difference is None


def test_misses_that_come_together_began_when_they_came(light: Database) -> None:
    begin(light)
    answer(light, "miss", times=[NOW + 1.0])
    opened = proposals.predict(light, "first", asks=[Query([1.0])] * 15, now=NOW)
    given = ["skip", *["miss"] * 14]  # of which the first is no answer
    replies = [Reply(one.id, word) for one, word in zip(opened, given, strict=True)]
    answers.answer(light, replies, now=NOW + 9.0)
    found = registry.get(light, "first").alarmed
    assert found is not None
    assert (found.since, found.since_at, found.raised_at) == (1, NOW + 1.0, NOW + 9.0)
    assert replay.replay(light, "first").difference is None


def test_answers_that_were_skipped_do_not_move_the_time_an_alarm_began(light: Database) -> None:
    begin(light)
    answer(light, "hit", times=[NOW + 1.0, NOW + 2.0])
    answer(light, "miss", times=[NOW + 3.0])
    answer(light, "skip", times=[NOW + 4.0])
    answer(light, "miss", times=[NOW + 5.0 + n for n in range(12)])
    found = registry.get(light, "first").alarmed
    assert found is not None
    assert (found.since, found.since_at) == (3, NOW + 3.0)


def test_misses_of_one_transaction_that_came_at_several_times_began_with_the_first(
    light: Database,
) -> None:
    """Kills: the time of another answer that is not written yet."""
    begin(light)
    opened = proposals.predict(light, "first", asks=[Query([1.0])] * 22, now=NOW)
    tasks = [proposals.make_task("first", asks=[Query([1.0])], now=NOW)]
    for n, one in enumerate(opened):
        given = "hit" if n < 2 else "miss"
        tasks += answers.make_tasks([Reply(one.id, given)], now=NOW + 1.0 + n)
    run_tasks(light, tasks)
    found = registry.get(light, "first").alarmed
    assert found is not None
    assert (found.since, found.since_at, found.raised_at) == (3, NOW + 3.0, NOW + found.raised)
    assert replay.replay(light, "first").difference is None
