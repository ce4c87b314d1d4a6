"""Answers and keys at the store's own door: which round they mean, and what the second time means."""

from hashlib import blake2b
from typing import Any

import pytest
import sqlalchemy as sql

from keyhole.errors import (
    AnsweredError,
    ContextError,
    FeedbackError,
    InvalidError,
    KeyReusedError,
    UnknownRoundError,
)
from keyhole.service.store import answers, history, proposals, replay, settings, streams
from keyhole.service.store.answers import Counted, Reply, make_jobs
from keyhole.service.store.database import Database
from keyhole.service.store.playing import Settled, is_miss
from keyhole.service.store.proposals import Query
from keyhole.service.store.schema import marks

NOW = 1_800_000_000.0


@pytest.fixture
def two(light: Database) -> Database:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    for name in ("pets", "other"):
        streams.create(light, name, setup=setup, now=NOW)
    return light


def ask(database: Database, name: str = "pets", count: int = 1) -> list[str]:
    asks = [Query([0.9, 0.1])] * count
    return [one.id for one in proposals.predict(database, name, asks=asks, now=NOW)]


def reply(database: Database, *replies: tuple[str, Any]) -> list[Any]:
    return answers.answer(database, [Reply(*one) for one in replies], now=NOW)


@pytest.mark.parametrize(
    ("id_", "stream"),
    [
        ("1-0-0123456789", 1),
        ("120-77-abcdefabcd", 120),
        ("1" * 18 + "-0-0123456789", int("1" * 18)),
        ("1" * 19 + "-0-0123456789", None),
        ("1-0-012345678", None),
        ("1-0-01234567890", None),
        ("1-0-012345678G", None),
        ("-1-0-0123456789", None),
        ("1-0", None),
        ("", None),
        ("١-0-0123456789", None),  # digits of another script
    ],
)
def test_an_id_names_its_stream_or_is_none(id_: str, stream: int | None) -> None:
    found = [job.wanted for _, job in make_jobs([Reply(id_, "hit")], now=NOW)]
    assert found == ([] if stream is None else [stream])


def test_answers_to_several_streams_come_back_in_the_order_they_were_sent(two: Database) -> None:
    first, second = ask(two, "pets", 2)
    (third,) = ask(two, "other")
    told = reply(two, (second, "hit"), (third, "miss"), ("nonsense", "hit"), (first, "skip"))
    assert told[0] == Counted(second, "pets", missed=False)
    assert told[1] == Counted(third, "other", missed=True)
    assert isinstance(told[2], UnknownRoundError)
    assert told[3] == Counted(first, "pets", missed=None)


def test_an_answer_to_a_stream_that_is_not_there_leaves_the_others_alone(two: Database) -> None:
    (id_,) = ask(two)
    nowhere, counted = reply(two, ("9-0-0123456789", "hit"), (id_, "hit"))
    assert isinstance(nowhere, UnknownRoundError)
    assert counted == Counted(id_, "pets", missed=False)


def test_a_skip_that_comes_again_is_repeated_and_counts_once(two: Database) -> None:
    (id_,) = ask(two)
    told = [reply(two, (id_, "skip"))[0] for _ in range(2)]
    assert told == [Counted(id_, "pets", None, repeated=again) for again in (False, True)]
    assert streams.get(two, "pets").tally.skipped == 1


def test_the_id_of_a_round_is_the_same_for_ever(two: Database) -> None:
    """Kills: another tag for the same stream and round, which clients have noted."""
    key = (7).to_bytes(8, "big")  # the seed
    tag = blake2b(b"1", key=key, digest_size=5).hexdigest()
    assert ask(two, "pets", 2)[1] == f"1-1-{tag}"


def test_a_wrong_tag_a_foreign_number_and_a_foreign_stream_are_unknown(two: Database) -> None:
    (id_,) = ask(two)
    stream, number, tag = id_.split("-")
    wrong = [f"{stream}-{number}-0000000000", f"{stream}-1-{tag}", f"9-{number}-{tag}"]
    for told in reply(two, *((one, "hit") for one in wrong)):
        assert isinstance(told, UnknownRoundError)
    assert streams.get(two, "pets").open == 1


