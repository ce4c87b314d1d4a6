"""A log played again, event by event."""

import pytest

from keyhole.service.store.log import replay
from keyhole.service.store.log.replay import Difference, expect
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import alarms, answers, proposals, registry, settings, updates
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.updates import Update

NOW = 1_800_000_000.0


def test_every_alarm_of_a_log_is_found_again_by_its_replay_and_the_last_is_listed(
    light: Database,
) -> None:
    """Three alarms: the first two end with a change of the target, the last is on."""
    setup, _ = settings.make_setup("kt", alpha=0.4)
    for name in ("first", "second"):
        registry.create(light, name, setup=setup, now=NOW)
    for n, alpha in enumerate((0.45, 0.4, None)):
        for _ in range(90):  # With a new target it starts again, for 20 / alpha answers at most.
            (opened,) = proposals.predict(light, "first", asks=[Query([0.9])], now=NOW)
            answers.answer(light, [Reply(opened.id, "miss")], now=NOW + 100.0 * n)
        if alpha is not None:
            updates.update(light, "first", Update(alpha=alpha), now=NOW + 100.0 * n + 50.0)
    with light.read() as connection:
        found = alarms.list_alarms(connection, 1, most=9)
    assert [one.cleared_at for one in found] == [NOW + 50.0, NOW + 150.0, None]
    assert [one.raised_at for one in found] == [NOW, NOW + 100.0, NOW + 200.0]
    assert replay.replay(light, "first").difference is None
    assert [stream.alarmed for stream in registry.survey(light).usable] == [found[-1], None]


def test_rounds_whose_time_was_over_are_over_in_the_replay_too(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7, open_limit=4)
    registry.create(light, "pets", setup=setup, now=NOW, lifetime=10.0)
    for at, count in ((0.0, 2), (5.0, 1), (10.0, 1), (14.0, 3), (30.0, 1)):
        proposals.predict(light, "pets", asks=[Query([0.9])] * count, now=NOW + at)
    stream = registry.get(light, "pets")
    assert (stream.open, stream.tally.expired, stream.next_expiry) == (1, 7, NOW + 40.0)
    assert replay.replay(light, "pets").difference is None


@pytest.mark.parametrize(
    ("stored", "played", "expected"),
    [
        (b"abcd", b"abXd", "row: the state differs from byte 2 on"),
        (b"Xbcd", b"abcd", "row: the state differs from byte 0 on"),
        (b"ab", b"abcd", "row: the state differs from byte 2 on"),
        (7, 8, "row: the state is 7, and the replay gives 8"),
    ],
)
def test_a_difference_says_what_is_stored_or_from_which_byte_on(
    stored: object, played: object, expected: str
) -> None:
    with pytest.raises(Difference) as caught:
        expect("row", "state", stored, played)
    assert str(caught.value) == expected
    expect("row", "state", stored, stored)
