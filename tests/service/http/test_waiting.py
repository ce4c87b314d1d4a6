"""One stream that is held, or a database that is away, stops nothing else, and all waiting ends."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import keyhole
from keyhole.errors import BusyError
from keyhole.service.http.app import create_app
from keyhole.service.http.queues import StreamQueues
from keyhole.service.store.sql.backend import Timeouts
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams.stream import Results, Task, UnitOfWork
from tests.patience import SECONDS
from tests.service.serving import Address, serving, wait_until

SHORT = Timeouts(lock=0.5, statement=SECONDS, connect=SECONDS, probe=SECONDS)
SCORES = {"scores": [0.5, 0.25]}


@contextmanager
def service(url: str, timeouts: Timeouts = SHORT) -> Iterator[Address]:
    database = Database(url, timeouts=timeouts)
    with serving(create_app(database)) as address:
        with keyhole.Client(address.url) as client:
            for name in ("held", "free"):
                client.create_stream(name, alpha=0.1, seed=7)
        yield address
    database.close()


def predict(address: Address, stream: str) -> httpx.Response:
    path = f"{address.url}/v1/streams/{stream}/predictions"
    return httpx.post(path, json=SCORES, timeout=SECONDS)


def get(address: Address, path: str) -> httpx.Response:
    return httpx.get(f"{address.url}{path}", timeout=SECONDS)


def test_sixty_requests_for_a_held_stream_stop_nothing_else(postgres: Callable[[], str]) -> None:
    url = postgres()
    with service(url) as address, ThreadPoolExecutor(60) as threads:
        with psycopg.connect(url) as holder:
            holder.execute("SELECT id FROM streams WHERE name = 'held' FOR UPDATE")
            waiting = [threads.submit(predict, address, "held") for _ in range(60)]
            assert get(address, "/healthz").status_code == 200
            assert get(address, "/readyz").status_code == 200
            assert predict(address, "free").status_code == 201
            assert get(address, "/v1/streams/held").status_code == 200
            assert get(address, "/nowhere").status_code == 404
            answers = [future.result(SECONDS) for future in waiting]
        assert {response.status_code for response in answers} == {503}
        assert {response.json()["error"]["code"] for response in answers} == {"busy"}
        assert {response.headers["retry-after"] for response in answers} == {"1"}
        assert predict(address, "held").status_code == 201
        assert get(address, "/v1/streams/held").json()["predicted"] == 1


HISTORY = {"rounds": [{"scores": [0.5, 0.25], "label": 0}]}


def change_held(address: Address, ids: dict[str, str], kind: str) -> httpx.Response:
    """Ask for something that waits for the stream that is held."""
    held, long = f"{address.url}/v1/streams/held", 2 * SECONDS
    match kind:
        case "predict":
            return httpx.post(f"{held}/predictions", json=SCORES, timeout=long)
        case "update":
            return httpx.patch(held, json={"window": 50}, timeout=long)
        case "calibrate":
            return httpx.post(f"{held}/calibration", json=HISTORY, timeout=long)
    both = [{"id": ids[name], "miss": True} for name in ("held", "free")]
    return httpx.post(f"{address.url}/v1/feedback", json={"answers": both}, timeout=long)


@pytest.mark.parametrize("kind", ["predict", "update", "calibrate", "answer"])
def test_who_waits_long_for_one_stream_keeps_nothing_from_the_others(
    postgres: Callable[[], str], kind: str
) -> None:
    url = postgres()
    # Whoever waits does so for longer than the others are given, and until the stream is let go.
    patience = Timeouts(lock=4 * SECONDS, statement=8 * SECONDS)
    with service(url, patience) as address, ThreadPoolExecutor(50) as threads:
        made = {} if kind == "calibrate" else {n: predict(address, n).json() for n in ("held", "free")}
        other = predict(address, "free").json()["id"]
        ids = {name: one["id"] for name, one in made.items()}
        with psycopg.connect(url) as holder:
            holder.execute("SELECT id FROM streams WHERE name = 'held' FOR UPDATE")
            waiting = [threads.submit(change_held, address, ids, kind) for _ in range(50)]
            wait_until(lambda: count_waiting(url) >= 1)
            assert get(address, "/v1/streams/held").status_code == 200
            assert predict(address, "free").status_code == 201
            more = [{"id": other, "miss": True}, {"id": "9999-1-0123456789abcdef", "miss": True}]
            path = f"{address.url}/v1/feedback"
            sent = httpx.post(path, json={"answers": more}, timeout=SECONDS).json()["results"]
            assert sent[0]["missed"] is True
            assert sent[1]["error"]["code"] == "unknown_prediction"
            assert get(address, "/metrics").status_code == 200
        statuses = [future.result(2 * SECONDS).status_code for future in waiting]
        assert set(statuses) <= {200, 201}


def count_waiting(url: str) -> int:
    """Return how many statements of the database wait for a lock."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return int(found.fetchall()[0][0])


