"""Answers as they are: graded, of known chance, sometimes wrong, or never to come."""

import csv
import io
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import answered, made, predicted

DEFAULT: dict[str, Any] = {"learner": None, "horizon": None}


def draw_answer(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return an answer as ``learn`` and as the service take it."""
    kinds: list[dict[str, Any]] = [
        {"label": int(rng.integers(4))},
        {"loss": float(rng.random())},
        {"score": float(rng.random())},
        {"label": int(rng.integers(4)), "chance": 0.4},
        {"label": int(rng.integers(4)), "wrong": 0.2},
        {"loss": 0.25, "chance": 0.7, "wrong": 0.1},
        {"score": 1.0, "chance": 1.0},
    ]
    return kinds[number % len(kinds)]


def test_every_kind_of_answer_counts_as_in_the_library_and_replays(
    http: TestClient, database: Database
) -> None:
    made(http, **DEFAULT)
    predictor = keyhole.Predictor(alpha=0.1, seed=7)
    rng = np.random.default_rng(8)
    for number in range(120):
        scores = rng.dirichlet(np.ones(4)).tolist()
        ours, theirs = predictor.predict(scores), predicted(http, scores)
        assert theirs["threshold"] == ours.threshold
        if number % 9 == 8:
            predictor.skip(ours)
            assert answered(http, theirs, skip=True).json()["missed"] is None
            continue
        answer = draw_answer(number, rng)
        predictor.learn(ours, **answer)
        answered(http, theirs, **answer).raise_for_status()
    stands = http.get("/v1/streams/pets").json()
    assert (stands["rounds"], stands["skipped"]) == (predictor.rounds, predictor.skipped_rounds)
    assert (stands["miss_rate"], stands["open"]) == (predictor.miss_rate, 0)
    curve = http.get("/v1/streams/pets/history").json()
    assert curve["miss_rate"][-1] == pytest.approx(predictor.miss_rate)
    assert replay.replay(database, "pets").difference is None


@pytest.mark.parametrize(
    "answer",
    [
        {"label": 1},
        {"loss": 1.0},
        {"score": 1.0},
        {"skip": True},
        {"hit": True, "chance": 0.5},
        {"miss": True, "wrong": 0.1},
    ],
)
def test_the_same_answer_twice_counts_once_and_another_is_refused(
    one: TestClient, answer: dict[str, Any]
) -> None:
    made(one, **DEFAULT)
    prediction = predicted(one, [0.5, 0.5])
    first, second = answered(one, prediction, **answer), answered(one, prediction, **answer)
    assert (first.json()["repeated"], second.json()["repeated"]) == (False, True)
    assert first.json()["missed"] == second.json()["missed"]
    before = one.get("/v1/streams/pets").json()
    other = answered(one, prediction, loss=0.5, chance=0.9)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "answered")
    after = one.get("/v1/streams/pets").json()
    assert {**after, "refused": {}} == before  # That it was refused is counted.


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"loss": 1.5}, "loss 1.5 is not a number in [0, 1]"),
        ({"score": -0.1}, "score -0.1 is not a number in [0, 1]"),
        ({"label": 0, "chance": 0.0}, "chance 0.0 is not a probability above 0"),
        ({"label": 0, "chance": 1.5}, "chance 1.5 is not a probability above 0"),
        ({"label": 0, "chance": 0.009}, "chance 0.009 is below the least chance, 0.01"),
        ({"label": 0, "wrong": 0.5}, "wrong 0.5 is not a probability below 1/2"),
        ({"label": 0, "loss": 0.5}, "one of them"),
        ({"chance": 0.5}, "one of them"),
        ({"skip": True, "chance": 0.5}, "skip says that none comes"),
        ({"skip": False}, ""),
    ],
)
def test_an_answer_that_cannot_be_is_named_and_leaves_the_round_open(
    one: TestClient, answer: dict[str, Any], message: str
) -> None:
    made(one, **DEFAULT)
    response = answered(one, predicted(one, [0.5, 0.5]), **answer)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]
    assert one.get("/v1/streams/pets").json()["open"] == 1


def test_a_learner_of_plain_hits_and_misses_takes_no_graded_answer(one: TestClient) -> None:
    made(one)
    response = answered(one, predicted(one), loss=0.5)
    assert response.status_code == 422
    assert "takes hits and misses only" in response.json()["error"]["message"]


def test_a_batch_of_answers_may_hold_every_kind(one: TestClient) -> None:
    made(one, **DEFAULT)
    told: list[dict[str, Any]] = [{"loss": 0.2}, {"skip": True}, {"miss": True, "chance": 0.5}]
    feedback = [{"id": predicted(one, [0.5, 0.5])["id"], **answer} for answer in told]
    results = one.post("/v1/feedback", json={"answers": feedback}).json()["results"]
    assert [result["missed"] for result in results] == [False, None, True]


def test_a_skipped_round_makes_room_for_another(one: TestClient, light: Database) -> None:
    made(one, **DEFAULT, open_limit=2)
    first, second = predicted(one, [0.5]), predicted(one, [0.5])
    answered(one, first, skip=True)
    predicted(one, [0.5])
    assert answered(one, second, hit=True).status_code == 200
    stands = one.get("/v1/streams/pets").json()
    assert (stands["expired"], stands["open"]) == (0, 1)
    assert replay.replay(light, "pets").difference is None


def test_rounds_and_export_show_answers_as_they_were_given(one: TestClient) -> None:
    made(one, **DEFAULT)
    for answer in ({"loss": 0.25}, {"skip": True}, {"label": 0, "chance": 0.5}):
        answered(one, predicted(one, [0.5, 0.5]), **answer).raise_for_status()
    rows = one.get("/v1/streams/pets/rounds").json()["rounds"][::-1]
    assert [row["answer"] for row in rows] == [{"loss": 0.25}, "skip", {"label": 0, "chance": 0.5}]
    assert [row["missed"] for row in rows] == [False, None, False]
    lines = list(csv.DictReader(io.StringIO(one.get("/v1/streams/pets/export").text)))
    assert [line["answer"] for line in lines] == ["loss", "skip", "label"]
    assert [line["miss"] for line in lines] == ["0.25", "", "0.0"]
    assert [line["weight"] for line in lines] == ["1.0", "0.0", "2.0"]


def test_a_number_is_not_taken_for_a_miss_where_the_label_is_its_text(http: TestClient) -> None:
    made(http, **DEFAULT)
    asked = predicted(http, {"1": 0.7, "2": 0.3})
    refused = answered(http, asked, label=1)
    assert refused.status_code == 422
    assert refused.json()["error"]["code"] == "label"
    assert "convert it to the labels' type" in refused.json()["error"]["message"]
    assert answered(http, asked, label="1").json()["missed"] is False
