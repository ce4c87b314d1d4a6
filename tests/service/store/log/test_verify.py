"""``keyhole verify``: whatever is changed, taken out or put in is named with its row."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from keyhole.cli import main
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.wire.responses import Receipt

NOW = 1_800_000_000.0
SCORES = {"cat": 0.71, "lynx": 0.22, "dog": 0.04}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a stream of 130 rounds, answered out of order, some open and some expired."""
    path = tmp_path_factory.mktemp("lived") / "keyhole.db"
    database = Database(f"sqlite:///{path}")
    setup, _ = settings.make_setup("self-scaled", alpha=0.1, seed=7, open_limit=25)
    for name in ("pets", "other"):
        registry.create(database, name, setup=setup, now=NOW, lifetime=100.0)
    for start in range(0, 130, 10):
        now = NOW + start
        asks = [proposals.Query(SCORES, f"{start}-{n}") for n in range(10)]
        opened = proposals.predict(database, "pets", asks=asks, now=now)
        replies = [
            answers.Reply(one.id, {"label": "cat"} if "cat" in one else "miss")
            for n, one in reversed(list(enumerate(opened, start)))
            if n % 5
        ]
        results = answers.answer(database, replies, now=now + 0.5)
        assert all(isinstance(result, Receipt) for result in results)
    database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def file(lived: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(lived, tmp_path / "keyhole.db"))


def verify(file: Path, *names: str) -> int:
    return main(["verify", *names, "--database", f"sqlite:///{file}"])


