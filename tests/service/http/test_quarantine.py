"""A stream that cannot be read is kept apart, in sight; the others work."""

import asyncio
import logging
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from keyhole.errors import QuarantinedError
from keyhole.service.client.client import Client
from keyhole.service.http.app import create_app
from keyhole.service.http.server import make_server, stop_if_lost
from keyhole.service.store.sql.database import Database
from tests.service.process import Service
from tests.service.scene import answered, made, predicted, run_sql


def damage(database: Database, change: str) -> None:
    run_sql(database, f"UPDATE streams SET {change} WHERE id = 1")  # noqa: S608


@pytest.mark.parametrize(
    "change",
    [
        "progress = x'00'",
        "setup = '{'",
        "seed = 'none'",
        # As a blob becomes by SQLite's ``||``: text, and none that can be decoded.
        "progress = progress || x'81'",
        "link = link || x'81'",
    ],
)
def test_one_damaged_stream_is_shown_and_leaves_the_others_alone(
    one: TestClient, light: Database, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    made(one)
    made(one, name="well")
    damage(light, change)
    listed = one.get("/v1/streams").json()
    assert [stream["name"] for stream in listed["streams"]] == ["well"]
    assert "stream 'pets' is quarantined" in listed["quarantined"]["pets"]
    assert one.get("/healthz").json() == {"status": "ok", "quarantined": ["pets"]}
    assert one.get("/readyz").json()["quarantined"] == ["pets"]
    assert 'keyhole_quarantined{stream="pets"} 1.0' in one.get("/metrics").text
    response = one.post("/v1/streams/pets/predictions", json={"scores": [0.5]})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "quarantined")
    response = one.post("/v1/streams/well/predictions", json={"scores": [0.5]})
    assert response.status_code == 201
    one.get("/v1/streams")
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1


def test_a_stream_that_is_mended_is_let_out(one: TestClient, light: Database) -> None:
    made(one)
    damage(light, "seed = '-' || seed")
    one.get("/v1/streams")
    damage(light, "seed = substr(seed, 2)")
    assert one.get("/v1/streams").json()["quarantined"] == {}
    assert one.get("/healthz").json()["quarantined"] == []


def test_a_damaged_stream_can_be_deleted(one: TestClient, light: Database) -> None:
    made(one)
    damage(light, "progress = 'nothing'")
    assert one.post("/v1/streams/pets/archive").json()["error"]["code"] == "quarantined"
    assert one.delete("/v1/streams/pets").status_code == 204
    assert one.get("/v1/streams").json()["quarantined"] == {}


def test_a_damaged_round_is_named_and_is_not_the_callers_fault(
    one: TestClient, light: Database
) -> None:
    made(one)
    first, second = predicted(one), predicted(one)
    run_sql(light, "UPDATE open_rounds SET memo = x'00' WHERE number = 0")
    response = answered(one, first, miss=True)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "quarantined")
    message = response.json()["error"]["message"]
    assert "its round 0 cannot be read" in message
    assert message.count("; ") == 1  # one remedy
    assert answered(one, second, miss=True).status_code == 200
    run_sql(light, "UPDATE rounds SET labels = '['")
    response = one.get("/v1/streams/pets/rounds")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "quarantined")


def test_an_answer_counted_before_the_stream_was_archived_is_still_counted(one: TestClient) -> None:
    made(one)
    first, second = predicted(one), predicted(one)
    counted = answered(one, first, miss=True).json()
    one.post("/v1/streams/pets/archive")
    assert answered(one, first, miss=True).json() == {**counted, "repeated": True}
    assert answered(one, first, hit=True).json()["error"]["code"] == "answered"
    assert answered(one, second, miss=True).json()["error"]["code"] == "archived"


def test_a_service_whose_file_is_deleted_stops_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "keyhole.db"
    with Service(f"sqlite:///{file}") as service:
        file.unlink()
        code, said = service.wait()
    assert code == 3  # which deploy/keyhole.service does not start again after
    assert f"the database file {file} was deleted while the service used it" in said


def test_a_server_is_told_to_stop_only_once_the_file_is_gone(light: Database, tmp_path: Path) -> None:
    server = make_server(create_app(light), host="127.0.0.1", port=0)
    lost = stop_if_lost(server, light)

    async def look() -> None:
        assert server.config.callback_notify is not None
        await server.config.callback_notify()

    asyncio.run(look())
    assert (server.should_exit, lost) == (False, [])
    (tmp_path / "keyhole.db").unlink()
    asyncio.run(look())
    assert server.should_exit
    assert len(lost) == 1


def test_another_program_that_closes_the_file_leaves_the_service_its_log(tmp_path: Path) -> None:
    file = tmp_path / "keyhole.db"
    with Service(f"sqlite:///{file}") as service, Client(service.url) as client:
        client.create_stream("pets", alpha=0.1)
        for _ in range(3):
            client.predict("pets", [0.5, 0.25])
            with closing(sqlite3.connect(file)) as other:
                assert other.execute("SELECT count(*) FROM rounds").fetchone()[0] >= 1
        assert (tmp_path / "keyhole.db-wal").exists()
        service.kill()
        service.start()
        assert client.stream("pets").predicted == 3


def spoil(file: Path, table: str, column: str, place: int, number: bytes) -> None:
    """Write a number into the only row of a table that is of the first stream."""
    key = "id" if table == "streams" else "stream"
    with closing(sqlite3.connect(file)) as other:
        (content,) = other.execute(f"SELECT {column} FROM {table} WHERE {key} = 1").fetchone()  # noqa: S608
        place %= len(content)
        changed = content[:place] + number + content[place + 8 :]
        other.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = 1", (changed,))  # noqa: S608
        other.commit()


@pytest.mark.parametrize(
    ("learner", "table", "column", "place", "number"),
    [
        ("sps", "streams", "progress", -8, struct.pack("<q", 10**12)),  # its arm, the last of its state
        ("mvp", "open_rounds", "memo", 0, struct.pack("<d", 1e9)),  # the bucket that was played
    ],
    ids=["state", "memo"],
)
def test_a_number_beyond_a_table_quarantines_its_stream_and_the_service_goes_on(
    tmp_path: Path, learner: str, table: str, column: str, place: int, number: bytes
) -> None:
    """Kills: a flipped byte in one row that ends the process, and every other stream with it."""
    file = tmp_path / "keyhole.db"
    with Service(f"sqlite:///{file}") as service, Client(service.url) as client:
        for name in ("pets", "well"):
            client.create_stream(name, learner=learner, alpha=0.1, feedback="full")
        first, other = (client.predict(name, [0.5, 0.25]) for name in ("pets", "well"))
        spoil(file, table, column, place, number)
        with pytest.raises(QuarantinedError, match=f"of {learner} holds 1e\\+"):
            client.learn(first, label=0)
        assert client.learn(other, label=0).stream == "well"
        client.predict("well", [0.5, 0.25])
        assert client.stream("well").predicted == 2
