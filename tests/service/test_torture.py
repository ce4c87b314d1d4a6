"""Nothing acknowledged is lost, no round is doubled, and the log replays, whatever goes wrong.

Kills, rivals, a database that crashes or is frozen, a disk that is full.

``make torture`` runs the long form, with KEYHOLE_KILLS=50.
"""

import os
import resource
import signal as signals
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

import keyhole
from keyhole.service.client.client import Client
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.process import Service, Worker, busy
from tests.service.serving import wait_until

KILLS = int(os.environ.get("KEYHOLE_KILLS", "3"))
CRASHES = max(1, KILLS // 6)
SEED = 11


def check(url: str, workers: Sequence[Worker]) -> None:
    """Hold the log against what the clients were told."""
    database = Database(url)
    entries = {entry.id: entry for entry in history.log(database, "load")}
    asked = [made for worker in workers for made in worker.predictions]
    assert len({made.id for made in asked}) == len(asked)
    assert set(entries) == {made.id for made in asked}
    for made in asked:
        assert entries[made.id].row.threshold == made.threshold
        assert tuple(entries[made.id].region) == made.labels  # type: ignore[arg-type]
    told = {id_: answer for worker in workers for id_, answer in worker.answers.items()}
    assert {id_: entry.answer for id_, entry in entries.items() if entry.answer is not None} == told
    found = replay.replay(database, "load")
    assert (found.rounds, found.answers, found.difference) == (len(asked), len(told), None)
    database.close()


def backends(url: str) -> list[int]:
    """Return the processes of PostgreSQL that serve a database, apart from the one that is asked."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return [pid for (pid,) in found]


def send(pids: Sequence[int], signal: int) -> list[int]:
    """Send a signal to the processes that are still there, and return those."""
    heard = []
    for pid in pids:
        with suppress(ProcessLookupError):  # A connection too many was closed meanwhile.
            os.kill(pid, signal)
            heard.append(pid)
    return heard


def get_status(service: Service, path: str) -> int:
    return httpx.get(f"{service.url}{path}", timeout=SECONDS).status_code


def wait_for(service: Service, path: str, status: int) -> None:
    """Wait until a path answers so, or fail."""
    end = time.monotonic() + SECONDS
    while get_status(service, path) != status:
        assert time.monotonic() < end, f"{path} never answered {status}"
        time.sleep(0.05)


def under_way(workers: Sequence[Worker], more: int) -> None:
    """Wait until so many more requests were acknowledged."""
    enough, end = sum(worker.acknowledged for worker in workers) + more, time.monotonic() + 120.0
    while sum(worker.acknowledged for worker in workers) < enough:
        assert time.monotonic() < end, f"{more} more requests were never acknowledged"
        time.sleep(0.001)


def visit(url: str) -> None:
    """Open the database beside the service, as a command does, and close it again."""
    with closing(Database(url)) as database, database.read() as transaction:
        transaction.fetch(statements.COUNT_ROUNDS)


def prepare(url: str) -> None:
    with Client(url) as client:
        client.create_stream("load", alpha=0.1, learner="ocp-unlock+", horizon=100_000, arms=20, seed=3)


def make_workers(service: Service) -> list[Worker]:
    prepare(service.url)
    return [Worker([service.url], seed=k, rounds=10) for k in range(4)]


def test_kills_at_any_moment_lose_nothing_and_double_nothing(url: str) -> None:
    rng = np.random.default_rng(SEED)
    with Service(url) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(KILLS):
                under_way(workers, int(rng.integers(1, 20)))
                visit(url)
                under_way(workers, int(rng.integers(1, 20)))
                time.sleep(float(rng.uniform(0.0, 0.02)))
                service.kill()
                service.start()
            under_way(workers, 20)
    check(url, workers)


def test_two_processes_on_one_stream_lose_nothing_and_double_nothing(url: str) -> None:
    rounds = 20 if KILLS < 50 else 1000
    with Service(url) as one, Service(url) as other:
        prepare(one.url)
        urls = [one.url, other.url]
        workers = [Worker(urls if k % 2 else urls[::-1], seed=k, rounds=rounds) for k in range(8)]
        with busy(workers):
            pass
    assert sum(len(worker.predictions) for worker in workers) == 8 * rounds
    check(url, workers)


@pytest.mark.parametrize("signal", ["kill", "stop"])
def test_an_acknowledged_answer_survives_the_end_of_the_process(url: str, signal: str) -> None:
    with Service(url) as service, Client(service.url) as client:
        prepare(service.url)
        client.learn(client.predict("load", [0.6, 0.4]), keyhole.MISS)
        getattr(service, signal)()
        service.start()
        stands = client.stream("load")
        assert (stands.rounds, stands.open) == (1, 0)


def test_crashes_of_the_database_lose_nothing_and_double_nothing(postgres: Callable[[], str]) -> None:
    url, rng = postgres(), np.random.default_rng(SEED)
    with Service(url) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(CRASHES):
                under_way(workers, int(rng.integers(1, 40)))
                # To PostgreSQL the end of one of its processes is a crash to recover from.
                wait_until(lambda: send(backends(url)[:1], signals.SIGKILL) != [])
                assert get_status(service, "/healthz") == 200
            under_way(workers, 20)
    check(url, workers)


def test_a_frozen_database_stops_no_probe_and_loses_nothing(postgres: Callable[[], str]) -> None:
    url = postgres()
    with Service(url) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(CRASHES):
                under_way(workers, 10)
                frozen = send(backends(url), signals.SIGSTOP)
                try:
                    assert get_status(service, "/healthz") == 200
                    time.sleep(0.5)
                    assert get_status(service, "/healthz") == 200
                finally:
                    send(frozen, signals.SIGCONT)
            under_way(workers, 20)
    check(url, workers)


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    with Service(url) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(CRASHES):
                under_way(workers, 10)
                full = (1000, resource.RLIM_INFINITY)  # No file may be written past so many bytes.
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, full)
                wait_for(service, "/readyz", 503)
                assert get_status(service, "/healthz") == 200
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                wait_for(service, "/readyz", 200)
            under_way(workers, 20)
    check(url, workers)
