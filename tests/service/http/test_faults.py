"""What is wrong with a request is said in the library's words, on every route."""

import json
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import bodies
from keyhole.service.http.limits import Limits
from tests.service.scene import made, predicted

# How pydantic and FastAPI begin what they say; none of it is ever ours.
THEIRS = re.compile(
    r"(?i)\binput\b|field required|\bvalid\b|value error|ctx|pydantic|string should|extra"
)
WRONG: tuple[Any, ...] = (
    None, True, False, -1, 2**70, 0.5, -7.5, "text", "x" * 3000, "é\x00", [], [None], [[]], ["a", 3],
    {}, {"a": None}, {"a": "b"}, {"": 1}, {"x" * 3000: 0.5}, [0.5] * 20_000,
)  # fmt: skip


def explain(model: type[bodies.Body], body: Any) -> Any:
    with pytest.raises(Exception) as raised:
        bodies.parse(model, body if isinstance(body, bytes) else json.dumps(body).encode(), Limits())
    return raised.value


@pytest.mark.parametrize(
    ("model", "body", "message", "field"),
    [
        (bodies.NewStream, {"name": "a", "alpah": 0.1},
         "there is no field 'alpah'; did you mean 'alpha'?", "alpah"),
        (bodies.UpdateBody, {"zebra": 1},
         "there is no field 'zebra'; there are alpha, lifetime, window, labels, description, retention",
         "zebra"),
        (bodies.NewStream, {"name": "a"}, "alpha is missing; it must be given", "alpha"),
        (
            bodies.NewStream,
            {"name": "a", "alpha": "x"},
            "alpha is 'x'; it must be a number or a list",
            "alpha",
        ),
        (bodies.NewStream, {"name": "a", "alpha": 0.1, "side": "uper"},
         "side is 'uper'; it must be 'both', 'upper' or 'lower'; did you mean 'upper'?", "side"),
        (bodies.NewStream, {"name": "a", "alpha": 0.1, "features": -1},
         "features is -1; it must be at least 0", "features"),
        (bodies.NewStream, {"name": "a", "alpha": 0.1, "options": {"rate": "fast"}},
         "options.rate is 'fast'; it must be a number or a list", "options.rate"),
        (bodies.OutputBody, {"scores": {"cat": "high"}},
         "scores.cat is 'high'; it must be a number", "scores.cat"),
        (bodies.OutputBody, {"scores": 3}, "scores is 3; it must be an object or a list", "scores"),
        (bodies.OutputBody, {"scores": {"x" * 300: 0.5}},
         f"a name in scores is '{'x' * 59}...; it must be at most 200 characters long", "scores"),
        (bodies.OutputBody, {}, "give scores, a centre, or lower and upper, one of them", None),
        (bodies.OutputsBody, {"predictions": [{"scores": [0.5]}, {"scoers": [0.5]}]},
         "predictions.1: there is no field 'scoers'; did you mean 'scores'?", "predictions.1.scoers"),
        (bodies.AnswersBody, {"answers": [{"id": "a"}]},
         "answers.0: give label, hit, miss, score, loss, right, skip, one of them", "answers.0"),
        (bodies.AnswerBody, {"hit": False}, "hit is false; it must be true", "hit"),
        (bodies.AnswerBody, [], "the body is a list of length 0; it must be an object", None),
        (bodies.AnswerBody, b"", "the body is empty; send a JSON object", None),
        (bodies.AnswerBody, b'{"hit": tru}',
         "the body is not JSON: it breaks off at line 1, column 12; send a JSON object", None),
        (bodies.OutputBody, b'{"scores": [NaN]}',
         "scores.0 is nan; it must be a finite number", "scores.0"),
    ],
)  # fmt: skip
def test_a_fault_names_the_value_and_the_remedy(
    model: type[bodies.Body], body: Any, message: str, field: str | None
) -> None:
    found = explain(model, body)
    assert (str(found), found.field) == (message, field)


