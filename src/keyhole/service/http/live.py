"""Responses that go on: events while a stream moves, and files of any length."""

import asyncio
import math
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from keyhole.errors import KeyholeError
from keyhole.service.http import views
from keyhole.service.store.log import export
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.tokens import Scope

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_KEEP = 5.0
_LOOKS_BETWEEN_SIGNS_OF_LIFE = 30


class Looks:
    """What the streams that somebody follows are like, looked at once for all who follow them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: dict[str, tuple[float, asyncio.Future[tuple[int, str]]]] = {}

    async def look(self, name: str) -> tuple[int, str]:
        """Return the version of a stream and how it is shown, at most half a second old, or raise."""
        now = time.monotonic()
        at, found = self._newest.get(name, (-math.inf, None))
        if found is None or now - at >= _SECONDS_BETWEEN_LOOKS:
            self._forget(now)
            found = asyncio.ensure_future(run_in_threadpool(self._read, name))
            self._newest[name] = (now, found)
        return await asyncio.shield(found)  # Whoever began the look may hang up before it ends.

    def _read(self, name: str) -> tuple[int, str]:
        # Looking at the row works whichever process changed it.
        here = registry.get(self._database, name)
        return here.version, views.show_stream(here).model_dump_json()

    def _forget(self, now: float) -> None:
        old = [name for name, (at, _) in self._newest.items() if now - at > _SECONDS_TO_KEEP]
        for name in old:
            del self._newest[name]


async def send_events(request: Request, name: str) -> Response:
    """Send what a stream is and where it stands, at once and whenever it has moved."""
    database: Database = request.app.state.database
    await run_in_threadpool(registry.get, database, name)
    return StreamingResponse(_follow(request, name), media_type="text/event-stream")


async def _follow(request: Request, name: str) -> AsyncIterator[str]:
    state, looks, seen = request.app.state, 0, None
    while not await request.is_disconnected():
        try:
            # The token may have been revoked since, and the database may be gone: the sender of the
            # request asks again, and is told which.
            await state.access.check(request.headers.get("authorization"), Scope.READ)
            version, text = await state.looks.look(name)
        except KeyholeError as error:
            state.outage.notice(error)
            return
        if version != seen:
            seen = version
            yield f"id: {seen}\nevent: stream\ndata: {text}\n\n"
        elif looks % _LOOKS_BETWEEN_SIGNS_OF_LIFE == 0:
            yield ": still here\n\n"
        looks += 1
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def send_log(database: Database, name: str, *, kind: export.Format) -> Response:
    """Return the log of a stream as a file."""
    registry.get(database, name)
    headers = {"content-disposition": f'attachment; filename="{name}.{kind.value}"'}
    if kind is export.Format.CSV:
        lines = export.csv_lines(database, name)
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)
    content = export.parquet(database, name)
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)
