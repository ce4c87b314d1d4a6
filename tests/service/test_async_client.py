"""The client that is awaited: the same requests, the same errors, the same retries."""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import httpx
import pytest

import keyhole
from keyhole.errors import StreamExistsError, UnknownRoundError, UnreachableError
from keyhole.service.client import operations
from keyhole.service.client.client import AsyncClient, Client
from keyhole.service.client.exchange import Retries
from tests.patience import SECONDS
from tests.service.process import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('async') / 'keyhole.db'}") as running:
        yield running


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a thread of its own: a browser test may have left a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result(timeout=2 * SECONDS)


def play(service: Service, rounds: Callable[[AsyncClient], Awaitable[None]]) -> None:
    async def within() -> None:
        async with AsyncClient(service.url) as client:
            await asyncio.wait_for(rounds(client), SECONDS)

    run(within())


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, Any]:
        return {
            name: inspect.signature(member)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    assert methods(Client) == methods(AsyncClient)


def test_rounds_are_played_at_once(service: Service) -> None:
    async def rounds(client: AsyncClient) -> None:
        await client.create_stream("many", alpha=0.1, seed=7)
        made = await asyncio.gather(*(client.predict("many", [0.9, 0.1]) for _ in range(20)))
        assert {one.round for one in made} == set(range(20))
        receipts = await asyncio.gather(*(client.learn(one, keyhole.MISS) for one in made))
        assert all(receipt.missed for receipt in receipts)
        batch = await client.predict_batch("many", [{3: 0.5, "3": 0.5}] * 3)
        results = await client.learn_batch(
            [*((one, keyhole.MISS) for one in batch), ("no", keyhole.HIT)]
        )
        assert isinstance(results[3], UnknownRoundError)
        assert (await client.stream("many")).rounds == 23
        assert len(await client.rounds("many", limit=5)) == 5
        assert (await client.history("many")).rounds[-1] == 23
        assert (await client.export("many")).count(b"\r\n") == 24
        assert len(await client.streams()) == 1
        assert (await client.archive("many")).archived is not None

    play(service, rounds)


def test_refusals_are_raised(service: Service) -> None:
    async def rounds(client: AsyncClient) -> None:
        await client.create_stream("once", alpha=0.1)
        with pytest.raises(StreamExistsError):
            await client.create_stream("once", alpha=0.1)

    play(service, rounds)


class Shaky:
    """Answers with what it was given, one after the other; an exception is raised."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers, self.asked = list(answers), 0

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        self.asked += 1
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


DONE: dict[str, Any] = {"streams": [], "quarantined": {}, "next": None}
BUSY = {"error": {"code": "busy", "message": "wait", "field": None}}


def ask(shaky: Shaky, *, remove: bool, awaited: bool) -> Any:
    """Ask for a list of streams, or remove one, through a line that is not reliable."""
    options: Any = {"retries": 3, "longest_pause": 0.01}
    transport = httpx.MockTransport(shaky)
    if not awaited:
        client = Client("http://test", **options)
        client._http = httpx.Client(base_url="http://test", transport=transport)
        with client:
            return client.delete("a") if remove else client.streams()

    async def within() -> Any:
        patient = AsyncClient("http://test", **options)
        await patient.close()
        patient._http = httpx.AsyncClient(base_url="http://test", transport=transport)
        async with patient:
            return await (patient.delete("a") if remove else patient.streams())

    return run(within())


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("remove", [False, True])
def test_what_was_refused_for_now_is_asked_again(*, remove: bool, awaited: bool) -> None:
    busy = httpx.Response(503, json=BUSY, headers={"Retry-After": "1"})
    shaky = Shaky(busy, httpx.ConnectError("nobody"), httpx.Response(200, json=DONE))
    assert ask(shaky, remove=remove, awaited=awaited) in (None, [])
    assert shaky.asked == 3


@pytest.mark.parametrize("awaited", [False, True])
def test_after_a_broken_line_only_what_is_safe_is_asked_again(*, awaited: bool) -> None:
    shaky = Shaky(httpx.ReadError("cut"), httpx.Response(200, json=DONE))
    assert ask(shaky, remove=False, awaited=awaited) == []
    shaky = Shaky(httpx.ReadError("cut"), httpx.Response(200, json=DONE))
    with pytest.raises(UnreachableError):
        ask(shaky, remove=True, awaited=awaited)
    assert shaky.asked == 1


@pytest.mark.parametrize("awaited", [False, True])
def test_tries_come_to_an_end(*, awaited: bool) -> None:
    shaky = Shaky(*(httpx.Response(503, json=BUSY) for _ in range(9)))
    with pytest.raises(keyhole.errors.BusyError, match="wait"):
        ask(shaky, remove=False, awaited=awaited)
    assert shaky.asked == 4


def test_pauses_grow_and_heed_what_was_asked() -> None:
    retries = Retries(most=9, longest_pause=2.0)
    assert [retries.pause(turn) for turn in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert retries.pause(0, asked="1") == 1.0
    assert retries.pause(0, asked="3600") == 2.0
    assert retries.pause(0, asked="soon") == 0.1


@pytest.mark.parametrize("part", ["a/b", "..", ".", "a?b", "a#b", "a%2Fb", "é"])
def test_no_part_of_a_path_becomes_two(part: str) -> None:
    path = next(operations.stream(part)).path
    assert path.startswith("/v1/streams/")
    assert not set(path.removeprefix("/v1/streams/")) & set("/?#")
    assert path not in ("/v1/streams/.", "/v1/streams/..")


class Line:
    """A line to a service that fails: each connection does the next of the things it is told."""

    def __init__(self, there: int, *told: str) -> None:
        self._there, self._told = there, list(told)
        self.heard: list[bytes] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            request = head + await reader.readexactly(int(length[1]) if length else 0)
            self.heard.append(request)
            told = self._told.pop(0) if self._told else "pass"
            if told == "wait":
                await asyncio.sleep(60.0)
            elif told == "refuse":
                body = json.dumps(BUSY).encode()
                start = b"HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nConnection: close\r\n"
                writer.write(start + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            elif told in ("pass", "tear"):
                answer = await self._ask(request)
                writer.write(answer[: len(answer) - 20] if told == "tear" else answer)
            await writer.drain()
        finally:
            writer.close()

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._there)
        writer.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        answer = await reader.read()
        writer.close()
        return answer


def find_keys(heard: list[bytes]) -> set[bytes]:
    return {key for request in heard for key in re.findall(rb'(?i)key"?: "?([0-9a-f]{32})', request)}


@pytest.mark.parametrize("failure", ["hang up", "refuse", "tear"])
def test_the_same_round_comes_over_a_line_that_failed(service: Service, failure: str) -> None:
    port, name = int(service.url.rpartition(":")[2]), f"line-{failure.replace(' ', '-')}"

    async def rounds(client: AsyncClient) -> None:
        await client.create_stream(name, alpha=0.1, seed=7)
        async with (
            Line(port, failure, failure) as line,
            AsyncClient(line.url, timeout=SECONDS, longest_pause=0.01) as shaky,
        ):
            made = await shaky.predict(name, [0.9, 0.1])
            assert (made.round, len(line.heard), len(find_keys(line.heard))) == (0, 3, 1)
        async with (
            Line(port, failure) as line,
            AsyncClient(line.url, timeout=SECONDS, longest_pause=0.01) as shaky,
        ):
            many = await shaky.predict_batch(name, [[0.9, 0.1]] * 3)
            assert [one.round for one in many] == [1, 2, 3]
            assert (len(line.heard), len(find_keys(line.heard))) == (2, 3)
        async with (
            Line(port, failure) as line,
            AsyncClient(line.url, timeout=SECONDS, longest_pause=0.01) as shaky,
        ):
            receipt = await shaky.learn(made, keyhole.MISS)
            assert (receipt.missed, receipt.repeated) == (True, failure == "tear")
        standing = await client.stream(name)
        assert (standing.predicted, standing.rounds) == (4, 1)

    play(service, rounds)


def test_who_is_cancelled_goes_at_once_and_the_client_goes_on(service: Service) -> None:
    port = int(service.url.rpartition(":")[2])

    async def rounds(client: AsyncClient) -> None:
        await client.create_stream("cancelled", alpha=0.1, seed=7)
        async with Line(port, "wait", "pass") as line, AsyncClient(line.url, timeout=SECONDS) as shaky:
            waiting = asyncio.create_task(shaky.predict("cancelled", [0.9, 0.1], key="mine"))
            while not line.heard:
                await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(waiting, SECONDS)
            made = await shaky.predict("cancelled", [0.9, 0.1], key="mine")
        assert (made.round, (await client.stream("cancelled")).predicted) == (0, 1)

    play(service, rounds)


def test_who_is_cancelled_between_two_tries_sends_no_more(service: Service) -> None:
    port = int(service.url.rpartition(":")[2])

    async def rounds(_client: AsyncClient) -> None:
        async with (
            Line(port, "refuse") as line,
            AsyncClient(line.url, timeout=SECONDS, longest_pause=60.0) as shaky,
        ):
            waiting = asyncio.create_task(shaky.streams())
            while not line.heard:
                await asyncio.sleep(0.001)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting, 0.2)
            assert waiting.cancelled()
            assert len(line.heard) == 1

    play(service, rounds)
