"""The database: opened, or refused; and the log that replays or says where it does not."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient

from keyhole.cli import main
from keyhole.errors import DatabaseError
from keyhole.predictor.progress import Progress
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.backend import Statement, read_scalar
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import TokenRow
from keyhole.service.store.streams import answers, proposals, registry
from tests.service.scene import NOW, SCORES, made, read_table, run_sql


def lived(http: TestClient, database: Database) -> None:
    """Play 130 rounds, ten open at a time, and leave every seventh without an answer."""
    made(http)
    for start in range(0, 130, 10):
        opened = proposals.predict(database, "pets", asks=[proposals.Query(SCORES)] * 10, now=NOW)
        replies = [
            answers.Reply(one.id, {"label": "cat"} if "cat" in one else "miss")
            for n, one in enumerate(opened, start)
            if n % 7
        ]
        answers.answer(database, replies, now=NOW)


def changed(database: Database, table: str, where: str = "", **values: Any) -> str | None:
    """Falsify rows; return the first difference that the replay names."""
    columns = ", ".join(f"{name} = ?" for name in values)
    run_sql(database, f"UPDATE {table} SET {columns} {where}", *values.values())  # noqa: S608
    return replay.replay(database, "pets").difference


def test_an_untouched_log_replays(http: TestClient, database: Database) -> None:
    lived(http, database)
    found = replay.replay(database, "pets")
    assert (found.rounds, found.answers, found.difference) == (130, 111, None)


@pytest.mark.parametrize(
    ("table", "number", "values", "difference"),
    [
        ("rounds", 40, {"threshold": 0.123}, "round 40: the threshold is 0.123"),
        ("rounds", 40, {"size": 9.0}, "round 40: the size is 9.0"),
        ("answers", 41, {"miss": 0.5}, "the answer to round 41"),
        ("answers", 41, {"score": 0.5}, "the answer to round 41: the score is 0.5"),
        ("answers", 41, {"answer": '{"label": "yak"}'}, "the answer to round 41"),
    ],
)
def test_the_first_falsified_row_is_named(
    one: TestClient, light: Database, table: str, number: int, values: Any, difference: str
) -> None:
    lived(one, light)
    assert difference in str(changed(light, table, f"WHERE number = {number}", **values))


@pytest.mark.parametrize(("column", "value"), [("version", 9999), ("recent", b"\0")])
def test_a_falsified_stream_is_named(one: TestClient, light: Database, column: str, value: Any) -> None:
    lived(one, light)
    assert changed(light, "streams", **{column: value}) is not None


@pytest.mark.parametrize("name", ["predicted", "answered", "misses", "size", "unreachable"])
def test_a_falsified_tally_is_named(one: TestClient, light: Database, name: str) -> None:
    lived(one, light)
    stream = registry.get(light, "pets")
    setattr(stream.tally, name, getattr(stream.tally, name) + 1)
    progress = stream.progress.pack(stream.setup.learner)
    assert f"the {name} is" in str(changed(light, "streams", progress=progress))


@pytest.mark.parametrize("table", ["streams", "snapshots"])
def test_a_falsified_state_is_named(one: TestClient, light: Database, table: str) -> None:
    lived(one, light)
    stream = registry.get(light, "pets")
    learner = stream.setup.learner
    forged = Progress(learner.start(), stream.tally).pack(learner)
    assert "the state of the learner" in str(changed(light, table, progress=forged))


def test_a_falsified_snapshot_is_named(one: TestClient, light: Database) -> None:
    lived(one, light)
    assert "the snapshot after 100 answers" in str(changed(light, "snapshots", misses=99))


def test_a_deleted_answer_is_noticed(one: TestClient, light: Database) -> None:
    lived(one, light)
    run_sql(light, "DELETE FROM answers WHERE number = 50")
    assert replay.replay(light, "pets").difference is not None


def test_verify_says_what_it_found_and_fails_on_a_difference(
    one: TestClient, light: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lived(one, light)
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    assert main(["verify", "--database", url]) == 0
    assert "pets: 130 rounds, 111 answers: the replay is the same" in capsys.readouterr().out
    changed(light, "rounds", "WHERE number = 2", threshold=0.5)
    assert main(["verify", "pets", "--database", url]) == 2
    assert "first difference: round 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is not a database URL"),
        ("sqlite://", "cannot hold streams"),
        ("sqlite:///:memory:", "cannot hold streams"),
        ("mysql://u:secret@h/d", "cannot hold streams"),
        ("sqlite:////nowhere/at/all.db", "check that it is there"),
        ("postgresql://u:secret@127.0.0.1:1/d", "check that it is there"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named_without_its_password(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    row = TokenRow("a", "a", "", b"", 0.0, None)

    def twice() -> None:
        with database.write() as transaction:
            transaction.insert(schema.tokens, [row])
            transaction.insert(schema.tokens, [row])

    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        twice()
    assert read_table(database, schema.tokens) == []


def test_sqlite_commits_are_synced_to_disk(light: Database) -> None:
    with light.write() as transaction:
        assert transaction.fetch(Statement("PRAGMA synchronous", read_scalar)) == [2]
        assert transaction.fetch(Statement("PRAGMA journal_mode", read_scalar)) == ["wal"]
