"""Copies of a database in use, and a file that goes away while it is used."""

import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from keyhole.cli import main
from keyhole.errors import LostDatabaseError
from keyhole.service.store import tokens
from keyhole.service.store.sql import sqlite
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.wire.responses import Receipt

NOW = 1_800_000_000.0
SCORES = {"cat": 0.71, "lynx": 0.22}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'keyhole.db'}"


def play(database: Database, rounds: int) -> str:
    """Play some rounds; return the id of the last one, which is left open."""
    for n in range(rounds):
        (opened,) = proposals.predict(database, "pets", asks=[proposals.Query(SCORES)], now=NOW + n)
        if n < rounds - 1:
            (result,) = answers.answer(database, [answers.Reply(opened.id, "miss")], now=NOW + n)
            assert isinstance(result, Receipt)
    return opened.id


@pytest.fixture
def used(url: str) -> Database:
    database = Database(url)
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(database, "pets", setup=setup, now=NOW)
    return database


def test_a_copy_of_a_database_in_use_is_whole_private_and_verifies(
    used: Database, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens.create(used, "one", scopes=["read"], now=NOW)
    play(used, 20)
    copy = tmp_path / "copy.db"
    assert main(["backup", str(copy), "--database", url]) == 0
    assert ": 1 stream, 20 rounds, verified\n" in capsys.readouterr().out
    assert oct(copy.stat().st_mode & 0o777) == "0o600"
    play(used, 5)
    used.close()
    assert main(["verify", "--database", f"sqlite:///{copy}"]) == 0
    assert "20 rounds, 19 answers" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.db"]


def test_a_restored_copy_goes_on_where_it_was_made(used: Database, url: str, tmp_path: Path) -> None:
    waiting = play(used, 20)
    assert main(["backup", str(tmp_path / "copy.db"), "--database", url]) == 0
    play(used, 5)
    used.close()
    for name in ("keyhole.db", "keyhole.db-wal", "keyhole.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "copy.db").rename(tmp_path / "keyhole.db")
    restored = Database(url)
    assert registry.get(restored, "pets").tally.predicted == 20
    (result,) = answers.answer(restored, [answers.Reply(waiting, "hit")], now=NOW + 100)
    assert isinstance(result, Receipt)
    play(restored, 5)
    restored.close()
    assert main(["verify", "--database", url]) == 0


def test_a_backup_that_fails_leaves_the_old_one(url: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("the old one")
    assert main(["backup", str(tmp_path / "copy.db"), "--database", url]) == 2
    (tmp_path / "keyhole.db").write_text("no database" * 100)
    assert main(["backup", str(tmp_path / "copy.db"), "--database", url]) == 2
    assert (tmp_path / "copy.db").read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "keyhole.db"]


def test_a_database_is_not_replaced_by_its_own_copy(used: Database, url: str, tmp_path: Path) -> None:
    play(used, 3)
    assert main(["backup", str(tmp_path / "keyhole.db"), "--database", url]) == 2
    play(used, 1)
    assert registry.get(used, "pets").tally.predicted == 4


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def replace_log(path: Path) -> None:
    delete_log(path)
    path.with_name(f"{path.name}-wal").touch()


def truncate(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    with path.open("r+b") as opened:
        opened.truncate(4096)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace(path: Path) -> None:
    path.rename(path.with_name("moved.db"))
    path.touch()


@pytest.mark.parametrize("damage", [delete, delete_log, replace_log, truncate, empty, replace])
def test_what_is_written_into_a_lost_file_is_not_acknowledged(
    used: Database, tmp_path: Path, damage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(damage)
    monkeypatch.setattr(sqlite, "_LOOKS", 3)  # Nobody is writing it just now.
    play(used, 60)
    damage(tmp_path / "keyhole.db")
    with pytest.raises(LostDatabaseError, match="while the service used it"):
        play(used, 1)
    with pytest.raises(LostDatabaseError):
        registry.get(used, "pets")
    with pytest.raises(LostDatabaseError):
        used.try_write()
    used.close()


def test_a_vacuum_is_no_loss(used: Database, tmp_path: Path) -> None:
    play(used, 120)
    with sqlite3.connect(tmp_path / "keyhole.db") as connection:
        connection.execute("DELETE FROM answers")
        connection.commit()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert registry.get(used, "pets").tally.predicted == 120
    used.close()


def test_what_was_acknowledged_before_the_log_was_deleted_is_there_after_closing(
    used: Database, url: str, tmp_path: Path
) -> None:
    play(used, 60)
    delete_log(tmp_path / "keyhole.db")
    with pytest.raises(LostDatabaseError, match="keyhole verify"):
        used.check_file()
    used.close()
    opened = Database(url)
    assert registry.get(opened, "pets").tally.predicted == 60
    opened.close()


def begin_checkpoint(path: Path) -> None:
    """Write the first page of the log into the file, as SQLite does first, and no other."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big")
    frames = range(32, len(log), 24 + size)  # A header, then frames: one of their own, and a page.
    first = [at for at in frames if int.from_bytes(log[at : at + 4], "big") == 1]
    with path.open("r+b") as opened:
        opened.write(log[first[-1] + 24 : first[-1] + 24 + size])


def test_who_is_killed_in_the_middle_of_a_checkpoint_has_lost_nothing(
    used: Database, tmp_path: Path
) -> None:
    """Kills: a header that is ahead of its file taken for a file that was cut short."""
    play(used, 60)
    (tmp_path / "killed").mkdir()
    for name in ("keyhole.db", "keyhole.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    used.close()
    begin_checkpoint(tmp_path / "killed" / "keyhole.db")
    opened = Database(f"sqlite:///{tmp_path / 'killed' / 'keyhole.db'}")
    assert registry.get(opened, "pets").tally.predicted == 60
    play(opened, 1)
    opened.close()


def test_a_damaged_database_leaves_its_last_good_copy(
    used: Database, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a backup that replaces the only copy, and is verified afterwards."""
    play(used, 20)
    copy = tmp_path / "copy.db"
    assert main(["backup", str(copy), "--database", url]) == 0
    good = copy.read_bytes()
    play(used, 5)
    used.close()
    with sqlite3.connect(tmp_path / "keyhole.db") as connection:
        connection.execute("DELETE FROM answers WHERE number = 7")
    connection.close()
    assert main(["backup", str(copy), "--database", url]) == 2
    said = capsys.readouterr().err
    assert "no earlier one was touched" in said
    assert "pets: " in said
    assert copy.read_bytes() == good
    assert (tmp_path / "copy.db.damaged").is_file()


def test_a_folder_keeps_the_newest_copies(
    used: Database, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copies"
    for night in range(1, 6):
        play(used, 2)
        monkeypatch.setattr(time, "gmtime", lambda at=night * 86_400.0: time.localtime(at))
        assert main(["backup", str(folder), "--keep", "3", "--database", url]) == 0  # makes the folder
        (folder / "other.db").write_text("not ours")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [*(f"keyhole-1970010{k}T" + names[k - 4][17:] for k in (4, 5, 6)), "other.db"]
    assert main(["verify", "--database", f"sqlite:///{folder / names[2]}"]) == 0


def test_a_folder_of_copies_is_never_a_file(
    used: Database, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play(used, 2)
    (tmp_path / "copy.db").write_text("not ours")
    assert main(["backup", str(tmp_path / "copy.db"), "--keep", "3", "--database", url]) == 2
    assert "copy.db is a file; --keep is for a folder of copies" in capsys.readouterr().err
    assert (tmp_path / "copy.db").read_text() == "not ours"
