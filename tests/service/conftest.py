import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import health
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.cluster import start_server
from tests.service.scene import PATIENT, Clock, client_of
from tests.service.serving import wait_until


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL that gives the URL of a new, empty database."""
    # Not in pytest's own folder: another run of pytest, beside this one, may clean that away.
    folder = Path(tempfile.mkdtemp(prefix="keyhole-pg-"))
    server = start_server(folder)
    url = server.get_uri()

    def run(command: str) -> None:
        # A connection of its own for each command: a test may have crashed the server meanwhile.
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(command.encode())

    def answers() -> bool:
        with suppress(psycopg.OperationalError):  # It is starting up.
            run("SELECT 1")
            return True
        return False

    wait_until(answers)
    # The tests kill the service, not the machine, so that PostgreSQL need not wait for the disk.
    run("ALTER SYSTEM SET fsync = off")
    run("SELECT pg_reload_conf()")

    def make() -> str:
        name = f"k{uuid4().hex[:12]}"
        run(f"CREATE DATABASE {name}")
        return str(server.get_uri(name))

    yield make
    # At once: to bring to the disk what is then deleted takes longer than its end is waited for.
    os.kill(server.get_pid(), signal.SIGQUIT)
    wait_until(lambda: not (folder / "postmaster.pid").exists())
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'keyhole.db'}"
    return str(request.getfixturevalue("postgres")())


@pytest.fixture(autouse=True)
def _waits_for_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_SECONDS_TO_WAIT", SECONDS)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url, timeouts=PATIENT)
    yield opened
    opened.close()


@pytest.fixture
def light(tmp_path: Path) -> Iterator[Database]:
    """A database for what does not depend on the kind of database."""
    opened = Database(f"sqlite:///{tmp_path / 'keyhole.db'}", timeouts=PATIENT)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def http(database: Database, clock: Clock) -> TestClient:
    return client_of(database, clock)


@pytest.fixture
def one(light: Database, clock: Clock) -> TestClient:
    """A service on SQLite alone."""
    return client_of(light, clock)
