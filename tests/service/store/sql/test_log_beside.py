"""The write-ahead log that belongs beside a file, is missing there, or is of another one."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from keyhole.cli import main
from keyhole.errors import DatabaseError, KeyholeWarning
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from tests.service.scene import Clock, client_of, made, predicted
from tests.service.store.streams.test_stream import ask, create


@pytest.fixture
def used(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path / 'keyhole.db'}")
    create(database, "pets")
    ask(database, 60, now=1.0)
    return database


def count_rounds(path: Path) -> int:
    with closing(Database(f"sqlite:///{path}")) as database:
        return registry.get(database, "pets").tally.predicted


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_database_that_is_closed_is_one_file_which_holds_everything(
    used: Database, tmp_path: Path
) -> None:
    used.close()
    assert names(tmp_path) == ["keyhole.db"]
    shutil.copy(tmp_path / "keyhole.db", tmp_path / "copy.db")
    assert main(["verify", "--database", f"sqlite:///{tmp_path / 'copy.db'}"]) == 0
    assert count_rounds(tmp_path / "copy.db") == 60


def test_who_closes_beside_others_leaves_them_their_log(used: Database, tmp_path: Path) -> None:
    """Kills: a command that ends the log which a service is writing."""
    Database(f"sqlite:///{tmp_path / 'keyhole.db'}").close()
    used.check_file()
    ask(used, 1, now=2.0)
    used.close()
    assert count_rounds(tmp_path / "keyhole.db") == 61


def test_verify_does_not_vouch_for_a_copy_without_its_log(
    used: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a copy of the first file alone, which lacks the newest rounds and verifies."""
    with closing(sqlite3.connect(tmp_path / "keyhole.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    ask(used, 40, now=2.0)
    shutil.copy(tmp_path / "keyhole.db", tmp_path / "copy.db")
    used.close()
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    assert main(["verify", "--database", url]) == 2
    said = capsys.readouterr()
    assert "pets: 60 rounds, 0 answers: the replay is the same" in said.out
    assert (
        "copy.db was not closed in order, and its write-ahead log (-wal) is not beside it" in said.err
    )
    with pytest.warns(KeyholeWarning, match="the newest rounds may be missing"):
        Database(url).close()
    assert main(["verify", "--database", url]) == 0  # Whoever took it as it is has said so.


def test_a_log_of_another_file_is_named_and_left_as_it_is(
    used: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a backup put in the place of a file whose log is still there, and read with it."""
    used.copy_to(tmp_path / "copy.db")
    ask(used, 40, now=2.0)
    (tmp_path / "killed").mkdir()
    path = tmp_path / "killed" / "keyhole.db"
    shutil.copy(tmp_path / "copy.db", path)
    for end in ("-wal", "-shm"):
        shutil.copy(tmp_path / f"keyhole.db{end}", f"{path}{end}")
    used.close()
    before = [(one.name, one.read_bytes()) for one in sorted(path.parent.iterdir())]
    assert main(["verify", "--database", f"sqlite:///{path}"]) == 2
    assert f"{path}-wal does not belong to {path}" in capsys.readouterr().err
    with pytest.raises(DatabaseError, match=r"move keyhole\.db-wal and keyhole\.db-shm away"):
        Database(f"sqlite:///{path}")
    assert [(one.name, one.read_bytes()) for one in sorted(path.parent.iterdir())] == before
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    assert count_rounds(path) == 60


def test_a_file_that_a_request_found_damaged_is_not_ready(
    light: Database, clock: Clock, one: TestClient, tmp_path: Path
) -> None:
    """Kills: a probe that writes one page, and knows nothing of the others."""
    made(one)
    predicted(one)
    assert one.get("/readyz").status_code == 200
    with closing(sqlite3.connect(tmp_path / "keyhole.db")) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rounds'")
        ((size,),) = connection.execute("PRAGMA page_size")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "keyhole.db").open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(b"\xff" * size)
    http = client_of(light, clock)
    response = http.post("/v1/streams/pets/predictions", json={"scores": [0.5]})
    assert response.status_code == 503
    assert "the database file is damaged" in response.json()["error"]["message"]
    ready = http.get("/readyz")
    assert ready.status_code == 503
    assert "restore it from a backup" in ready.json()["error"]["message"]
    assert http.get("/healthz").status_code == 200


@pytest.mark.parametrize("statement", ["DELETE FROM meta", "INSERT INTO meta SELECT * FROM meta"])
def test_a_version_of_the_schema_that_is_missing_or_doubled_is_named(
    used: Database, tmp_path: Path, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    used.close()
    with closing(sqlite3.connect(tmp_path / "keyhole.db")) as connection:
        connection.execute(statement)
        connection.commit()
    for command in ("verify", "serve"):
        assert main([command, "--database", f"sqlite:///{tmp_path / 'keyhole.db'}"]) == 2
        assert "rows where there is one version of the schema" in capsys.readouterr().err
