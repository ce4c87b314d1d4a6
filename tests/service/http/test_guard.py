"""A service that asks for tokens goes on doing so; one that does not answers to this machine alone."""

import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import access
from keyhole.service.http.app import Settings, create_app
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, made
from tests.service.serving import serving, wait_until

HERE, ELSEWHERE = ("127.0.0.1", 50_000), ("203.0.113.9", 50_000)


@pytest.fixture(autouse=True)
def _looks_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_SECONDS_TO_TRUST", 0.0)


def asked(database: Database, peer: tuple[str, int]) -> TestClient:
    app = create_app(database, Settings(clock=Clock()))
    return TestClient(app, base_url="http://localhost", client=peer)


@pytest.mark.parametrize("peer", [HERE, ELSEWHERE])
def test_revoking_the_last_token_opens_nothing(light: Database, peer: tuple[str, int]) -> None:
    token = tokens.create(light, "only", scopes=["admin"], now=NOW)
    http = asked(light, peer)
    bearer = {"Authorization": f"Bearer {token}"}
    assert http.get("/v1/streams", headers=bearer).status_code == 200
    tokens.revoke(light, token.split("_")[1], now=NOW)
    assert http.get("/v1/streams", headers=bearer).status_code == 401
    assert http.get("/v1/streams").status_code == 401
    assert http.get("/metrics").status_code == 401


def test_the_first_token_closes_a_service_that_runs(light: Database) -> None:
    http = asked(light, HERE)
    assert http.get("/v1/streams").status_code == 200
    tokens.create(light, "first", scopes=["admin"], now=NOW)
    assert http.get("/v1/streams").status_code == 401


def test_without_tokens_another_address_is_refused_whatever_host_it_names(light: Database) -> None:
    response = asked(light, ELSEWHERE).get("/v1/streams", headers={"Host": "localhost"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "foreign_request")


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded",
        "Via",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Real-IP",
        "True-Client-IP",
        "X-Original-Forwarded-For",
        "X-Envoy-External-Address",
        "CF-Connecting-IP",
    ],
)
def test_without_tokens_a_proxy_is_refused(light: Database, header: str) -> None:
    response = asked(light, HERE).get("/v1/streams", headers={header: "127.0.0.1"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "foreign_request")


def test_with_a_token_a_proxy_is_let_in(light: Database) -> None:
    token = tokens.create(light, "behind", scopes=["read"], now=NOW)
    headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "203.0.113.9"}
    assert asked(light, HERE).get("/v1/streams", headers=headers).status_code == 200


def test_the_server_believes_no_header_about_the_peer(light: Database) -> None:
    request = b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n"
    with serving(create_app(light)) as address:
        heard = address.say(request + b"Connection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 403")
    assert b"passed on by a proxy" in heard


def test_without_tokens_a_request_has_one_host(light: Database) -> None:
    request = b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n"
    with serving(create_app(light)) as address:
        assert address.say(request + b"Connection: close\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_a_revoked_token_loses_its_events(light: Database) -> None:
    made(asked(light, HERE))
    token = tokens.create(light, "listener", scopes=["read"], now=NOW)
    tokens.create(light, "other", scopes=["admin"], now=NOW)
    request = (
        f"GET /v1/streams/pets/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    with serving(create_app(light)) as address, address.connect() as line:
        line.sendall(request.encode())
        heard = bytearray()

        def listen() -> bool:
            heard.extend(line.recv(65_536))
            return b"data: " in heard

        wait_until(listen)
        tokens.revoke(light, token.split("_")[1], now=NOW)
        wait_until(lambda: listen() and heard.endswith(b"0\r\n\r\n"))
