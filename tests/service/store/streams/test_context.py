"""Rounds of which something is known, through the tables."""

import pytest

from keyhole import Predictor
from keyhole.errors import InvalidError
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.settings import make_setup

NOW = 1_800_000_000.0


def test_what_is_known_of_a_case_is_refused_where_a_stream_does_not_ask_for_it(light: Database) -> None:
    registry.create(light, "pets", setup=make_setup("kt", alpha=0.1)[0], now=NOW)
    for ask in (Query([0.9], features={"hour": 7.0}), Query([0.9], groups=["north"])):
        with pytest.raises(InvalidError):
            proposals.predict(light, "pets", asks=[ask], now=NOW)
    assert registry.get(light, "pets").tally.predicted == 0


def test_a_stream_of_features_may_be_asked_without_them(light: Database) -> None:
    """Kills: a case of which nothing is known taken for one of a stream that asks for nothing."""
    setup, _ = make_setup(alpha=0.1, features=["hour", "load"], seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    predictor = Predictor(alpha=0.1, features=["hour", "load"])
    for n, features in enumerate((None, {"hour": 7.0}, None, {"hour": 9.0, "load": 0.5})):
        ask = Query([0.9, 0.4], features=features)
        (opened,) = proposals.predict(light, "pets", asks=[ask], now=NOW)
        ours = predictor.predict([0.9, 0.4], features=features)
        assert opened.threshold == ours.threshold
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
    rounds = [((), "miss"), (["north"], "miss"), (["north", "new"], {"label": 0}), (["new"], "miss")]
    asks = [Query([0.9, 0.1], groups=groups) for groups, _ in rounds]
    opened = proposals.predict(light, "pets", asks=asks, now=NOW)
    replies = [Reply(one.id, reply) for one, (_, reply) in zip(opened, rounds, strict=True)]
    answers.answer(light, replies, now=NOW)
    assert registry.get(light, "pets").tally.members == [[2.0, 1.0], [2.0, 1.0]]
    assert replay.replay(light, "pets").difference is None