def list_bodies(example: dict[str, Any], model: type[bodies.Body]) -> list[Any]:
    """Return bodies that are wrong in one place, each field in every way; some are not JSON."""
    wrong: list[Any] = [b"", b"{", b"\xff", b"[" * 50, b'{"a": 1', b"null", *WRONG]
    for field in (*model.model_fields, "surprise"):
        wrong += [{**example, field: value} for value in WRONG]
    wrong += [{name: one for name, one in example.items() if name != left} for left in example]
    for name, value in example.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            wrong += [{name: [{**value[0], inner: one}]} for inner in (*value[0], "x") for one in WRONG]
    return wrong


def test_no_route_ever_speaks_pydantics_words(one: TestClient) -> None:
    """Every route that takes a body is sent every field of it in every wrong form."""
    made(one)
    id_, output = predicted(one)["id"], {"scores": [0.5]}
    routes: list[tuple[str, str, type[bodies.Body], dict[str, Any]]] = [
        ("POST", "/v1/streams", bodies.NewStream, {"name": "pets", "alpha": 0.1}),
        ("PATCH", "/v1/streams/pets", bodies.UpdateBody, {"alpha": 0.1}),
        ("POST", "/v1/streams/pets/shadows", bodies.ShadowBody, {"name": "wider", "alpha": 0.05}),
        ("POST", "/v1/streams/pets/calibration", bodies.Calibration,
         {"rounds": [{**output, "label": 0}]}),
        ("POST", "/v1/streams/pets/predictions", bodies.OutputBody, output),
        ("POST", "/v1/streams/pets/predictions/batch", bodies.OutputsBody, {"predictions": [output]}),
        ("POST", "/v1/streams/pets/decisions", bodies.CaseBody, {"score": 0.5}),
        ("POST", "/v1/streams/pets/decisions/batch", bodies.CasesBody, {"decisions": [{"score": 0.5}]}),
        ("POST", f"/v1/predictions/{id_}/feedback", bodies.AnswerBody, {"miss": True}),
        ("POST", f"/v1/predictions/{id_}/amendment", bodies.AnswerBody, {"miss": True}),
        ("PUT", "/v1/streams/pets/answers/a", bodies.AnswerBody, {"miss": True}),
        ("PUT", "/v1/streams/pets/amendments/a", bodies.AnswerBody, {"miss": True}),
        ("POST", "/v1/feedback", bodies.AnswersBody, {"answers": [{"id": "a", "hit": True}]}),
    ]  # fmt: skip
    described = one.get("/openapi.json").json()["paths"]
    taking = [about for ways in described.values() for about in ways.values() if "requestBody" in about]
    assert len(routes) == len(taking), "a route that takes a body is not tried here"
    refused = 0
    for method, path, model, example in routes:
        for body in list_bodies(example, model):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            response = one.request(
                method, path, content=content, headers={"Content-Type": "application/json"}
            )
            assert response.status_code < 500, (path, body)
            if response.status_code == 422:
                message = response.json()["error"]["message"]
                assert not THEIRS.search(message), (path, message)
                assert "see /docs" not in message, (path, message)  # no fault without words
                refused += 1
    assert refused > 2000


@pytest.mark.parametrize(
    ("path", "message", "field"),
    [
        ("/v1/streams?limit=x", "limit is 'x'; it must be a whole number", "limit"),
        ("/v1/streams?limit=0", "limit is '0'; it must be at least 1", "limit"),
        (f"/v1/streams/{'a' * 65}", f"name is '{'a' * 59}...; it must be at most 64 characters long",
         "name"),
        ("/v1/streams/pets/export?format=parqet",
         "format is 'parqet'; it must be 'csv', 'jsonl' or 'parquet'; did you mean 'parquet'?",
         "format"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_is_named(
    one: TestClient, path: str, message: str, field: str
) -> None:
    response = one.get(path)
    error = response.json()["error"]
    assert (response.status_code, error["message"], error["field"]) == (422, message, field)
