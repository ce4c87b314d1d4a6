"""The request log: one line of JSON each, enough to find who did what to which round."""

import json
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from keyhole.service.http.app import create_app
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.scene import Clock, client_of, made, predicted
from tests.service.serving import serving, wait_until


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'keyhole.db'}")


def list_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(message) for message in caplog.messages if message.startswith("{")]


def line(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    return list_lines(caplog)[-1]


def test_a_line_says_when_who_by_which_token_and_about_which_round(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    token = tokens.create(database, "shop", scopes=["admin"], now=0.0)
    with client_of(database, Clock()) as http, caplog.at_level("INFO", logger="keyhole.service"):
        http.headers["authorization"] = f"Bearer {token}"
        made(http)
        shown = predicted(http)
    found = line(caplog)
    assert datetime.fromisoformat(found["time"]).utcoffset() is not None
    assert found["client"] == "127.0.0.1"
    assert found["token"] == token.split("_")[1]
    assert found["prediction"] == shown["id"]
    assert (found["method"], found["status"]) == ("POST", 201)
    assert token not in caplog.text


def test_what_a_proxy_says_of_the_sender_is_kept_apart_and_short(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    token = tokens.create(database, "shop", scopes=["read"], now=0.0)
    sender = {"authorization": f"Bearer {token}", "x-forwarded-for": "203.0.113.7, " + "9" * 1000}
    with client_of(database, Clock()) as http, caplog.at_level("INFO", logger="keyhole.service"):
        http.get("/v1/streams", headers=sender)
    found = line(caplog)
    assert found["client"] == "127.0.0.1"
    assert found["forwarded"].startswith("203.0.113.7")
    assert len(found["forwarded"]) == 80


def test_a_token_that_is_not_good_is_not_named(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.create(database, "shop", scopes=["read"], now=0.0)
    with client_of(database, Clock()) as http, caplog.at_level("INFO", logger="keyhole.service"):
        http.get("/v1/streams", headers={"authorization": "Bearer kh_aaaaaaaa_guess"})
    assert line(caplog)["token"] is None
    assert line(caplog)["status"] == 401
    assert "guess" not in caplog.text


def test_who_hangs_up_within_a_body_or_asks_for_a_websocket_is_no_fault_of_ours(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    half = (
        b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
    with caplog.at_level("INFO"), serving(create_app(database)) as address:
        with closing(address.connect()) as gone:
            gone.sendall(half)
        assert address.say(asked + b"Upgrade: websocket\r\n\r\n").startswith(b"HTTP/1.1 200")
        wait_until(lambda: len(list_lines(caplog)) >= 2)
    assert sorted(found["status"] for found in list_lines(caplog)) == [200, 400]
    assert [record for record in caplog.records if record.levelname not in ("INFO", "DEBUG")] == []


def test_every_line_about_a_stream_names_it_whatever_became_of_the_request(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(database, Clock()) as http, caplog.at_level("INFO", logger="keyhole.service"):
        made(http)
        first, second = predicted(http), predicted(http)
        http.get("/v1/streams/pets/rounds")
        http.get("/v1/streams/nowhere")
        for _ in range(2):
            http.post(f"/v1/predictions/{first['id']}/feedback", json={"miss": True})
        http.post(f"/v1/predictions/{first['id']}/amendment", json={"skip": True})
        http.post("/v1/feedback", json={"answers": [{"id": second["id"], "miss": True}]})
        http.get("/v1/streams")
    lines = list_lines(caplog)
    named = [one.get("stream") for one in lines]
    assert named == ["pets"] * 4 + ["nowhere"] + ["pets"] * 4 + [None]
    assert lines[7]["status"] == 422
