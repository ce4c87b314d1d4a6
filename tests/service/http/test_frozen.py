"""A PostgreSQL that is frozen, and keeps its connections, is given up; when it goes on, so does all."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from anyio import to_thread

import keyhole
from keyhole.errors import BusyError, DatabaseError
from keyhole.service.http import access
from keyhole.service.http.app import create_app
from keyhole.service.store.log import replay
from keyhole.service.store.sql.backend import Statement, Timeouts, read_scalar
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.serving import Address, serving, wait_until

SHORT = Timeouts(lock=1.0, statement=1.0, connect=2.0, probe=1.0)  # It is given up after two seconds.
ONE = Statement("SELECT 1", read_scalar)
SCORES = {"scores": [0.5, 0.25]}


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Stop every process of the server; its kernel goes on to take what is sent to it."""
    with psycopg.connect(url) as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
    first = int((Path(folder) / "postmaster.pid").read_text().splitlines()[0])
    os.kill(first, signal.SIGSTOP)  # From now on it has no new children.
    others = [int(pid) for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
    try:
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in (*others, first):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def over_tcp(url: str) -> Iterator[str]:
    """Give a URL by which the server, which listens on a Unix socket, is reached over TCP."""
    parsed = psycopg.conninfo.conninfo_to_dict(url)
    path = f"{parsed['host']}/.s.PGSQL.5432"
    with ExitStack() as lines, socket.create_server(("127.0.0.1", 0)) as listening:

        def relay() -> None:
            with suppress(OSError):  # It is closed when the block is left.
                while True:
                    near, _ = listening.accept()
                    far = socket.socket(socket.AF_UNIX)
                    for line in (near, far):
                        lines.callback(line.close)
                        lines.callback(shut, line)
                    far.connect(path)
                    for one, other in ((near, far), (far, near)):
                        threading.Thread(target=pump, args=(one, other), daemon=True).start()

        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        yield f"postgresql://{parsed['user']}@127.0.0.1:{port}/{parsed['dbname']}"
        shut(listening)
        thread.join(SECONDS)


def pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while piece := one.recv(65_536):
            other.sendall(piece)
    shut(other)


def shut(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def service(database: Database, *names: str) -> Iterator[Address]:
    with serving(create_app(database)) as address:
        with keyhole.Client(address.url) as client:
            for name in names:
                client.create_stream(name, alpha=0.1, seed=7)
        yield address


def predict(address: Address, name: str) -> httpx.Response:
    return httpx.post(f"{address.url}/v1/streams/{name}/predictions", json=SCORES, timeout=SECONDS)


def answer(address: Address, id_: str) -> httpx.Response:
    path = f"{address.url}/v1/predictions/{id_}/feedback"
    return httpx.post(path, json={"miss": True}, timeout=SECONDS)


def get(address: Address, path: str) -> httpx.Response:
    return httpx.get(f"{address.url}{path}", timeout=SECONDS)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_whoever_asks_a_frozen_server_is_sent_away_and_comes_back(
    postgres: Callable[[], str], kind: str
) -> None:
    url = postgres()
    with ExitStack() as stack:
        reached = url if kind == "unix" else stack.enter_context(over_tcp(url))
        database = Database(reached, timeouts=SHORT)
        stack.callback(database.close)
        address = stack.enter_context(service(database, "one", "other"))
        threads = stack.enter_context(ThreadPoolExecutor(16))
        kept = predict(address, "one").json()["id"]
        paths = ["/v1/streams", "/metrics", "/v1/streams/one/rounds", "/v1/streams/one/history"]
        assert [get(address, path).status_code for path in paths] == [200] * 4
        with frozen(url):
            asked = [threads.submit(predict, address, name) for name in ("one", "one", "other")]
            asked += [threads.submit(answer, address, kept)]
            asked += [threads.submit(get, address, path) for path in paths]
            assert get(address, "/healthz").status_code == 200
            told = [future.result(SECONDS) for future in asked]
            assert [response.status_code for response in told] == [503] * len(told)
            assert {response.headers["retry-after"] for response in told} == {"1"}
            assert "the database does not answer" in "".join(response.text for response in told)
            assert get(address, "/readyz").status_code == 503
            assert get(address, "/healthz").status_code == 200
        wait_until(lambda: get(address, "/readyz").status_code == 200)
        wait_until(lambda: predict(address, "other").status_code == 201)
        wait_until(lambda: answer(address, kept).status_code == 200)
        wait_until(lambda: all(get(address, path).status_code == 200 for path in paths))
        assert count_in_use(database) == 0
        for name in ("one", "other"):
            assert replay.replay(database, name).difference is None


def test_more_who_wait_for_a_frozen_server_than_there_are_threads_are_all_sent_away(
    postgres: Callable[[], str],
) -> None:
    url = postgres()
    names = [f"s{number}" for number in range(40)]
    database = Database(url, timeouts=SHORT)
    with service(database, *names) as address, ThreadPoolExecutor(160) as threads:
        before = threading.active_count()
        with frozen(url):
            asked = [threads.submit(predict, address, name) for name in names]
            asked += [threads.submit(get, address, "/v1/streams") for _ in range(120)]
            assert get(address, "/nowhere").status_code == 404
            statuses = {future.result(SECONDS).status_code for future in asked}
            assert statuses == {503}
        wait_until(lambda: get(address, "/readyz").status_code == 200)
        wait_until(lambda: predict(address, names[0]).status_code == 201)
        wait_until(lambda: get(address, "/v1/streams").status_code == 200)
        # The client's own, those of the turns, and those that read: none of them waits any more.
        assert threading.active_count() <= before + 160 + 32 + 40 + 1
        assert count_in_use(database) == 0
    database.close()


def test_a_statement_that_is_slow_is_ended_by_the_server_and_its_connection_stays(
    postgres: Callable[[], str],
) -> None:
    database = Database(postgres(), timeouts=Timeouts(statement=0.2, lock=SECONDS))
    with (
        pytest.raises(BusyError, match="the database is busy; try again"),
        database.read() as connection,
    ):
        connection.fetch(Statement("SELECT pg_sleep(60)", read_scalar))
    with database.read() as connection:
        assert connection.fetch(ONE) == [1]
    database.close()


def test_a_transaction_that_writes_is_given_up_too(postgres: Callable[[], str]) -> None:
    url = postgres()
    with closing(Database(url, timeouts=SHORT)) as database:
        with frozen(url), pytest.raises(DatabaseError, match="does not answer"):  # noqa: SIM117
            with database.write() as transaction:
                transaction.fetch(ONE)
        wait_until(lambda: changes(database))  # It first lets go of all who came and went meanwhile.


def changes(database: Database) -> bool:
    """Return whether a transaction can be made."""
    with suppress(DatabaseError), database.write() as transaction:
        return transaction.fetch(ONE) == [1]
    return False


def count_in_use(database: Database) -> int:
    """Return how many connections somebody uses."""
    backend: Any = database.backend
    return sum(32 - pool._free._value for pool in (backend._readers, backend._writers))


def test_only_so_many_may_wait_for_a_thread() -> None:
    async def play() -> None:
        gate, threads = threading.Event(), int(to_thread.current_default_thread_limiter().total_tokens)

        async def wait() -> bool:
            return await to_thread.run_sync(gate.wait, SECONDS)

        async def reach(count: int) -> None:
            async with asyncio.timeout(SECONDS):
                while to_thread.current_default_thread_limiter().statistics().tasks_waiting < count:
                    await asyncio.sleep(0.001)

        held = [asyncio.ensure_future(wait()) for _ in range(threads + 63)]
        await reach(63)
        access.check_threads()
        held.append(asyncio.ensure_future(wait()))
        await reach(64)
        with pytest.raises(BusyError, match="64 requests wait for the database"):
            access.check_threads()
        gate.set()
        assert all(await asyncio.gather(*held))
        access.check_threads()

    asyncio.run(play())
