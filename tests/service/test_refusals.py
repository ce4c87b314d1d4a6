"""What is refused: with which status, naming which field, and leaving everything as it was."""

import inspect
from dataclasses import asdict
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole import errors
from keyhole.service.store.sql.database import Database
from keyhole.service.wire import problems
from tests.service.scene import SCORES, Clock, answered, client_of, made, predicted
from tests.service.serving import wait_until

NEW = {"name": "a", "alpha": 0.1}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"alpha": 0.9}, "alpha"),
        ({"alpha": "a tenth"}, "alpha"),
        ({"learner": "ocp-unlok"}, "learner"),
        ({"learner": "ocp-unlock+", "horizon": 3}, "horizon"),
        ({"arms": 1}, "arms"),
        ({"learner": "ocp-unlock+", "options": {"rate": -1.0}}, "rate"),
        ({"learner": "ocp-unlock+", "options": {"cost": [1.0]}}, "cost"),
        ({"learner": "ocp-unlock+", "options": {"speed": 1.0}}, "learner"),
        ({"learner": "ocp-unlock+", "feedback": "bandit"}, "feedback"),
        ({"feedback": "telepathy"}, "feedback"),
        ({"bound": -1.0}, "bound"),
        ({"bound": 1.0, "scale": 1.0}, None),
        ({"labels": ["cat", "cat"]}, "labels"),
        ({"seed": -1}, "seed"),
        ({"name": "../etc"}, "name"),
        ({"open_limit": 0}, "open_limit"),
        ({"lifetime": 0.0}, "lifetime"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_setting_that_cannot_be_is_named(one: TestClient, settings: Any, field: str | None) -> None:
    response = one.post("/v1/streams", json={**NEW, **settings})
    error = response.json()["error"]
    assert response.status_code == 422
    assert error["field"] == field
    assert one.get("/v1/streams").json()["streams"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scores": [0.5, 1.5]}, "scores"),
        ({"scores": {"cat": -0.1}}, "scores"),
        ({"scores": []}, "scores"),
        ({"scores": {}}, "scores"),
        ({"scores": ["high"]}, "scores.list[float].0"),
        ({"scores": {"x" * 300: 0.5}}, "scores"),
        ({"scores": [0.1] * 20_000}, "scores"),
        ({"centre": 1.0}, "scores"),
        ({}, None),
        ({"scores": [0.5], "centre": 1.0}, None),
        ([], None),
    ],
)
def test_an_output_that_cannot_be_is_named(one: TestClient, body: Any, field: str | None) -> None:
    made(one)
    response = one.post("/v1/streams/pets/predictions", json=body)
    named = response.json()["error"]["field"]
    assert response.status_code == 422
    assert named == field or (field is not None and named.startswith("scores"))
    assert one.get("/v1/streams/pets").json()["predicted"] == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(one: TestClient, number: str) -> None:
    made(one)
    headers = {"Content-Type": "application/json"}
    body = f'{{"scores": [{number}]}}'
    response = one.post("/v1/streams/pets/predictions", content=body, headers=headers)
    assert response.status_code == 422


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"hit": True}, 422),
        ({"hit": False}, 422),
        ({"miss": True, "hit": True}, 422),
        ({}, 422),
        ({"label": None}, 422),
        ({"label": ["cat"]}, 422),
        ({"miss": "yes"}, 422),
    ],
)
def test_an_answer_that_cannot_be_leaves_the_round_open(
    one: TestClient, answer: Any, status: int
) -> None:
    made(one)
    prediction = predicted(one)
    response = answered(one, prediction, **answer)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"code", "message", "field"}
    stands = one.get("/v1/streams/pets").json()
    assert (stands["open"], stands["rounds"]) == (1, 0)


@pytest.mark.parametrize("label", ["unicorn", 0])
def test_a_true_label_that_was_no_candidate_is_a_miss(one: TestClient, label: Any) -> None:
    made(one)
    assert answered(one, predicted(one), label=label).json()["missed"] is True


def test_a_label_that_the_stream_does_not_have_is_refused(one: TestClient) -> None:
    made(one, labels=["cat", "dog"])
    response = one.post("/v1/streams/pets/predictions", json={"scores": SCORES})
    assert (response.status_code, response.json()["error"]["field"]) == (422, "label")


def test_an_unknown_stream_is_not_found(one: TestClient) -> None:
    for path in ("", "/history", "/rounds", "/events", "/export"):
        response = one.get(f"/v1/streams/nobody{path}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_stream")
    response = one.post("/v1/streams/nobody/predictions", json={"scores": [0.5]})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_stream")


def test_an_unknown_path_and_method_have_the_same_shape(one: TestClient) -> None:
    missing, refused = one.get("/nowhere").json()["error"], one.delete("/v1/streams").json()["error"]
    assert missing["code"] == "no_such_path"
    assert missing["message"] == "there is nothing at '/nowhere'; /docs lists every path"
    assert refused["code"] == "no_such_method"
    assert refused["message"] == "'/v1/streams' takes no DELETE; /docs lists what it takes"
    assert one.get("/page/..%2fapp.py").status_code == 404


def test_a_body_that_is_not_json_is_refused(one: TestClient) -> None:
    response = one.post("/v1/streams", content="{", headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid")
    response = one.post("/v1/streams", content="name=a", headers={"Content-Type": "text/plain"})
    assert (response.status_code, response.json()["error"]["code"]) == (415, "media_type")


def test_a_body_that_is_too_large_is_refused_whatever_it_declares(
    light: Database, clock: Clock
) -> None:
    http = client_of(light, clock, body_bytes=1000)
    headers = {"Content-Type": "application/json"}
    declared = http.post("/v1/streams", content=b" " * 2000, headers=headers)
    streamed = http.post("/v1/streams", content=iter([b" " * 600] * 3), headers=headers)
    assert (declared.status_code, streamed.status_code) == (413, 413)


def test_one_client_cannot_take_every_turn(light: Database, clock: Clock) -> None:
    http = client_of(light, clock, requests_per_second=5.0)
    assert [http.get("/healthz").status_code for _ in range(5)] == [200] * 5
    wait_until(lambda: http.get("/healthz").status_code == 429)


def test_an_unexpected_error_tells_nothing_of_the_inside(
    one: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:

    from keyhole.service.store.streams import registry

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    monkeypatch.setattr(registry, "get", broken)
    response = one.get("/v1/streams/pets")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "unexpected"
    assert "secret" not in response.text


def test_every_error_has_a_status_and_every_code_one_error() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    for kind in (kind for kind in kinds if issubclass(kind, errors.KeyholeError)):
        status = problems.find_problem(kind("why")).status
        assert status == 422 if issubclass(kind, errors.InvalidError) else 400 <= status < 600
    codes = [problem.code for problem in (*problems.PROBLEMS.values(), *problems.REFUSALS.values())]
    assert len(set(codes)) == len(codes)


def test_what_is_sent_can_be_raised_again() -> None:
    refusals = [errors.RefusedError("why", code=code) for code in problems.REFUSALS]
    for error in [*(kind("why") for kind in problems.PROBLEMS), *refusals]:
        again = problems.read_error(asdict(problems.show_problem(error)))
        assert (type(again), str(again)) == (type(error), "why")
        assert getattr(again, "code", None) == getattr(error, "code", None)


def test_the_field_at_fault_comes_back_with_the_error() -> None:
    sent = problems.show_problem(errors.InvalidError("why", field="alpha"))
    again = problems.read_error(asdict(sent))
    assert isinstance(again, errors.InvalidError)
    assert again.field == "alpha"
