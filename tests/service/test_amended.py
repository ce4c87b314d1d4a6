"""Answers amended: counted as in the library, both in the log, replayed, shown and exported."""

import csv
import io
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from tests.service.scene import Clock, answered, client_of, made, predicted, run_sql

DEFAULT: dict[str, Any] = {"learner": "logit-tracker", "horizon": None}


def amended(http: TestClient, prediction: dict[str, Any], **answer: Any) -> Any:
    return http.post(f"/v1/predictions/{prediction['id']}/amendment", json=answer)


def test_amendments_count_as_in_the_library_and_replay(
    http: TestClient, database: Database, clock: Clock
) -> None:
    """Labels, losses and chances, each amended now and then, some twice, on another process too."""
    made(http, **DEFAULT, window=20)
    predictor = keyhole.Predictor("logit-tracker", alpha=0.1, seed=7, amend_limit=1_000)
    rng = np.random.default_rng(9)
    pairs: list[tuple[Any, dict[str, Any]]] = []
    for number in range(120):
        if number == 60:
            http = client_of(database, clock)
        scores = rng.dirichlet(np.ones(4)).tolist()
        ours, theirs = predictor.predict(scores), predicted(http, scores)
        assert theirs["threshold"] == ours.threshold
        answer: dict[str, Any] = {"label": int(rng.integers(4))}
        if number % 3 == 0:
            answer = {"loss": float(rng.random()), "chance": 0.25}
        predictor.learn(ours, **answer)
        answered(http, theirs, **answer).raise_for_status()
        pairs.append((ours, theirs))
        if number % 2:
            shown, told = pairs[int(rng.integers(len(pairs)))]
            right: Any = {"label": int(rng.integers(4))}
            predictor.amend(shown, **right)
            response = amended(http, told, **right)
            assert response.json()["missed"] == (right["label"] not in shown)
    mine, served = predictor._progress, registry.get(database, "pets").progress
    assert served.tally == mine.tally
    assert predictor.learner.pack(served.state) == predictor.learner.pack(mine.state)
    assert replay.replay(database, "pets").difference is None
    curve = http.get("/v1/streams/pets/history").json()
    assert curve["miss_rate"][-1] == pytest.approx(predictor.miss_rate)
    stream = registry.get(database, "pets")
    kept = [row["missed"] for row in http.get("/v1/streams/pets/rounds?limit=20").json()["rounds"]]
    assert stream.recent_misses == sum(kept)


def test_both_answers_are_kept_shown_and_exported(one: TestClient) -> None:
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.9, "dog": 0.05})
    answered(one, shown, label="cat", chance=0.5)
    assert amended(one, shown, label="dog").json()["missed"] is True
    assert amended(one, shown, label="dog").json()["repeated"] is True
    (row,) = one.get("/v1/streams/pets/rounds").json()["rounds"]
    assert (row["answer"], row["first_answer"]) == ({"label": "dog"}, {"label": "cat", "chance": 0.5})
    assert (row["missed"], row["weight"]) == (True, 2.0)
    assert row["amended_at"] >= row["answered_at"]
    (line,) = csv.DictReader(io.StringIO(one.get("/v1/streams/pets/export").text))
    assert (line["true_label"], line["missed"]) == ('"dog"', "True")
    assert line["first_answer"] == '{"label": "cat", "chance": 0.5}'
    assert line["amended_at"] == row["amended_at"]
    stream = one.get("/v1/streams/pets").json()
    assert (stream["misses"], stream["miss_rate"]) == (2.0, 1.0)


def test_a_judgement_is_amended_and_replayed(one: TestClient, light: Database) -> None:
    body = {"name": "gate", "alpha": 0.1, "kind": "gate", "feedback": "referred", "groups": ["x"]}
    one.post("/v1/streams", json=body).raise_for_status()
    case = {"score": 0.99, "groups": ["x"]}
    decision = one.post("/v1/streams/gate/decisions", json=case).json()
    answered(one, decision, right=True, chance=0.1).raise_for_status()
    assert amended(one, decision, right=False).json()["missed"] is True
    assert one.get("/v1/streams/gate").json()["wrong_share"] == 1.0
    assert registry.get(light, "gate").tally.members == [[10.0, 10.0]]
    assert amended(one, decision, right=True).json()["missed"] is False
    assert one.get("/v1/streams/gate").json()["wrong_share"] == 0.0
    assert replay.replay(light, "gate").difference is None


@pytest.mark.parametrize(
    ("first", "second", "status", "match"),
    [
        (None, {"miss": True}, 409, "has no answer to amend"),
        ({"skip": True}, {"miss": True}, 409, "was skipped: it has no answer to amend"),
        ({"hit": True}, {"skip": True}, 422, "an amendment says what was right"),
        ({"hit": True}, {"miss": True, "chance": 0.5}, 422, "an amendment says what was right"),
    ],
)
def test_what_cannot_be_amended_is_refused_and_nothing_changes(
    one: TestClient, light: Database, first: Any, second: Any, status: int, match: str
) -> None:
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.9, "dog": 0.4})
    if first is not None:
        answered(one, shown, **first).raise_for_status()
    before = registry.get(light, "pets")
    response = amended(one, shown, **second)
    assert response.status_code == status
    assert match in response.json()["error"]["message"]
    assert registry.get(light, "pets") == before
    assert replay.replay(light, "pets").difference is None
    assert amended(one, {"id": "1-7-0000000000000000"}, miss=True).status_code == 404


