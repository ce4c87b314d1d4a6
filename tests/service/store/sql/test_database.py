"""A database that is busy, damaged or only to be read: what is raised, and that nothing is changed."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from keyhole.errors import BusyError, DatabaseError, InvalidError, LostDatabaseError, MissingExtraError
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.backend import Timeouts
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import TokenRow, tokens
from keyhole.service.store.streams import registry, settings
from tests.service.scene import read_table, run_sql

SHORT = Timeouts(lock=0.05, probe=0.05)
ROW = TokenRow("a", "a", "", b"", 0.0, None)


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'keyhole.db'}", timeouts=SHORT)
    yield opened
    opened.close()


def write(database: Database) -> None:
    with database.write() as transaction:
        transaction.insert(tokens, [ROW])


def count(database: Database) -> int:
    return len(read_table(database, tokens))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a file, as another process may."""
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    other.close()


@pytest.mark.parametrize("act", [write, Database.try_write])
def test_while_another_process_writes_it_is_busy_and_can_be_read(
    hasty: Database, act: Callable[[Database], None], tmp_path: Path
) -> None:
    with held(tmp_path / "keyhole.db"):
        with pytest.raises(BusyError, match="the database is busy"):
            act(hasty)
        assert count(hasty) == 0
    act(hasty)


def test_while_another_thread_writes_it_is_busy(hasty: Database) -> None:
    with (
        hasty.write(),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(BusyError, match=r"no turn to write within 0\.05 seconds"),
    ):
        pool.submit(write, hasty).result(timeout=30.0)
    write(hasty)
    assert count(hasty) == 1


def test_a_trial_write_is_one(hasty: Database, tmp_path: Path) -> None:
    """Kills: a trial that only asks for the lock, which a full disk gives."""
    with closing(sqlite3.connect(tmp_path / "keyhole.db")) as other:
        before = other.execute("PRAGMA data_version").fetchone()
        hasty.try_write()
        assert other.execute("PRAGMA data_version").fetchone() != before


def list_held(folder: Path) -> list[str]:
    """Return the names of the files of a folder that this process has open."""
    held = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # It was closed meanwhile, by another thread.
            held.append(link.readlink())
    return [path.name for path in held if path.parent == folder]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are not listed here")
def test_a_database_that_is_closed_holds_no_file_and_leaves_one(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'keyhole.db'}")
    write(database)
    database.try_write()
    assert count(database) == 1
    assert "keyhole.db" in list_held(tmp_path)
    database.close()
    assert list_held(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["keyhole.db"]


@pytest.mark.parametrize("act", [count, write, Database.try_write])
def test_a_file_that_is_deleted_while_it_is_in_use_is_missed_by_whoever_comes_next(
    hasty: Database, act: Callable[[Database], object], tmp_path: Path
) -> None:
    (tmp_path / "keyhole.db").unlink()
    with pytest.raises(LostDatabaseError, match="was deleted while the service used it"):
        act(hasty)


def test_a_trial_write_leaves_the_version_as_it_was(hasty: Database) -> None:
    hasty.try_write()
    assert read_table(hasty, schema.meta) == [(schema.VERSION,)]


def test_errors_that_are_not_the_databases_pass_as_they_are(hasty: Database) -> None:
    def fail() -> None:
        with hasty.write() as transaction:
            transaction.insert(tokens, [ROW])
            raise InvalidError("of ours")

    with pytest.raises(InvalidError, match="of ours"):
        fail()
    assert count(hasty) == 0
    write(hasty)
    with pytest.raises(sqlite3.IntegrityError):
        write(hasty)


def test_what_is_only_read_is_not_changed(hasty: Database, tmp_path: Path) -> None:
    write(hasty)
    reader = Database(f"sqlite:///{tmp_path / 'keyhole.db'}", read_only=True)
    assert count(reader) == 1
    with pytest.raises(DatabaseError, match="readonly"):
        write(reader)
    reader.close()


def test_a_damaged_file_is_named_with_its_remedy(hasty: Database, tmp_path: Path) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1)
    registry.create(hasty, "pets", setup=setup, now=0.0)
    hasty.close()
    file = tmp_path / "keyhole.db"
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(DatabaseError, match=r"damaged|malformed"):
        Database(f"sqlite:///{file}", read_only=True)


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "keyhole.service.store.sql.postgres", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'keyhole-conformal\[postgres\]'"):
        Database("postgresql://u:secret@127.0.0.1:1/d")


def test_a_newer_database_is_refused(url: str) -> None:
    database = Database(url)
    run_sql(database, "UPDATE meta SET version = version + 1")
    database.close()
    with pytest.raises(DatabaseError, match="upgrade keyhole-conformal"):
        Database(url)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_database_is_refused_and_left_as_it_is(url: str, *, read_only: bool) -> None:
    database = Database(url)
    run_sql(database, "UPDATE meta SET version = 2")
    database.close()
    with pytest.raises(DatabaseError, match=r"older Keyhole .* begin with a new one"):
        Database(url, read_only=read_only)


def test_a_database_of_now_is_opened_again(url: str) -> None:
    for _ in range(2):
        database = Database(url)
        assert read_table(database, schema.meta) == [(schema.VERSION,)]
        database.close()
