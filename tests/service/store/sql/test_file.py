"""A database's file that is looked at while it is in use."""

import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from keyhole.errors import LostDatabaseError
from keyhole.service.store.sql import sqlite as module
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.sqlite import DatabaseFile


def fill(path: Path, *, page: int) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA page_size = {page}")
        connection.execute("CREATE TABLE t (x BLOB)")
        connection.execute("INSERT INTO t VALUES (zeroblob(200000))")
    connection.close()
    return path


@pytest.mark.parametrize("page", [512, 4096, 65_536])
def test_a_whole_file_is_whole_whatever_the_size_of_its_pages(tmp_path: Path, page: int) -> None:
    """The largest size does not fit into its two bytes of the header, and is written as 1."""
    file = DatabaseFile(fill(tmp_path / "keyhole.db", page=page))
    file.check()
    file.check()


@pytest.mark.parametrize("page", [4096, 65_536])
@pytest.mark.parametrize("left", [1.0, 0.5, 0.0])
def test_a_file_that_lacks_a_byte_is_cut_short(tmp_path: Path, page: int, left: float) -> None:
    path = fill(tmp_path / "keyhole.db", page=page)
    file, content = DatabaseFile(path), path.read_bytes()
    path.write_bytes(content[: int(left * len(content)) - (left == 1.0)])
    assert not file._is_whole()
    path.write_bytes(content)
    file.check()


def test_a_new_database_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path / 'keyhole.db'}").close()
    assert (tmp_path / "keyhole.db").stat().st_mode & 0o777 == 0o600


def test_what_is_deleted_or_replaced_is_lost(tmp_path: Path) -> None:
    path = fill(tmp_path / "keyhole.db", page=4096)
    file = DatabaseFile(path)
    other = fill(tmp_path / "other.db", page=4096)
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(
        LostDatabaseError, match=f"the database file {path} was deleted while"
    ) as raised:
        file.check()
    assert "restore it (see keyhole backup), and start again" in str(raised.value)
    other.rename(path)
    with pytest.raises(LostDatabaseError, match="was replaced by another"):
        file.check()
    (tmp_path / "elsewhere.db").replace(path)
    file.check()


def test_a_log_that_is_gone_is_named_with_what_to_do_about_it(tmp_path: Path) -> None:
    path = fill(tmp_path / "keyhole.db", page=4096)
    log = tmp_path / "keyhole.db-wal"
    log.touch()
    file = DatabaseFile(path)
    log.unlink()
    with pytest.raises(LostDatabaseError, match=f"the database file {log} was deleted") as raised:
        file.check()
    assert "see with keyhole verify what is there, and start again" in str(raised.value)


def test_a_file_that_is_cut_short_is_given_ten_seconds_to_grow_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(tmp_path / "keyhole.db", page=4096)
    file, content = DatabaseFile(path), path.read_bytes()
    path.write_bytes(content[:-1])
    waits: list[float] = []
    monkeypatch.setattr(
        module, "time", SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    )  # of no other thread
    with pytest.raises(LostDatabaseError, match=f"the database file {path} was cut short"):
        file.check()
    assert sum(waits) == pytest.approx(10.0)
    grow = SimpleNamespace(
        sleep=lambda _: path.write_bytes(content), monotonic=time.monotonic
    )  # meanwhile
    monkeypatch.setattr(module, "time", grow)
    path.write_bytes(content[:-1])
    file.check()


def test_a_file_is_in_place_until_its_name_is_anothers(tmp_path: Path) -> None:
    path = fill(tmp_path / "keyhole.db", page=4096)
    file = DatabaseFile(path)
    assert file.is_in_place()
    path.rename(tmp_path / "elsewhere.db")
    assert not file.is_in_place()
    fill(path, page=4096)
    assert not file.is_in_place()
    (tmp_path / "elsewhere.db").rename(path)
    assert file.is_in_place()
    file.close()
