"""What is doubtful is refused with the reason, what is refused is counted, what is private stays so."""

from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import bodies
from keyhole.service.http.limits import Limits
from keyhole.service.store.sql import postgres, schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import settings
from tests.service.scene import Clock, answered, client_of, made, predicted, read_table

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"scores": [0.5], "scores": [0.9]}', "scores"),
        (b'{"scores": {"cat": 0.5, "cat": 0.9}}', "cat"),
        (b'{"scores": {"c:at": 0.5, "c\\u003aat": 0.9}}', "c:at"),
        (b'{"scores": [0.5], "metadata": {"a": [1.5, {"user": 1, "user": 2}]}}', "user"),
        (b'{"scores": [0.5], "metadata": {"a:\\"b\\\\": 1, "a:\\"b\\\\": 1}}', 'a:"b'),
    ],
)
def test_a_name_that_is_there_twice_is_refused(one: TestClient, body: bytes, name: str) -> None:
    made(one)
    response = one.post("/v1/streams/pets/predictions", content=body, headers=JSON)
    assert response.status_code == 422
    assert f"{name[:4]}" in response.json()["error"]["message"]
    assert "is there twice" in response.json()["error"]["message"]
    assert one.get("/v1/streams/pets").json()["predicted"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"scores": [0.5, 0.25], "metadata": {"url": "http://a:80/", "more": [{"a": 1}, {"a": ":"}]}}',
        b'{"scores": {":": 0.5, "\\":": 0.25, "\\\\": 0.5}}',
        b'{"scores": {}, "metadata": {}}',
        b'{"centre": 1.5, "features": [null, 2.0]}',
    ],
)
def test_names_that_are_there_once_pass_whatever_colons_there_are(body: bytes) -> None:
    bodies.parse(bodies.OutputBody, body, Limits())


def test_metadata_in_a_query_is_held_to_the_same(one: TestClient) -> None:
    made(one)
    asked = {"metadata": '{"user": 1, "user": 2}'}
    assert one.get("/v1/streams/pets/rounds", params=asked).status_code == 422


def test_history_with_a_label_that_a_stream_does_not_have_is_refused_with_its_place(
    one: TestClient,
) -> None:
    made(one, labels=["cat", "dog"])
    history = [{"scores": [0.5, 0.25], "label": name} for name in ("cat", "dgo")]
    response = one.post("/v1/streams/pets/calibration", json={"rounds": history})
    assert response.status_code == 422
    assert "round 1 of the history: label 'dgo' is not one of the stream's 2 labels" in response.text
    assert one.get("/v1/streams/pets").json()["calibrated"] == 0


def test_letters_are_stored_as_they_are(http: TestClient, database: Database) -> None:
    made(http, labels=["größer", "猫"], description="für Émile")
    predicted(http, {"größer": 0.9, "猫": 0.5})
    body = {"scores": [0.5, 0.9], "labels": ["é", "ü"], "metadata": {"straße": "Köln"}}
    made(http, name="free")
    shown = http.post("/v1/streams/free/predictions", json=body).json()
    assert answered(http, shown, label="ü").status_code == 200
    row = read_table(database, schema.rounds, "WHERE labels IS NOT NULL")[-1]
    assert (row.labels, row.metadata) == ('["é", "ü"]', '{"straße":"Köln"}')
    assert [one.answer for one in read_table(database, schema.answers)] == ['{"label": "ü"}']
    assert "größer" in read_table(database, schema.streams, "ORDER BY id")[0].setup
    found = http.get("/v1/streams/free/rounds", params={"metadata": '{"stra\\u00dfe": "Köln"}'})
    assert [one["labels"] for one in found.json()["rounds"]] == [shown["labels"]]


def test_half_a_surrogate_pair_is_kept_though_no_encoding_has_it() -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, labels=["\ud800", "é"])
    text = settings.dump_setup(setup)
    assert text.isascii()
    assert settings.load_setup(text, "0").score == setup.score


def test_what_a_driver_says_of_the_server_is_for_the_log_alone() -> None:
    said = 'connection to server at "10.0.3.9", port 5432 failed: role "keyhole_app" may not log in'
    named = postgres.name_error(psycopg.OperationalError(said))
    assert "the log of the service says why" in str(named)
    assert "10.0.3.9" not in str(named)


def test_strangers_do_not_learn_where_the_database_is_and_the_log_says_it(
    light: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    http = client_of(light, clock)
    said = 'connection to server at "10.0.3.9", port 5432 failed'

    def fail() -> None:
        error = postgres.name_error(psycopg.OperationalError(said))
        assert error is not None
        raise error from psycopg.OperationalError(said)

    monkeypatch.setattr(light, "try_write", fail)
    response = http.get("/readyz")
    assert (response.status_code, "10.0.3.9" in response.text) == (503, False)
    assert "10.0.3.9" in caplog.text


def read_refused(http: TestClient) -> dict[str, float]:
    lines = [
        line for line in http.get("/metrics").text.splitlines() if "refused_answers_total{" in line
    ]
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines}


def test_refused_answers_are_counted_by_stream_and_reason(one: TestClient) -> None:
    made(one, learner="kt", horizon=None)
    empty = predicted(one, [0.1, 0.2])  # kt begins above every score
    assert empty["labels"] == []
    assert answered(one, empty, hit=True).status_code == 422
    assert answered(one, empty, miss=True).status_code == 200
    batch: list[Any] = [{"id": empty["id"], "label": 0}, {"id": "9-9-0123456789abcdef", "miss": True}]
    one.post("/v1/feedback", json={"answers": batch})
    one.post(f"/v1/predictions/{empty['id']}/amendment", json={"skip": True})
    assert read_refused(one) == {
        'keyhole_refused_answers_total{code="feedback",stream="pets"}': 2.0,
        'keyhole_refused_answers_total{code="answered",stream="pets"}': 1.0,
        'keyhole_refused_answers_total{code="unknown_prediction",stream=""}': 1.0,
    }
