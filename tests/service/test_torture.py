"""Nothing acknowledged is lost, no round is doubled, and the log replays, whatever goes wrong.

Kills, rivals, a database that crashes or is frozen, a disk that is full, a clock that jumps; for a
standby that lags see ``test_failover``.

``make torture`` runs the long form, with KEYHOLE_KILLS=100, and shows what it counted. KEYHOLE_SEED
chooses other moments.
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
from keyhole.service.store.streams import registry
from tests.patience import SECONDS
from tests.service.process import AHEAD, BEHIND, RIGHT, Service, Worker, busy
from tests.service.serving import wait_until

KILLS = int(os.environ.get("KEYHOLE_KILLS", "3"))
CRASHES = max(1, KILLS // 6)
SEED = int(os.environ.get("KEYHOLE_SEED", "11"))


def check(url: str, workers: Sequence[Worker], what: str) -> None:
    """Hold the log against what the clients were told, and say how much that was."""
    with closing(Database(url)) as database:
        entries = {entry.id: entry for entry in history.log(database, "load")}
        found, stands = replay.replay(database, "load"), registry.get(database, "load")
    asked = {made.id: made for worker in workers for made in worker.predictions}
    told = {id_: answer for worker in workers for id_, answer in worker.answers.items()}
    kept = {id_: entry.answer for id_, entry in entries.items() if entry.answer is not None}
    counts = {
        "lost": len(asked.keys() - entries.keys()) + len(told.keys() - kept.keys()),
        "doubled": len(entries.keys() - asked.keys())
        + sum(len(worker.predictions) for worker in workers)
        - len(asked),
        "a stranger's": sum(kept[id_] != told.get(id_) for id_ in kept),
        "expired": stands.expired,
    }
    shown = ", ".join(f"{count} {name}" for name, count in counts.items())
    kind = url.partition(":")[0]
    print(f"{kind}, {what}: {len(asked):,} predictions and {len(told):,} answers acknowledged, {shown}")  # noqa: T201
    assert not any(counts.values())
    for id_, made in asked.items():
        assert entries[id_].row.threshold == made.threshold
        assert tuple(entries[id_].region) == made.labels  # type: ignore[arg-type]
    assert (found.rounds, found.answers, found.difference) == (len(asked), len(told), None)


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
    check(url, workers, f"{KILLS} kills")


def test_two_processes_on_one_stream_lose_nothing_and_double_nothing(url: str) -> None:
    rounds = 20 if KILLS < 50 else 1000
    with Service(url) as one, Service(url) as other:
        prepare(one.url)
        urls = [one.url, other.url]
        workers = [Worker(urls if k % 2 else urls[::-1], seed=k, rounds=rounds) for k in range(8)]
        with busy(workers):
            pass
    assert sum(len(worker.predictions) for worker in workers) == 8 * rounds
    check(url, workers, "two processes")


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
    check(url, workers, f"{CRASHES} crashes of the database")


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
    check(url, workers, f"{CRASHES} freezes of the database")


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    url, fillings = f"sqlite:///{tmp_path / 'keyhole.db'}", max(2, CRASHES)
    with Service(url) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(fillings):
                under_way(workers, 10)
                full = (1000, resource.RLIM_INFINITY)  # No file may be written past so many bytes.
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, full)
                wait_for(service, "/readyz", 503)
                assert get_status(service, "/healthz") == 200
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                wait_for(service, "/readyz", 200)
            under_way(workers, 20)
    check(url, workers, f"{fillings} full disks")


def test_jumps_of_the_clock_lose_nothing_and_expire_nothing(url: str) -> None:
    with Service(url, sets_clock=True) as service:
        workers = make_workers(service)
        with busy(workers):
            for _ in range(CRASHES):
                for jump in (AHEAD, BEHIND, RIGHT):
                    under_way(workers, 10)
                    service.send(jump)
            under_way(workers, 20)
    check(url, workers, f"{CRASHES} times the clock a year ahead and a year behind")
