"""Nothing acknowledged is lost, no round is doubled, and the log replays: kills and rivals.

``make torture`` runs the long form, with KEYHOLE_KILLS=50.
"""

import os
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import keyhole
from keyhole.client import Client
from keyhole.store import history, replay
from keyhole.store.database import Database
from tests.service.process import Service, Worker, busy

KILLS = int(os.environ.get("KEYHOLE_KILLS", "3"))
SEED = 11


def check(url: str, workers: Sequence[Worker]) -> None:
    """Hold the log against what the clients were told."""
    database = Database(url)
    entries = {entry.id: entry for entry in history.log(database, "load")}
    asked = [made for worker in workers for made in worker.predictions]
    assert len({made.id for made in asked}) == len(asked)
    assert set(entries) == {made.id for made in asked}
    for made in asked:
        assert entries[made.id].threshold == made.threshold
        assert tuple(entries[made.id].region) == made.labels  # type: ignore[arg-type]
    told = {id_: answer for worker in workers for id_, answer in worker.answers.items()}
    assert {id_: entry.answer for id_, entry in entries.items() if entry.answer is not None} == told
    found = replay.replay(database, "load")
    assert (found.rounds, found.answers, found.difference) == (len(asked), len(told), None)
    database.close()


def under_way(workers: Sequence[Worker], more: int) -> None:
    """Wait until so many more requests were acknowledged."""
    enough = sum(worker.acknowledged for worker in workers) + more
    while sum(worker.acknowledged for worker in workers) < enough:
        time.sleep(0.001)


def prepared(url: str) -> None:
    with Client(url) as client:
        client.create_stream("load", alpha=0.1, learner="ocp-unlock+", horizon=100_000, arms=20, seed=3)


def test_kills_at_any_moment_lose_nothing_and_double_nothing(url: str) -> None:
    rng = np.random.default_rng(SEED)
    with Service(url) as service:
        prepared(service.url)
        workers = [Worker([service.url], seed=k, rounds=10) for k in range(4)]
        with busy(workers):
            for _ in range(KILLS):
                under_way(workers, int(rng.integers(1, 40)))
                time.sleep(float(rng.uniform(0.0, 0.02)))
                service.kill()
                service.start()
            under_way(workers, 20)
    check(url, workers)


def test_two_processes_on_one_stream_lose_nothing_and_double_nothing(
    postgres: Callable[[], str],
) -> None:
    url = postgres()
    rounds = 20 if KILLS < 50 else 1000
    with Service(url) as one, Service(url) as other:
        prepared(one.url)
        urls = [one.url, other.url]
        workers = [Worker(urls if k % 2 else urls[::-1], seed=k, rounds=rounds) for k in range(8)]
        with busy(workers):
            pass
    assert sum(len(worker.predictions) for worker in workers) == 8 * rounds
    check(url, workers)


@pytest.mark.parametrize("signal", ["kill", "stop"])
def test_an_acknowledged_answer_survives_the_end_of_the_process(url: str, signal: str) -> None:
    with Service(url) as service, Client(service.url) as client:
        prepared(service.url)
        client.learn(client.predict("load", [0.6, 0.4]), keyhole.MISS)
        getattr(service, signal)()
        service.start()
        stands = client.stream("load")
        assert (stands["rounds"], stands["open"]) == (1, 0)
