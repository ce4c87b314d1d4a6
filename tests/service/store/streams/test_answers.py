"""Answers at the store's own door: which round they mean, and what the second time means."""

import json
from typing import Any

import pytest

from keyhole.errors import (
    AnsweredError,
    FeedbackError,
    UnknownRoundError,
)
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import snapshots
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply, make_tasks, write_reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.wire.responses import Receipt
from tests.service.scene import read_table

NOW = 1_800_000_000.0


@pytest.fixture
def two(light: Database) -> Database:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    for name in ("pets", "other"):
        registry.create(light, name, setup=setup, now=NOW)
    return light


def ask(database: Database, name: str = "pets", count: int = 1) -> list[str]:
    asks = [Query([0.9, 0.1])] * count
    return [one.id for one in proposals.predict(database, name, asks=asks, now=NOW)]


def reply(database: Database, *replies: tuple[str, Any]) -> list[Any]:
    return answers.answer(database, [Reply(*one) for one in replies], now=NOW)


@pytest.mark.parametrize(
    ("id_", "stream"),
    [
        ("1-0-0123456789abcdef", 1),
        ("120-77-abcdefabcdefabcd", 120),
        ("1" * 18 + "-0-0123456789abcdef", int("1" * 18)),
        ("1" * 19 + "-0-0123456789abcdef", None),
        ("1-0-0123456789abcde", None),
        ("1-0-0123456789abcdef0", None),
        ("1-0-0123456789abcdeG", None),
        ("-1-0-0123456789abcdef", None),
        ("1-0", None),
        ("", None),
        ("١-0-0123456789abcdef", None),  # digits of another script
    ],
)
def test_an_id_names_its_stream_or_is_none(id_: str, stream: int | None) -> None:
    found = [task.stream for task in make_tasks([Reply(id_, "hit")], now=NOW)]
    assert found == ([] if stream is None else [stream])


def test_answers_to_several_streams_come_back_in_the_order_they_were_sent(two: Database) -> None:
    first, second = ask(two, "pets", 2)
    (third,) = ask(two, "other")
    results = reply(two, (second, "hit"), (third, "miss"), ("nonsense", "hit"), (first, "skip"))
    assert results[0] == Receipt(second, "pets", missed=False)
    assert results[1] == Receipt(third, "other", missed=True)
    assert isinstance(results[2], UnknownRoundError)
    assert results[3] == Receipt(first, "pets", missed=None)


def test_an_answer_to_a_stream_that_is_not_there_leaves_the_others_alone(two: Database) -> None:
    (id_,) = ask(two)
    nowhere, counted = reply(two, ("9-0-0123456789abcdef", "hit"), (id_, "hit"))
    assert isinstance(nowhere, UnknownRoundError)
    assert counted == Receipt(id_, "pets", missed=False)


def test_a_skip_that_comes_again_is_repeated_and_counts_once(two: Database) -> None:
    (id_,) = ask(two)
    results = [reply(two, (id_, "skip"))[0] for _ in range(2)]
    assert results == [Receipt(id_, "pets", None, repeated=again) for again in (False, True)]
    assert registry.get(two, "pets").tally.skipped == 1


def test_a_wrong_tag_a_foreign_number_and_a_foreign_stream_are_unknown(two: Database) -> None:
    (id_,) = ask(two)
    stream, number, tag = id_.split("-")
    wrong = [f"{stream}-{number}-0000000000", f"{stream}-1-{tag}", f"9-{number}-{tag}"]
    for result in reply(two, *((one, "hit") for one in wrong)):
        assert isinstance(result, UnknownRoundError)
    assert registry.get(two, "pets").open == 1


def test_the_same_answer_again_is_repeated_and_another_is_refused(two: Database) -> None:
    (id_,) = ask(two)
    for again in (False, True, True):
        (result,) = reply(two, (id_, {"label": 1}))
        assert result == Receipt(id_, "pets", missed=True, repeated=again)
    (result,) = reply(two, (id_, {"label": 0}))
    assert isinstance(result, AnsweredError)
    assert registry.get(two, "pets").tally.answered == 1


def test_an_answer_that_is_there_twice_in_one_batch_counts_once(two: Database) -> None:
    (id_,) = ask(two)
    results = reply(two, (id_, "hit"), (id_, "hit"), (id_, "miss"))
    assert [getattr(one, "repeated", None) for one in results] == [False, True, None]
    assert registry.get(two, "pets").tally.answered == 1
    assert replay.replay(two, "pets").difference is None


@pytest.mark.parametrize(
    "given", ["right", {}, {"hit": True, "miss": True}, {"label": 0, "more": 1}, {"chance": 0.5}, 7]
)
def test_what_is_no_answer_is_refused_and_leaves_the_round_open(two: Database, given: Any) -> None:
    (id_,) = ask(two)
    (result,) = reply(two, (id_, given))
    assert isinstance(result, FeedbackError)
    assert registry.get(two, "pets").open == 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"score": 0.25}, (1.0, 1.0, 0.25)),
        ({"score": 0.75}, (0.0, 1.0, 0.75)),
        ({"loss": 0.25}, (0.25, 1.0, None)),
        ({"hit": True, "wrong": 0.25}, (-0.5, 1.0, None)),
        ({"miss": True, "chance": 0.5}, (1.0, 2.0, None)),
        ("skip", (None, 0.0, None)),
    ],
)
def test_the_log_keeps_the_loss_the_weight_and_the_score(two: Database, given: Any, kept: Any) -> None:
    (id_,) = ask(two)
    reply(two, (id_, given))
    (entry,), _ = history.last(two, "pets", count=1)
    row = entry.answered
    assert row is not None
    assert (row.miss, row.weight, row.score) == kept
    assert replay.replay(two, "pets").difference is None


def test_every_hundredth_answer_leaves_a_snapshot_and_a_skip_leaves_none(two: Database) -> None:
    ids = ask(two, "pets", 252)
    reply(two, *((id_, "skip") for id_ in ids[:2]), *((id_, "hit") for id_ in ids[2:]))
    rows = read_table(two, snapshots, "ORDER BY answered")
    assert [(row.answered, row.version) for row in rows] == [(100, 354), (200, 454)]
    assert [row.predicted for row in rows] == [252, 252]


@pytest.mark.parametrize(
    "given",
    [
        "miss",
        {"label": 7},
        {"label": 'Größe "x" \\ \n'},
        {"label": 0.1},
        {"right": True},
        {"label": -0.0},
        {"label": 10**30},
        {"miss": True, "chance": 0.5},
    ],
)
def test_the_log_keeps_an_answer_as_json_writes_it(given: Any) -> None:
    assert write_reply(given) == json.dumps(given, ensure_ascii=False)
