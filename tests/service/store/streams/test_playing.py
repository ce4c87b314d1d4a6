"""A round of any kind: what is read of an output, of what is known of a case, and of an answer."""

from typing import Any

import pytest

from keyhole import Predictor
from keyhole.errors import InvalidError, LabelError, ScoreError
from keyhole.predictor.context import Known
from keyhole.predictor.progress import Progress
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.playing import (
    is_miss,
    read_case,
    read_known,
    show_known,
    unpack_context,
)
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.settings import make_setup

NOW = 1_800_000_000.0
GROUPS = ("new", "old", "rare")
CASES = [(), ("new",), ("old",), ("rare",), ("new", "rare"), ("old", "rare"), GROUPS]


@pytest.mark.parametrize(
    ("given", "output", "fault"),
    [
        ({}, 3.0, "takes scores, not a centre"),
        ({}, (1.0, 2.0), "takes scores, not lower and upper"),
        ({"scale": 1.0}, [0.5], "takes a centre, not scores"),
        ({"kind": "band"}, 3.0, "takes lower and upper, not a centre"),
    ],
)
def test_an_output_of_another_kind_is_named(given: Any, output: Any, fault: str) -> None:
    setup, _ = make_setup(alpha=0.1, **given)
    progress = Progress.start(setup.learner, setup.score)
    with pytest.raises(ScoreError, match=fault):
        read_case(setup, progress, output)


def test_a_label_that_the_stream_does_not_have_is_named() -> None:
    setup, _ = make_setup(alpha=0.1, labels=["a", "b"])
    progress = Progress.start(setup.learner, setup.score)
    with pytest.raises(LabelError, match="label 'c' is not one of the stream's 2 labels"):
        read_case(setup, progress, {"a": 0.5, "c": 0.5})
    assert read_case(setup, progress, {"b": 0.5}).score("b") == 0.5


def test_what_is_known_of_a_case_is_refused_where_a_stream_does_not_ask_for_it(light: Database) -> None:
    registry.create(light, "pets", setup=make_setup("kt", alpha=0.1)[0], now=NOW)
    for ask in (Query([0.9], features={"hour": 7.0}), Query([0.9], groups=["north"])):
        with pytest.raises(InvalidError):
            proposals.predict(light, "pets", asks=[ask], now=NOW)
    assert registry.get(light, "pets").tally.predicted == 0


@pytest.mark.parametrize(("miss", "missed"), [(0.0, False), (0.49, False), (0.5, True), (None, None)])
def test_a_graded_answer_is_a_miss_from_a_half_on(miss: float | None, *, missed: bool | None) -> None:
    assert is_miss(miss) is missed


def test_groups_of_a_gate_go_through_bytes_and_others_are_refused() -> None:
    setup, _ = make_setup(alpha=0.1, kind="gate", groups=GROUPS, seed=7)
    for groups in CASES:
        context = read_known(setup, None, groups)
        assert show_known(setup, context.tobytes()) == Known(None, groups)
    assert show_known(setup, None) == Known(None, ())
    assert unpack_context(setup, None).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InvalidError, match="no group 'young'"):
        read_known(setup, None, ["young"])
    with pytest.raises(InvalidError, match=r"16 bytes are not .* the stream takes 24"):
        unpack_context(setup, bytes(16))


def test_a_stream_of_features_may_be_asked_without_them(light: Database) -> None:
    """Kills: a case of which nothing is known taken for one of a stream that asks for nothing."""
    setup, _ = make_setup(alpha=0.1, features=["hour", "load"], seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    predictor = Predictor(alpha=0.1, features=["hour", "load"])
    for n, features in enumerate((None, {"hour": 7.0}, None, {"hour": 9.0, "load": 0.5})):
        ask = Query([0.9, 0.4], features=features)
        (opened,) = proposals.predict(light, "pets", asks=[ask], now=NOW)
        ours = predictor.predict([0.9, 0.4], features=features)
        assert opened.region.threshold == ours.threshold
        answers.answer(light, [Reply(opened.id, {"label": n % 2})], now=NOW)
        predictor.learn(ours, label=n % 2)
    entries, _ = history.last(light, "pets", count=2)
    shown = [{"hour": 9.0, "load": 0.5}, {"hour": None, "load": None}]
    assert [one.known.features for one in entries] == shown
    assert replay.replay(light, "pets").difference is None


def test_an_answer_counts_in_every_group_of_its_round(light: Database) -> None:
    """Kills: groups that a round has lost on its way through the tables."""
    setup, _ = make_setup(alpha=0.1, groups=["north", "new"], seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    told = [((), "miss"), (["north"], "miss"), (["north", "new"], {"label": 0}), (["new"], "miss")]
    asks = [Query([0.9, 0.1], groups=groups) for groups, _ in told]
    opened = proposals.predict(light, "pets", asks=asks, now=NOW)
    replies = [Reply(one.id, reply) for one, (_, reply) in zip(opened, told, strict=True)]
    answers.answer(light, replies, now=NOW)
    assert registry.get(light, "pets").tally.members == [[2.0, 1.0], [2.0, 1.0]]
    assert replay.replay(light, "pets").difference is None
