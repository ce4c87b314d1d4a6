"""The client that is awaited: the same requests, the same errors, the same retries."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

import keyhole
from keyhole.errors import StreamExistsError, UnknownRoundError, UnreachableError
from keyhole.service.client import calls
from keyhole.service.client.async_client import AsyncClient
from keyhole.service.client.client import Client
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
        batch = await client.predict_many("many", [{3: 0.5, "3": 0.5}] * 3)
        results = await client.learn_many(
            [*((one, keyhole.MISS) for one in batch), ("no", keyhole.HIT)]
        )
        assert isinstance(results[3], UnknownRoundError)
        assert (await client.stream("many"))["rounds"] == 23
        assert len(await client.rounds("many", limit=5)) == 5
        assert (await client.history("many"))["rounds"][-1] == 23
        assert (await client.export("many")).count(b"\r\n") == 24
        assert len(await client.streams()) == 1
        assert (await client.archive("many"))["archived"] is not None

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


DONE: dict[str, Any] = {"name": "a", "streams": [], "next": None}
BUSY = {"error": {"code": "busy", "message": "wait", "field": None}}


def ask(shaky: Shaky, *, make: bool, awaited: bool) -> Any:
    """Ask for a list of streams, or make one, through a line that is not reliable."""
    options: Any = {"retries": 3, "longest_pause": 0.01}
    transport = httpx.MockTransport(shaky)
    if not awaited:
        client = Client("http://test", **options)
        client._http = httpx.Client(base_url="http://test", transport=transport)
        with client:
            return client.create_stream("a", alpha=0.1) if make else client.streams()

    async def within() -> Any:
        patient = AsyncClient("http://test", **options)
        await patient.close()
        patient._http = httpx.AsyncClient(base_url="http://test", transport=transport)
        async with patient:
            return await (patient.create_stream("a", alpha=0.1) if make else patient.streams())

    return run(within())


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("make", [False, True])
def test_what_was_refused_for_now_is_asked_again(*, make: bool, awaited: bool) -> None:
    busy = httpx.Response(503, json=BUSY, headers={"Retry-After": "1"})
    shaky = Shaky(busy, httpx.ConnectError("nobody"), httpx.Response(200, json=DONE))
    assert ask(shaky, make=make, awaited=awaited) in (DONE, [])
    assert shaky.asked == 3


@pytest.mark.parametrize("awaited", [False, True])
def test_after_a_broken_line_only_what_is_safe_is_asked_again(*, awaited: bool) -> None:
    shaky = Shaky(httpx.ReadError("cut"), httpx.Response(200, json=DONE))
    assert ask(shaky, make=False, awaited=awaited) == []
    shaky = Shaky(httpx.ReadError("cut"), httpx.Response(200, json=DONE))
    with pytest.raises(UnreachableError):
        ask(shaky, make=True, awaited=awaited)
    assert shaky.asked == 1


@pytest.mark.parametrize("awaited", [False, True])
def test_tries_come_to_an_end(*, awaited: bool) -> None:
    shaky = Shaky(*(httpx.Response(503, json=BUSY) for _ in range(9)))
    with pytest.raises(keyhole.errors.BusyError, match="wait"):
        ask(shaky, make=False, awaited=awaited)
    assert shaky.asked == 4


def test_pauses_grow_and_heed_what_was_asked() -> None:
    retries = Retries(most=9, longest_pause=2.0)
    assert [retries.pause(turn) for turn in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert retries.pause(0, asked="1") == 1.0
    assert retries.pause(0, asked="3600") == 2.0
    assert retries.pause(0, asked="soon") == 0.1


@pytest.mark.parametrize("part", ["a/b", "..", ".", "a?b", "a#b", "a%2Fb", "é"])
def test_no_part_of_a_path_becomes_two(part: str) -> None:
    path = calls.get_stream(part).path
    assert path.startswith("/v1/streams/")
    assert not set(path.removeprefix("/v1/streams/")) & set("/?#")
    assert path not in ("/v1/streams/.", "/v1/streams/..")