def test_a_rule_that_takes_nothing_back_says_so(one: TestClient) -> None:
    made(one, learner="kt", horizon=None, feedback="bandit")
    shown = predicted(one, {"cat": 0.9, "dog": 0.4})
    answered(one, shown, miss=True).raise_for_status()
    response = amended(one, shown, loss=0.0)
    assert response.status_code == 422
    response = amended(one, shown, score=1.0)
    assert "kt cannot take an answer back" in response.json()["error"]["message"]


def test_a_changed_amendment_breaks_the_chain(one: TestClient, light: Database) -> None:
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.9, "dog": 0.4})
    answered(one, shown, hit=True).raise_for_status()
    amended(one, shown, miss=True).raise_for_status()
    run_sql(light, "UPDATE amendments SET answer = '\"hit\"'")
    difference = replay.replay(light, "pets").difference
    assert difference is not None
    assert "the amended answer to round 0" in difference


def test_the_amendments_of_a_deleted_stream_go_with_it(one: TestClient, light: Database) -> None:
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.9, "dog": 0.4})
    answered(one, shown, hit=True).raise_for_status()
    amended(one, shown, miss=True).raise_for_status()
    with light.read() as transaction:
        assert len(transaction.fetch(statements.FIND_AMENDMENTS, 1, [0])) == 1
    one.post("/v1/streams/pets/archive").raise_for_status()
    assert amended(one, shown, hit=True).status_code == 409
    one.delete("/v1/streams/pets").raise_for_status()
    with light.read() as transaction:
        assert transaction.fetch(statements.FIND_AMENDMENTS, 1, [0]) == []


def test_a_judges_word_and_its_checks_count_as_in_the_library_and_replay(
    one: TestClient, light: Database
) -> None:
    made(one, **DEFAULT)
    predictor = keyhole.Predictor("logit-tracker", alpha=0.1, seed=7, amend_limit=99)
    rng = np.random.default_rng(3)
    for number in range(40):
        scores = rng.dirichlet(np.ones(4)).tolist()
        ours, theirs = predictor.predict(scores), predicted(one, scores)
        assert theirs["threshold"] == ours.threshold
        word = "hit" if rng.random() < 0.8 and len(ours) else "miss"
        judged = keyhole.HIT if word == "hit" else keyhole.MISS
        if number % 4:
            predictor.learn(ours, judged=judged)
            answered(one, theirs, judged=word).raise_for_status()
        else:
            label = int(rng.integers(4))
            predictor.learn(ours, label=label, judged=judged)
            answered(one, theirs, label=label, judged=word).raise_for_status()
        if number % 10 == 9:
            predictor.amend(ours, label=1)
            amended(one, theirs, label=1).raise_for_status()
    assert registry.get(light, "pets").progress.tally == predictor._progress.tally
    assert replay.replay(light, "pets").difference is None


@pytest.mark.parametrize(
    ("first", "right"),
    [
        ({"miss": True, "wrong": 0.2}, {"miss": True}),
        ({"hit": True, "wrong": 0.2}, {"hit": True}),
        ({"label": "dog", "wrong": 0.2}, {"label": "dog"}),
        ({"miss": True, "judged": "hit"}, {"miss": True}),
    ],
)
def test_the_same_word_without_doubt_is_no_repetition(
    one: TestClient, light: Database, first: Any, right: Any
) -> None:
    made(one, **DEFAULT)
    predictor = keyhole.Predictor("logit-tracker", alpha=0.1, seed=7, amend_limit=9)
    scores = {"cat": 0.9, "dog": 0.05}
    ours, theirs = predictor.predict(scores), predicted(one, scores)
    answered(one, theirs, **first).raise_for_status()
    assert amended(one, theirs, **right).json()["repeated"] is False
    assert amended(one, theirs, **right).json()["repeated"] is True
    predictor.learn(ours, label="cat")
    predictor.amend(ours, label="cat" if "hit" in right else "dog")
    assert registry.get(light, "pets").progress.tally.misses == predictor._progress.tally.misses
    assert replay.replay(light, "pets").difference is None


def test_a_hit_that_was_told_in_doubt_of_an_empty_set_is_amended(one: TestClient) -> None:
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.1, "dog": 0.05})
    assert shown["labels"] == []
    answered(one, shown, hit=True, wrong=0.2).raise_for_status()
    assert amended(one, shown, label="cat").json()["missed"] is True
    assert one.get("/v1/streams/pets").json()["misses"] == 1.0


@pytest.mark.parametrize("answer", [{"judged": "hit"}, {"label": "dog", "judged": "hit"}])
def test_a_judges_word_is_no_amendment(one: TestClient, answer: Any) -> None:
    """What was right is known by now; a verdict would count without the bias of its judge."""
    made(one, **DEFAULT)
    shown = predicted(one, {"cat": 0.9, "dog": 0.05})
    answered(one, shown, judged="miss").raise_for_status()
    refused = amended(one, shown, **answer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "feedback")
    assert one.get("/v1/streams/pets").json()["misses"] == 1.0
