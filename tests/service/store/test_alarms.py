"""When an alarm is written down, and how it is found again."""

import pytest

from keyhole.predictor.monitor import Alarm, Watch
from keyhole.service.store import alarms, schema, settings, streams
from keyhole.service.store.alarms import Alarmed
from keyhole.service.store.database import Database

NOW = 1_800_000_000.0
RAISED = Alarmed(raised=12, raised_at=5.0, kind=1, since=3, since_at=103.0)


def follow(watch: Watch, last: Alarmed | None) -> Alarmed | None:
    return alarms.follow(watch, last, at=5.0, time_of=lambda count: 100.0 + count)


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
        streams.create(light, name, setup=setup, now=NOW)
    with light.write() as connection:
        for stream, raised in ((1, 30), (1, 10), (1, 20), (2, 5)):
            row = RAISED._replace(raised=raised)._asdict()
            connection.execute(schema.alarms.insert().values(stream=stream, **row))
    return light


def test_the_newest_alarm_of_each_stream_is_found(alarmed: Database) -> None:
    with alarmed.read() as connection:
        newest = alarms.find_newest(connection, [1, 2, 3])
        alone = [alarms.find_last(connection, stream) for stream in (1, 2, 3)]
        assert alarms.find_newest(connection, []) == {}
    assert newest == {1: RAISED._replace(raised=30), 2: RAISED._replace(raised=5)}
    assert alone == [newest[1], newest[2], None]


def test_alarms_are_listed_the_oldest_of_the_newest_first(alarmed: Database) -> None:
    with alarmed.read() as connection:
        assert [one.raised for one in alarms.list_alarms(connection, 1, most=2)] == [20, 30]
        assert [one.raised for one in alarms.list_alarms(connection, 1, most=9)] == [10, 20, 30]
        assert alarms.list_alarms(connection, 3, most=9) == []
