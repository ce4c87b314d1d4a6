"""What the newest rounds were like, as /history tells it."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.service.store.log import history
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from tests.service.scene import NOW, Clock, answered, client_of, made

TWO = {"cat": 0.9, "dog": 0.8}  # Both are above the first threshold of 1/2,
NONE = {"cat": 0.1, "dog": 0.2}  # and neither of these.
ONE = {"cat": 0.9, "dog": 0.2}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def http(tmp_path: Path, clock: Clock) -> TestClient:
    return client_of(Database(f"sqlite:///{tmp_path / 'keyhole.db'}"), clock)


def look_back(http: TestClient) -> Any:
    return http.get("/v1/streams/pets/history").json()["recent"]


def propose(http: TestClient, **body: Any) -> Any:
    return http.post("/v1/streams/pets/predictions", json=body).json()


def test_shares_and_the_median_are_of_the_answered_sets(http: TestClient) -> None:
    made(http, learner="logit-tracker", horizon=None)
    shown = [propose(http, scores=scores) for scores in (TWO, NONE, ONE, ONE)]
    assert [one["size"] for one in shown] == [2, 0, 1, 1]
    propose(http, scores=TWO)  # Open, and so not counted.
    for one in shown:
        answered(http, one, **({"hit": True} if one["size"] else {"miss": True}))
    found = look_back(http)
    assert (found["rounds"], found["median_size"]) == (4, 1.0)
    assert (found["empty"], found["full"], found["unbounded"]) == (0.25, 0.25, 0.0)


def test_lateness_is_from_the_prediction_to_its_answer(http: TestClient, clock: Clock) -> None:
    made(http, learner="logit-tracker", horizon=None)
    for seconds in (10.0, 10.0, 10.0, 10.0, 500.0):
        shown = propose(http, scores=ONE)
        clock.now += seconds
        answered(http, shown, hit=True)
    found = look_back(http)
    assert (found["median_seconds"], found["late_seconds"]) == (10.0, 500.0)


def test_an_unbounded_interval_is_counted_and_leaves_the_median_bounded(http: TestClient) -> None:
    made(http, learner="logit-tracker", horizon=None, scale=1.0, options={"step": 3.0, "first": 3.0})
    for _ in range(1000):
        if (shown := propose(http, centre=3.0))["size"] is None:
            break
        answered(http, shown, miss=True)
    answered(http, shown, hit=True)
    found = look_back(http)
    assert found["unbounded"] == pytest.approx(1 / found["rounds"])
    assert found["median_size"] is not None
    assert found["full"] is None


def test_a_stream_without_answers_has_no_numbers(http: TestClient) -> None:
    made(http)
    found = look_back(http)
    counts = ("rounds", "late_rounds", "largest_batch")
    assert [found.pop(count) for count in counts] == [0, 0, 0]
    assert set(found.values()) == {None}


def test_the_newest_500_answers_count_as_they_came(tmp_path: Path) -> None:
    """502 rounds answered backwards, and one skipped: round 0 is the newest, round 501 the oldest."""
    database = Database(f"sqlite:///{tmp_path / 'keyhole.db'}")
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(database, "pets", setup=setup, now=NOW)
    asks = [Query([*[0.9] * 9, 0.1])] * 500 + [Query([0.1, 0.1])] * 3
    opened = proposals.predict(database, "pets", asks=asks, now=NOW)
    replies = [Reply(one.id, "hit") for one in opened[:502]]
    answers.answer(database, [*replies[::-1], Reply(opened[502].id, "skip")], now=NOW)
    found = history.curve(database, "pets", points=5)[1].recent
    assert (found.rounds, found.empty, found.median_size) == (500, 0.0, 9.0)
    assert found.full == 0.0  # each lacks one of ten candidates
    database.close()
