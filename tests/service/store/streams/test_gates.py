"""Gates in the store: few rounds, whose groups, memos and open rounds must be those of the library."""

from typing import Any

import numpy as np
import pytest

from keyhole import Gate
from keyhole.errors import ReferredError
from keyhole.predictor.context import Known
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.wire.responses import Receipt, show_decision

NOW = 1_800_000_000.0
GROUPS = ("new", "old", "rare")
CASES = [(), ("new",), ("old",), ("rare",), ("new", "rare"), ("old", "rare"), GROUPS]


def make(database: Database, **given: Any) -> None:
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", groups=GROUPS, seed=7, **given)
    registry.create(database, "gate", setup=setup, now=NOW)


@pytest.mark.parametrize("feedback", ["accepted", "both"])
def test_every_group_decides_and_learns_as_in_the_library(light: Database, feedback: str) -> None:
    """Judged two rounds late, so that what a round remembers of each group goes through the tables."""
    make(light, feedback=feedback)
    gate, rng = Gate(alpha=0.1, feedback=feedback, groups=GROUPS, seed=7), np.random.default_rng(2)
    waiting: list[tuple[str, Any, bool]] = []
    for n in range(35):
        score, groups = float(rng.beta(5, 1)), CASES[n % len(CASES)]
        (opened,) = proposals.predict(light, "gate", asks=[Query(score, groups=groups)], now=NOW + n)
        decision: Any = gate.decide(score, groups=groups)
        assert opened == show_decision(opened.id, decision, expires=NOW + n + settings.LIFETIME)
        if decision.accepted or feedback == "both":
            waiting.append((opened.id, decision, bool(rng.random() < 0.8)))
        if len(waiting) > 2:
            id_, asked, right = waiting.pop(0)
            (result,) = answers.answer(light, [Reply(id_, {"right": right})], now=NOW + n)
            assert isinstance(result, Receipt)
            assert result.missed is not right
            gate.learn(asked, right=right)
    stream = registry.get(light, "gate")
    assert stream.open == gate.open_rounds
    assert stream.tally.sum_up().accepted == gate.accepted_share * 35
    assert stream.tally.miss_rate == gate.wrong_share
    assert replay.replay(light, "gate").difference is None


def test_a_round_shows_its_groups_and_its_judgement(light: Database) -> None:
    make(light)
    asks = [Query({"a": 0.99, "b": 0.5}, groups=groups) for groups in CASES]
    opened = proposals.predict(light, "gate", asks=asks, now=NOW)
    answers.answer(light, [Reply(opened[2].id, {"right": False})], now=NOW)
    entries, before = history.last(light, "gate", count=10)
    assert before is None
    assert [one.known for one in entries[::-1]] == [Known(None, groups) for groups in CASES]
    assert [one.region.candidate for one in entries] == ["a"] * 7  # type: ignore[union-attr]
    assert [one.answer for one in entries[::-1]] == [None, None, {"right": False}, *[None] * 4]


def test_what_is_referred_does_not_wait_where_nobody_will_judge_it(light: Database) -> None:
    make(light)
    (referred,) = proposals.predict(light, "gate", asks=[Query(0.0)], now=NOW)
    (result,) = answers.answer(light, [Reply(referred.id, {"right": True})], now=NOW)
    assert isinstance(result, ReferredError)
    assert registry.get(light, "gate").open == 0


def test_only_accepted_answers_count_among_the_recent(light: Database) -> None:
    make(light, feedback="both")
    opened = proposals.predict(light, "gate", asks=[Query(0.0), Query(1.0), Query(1.0)], now=NOW)
    answers.answer(light, [Reply(one.id, {"right": False}) for one in opened[:2]], now=NOW)
    stream = registry.get(light, "gate")
    assert (stream.recent_rounds, stream.recent_misses, stream.open) == (1, 1, 1)
    assert (stream.tally.weight, stream.tally.misses) == (1.0, 1.0)


def test_a_judgement_may_come_with_its_chance_and_how_often_such_are_wrong(light: Database) -> None:
    make(light)
    (opened,) = proposals.predict(light, "gate", asks=[Query(1.0)], now=NOW)
    reply = {"right": False, "chance": 0.5, "wrong": 0.25}
    (result,) = answers.answer(light, [Reply(opened.id, reply)], now=NOW)
    assert isinstance(result, Receipt)
    (entry,), _ = history.last(light, "gate", count=1)
    assert entry.answered is not None
    assert (entry.answer, entry.answered.weight, entry.answered.miss) == (reply, 2.0, 1.5)
    assert replay.replay(light, "gate").difference is None


@pytest.mark.parametrize("reply", ["hit", 7, {}, {"right": "yes"}, {"right": True, "more": 1}])
def test_what_is_no_judgement_is_refused_and_leaves_the_round_open(light: Database, reply: Any) -> None:
    make(light)
    (opened,) = proposals.predict(light, "gate", asks=[Query(1.0)], now=NOW)
    (result,) = answers.answer(light, [Reply(opened.id, reply)], now=NOW)
    assert "not a judgement" in str(result) or "neither True nor False" in str(result)
    assert registry.get(light, "gate").open == 1