def test_a_sqlite_file_that_another_holds_is_busy_and_the_process_lives(tmp_path: Path) -> None:
    file = tmp_path / "keyhole.db"
    with service(f"sqlite:///{file}", Timeouts(lock=0.5, probe=0.3)) as address:
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        refused = predict(address, "held")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        assert get(address, "/healthz").status_code == 200
        assert get(address, "/readyz").status_code == 503
        assert get(address, "/v1/streams/held").status_code == 200
        holder.execute("ROLLBACK")
        holder.close()
        assert predict(address, "held").status_code == 201


class Away:
    """A PostgreSQL database that lets nobody in."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        self._mine = f"WHERE datname = '{self._name}'"

    def go(self) -> None:
        self._run(f"ALTER DATABASE {self._name} WITH ALLOW_CONNECTIONS false")
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity {self._mine}")  # noqa: S608

    def come(self) -> None:
        self._run(f"ALTER DATABASE {self._name} WITH ALLOW_CONNECTIONS true")

    def _run(self, command: str) -> None:
        with psycopg.connect(self._url, dbname="postgres", autocommit=True) as connection:
            connection.execute(command.encode())


def test_an_outage_of_the_database_is_503_and_said_once(
    postgres: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres()
    away = Away(url)
    with service(url) as address, caplog.at_level(logging.WARNING):
        assert predict(address, "free").status_code == 201
        away.go()
        for _ in range(10):
            refused = predict(address, "free")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database")
            assert get(address, "/v1/streams").status_code == 503
            assert get(address, "/metrics").status_code == 503
        assert get(address, "/healthz").status_code == 200
        assert get(address, "/readyz").status_code == 503
        away.come()
        wait_until(lambda: get(address, "/readyz").status_code == 200)
        assert predict(address, "free").status_code == 201
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert said[0].startswith("the database does not answer")
    assert said[1] == "the database answers again"
    assert all(record.exc_info is None for record in caplog.records)


def test_a_client_waits_for_the_database_to_come_back(postgres: Callable[[], str]) -> None:
    url = postgres()
    away = Away(url)
    with service(url) as address, keyhole.Client(address.url, retries=999, longest_pause=0.1) as client:
        client.predict("free", [0.5])
        away.go()
        assert get(address, "/readyz").status_code == 503
        back = threading.Timer(0.5, away.come)
        back.start()
        made = client.predict("free", [0.5])
        back.join(SECONDS)
        assert made.round == 1
        assert client.stream("free").predicted == 2


def test_a_disk_that_takes_no_write_shows_as_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(f"sqlite:///{tmp_path / 'keyhole.db'}") as address:

        def full(_database: Database) -> None:
            raise keyhole.errors.DatabaseError("the database does not answer (disk is full)")

        assert get(address, "/readyz").status_code == 200
        monkeypatch.setattr(Database, "try_write", full)
        wait_until(lambda: get(address, "/readyz").status_code == 503)
        assert get(address, "/healthz").status_code == 200


def make_queues(**limits: Any) -> StreamQueues:
    """Return queues in which every task is done alone, one after the other."""
    return StreamQueues(run_tasks, **limits)


NONE: Any = None


def run_tasks(tasks: Sequence[Task]) -> Results:
    return Results([task.change(NONE) for task in tasks])


def task(stream: str | int, work: Callable[[], Any]) -> Task:
    def change(_work: UnitOfWork) -> Any:
        return work()

    return Task(stream, change)


def test_only_so_many_may_wait_for_a_stream() -> None:
    async def play() -> None:
        queues, gate = make_queues(most=6, timeout=SECONDS), threading.Event()
        held = [(queues.run(task("a", lambda: gate.wait(SECONDS)))) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="6 requests wait"):
            await queues.run(task("a", lambda: None))
        assert await queues.run(task("b", lambda: "done")) == "done"
        gate.set()
        assert await asyncio.gather(*held) == [True] * 6
        assert await queues.run(task("a", lambda: "done")) == "done"
        assert queues._queues == {}

    asyncio.run(play())


def test_whoever_gets_no_turn_in_time_is_sent_away() -> None:
    async def play() -> None:
        queues, gate = make_queues(most=100, timeout=0.05), threading.Event()
        held = queues.run(task("a", lambda: gate.wait(SECONDS)))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="the stream was busy for"):
            await queues.run(task("a", lambda: None))
        gate.set()
        assert await held

    asyncio.run(play())


def test_whoever_gets_no_thread_in_time_is_sent_away() -> None:
    async def play() -> None:
        queues, gate = make_queues(most=100, timeout=SECONDS), threading.Event()
        started = threading.Semaphore(0)

        def hold() -> bool:
            started.release()
            return gate.wait(SECONDS)

        held = [queues.run(task(f"s{n}", hold)) for n in range(32)]
        for _ in held:  # A busy machine may take its time to start 32 threads.
            assert await asyncio.to_thread(started.acquire, timeout=SECONDS)
        queues._timeout = 0.05
        late = queues.run(task("late", lambda: "done"))
        await asyncio.sleep(0.1)
        gate.set()
        with pytest.raises(BusyError, match="no thread within"):
            await late
        assert all(await asyncio.gather(*held))
        queues._timeout = SECONDS
        assert await queues.run(task("late", lambda: "done")) == "done"

    asyncio.run(play())


def test_who_waits_for_one_stream_goes_together() -> None:
    async def play() -> None:
        sizes: list[int] = []
        gate = threading.Event()

        def carry_out_and_note(tasks: Sequence[Task]) -> Results:
            gate.wait(SECONDS)
            sizes.append(len(tasks))
            return run_tasks(tasks)._replace(id=7, name="a")

        queues = StreamQueues(carry_out_and_note, most=100, timeout=SECONDS)
        gate.set()
        assert await queues.run(task("a", lambda: "done")) == "done"  # From it, the id is known.
        gate.clear()
        sizes.clear()
        first = queues.run(task("a", lambda: -1))
        await asyncio.sleep(0.01)
        others = [(queues.run(task(7 if n % 2 else "a", partial(int, n)))) for n in range(9)]
        await asyncio.sleep(0)
        others.pop(4).cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await first == -1
        assert await asyncio.gather(*others) == [0, 1, 2, 3, 5, 6, 7, 8]
        assert sizes == [1, 8]
        assert queues._queues == {}

    asyncio.run(play())


def test_whoever_leads_and_hangs_up_leaves_the_others_their_turn() -> None:
    async def play() -> None:
        gate = threading.Event()
        queues = make_queues(most=100, timeout=SECONDS)

        def wait(number: int) -> int:
            gate.wait(SECONDS)
            return number

        tasks = [(queues.run(task("a", partial(wait, n)))) for n in range(4)]
        await asyncio.sleep(0.05)
        tasks[0].cancel()
        tasks[1].cancel()
        gate.set()
        assert await asyncio.gather(*tasks[2:]) == [2, 3]
        assert queues._queues == {}

    asyncio.run(play())
