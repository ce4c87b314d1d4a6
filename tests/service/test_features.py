"""What is known of a case goes through the service as through the library, and is kept."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import answered, made, run_sql

NEW: dict[str, Any] = {
    "learner": None,
    "horizon": None,
    "features": ["hour", "load"],
    "groups": ["weekend", "north"],
}


def asked(http: TestClient, body: dict[str, Any], **headers: str) -> Any:
    response = http.post("/v1/streams/pets/predictions", json=body, headers=headers)
    assert response.status_code in (200, 201), response.text
    return response.json()


def known(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return what is known of a case, with gaps, and by name or in order."""
    hour, load = float(rng.integers(24)), float(rng.random())
    features: Any = [hour, None] if number % 3 == 0 else {"load": load, "hour": hour}
    groups = [name for name in ("weekend", "north") if rng.random() < 0.5]
    return {"features": None if number % 7 == 0 else features, "groups": groups}


def test_a_stream_with_features_and_groups_makes_the_choices_of_the_predictor(
    http: TestClient, database: Database
) -> None:
    stands = made(http, **NEW)
    assert (stands["learner"], stands["features"]) == ("contextual-tracker", ["hour", "load"])
    predictor = keyhole.Predictor(alpha=0.1, features=["hour", "load"], groups=["weekend", "north"])
    rng = np.random.default_rng(5)
    waiting = []
    for number in range(60):
        scores, case = rng.dirichlet(np.ones(5)).tolist(), known(number, rng)
        ours = predictor.predict(scores, **case)
        theirs = asked(http, {"scores": scores, **case})
        assert (theirs["threshold"], theirs["labels"]) == (ours.threshold, list(ours.labels))
        waiting.append((ours, theirs))
        if len(waiting) > 2:
            ours, theirs = waiting.pop(int(rng.integers(3)))
            label = int(rng.integers(5))
            predictor.learn(ours, label=label)
            assert answered(http, theirs, label=label).json()["missed"] == (label not in ours)
    told = {group.pop("name"): group for group in http.get("/v1/streams/pets").json()["groups"]}
    wanted = {
        name: {
            "rounds": group.rounds,
            "misses": group.misses,
            "miss_rate": group.miss_rate,
            "excess": group.excess,
            "least": group.bound and group.bound.least,
            "most": group.bound and group.bound.most,
        }
        for name, group in predictor.groups.items()
    }
    assert told == wanted
    assert replay.replay(database, "pets").difference is None


def test_a_batch_takes_what_is_known_of_each_case(one: TestClient) -> None:
    made(one, **NEW)
    predictor = keyhole.Predictor(alpha=0.1, features=["hour", "load"], groups=["weekend", "north"])
    bodies = [
        {"scores": [0.6, 0.4], "features": {"hour": 7}, "groups": ["north"]},
        {"scores": [0.6, 0.4]},
    ]
    for _ in range(30):
        ours = predictor.predict_batch(
            [[0.6, 0.4]] * 2, features=[{"hour": 7}, {}], groups=[["north"], []]
        )
        sent = {"predictions": bodies}
        batch = one.post("/v1/streams/pets/predictions/batch", json=sent).json()["predictions"]
        assert [made["threshold"] for made in batch] == [region.threshold for region in ours]
        for theirs, region, label in zip(batch, ours, (1, 0), strict=True):
            predictor.learn(region, label=label)
            answered(one, theirs, label=label)


def test_a_stream_that_only_counts_its_features_takes_them_in_order(one: TestClient) -> None:
    assert made(one, **{**NEW, "features": 2, "groups": 1})["features"] == 2
    body = {"scores": [0.6, 0.4], "features": [1, None], "groups": [0]}
    answered(one, asked(one, body), label=0)
    (row,) = one.get("/v1/streams/pets/rounds").json()["rounds"]
    assert (row["features"], row["groups"]) == ([1.0, None], [0])
    assert one.get("/v1/streams/pets").json()["groups"][0]["rounds"] == 1


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"features": ["hour", "hour"]}, "features"),
        ({"groups": ["north", "north"]}, "groups"),
        ({"features": [""]}, "features"),
        ({"features": -1}, "features"),
        ({"features": ["hour"], "learner": "kt"}, "learner"),
    ],
)
def test_names_that_cannot_be_are_refused(one: TestClient, settings: Any, field: str) -> None:
    response = one.post("/v1/streams", json={"name": "a", "alpha": 0.1, **settings})
    assert response.status_code == 422
    assert response.json()["error"]["field"].startswith(field)


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"features": {"hours": 7}}, "features", "no feature 'hours'; did you mean 'hour'?"),
        ({"features": [1.0]}, "features", "takes 2 of them"),
        ({"features": {"hour": "seven"}}, "features", ""),
        ({"groups": ["weekends"]}, "groups", "no group 'weekends'; did you mean 'weekend'?"),
        ({"groups": [2]}, "groups", "no group 2"),
        ({"groups": "weekend"}, "groups", ""),
    ],
)
def test_what_is_not_known_of_cases_here_is_named_and_changes_nothing(
    one: TestClient, body: Any, field: str, message: str
) -> None:
    made(one, **NEW)
    error = one.post("/v1/streams/pets/predictions", json={"scores": [0.5], **body}).json()["error"]
    assert error["field"].startswith(field)
    assert message in error["message"]
    assert one.get("/v1/streams/pets").json()["predicted"] == 0


