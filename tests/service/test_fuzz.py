"""Whatever is sent, the service answers with a clear refusal or does what was asked; it never breaks.

``make fuzz`` sends more of it, with KEYHOLE_EXAMPLES=1000, and counts the answers.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from keyhole.service.http import digits_demo
from keyhole.service.http.app import Settings, create_app
from keyhole.service.store import tokens
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.scene import NOW, PATIENT, Clock, client_of, made, predicted

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("KEYHOLE_EXAMPLES", "15"))
_quiet = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def local(app: Any, answered: Counter[int], token: str) -> Any:
    """Return the service as a client with a token sees it, counting its answers by status.

    Without one a made-up token, which the description of the routes asks for, is all that is refused.
    """
    known = (b"authorization", f"Bearer {token}".encode())

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            if message["type"] == "http.response.start":
                answered[message["status"]] += 1
            await send(message)

        headers = [one for one in scope["headers"] if one[0] != known[0]]
        more = {"client": ("127.0.0.1", 50_000), "headers": [*headers, known]}
        await app({**scope, **more}, receive, tell)

    return asked


@pytest.fixture
def described(url: str) -> Iterator[tuple[Any, Counter[int]]]:
    """The service on each kind of database, and what it answered by status."""
    database, answered = Database(url, timeouts=PATIENT), Counter[int]()
    digits_demo.create(database, now=NOW)
    digits_demo.pictures()  # They take seconds to make, which are no request's.
    token = tokens.create(database, "fuzz", scopes=["admin"], now=NOW)
    app = local(create_app(database, Settings(clock=Clock(), demo=True)), answered, token)
    http = TestClient(app, base_url="http://localhost")
    made(http, name="triage")
    for round_ in range(3):
        body = {"scores": {"cat": 0.7, "lynx": 0.2}}
        id_ = http.post("/v1/streams/triage/predictions", json=body).json()["id"]
        if round_:
            http.post(f"/v1/predictions/{id_}/feedback", json={"miss": True})
    # The events never end, so that nothing would be learnt from waiting for them.
    loaded = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Host": "localhost"})
    answered.clear()
    yield loaded.exclude(path_regex="/events$"), answered
    database.close()


def test_every_response_is_as_described_and_none_is_a_server_error(
    described: tuple[Any, Counter[int]],
) -> None:
    """Kills: what one database alone takes amiss, as PostgreSQL does null characters."""
    (routes, answered), tried = described, 0
    for found in routes.get_all_operations():
        operation = found.ok()

        @_quiet
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            case.call_and_validate(checks=CHECKS, headers={"Host": "localhost"}, timeout=SECONDS)

        send()
        tried += 1
    told = f"{answered.total():,} requests, by the status of their answer: {sorted(answered.items())}"
    print(told)  # noqa: T201 - which ``make fuzz`` shows
    assert tried >= 16
    assert {200, 404, 422} <= set(answered)  # They get to what the routes do,
    assert not {401, 403} & set(answered)  # and are not sent away before.
    assert max(answered) < 500


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Database, TestClient, Any]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'keyhole.db'}")
    http = client_of(database, Clock())
    made(http)
    return database, http, predicted(http)


def refused(response: Any) -> None:
    assert 400 <= response.status_code < 500, response.text
    assert set(response.json()["error"]) == {"code", "message", "field"}
    assert "Traceback" not in response.text
    assert "SELECT" not in response.text


@_quiet
@given(body=anything)
def test_malformed_bodies_are_refused_and_change_nothing(scene: Any, body: Any) -> None:
    _, http, prediction = scene
    before = http.get("/v1/streams/pets").json()
    for path in (
        "/v1/streams",
        "/v1/streams/pets/predictions",
        "/v1/streams/pets/predictions/batch",
        f"/v1/predictions/{prediction['id']}/feedback",
        "/v1/feedback",
    ):
        try:
            response = http.post(path, json=body)
        except ValueError:
            return  # Such a body cannot even be written as JSON.
        refused(response)
    assert http.get("/v1/streams/pets").json() == before


@_quiet
@given(content=st.binary(max_size=200))
def test_bytes_that_are_no_json_are_refused(scene: Any, content: bytes) -> None:
    _, http, _ = scene
    headers = {"Content-Type": "application/json"}
    refused(http.post("/v1/streams/pets/predictions", content=content, headers=headers))


@_quiet
@given(id_=st.text(min_size=1, max_size=60) | st.from_regex(r"[0-9]{1,25}-[0-9]{1,25}-[0-9a-f]{10}"))
def test_ids_that_were_never_given_are_refused(scene: Any, id_: str) -> None:
    _, http, _ = scene
    before = http.get("/v1/streams/pets").json()
    refused(http.post("/v1/feedback", json={"answers": []}))
    response = http.post("/v1/feedback", json={"answers": [{"id": id_, "miss": True}]})
    assert response.status_code == 422 or "error" in response.json()["results"][0]
    assert http.get("/v1/streams/pets").json() == before


@_quiet
@given(token=st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=255), max_size=60))
def test_tokens_that_were_never_made_are_refused(tmp_path_factory: Any, token: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "tokens"
    folder.mkdir(exist_ok=True)
    database = Database(f"sqlite:///{folder / 'keyhole.db'}")
    if not tokens.in_use(database):
        tokens.create(database, "one", scopes=["admin"], now=NOW)
    http = client_of(database, Clock())
    for header in (token, f"Bearer {token}", f"Bearer kh_{token}"):
        response = http.get("/v1/streams", headers={b"Authorization": header.encode("latin-1")})
        assert response.status_code == 401
    database.close()


@pytest.mark.parametrize(
    "odd", ["\0", "\ud800", "é", "a\0b", "'; DROP TABLE rounds; --", "%00", "\U0001f600"]
)
def test_odd_text_is_data_or_refused_everywhere(http: TestClient, odd: str) -> None:
    made(http)
    asked = [
        ("/v1/streams", {"name": odd, "alpha": 0.1}),
        ("/v1/streams", {"name": "odd", "alpha": 0.1, "labels": [odd, "even"]}),
        ("/v1/streams/pets/predictions", {"scores": {odd: 1.0}}),
        ("/v1/streams/pets/predictions/batch", {"predictions": [{"scores": [0.5], "key": odd}]}),
        ("/v1/feedback", {"answers": [{"id": odd, "label": odd}]}),
        (f"/v1/streams/{quote(odd, errors='replace')}/predictions", {"scores": [0.5]}),
        (f"/v1/streams/{quote(odd, errors='replace')}/archive", {}),
    ]
    for path, body in asked:
        content, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        response = http.post(path, content=content, headers=headers)
        assert response.status_code < 500, (path, response.text)
    assert http.get(f"/v1/streams/{quote(odd, errors='replace')}").status_code < 500
    assert http.get("/v1/streams/pets/export").status_code == 200


@pytest.mark.parametrize("label", [10**400, 2**63, -(10**30), 1e308, "1" * 10_000])
def test_labels_beyond_measure_are_refused(http: TestClient, label: Any) -> None:
    made(http, bound=1.0)
    prediction = http.post("/v1/streams/pets/predictions", json={"centre": 1e308}).json()
    response = http.post(f"/v1/predictions/{prediction['id']}/feedback", json={"label": label})
    assert response.status_code in (200, 422)


def test_after_all_that_the_log_replays(scene: Any) -> None:
    database, _, _ = scene
    assert replay.replay(database, "pets").difference is None
