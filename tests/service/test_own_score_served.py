"""A score of one's own behind the service."""

import csv
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole import Predictor
from keyhole.scores import SCORES
from keyhole.service.store.log import export, replay
from keyhole.service.store.sql.database import Database
from tests.scores.own import Excess, Halves
from tests.service.scene import answered, made


@pytest.fixture
def registered() -> Iterator[None]:
    keyhole.register(Excess)
    keyhole.register(Halves)
    yield
    del SCORES._known["excess"], SCORES._known["halves"]


@pytest.mark.usefixtures("registered")
def test_a_registered_score_is_served_and_replayed(one: TestClient, light: Database) -> None:
    made(one, learner=None, horizon=None, score={"name": "excess", "room": 20.0})
    predictor: Predictor[Any] = Predictor(alpha=0.1, score=Excess(room=20.0))
    for value in (12.0, 31.0, 9.0):
        response = one.post("/v1/streams/pets/predictions", json={"centre": 10.0})
        assert response.status_code == 201, response.text
        shown = predictor.predict(10.0)
        assert response.json()["interval"] == [None, shown.upper]
        answered(one, response.json(), label=value).raise_for_status()
        predictor.learn(shown, label=value)
    stream = one.get("/v1/streams/pets").json()
    assert (stream["kind"], stream["score"]) == ("interval", {"name": "excess", "room": 20.0})
    assert stream["miss_rate"] == predictor.miss_rate
    assert replay.replay(light, "pets").difference is None


@pytest.mark.usefixtures("registered")
def test_labels_of_a_registered_score_are_added_to_and_its_log_exported(
    one: TestClient, light: Database
) -> None:
    made(one, learner=None, horizon=None, score={"name": "halves"})
    one.patch("/v1/streams/pets", json={"labels": ["c"]}).raise_for_status()
    scores = {"a": 1.0, "b": 0.5, "c": 0.0}
    response = one.post("/v1/streams/pets/predictions", json={"scores": scores})
    assert response.status_code == 201, response.text
    (row,) = csv.DictReader(export.csv_lines(light, "pets"))
    assert (row["candidates"], row["scores"]) == ('["a", "b", "c"]', "[0.5, 0.25, 0.0]")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"score": {"name": "excess"}}, "no score 'excess' is registered"),
        ({"score": {"name": "custom scores"}}, "no score 'custom scores' is registered"),
        ({"score": {"scale": 2.0}}, "no score None is registered"),
        ({"score": {"name": "probabilities", "bound": 2.0}}, "takes no 'bound'; it takes power, "),
        ({"score": {"name": "quantile bands", "bound": 2.0}}, "it takes nothing"),
        ({"score": {"name": "bounded residuals"}}, "lacks 'bound'; give it"),
        ({"score": {"name": "probabilities"}, "bound": 2.0}, "score and bound exclude each other"),
        ({"score": {"name": "probabilities"}, "kind": "gate"}, "score and kind exclude each other"),
    ],
)
def test_a_stream_of_a_score_that_cannot_be_is_refused(
    one: TestClient, settings: dict[str, Any], fault: str
) -> None:
    response = one.post("/v1/streams", json={"name": "pets", "alpha": 0.1, **settings})
    assert response.status_code == 422
    assert fault in response.text