def test_a_fault_in_a_batch_says_in_which_prediction_it_is(one: TestClient) -> None:
    made(one, **NEW)
    sent = {"predictions": [{"scores": [0.5]}, {"scores": [0.5], "groups": ["south"]}]}
    error = one.post("/v1/streams/pets/predictions/batch", json=sent).json()["error"]
    assert error["message"].startswith("prediction 1: there is no group 'south'")


def test_a_key_with_other_features_is_refused(one: TestClient) -> None:
    made(one, **NEW)
    body, key = {"scores": [0.5], "features": [1, None]}, {"Idempotency-Key": "a"}
    assert asked(one, body, **key) == asked(one, body, **key)
    other = {**body, "features": [2, None]}
    response = one.post("/v1/streams/pets/predictions", json=other, headers=key)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "key_reused")
    assert "other features" in response.json()["error"]["message"]


@pytest.mark.parametrize("context", [None, b"", np.array([1.0, np.nan, 0.0, 1.0]).tobytes()])
def test_a_context_that_was_changed_is_found(
    one: TestClient, light: Database, context: bytes | None
) -> None:
    made(one, **NEW)
    body = {"scores": [0.6, 0.4], "features": {"hour": 3}, "groups": ["weekend"]}
    for _ in range(3):
        answered(one, asked(one, body), label=1)
    run_sql(light, "UPDATE rounds SET context = ?", context)
    assert replay.replay(light, "pets").difference is not None


def test_an_export_holds_features_and_groups_by_name(one: TestClient) -> None:
    made(one, **NEW)
    asked(one, {"scores": [0.6, 0.4], "features": {"hour": 3}, "groups": ["north"]})
    asked(one, {"scores": [0.6, 0.4]})
    rows = list(csv.DictReader(io.StringIO(one.get("/v1/streams/pets/export").text)))
    assert json.loads(rows[0]["features"]) == {"hour": 3.0, "load": None}
    assert [json.loads(row["groups"] or "[]") for row in rows] == [["north"], []]


def test_a_retry_gives_the_same_interval_whatever_the_scale_has_become(one: TestClient) -> None:
    made(one, **{**NEW, "features": None, "groups": None, "scale": 1.0})
    first = asked(one, {"centre": 5.0}, **{"Idempotency-Key": "a"})
    for label in (50.0, 60.0, 70.0, 80.0):
        answered(one, asked(one, {"centre": 5.0}), label=label)
    assert asked(one, {"centre": 5.0}, **{"Idempotency-Key": "a"}) == first


def test_a_stream_made_from_anothers_log_learns_its_features_too(one: TestClient) -> None:
    made(one, **NEW)
    predictor = keyhole.Predictor(alpha=0.1, features=["hour", "load"], groups=["weekend", "north"])
    rng = np.random.default_rng(9)
    past = []
    for number in range(40):
        scores, case, label = rng.dirichlet(np.ones(3)).tolist(), known(number, rng), number % 3
        answered(one, asked(one, {"scores": scores, **case}), label=label)
        past.append((scores, case["features"], case["groups"], label))
    outputs, features, groups, labels = (list(column) for column in zip(*past, strict=True))
    predictor.calibrate(outputs, labels, features=features, groups=groups)
    made(one, **NEW, name="next", calibrate_from="pets")
    body = {"scores": [0.5, 0.3, 0.2], "features": {"hour": 5}, "groups": ["north"]}
    theirs = one.post("/v1/streams/next/predictions", json=body).json()
    ours = predictor.predict([0.5, 0.3, 0.2], features={"hour": 5}, groups=["north"])
    assert theirs["threshold"] == ours.threshold