EDITS = {
    "labels": (
        "UPDATE rounds SET labels = replace(labels, 'dog', 'yak') WHERE number = 40",
        "round 40",
    ),
    "output": (
        "UPDATE rounds SET output = zeroblob(24) WHERE number = 40",
        "round 40",
    ),
    "key": ("UPDATE rounds SET key = 'forged' WHERE number = 40", "round 40 is not what was written"),
    "no key": ("UPDATE rounds SET key = NULL WHERE number = 40", "round 40 is not what was written"),
    "time of a round": ("UPDATE rounds SET at = at + 1 WHERE number = 40", "round 40"),
    "threshold": ("UPDATE rounds SET threshold = 0.123 WHERE number = 40", "round 40: the threshold"),
    "size": ("UPDATE rounds SET size = 9 WHERE number = 40", "round 40: the size"),
    "time of an answer": ("UPDATE answers SET at = at + 1 WHERE number = 41", "answer to round 41"),
    "answer": ('UPDATE answers SET answer = \'{"label": "yak"}\' WHERE number = 41', "round 41"),
    "spelling of an answer": (
        "UPDATE answers SET answer = answer || ' ' WHERE number = 41",
        "round 41",
    ),
    "miss": ("UPDATE answers SET miss = 1 - miss WHERE number = 41", "round 41"),
    "score": ("UPDATE answers SET score = 0.5 WHERE number = 41", "round 41: the score"),
    "link": ("UPDATE answers SET link = zeroblob(16) WHERE number = 41", "round 41"),
    "memo": (
        "UPDATE open_rounds SET memo = zeroblob(length(memo)) WHERE number = 120",
        "open round 120: the memo",
    ),
    "expiry": (
        "UPDATE open_rounds SET expires = expires + 1 WHERE number = 120",
        "open round 120: the expires",
    ),
    "answers before": (
        'UPDATE open_rounds SET "then" = "then" + 1 WHERE number = 120',
        "open round 120: the then",
    ),
    "open round gone": (
        "DELETE FROM open_rounds WHERE number = 120",
        "round 120: what it must remember",
    ),
    "open round added": (
        'INSERT INTO open_rounds SELECT stream, 0, expires, "then", memo, NULL '
        "FROM open_rounds LIMIT 1",
        "round 0:",
    ),
    "time of a snapshot": ("UPDATE snapshots SET at = at + 1", "the snapshot after 100 answers"),
    "misses of a snapshot": (
        "UPDATE snapshots SET misses = misses + 1",
        "the snapshot after 100 answers",
    ),
    "progress of a snapshot": (
        "UPDATE snapshots SET progress = zeroblob(200)",
        "the snapshot after 100 answers",
    ),
    "snapshot gone": ("DELETE FROM snapshots", "the snapshot after 100 answers is gone"),
    "seed": (
        "UPDATE streams SET seed = '8' WHERE id = 1",
        "the seed",
    ),
    "alpha": (
        "UPDATE streams SET setup = replace(setup, '\"alpha\": 0.1', '\"alpha\": 0.2') WHERE id = 1",
        "quarantined",
    ),
    "lifetime": ("UPDATE streams SET lifetime = 5000 WHERE id = 1", "the lifetime is 5000.0"),
    "window": ("UPDATE streams SET window = 999 WHERE id = 1", "the stream's row"),
    "name": ("UPDATE streams SET name = 'dogs' WHERE id = 1", "the name is 'dogs'"),
    "created": ("UPDATE streams SET created = created - 1 WHERE id = 1", "the created"),
    "archived": ("UPDATE streams SET archived = 1 WHERE id = 1", "the archived is 1.0"),
    "recent": ("UPDATE streams SET recent = zeroblob(126) WHERE id = 1", "the recent"),
    "next expiry": ("UPDATE streams SET next_expiry = 0 WHERE id = 1", "the next_expiry"),
    "version": ("UPDATE streams SET version = version + 1 WHERE id = 1", "the version"),
    "how it was made": ("UPDATE changes SET at = at - 1 WHERE stream = 1", "the change 'created'"),
    "making gone": ("DELETE FROM changes WHERE stream = 1", "the log"),
    "round gone": ("DELETE FROM rounds WHERE number = 40", "the log: the version of"),
    "answer gone": ("DELETE FROM answers WHERE number = 41", "the log: the version of"),
    "last rows gone": ("DELETE FROM answers WHERE number IN (121, 122)", "the stream's row"),
    "damaged progress": ("UPDATE streams SET progress = x'00' WHERE id = 1", "quarantined"),
    "damaged setup": ("UPDATE streams SET setup = '{' WHERE id = 1", "quarantined"),
    "damaged answer": ("UPDATE answers SET answer = '{' WHERE number = 41", "round 41 cannot be read"),
    "damaged output": ("UPDATE rounds SET output = x'00' WHERE number = 40", "round 40 cannot be read"),
    "damaged labels": ("UPDATE rounds SET labels = '[' WHERE number = 40", "round 40 cannot be read"),
    "bytes that are no text": (
        "UPDATE rounds SET labels = CAST(x'ff' AS TEXT) WHERE number = 40",
        "round 40 cannot be read",
    ),
    "progress that is no text": (
        "UPDATE streams SET progress = progress || x'81' WHERE id = 1",
        "quarantined",
    ),
    "name that is no text": (
        "UPDATE streams SET name = CAST(x'ff' AS TEXT) WHERE id = 1",
        "there is no stream",
    ),
    "text for a number": ("UPDATE rounds SET at = 'noon' WHERE number = 40", "round 40 cannot be read"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_named_with_its_row(
    file: Path, edit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    statement, named = EDITS[edit]
    with sqlite3.connect(file) as connection:
        assert connection.execute(statement).rowcount > 0
    assert verify(file) == 2
    output = capsys.readouterr()
    assert named in output.out
    assert "other: 0 rounds, 0 answers: the replay is the same" in output.out
    assert "1 of 2 streams" in output.err


def test_what_was_not_touched_verifies_and_shows_its_last_link(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(file) as connection:
        (link,) = connection.execute("SELECT link FROM streams WHERE name = 'pets'").fetchone()
    assert verify(file) == 0
    output = capsys.readouterr().out
    assert "pets: 130 rounds, 104 answers: the replay is the same, bit for bit" in output
    assert f"last link {link.hex()}" in output


@pytest.mark.parametrize(("place", "what"), [(-8, "state of the learner"), (100, "progress")])
def test_one_bit_of_a_snapshot_is_named(
    file: Path, place: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: snapshots whose state, or whose tally, nobody looks at."""
    with sqlite3.connect(file) as connection:
        (kept,) = connection.execute("SELECT progress FROM snapshots").fetchone()
        changed = bytearray(kept)
        changed[place] ^= 1
        connection.execute("UPDATE snapshots SET progress = ?", [bytes(changed)])
    assert verify(file) == 2
    assert f"the snapshot after 100 answers: the {what} differs" in capsys.readouterr().out


def test_two_answers_that_trade_places_are_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(file) as connection:
        first, second = (
            connection.execute("SELECT version FROM answers WHERE number = ?", [number]).fetchone()[0]
            for number in (41, 42)
        )
        for old, new in ((first, -1), (second, first), (-1, second)):
            connection.execute("UPDATE answers SET version = ? WHERE version = ?", [new, old])
    assert verify(file) == 2
    assert "the answer to round 4" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["calibrate", "pets", "past.csv"], ["token", "list"]])
def test_a_file_that_is_not_there_is_not_made_by_what_needs_one(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--database", f"sqlite:///{tmp_path / 'none.db'}"]) == 2
    assert "there is no database file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_not_verified_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(tmp_path / "none.db") == 2
    assert "there is no database file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_tables_is_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.db").touch()
    assert verify(tmp_path / "empty.db") == 2
    assert "holds no streams" in capsys.readouterr().err


def test_a_database_without_streams_is_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Database(f"sqlite:///{tmp_path / 'keyhole.db'}").close()
    assert verify(tmp_path / "keyhole.db") == 2
    assert "nothing to verify" in capsys.readouterr().err


def test_a_copy_of_the_file_alone_while_it_is_in_use_is_not_verified(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'keyhole.db'}")
    setup, _ = settings.make_setup("kt", alpha=0.1)
    registry.create(database, "pets", setup=setup, now=NOW)
    shutil.copy(tmp_path / "keyhole.db", tmp_path / "copy.db")
    database.close()
    assert verify(tmp_path / "copy.db") == 2


def test_a_file_that_is_no_database_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.db").write_text("this is no database at all" * 100)
    assert verify(tmp_path / "text.db") == 2
    assert "file is not a database" in capsys.readouterr().err


def test_verifying_changes_nothing_of_the_file(file: Path) -> None:
    before = file.read_bytes()
    file.chmod(0o400)
    assert verify(file) == 0
    assert file.read_bytes() == before


def test_a_damaged_page_is_named_without_a_traceback(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(file.read_bytes())
    with sqlite3.connect(file) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'answers'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content[(root - 1) * size : root * size] = b"\xff" * size
    file.write_bytes(content)
    assert verify(file) == 2
    output = capsys.readouterr()
    assert "malformed" in output.out + output.err


def edit(file: Path, command: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(command)


def test_a_stream_whose_row_is_gone_is_missed_by_its_log(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(file, "DELETE FROM streams WHERE name = 'pets'")
    assert verify(file) == 2
    output = capsys.readouterr().out
    left = "rows of open_rounds, answers, rounds, changes, snapshots are left"
    assert f"stream 1: its row is gone, and {left}" in output
    assert "other: 0 rounds, 0 answers: the replay is the same" in output


def test_a_stream_with_a_name_that_none_can_have_does_not_hide_the_others(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(file, "UPDATE streams SET name = 'pets ' WHERE name = 'pets'")
    assert verify(file) == 2
    output = capsys.readouterr().out
    assert "pets : there is no stream 'pets '" in output
    assert "other: 0 rounds, 0 answers: the replay is the same" in output