def test_the_same_answer_again_is_repeated_and_another_is_refused(two: Database) -> None:
    (id_,) = ask(two)
    for again in (False, True, True):
        (told,) = reply(two, (id_, {"label": 1}))
        assert told == Counted(id_, "pets", missed=True, repeated=again)
    (told,) = reply(two, (id_, {"label": 0}))
    assert isinstance(told, AnsweredError)
    assert streams.get(two, "pets").tally.answered == 1


def test_an_answer_that_is_there_twice_in_one_batch_counts_once(two: Database) -> None:
    (id_,) = ask(two)
    told = reply(two, (id_, "hit"), (id_, "hit"), (id_, "miss"))
    assert [getattr(one, "repeated", None) for one in told] == [False, True, None]
    assert streams.get(two, "pets").tally.answered == 1
    assert replay.replay(two, "pets").difference is None


@pytest.mark.parametrize(
    "told", ["right", {}, {"hit": True, "miss": True}, {"label": 0, "more": 1}, {"chance": 0.5}, 7]
)
def test_what_is_no_answer_is_refused_and_leaves_the_round_open(two: Database, told: Any) -> None:
    (id_,) = ask(two)
    (result,) = reply(two, (id_, told))
    assert isinstance(result, FeedbackError)
    assert streams.get(two, "pets").open == 1


@pytest.mark.parametrize(("miss", "missed"), [(0.0, False), (0.49, False), (0.5, True), (None, None)])
def test_a_graded_answer_is_a_miss_from_a_half_on(miss: float | None, *, missed: bool | None) -> None:
    assert is_miss(miss) is missed
    assert Settled(miss, 1.0, None, 2.0).missed is missed


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"score": 0.25}, (1.0, 1.0, 0.25)),
        ({"score": 0.75}, (0.0, 1.0, 0.75)),
        ({"loss": 0.25}, (0.25, 1.0, None)),
        ({"hit": True, "wrong": 0.25}, (-0.5, 1.0, None)),
        ({"miss": True, "chance": 0.5}, (1.0, 2.0, None)),
        ("skip", (None, 0.0, None)),
    ],
)
def test_the_log_keeps_the_loss_the_weight_and_the_score(two: Database, told: Any, kept: Any) -> None:
    (id_,) = ask(two)
    reply(two, (id_, told))
    (entry,), _ = history.last(two, "pets", count=1)
    assert (entry.miss, entry.weight, entry.score) == kept
    assert replay.replay(two, "pets").difference is None


def test_a_key_gives_its_round_again_and_only_with_the_same_output(two: Database) -> None:
    def predict(*asks: Query, now: float = NOW) -> list[Any]:
        return proposals.predict(two, "pets", asks=asks, now=now)

    (first,) = predict(Query([0.9, 0.1], "k"))
    again, fresh, twin = predict(
        Query([0.9, 0.1], "k"), Query([0.8, 0.2], "l"), Query([0.8, 0.2], "l"), now=NOW + 5.0
    )
    assert (again.id, again.repeated, again.expires) == (first.id, True, first.expires)
    assert again.region == first.region
    assert (fresh.number, fresh.repeated, twin.number, twin.repeated) == (1, False, 1, True)
    with pytest.raises(KeyReusedError, match="'k' came with another output"):
        predict(Query([0.9, 0.2], "k"))
    assert streams.get(two, "pets").tally.predicted == 2


def test_a_key_means_one_centre_whatever_the_scale_has_become(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, scale=1.0, seed=7)
    streams.create(light, "pets", setup=setup, now=NOW)

    def predict(centre: float, key: str | None = None) -> Any:
        (opened,) = proposals.predict(light, "pets", asks=[Query(centre, key)], now=NOW)
        return opened

    first = predict(5.0, "k")
    for value in (5.3, 5.7, 6.1):
        reply(light, (predict(5.0).id, {"label": value}))
    again = predict(5.0, "k")
    assert (again.repeated, again.region) == (True, first.region)
    for other in (-5.0, 5.0 + 2**-50):
        with pytest.raises(KeyReusedError, match="'k' came with another output"):
            predict(other, "k")


