"""Events: what many follow is read once."""

import asyncio
import json
from contextlib import AbstractContextManager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from keyhole.errors import UnknownStreamError
from keyhole.service.http import event_stream
from keyhole.service.http.event_stream import StreamReads
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.scene import Clock, client_of, made, predicted


def count_reads(database: Database, followers: int) -> int:
    """Return how many transactions it takes to show a stream to so many at once."""
    seen, read = [], database.read

    def note() -> AbstractContextManager[Transaction]:
        seen.append(1)
        return read()

    async def follow() -> None:
        reads = StreamReads(database)
        shown = await asyncio.gather(*(reads.read("pets") for _ in range(followers)))
        assert len(set(shown)) == 1

    database.read = note
    try:
        asyncio.run(follow())
    finally:
        database.read = read
    return len(seen)


def test_fifty_who_follow_a_stream_ask_the_database_as_much_as_one(
    one: TestClient, light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "_SECONDS_BETWEEN_READS", SECONDS)
    made(one)
    assert count_reads(light, 50) == count_reads(light, 1)


def test_a_later_read_is_a_new_one(one: TestClient, light: Database) -> None:
    async def follow() -> None:
        reads = StreamReads(light)
        version, _ = await reads.read("pets")
        predicted(one)
        await asyncio.sleep(0.6)
        assert (await reads.read("pets"))[0] == version + 1
        with pytest.raises(UnknownStreamError):
            await reads.read("nowhere")

    made(one)
    asyncio.run(follow())


def test_who_follows_a_stream_hears_that_its_rounds_have_expired_though_nobody_predicts(
    light: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "_SECONDS_BETWEEN_READS", 0.01)
    clock = Clock()
    http = client_of(light, clock)
    made(http, lifetime=60.0)
    predicted(http)

    async def receive() -> Any:
        await asyncio.sleep(SECONDS)

    async def follow() -> list[tuple[int, int]]:
        app: Any = http.app
        shown, request = [], Request({"type": "http", "app": app, "headers": []}, receive)
        async for event in event_stream.follow(request, "pets"):
            if event.startswith("id:"):
                view = json.loads(event.partition("data: ")[2])
                shown.append((view["open"], view["expired"]))
                clock.now += 61.0
                if len(shown) == 2:
                    break
        return shown

    assert asyncio.run(asyncio.wait_for(follow(), SECONDS)) == [(1, 0), (0, 1)]
