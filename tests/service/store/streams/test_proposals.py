"""Rounds opened at the store's own door: keys that come again, batches, and rounds too many."""

from typing import Any

import pytest

from keyhole.errors import InvalidError, RefusedError
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Opened, Query
from keyhole.service.store.streams.stream import run_task
from keyhole.service.wire.responses import Receipt, show_time

NOW = 1_800_000_000.0


@pytest.fixture
def pets(light: Database) -> Database:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    return light


def test_a_key_gives_its_round_again_and_only_with_the_same_output(pets: Database) -> None:
    def predict(*asks: Query, now: float = NOW) -> Opened:
        made: Opened = run_task(pets, proposals.make_task("pets", asks=asks, now=now))
        return made

    (first,), _ = predict(Query([0.9, 0.1], "k"))
    (again, fresh, twin), repeated = predict(
        Query([0.9, 0.1], "k"), Query([0.8, 0.2], "l"), Query([0.8, 0.2], "l"), now=NOW + 5.0
    )
    assert (again, repeated) == (first, [True, False, True])
    assert (fresh.round, twin.round) == (1, 1)
    with pytest.raises(RefusedError, match="'k' came with another output"):
        predict(Query([0.9, 0.2], "k"))
    assert registry.get(pets, "pets").tally.predicted == 2


def test_a_key_means_one_centre_whatever_the_scale_has_become(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, scale=1.0, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)

    def predict(centre: float, key: str | None = None) -> Any:
        (opened,) = proposals.predict(light, "pets", asks=[Query(centre, key)], now=NOW)
        return opened

    first = predict(5.0, "k")
    for value in (5.3, 5.7, 6.1):
        answers.answer(light, [Reply(predict(5.0).id, {"label": value})], now=NOW)
    again = predict(5.0, "k")
    assert again == first
    for other in (-5.0, 5.0 + 2**-50):
        with pytest.raises(RefusedError, match="'k' came with another output"):
            predict(other, "k")


def test_a_key_that_comes_with_other_groups_is_told_so(light: Database) -> None:
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", groups=["new", "old"], seed=7)
    registry.create(light, "gate", setup=setup, now=NOW)

    def predict(score: float, *groups: str) -> Any:
        (opened,) = proposals.predict(light, "gate", asks=[Query(score, "k", groups=groups)], now=NOW)
        return opened

    first = predict(0.9, "new")
    assert predict(0.9, "new").id == first.id
    with pytest.raises(RefusedError, match="'k' came with other features or groups"):
        predict(0.9, "old")
    with pytest.raises(RefusedError, match="'k' came with another output"):
        predict(0.8, "new")


def test_a_batch_with_a_key_that_was_used_otherwise_opens_none_of_its_rounds(pets: Database) -> None:
    proposals.predict(pets, "pets", asks=[Query([0.9, 0.1], "used")], now=NOW)
    with pytest.raises(RefusedError):
        proposals.predict(pets, "pets", asks=[Query([0.9, 0.1]), Query([0.5, 0.5], "used")], now=NOW)
    assert registry.get(pets, "pets").tally.predicted == 1
    assert replay.replay(pets, "pets").difference is None


def test_a_retry_after_its_round_has_expired_gives_it_again_and_changes_nothing(pets: Database) -> None:
    late = NOW + 8 * 86_400.0
    (first,) = proposals.predict(pets, "pets", asks=[Query([0.9, 0.1], "k")], now=NOW)
    (again,) = proposals.predict(pets, "pets", asks=[Query([0.9, 0.1], "k")], now=late)
    assert again == first
    stream, week = registry.get(pets, "pets"), 7 * 86_400.0
    assert (stream.version, stream.tally.expired, stream.next_expiry) == (1, 0, NOW + week)
    assert replay.replay(pets, "pets").difference is None


def test_a_stream_is_asked_at_the_door_of_its_kind(pets: Database) -> None:
    proposals.predict(pets, "pets", asks=[Query([0.9])], now=NOW, makes="predictions")
    with pytest.raises(InvalidError, match="not decisions; ask /v1/streams/pets/predictions"):
        proposals.predict(pets, "pets", asks=[Query([0.9])], now=NOW, makes="decisions")
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", seed=7)
    registry.create(pets, "gate", setup=setup, now=NOW)
    with pytest.raises(InvalidError, match="not predictions; ask /v1/streams/gate/decisions"):
        proposals.predict(pets, "gate", asks=[Query(0.9)], now=NOW, makes="predictions")


def test_a_fault_in_a_batch_says_in_which_prediction_it_is_and_opens_none(pets: Database) -> None:
    with pytest.raises(InvalidError, match=r"^prediction 1: score"):
        proposals.predict(pets, "pets", asks=[Query([0.9]), Query([1.9])], now=NOW)
    with pytest.raises(InvalidError, match=r"^score"):
        proposals.predict(pets, "pets", asks=[Query([1.9])], now=NOW)
    assert registry.get(pets, "pets").tally.predicted == 0


def test_past_the_limit_the_oldest_rounds_expire(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, open_limit=3)
    registry.create(light, "few", setup=setup, now=NOW)
    first = proposals.predict(light, "few", asks=[Query([0.9])] * 2, now=NOW)
    proposals.predict(light, "few", asks=[Query([0.9])] * 3, now=NOW)
    assert (registry.get(light, "few").open, registry.get(light, "few").tally.expired) == (3, 2)
    results = answers.answer(light, [Reply(one.id, "hit") for one in first], now=NOW)
    assert all("more than 3 were open" in str(one) for one in results)
    with pytest.raises(InvalidError, match="4 predictions are more than the 3"):
        proposals.predict(light, "few", asks=[Query([0.9])] * 4, now=NOW)
    proposals.predict(light, "few", asks=[Query([0.9])], now=NOW)
    assert (registry.get(light, "few").open, registry.get(light, "few").tally.expired) == (3, 3)


def test_open_rounds_are_those_that_are_neither_answered_nor_skipped_nor_expired(
    pets: Database,
) -> None:
    opened = proposals.predict(pets, "pets", asks=[Query([0.9])] * 5, now=NOW)
    answers.answer(pets, [Reply(opened[0].id, "hit"), Reply(opened[1].id, "skip")], now=NOW)
    assert registry.get(pets, "pets").open == 3
    week = 7 * 86_400.0
    proposals.predict(pets, "pets", asks=[Query([0.9])], now=NOW + week - 1.0)
    assert registry.get(pets, "pets").open == 4
    proposals.predict(pets, "pets", asks=[Query([0.9])], now=NOW + week)  # their time is over just now
    stream = registry.get(pets, "pets")
    assert (stream.open, stream.tally.expired, stream.tally.skipped) == (2, 3, 1)
    assert stream.next_expiry == NOW + 2 * week - 1.0


def test_a_round_can_be_answered_until_just_before_its_time_is_over(pets: Database) -> None:
    first, second = proposals.predict(pets, "pets", asks=[Query([0.9])] * 2, now=NOW)
    expires = NOW + 7 * 86_400.0
    assert first.expires == second.expires == show_time(expires)
    (counted,) = answers.answer(pets, [Reply(first.id, "hit")], now=expires - 1e-3)
    (late,) = answers.answer(pets, [Reply(second.id, "hit")], now=expires)
    assert isinstance(counted, Receipt)
    assert "has expired: its 604800 seconds are over" in str(late)