def test_a_key_that_comes_with_other_groups_is_told_so(light: Database) -> None:
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", groups=["new", "old"], seed=7)
    streams.create(light, "gate", setup=setup, now=NOW)

    def predict(score: float, *groups: str) -> Any:
        (opened,) = proposals.predict(light, "gate", asks=[Query(score, "k", groups=groups)], now=NOW)
        return opened

    first = predict(0.9, "new")
    assert predict(0.9, "new").id == first.id
    with pytest.raises(KeyReusedError, match="'k' came with other features or groups"):
        predict(0.9, "old")
    with pytest.raises(KeyReusedError, match="'k' came with another output"):
        predict(0.8, "new")


def test_a_batch_with_a_key_that_was_used_otherwise_opens_none_of_its_rounds(two: Database) -> None:
    proposals.predict(two, "pets", asks=[Query([0.9, 0.1], "used")], now=NOW)
    with pytest.raises(KeyReusedError):
        proposals.predict(two, "pets", asks=[Query([0.9, 0.1]), Query([0.5, 0.5], "used")], now=NOW)
    assert streams.get(two, "pets").tally.predicted == 1
    assert replay.replay(two, "pets").difference is None


def test_a_retry_after_its_round_has_expired_gives_it_again_and_changes_nothing(two: Database) -> None:
    late = NOW + 8 * 86_400.0
    (first,) = proposals.predict(two, "pets", asks=[Query([0.9, 0.1], "k")], now=NOW)
    (again,) = proposals.predict(two, "pets", asks=[Query([0.9, 0.1], "k")], now=late)
    assert (again.id, again.repeated) == (first.id, True)
    here = streams.get(two, "pets")
    assert (here.version, here.tally.expired, here.sweep) == (1, 0, first.expires)
    assert replay.replay(two, "pets").difference is None


def test_what_is_known_of_a_case_is_refused_where_a_stream_does_not_ask_for_it(two: Database) -> None:
    for ask in (Query([0.9], features={"hour": 7.0}), Query([0.9], groups=["north"])):
        with pytest.raises(ContextError):
            proposals.predict(two, "pets", asks=[ask], now=NOW)
    assert streams.get(two, "pets").tally.predicted == 0


def test_a_stream_is_asked_at_the_door_of_its_kind(two: Database) -> None:
    proposals.predict(two, "pets", asks=[Query([0.9])], now=NOW, kind="set")
    with pytest.raises(InvalidError, match="is no gate; ask /v1/streams/pets/predictions"):
        proposals.predict(two, "pets", asks=[Query([0.9])], now=NOW, kind="gate")
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", seed=7)
    streams.create(two, "gate", setup=setup, now=NOW)
    with pytest.raises(InvalidError, match="is a gate; ask /v1/streams/gate/decisions"):
        proposals.predict(two, "gate", asks=[Query(0.9)], now=NOW, kind="set")


def test_a_fault_in_a_batch_says_in_which_prediction_it_is_and_opens_none(two: Database) -> None:
    with pytest.raises(InvalidError, match=r"^prediction 1: score"):
        proposals.predict(two, "pets", asks=[Query([0.9]), Query([1.9])], now=NOW)
    with pytest.raises(InvalidError, match=r"^score"):
        proposals.predict(two, "pets", asks=[Query([1.9])], now=NOW)
    assert streams.get(two, "pets").tally.predicted == 0


def test_every_hundredth_answer_leaves_a_snapshot_and_a_skip_leaves_none(two: Database) -> None:
    ids = ask(two, "pets", 252)
    reply(two, *((id_, "skip") for id_ in ids[:2]), *((id_, "hit") for id_ in ids[2:]))
    with two.read() as connection:
        rows = connection.execute(sql.select(marks).order_by(marks.c.answered)).all()
    assert [(row.answered, row.version) for row in rows] == [(100, 354), (200, 454)]
    assert [row.predicted for row in rows] == [252, 252]
