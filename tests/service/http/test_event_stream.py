"""Events: what many follow is read once."""

import asyncio
from contextlib import AbstractContextManager

import pytest
from fastapi.testclient import TestClient

from keyhole.errors import UnknownStreamError
from keyhole.service.http import event_stream
from keyhole.service.http.event_stream import StreamReads
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.scene import made, predicted


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
