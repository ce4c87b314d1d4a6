"""Server-sent events: the statistics of a stream, at once and whenever they change."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from keyhole.errors import KeyholeError
from keyhole.service.http import views
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.tokens import Scope

_SECONDS_BETWEEN_READS = 0.5
_SECONDS_TO_KEEP = 5.0
_READS_BETWEEN_SIGNS_OF_LIFE = 30


class StreamReads:
    """The streams that somebody follows, read once for all who follow them."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        list_refused: Callable[[str], dict[str, int]] = lambda _name: {},
    ) -> None:
        self._database, self._clock, self._list_refused = database, clock, list_refused
        self._newest: dict[str, tuple[float, asyncio.Future[tuple[int, str]]]] = {}

    async def read(self, name: str) -> tuple[int, str]:
        """Return the version of a stream and its JSON, at most half a second old, or raise."""
        now = time.monotonic()
        at, found = self._newest.get(name, (-math.inf, None))
        if found is None or now - at >= _SECONDS_BETWEEN_READS:
            kept = {
                one: entry for one, entry in self._newest.items() if now - entry[0] <= _SECONDS_TO_KEEP
            }
            found = asyncio.ensure_future(run_in_threadpool(self._read, name))
            self._newest = {**kept, name: (now, found)}
        return await asyncio.shield(found)  # Whoever asked first may hang up before it is read.

    def _read(self, name: str) -> tuple[int, str]:
        # Reading the row works whichever process changed it.
        stream = registry.get(self._database, name, now=self._clock())
        shown = views.show_stream(stream, refused=self._list_refused(name))
        return stream.version, to_json(shown, inf_nan_mode="null").decode()


async def follow(request: Request, name: str) -> AsyncIterator[str]:
    """Yield an event whenever a stream has changed, until the sender of the request hangs up."""
    state, reads, seen = request.app.state, 0, ""
    while not await request.is_disconnected():
        try:
            # The token may have been revoked since, and the database may be gone: the sender of the
            # request asks again, and learns which.
            await state.access.check(request.headers.get("authorization"), Scope.READ, stream=name)
            version, text = await state.reads.read(name)
        except KeyholeError as error:
            state.outage.notice(error)
            return
        if text != seen:  # which a round that expires changes too, and its version does not
            seen = text
            yield f"id: {version}\nevent: stream\ndata: {text}\n\n"
        elif reads % _READS_BETWEEN_SIGNS_OF_LIFE == 0:
            yield ": still here\n\n"
        reads += 1
        await asyncio.sleep(_SECONDS_BETWEEN_READS)
