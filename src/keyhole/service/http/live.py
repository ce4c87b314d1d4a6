"""Responses that go on: events while a stream moves, and files of any length."""

import asyncio
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from keyhole.errors import KeyholeError
from keyhole.service.http import views
from keyhole.service.store import export, streams
from keyhole.service.store.database import Database
from keyhole.service.store.tokens import Scope

_SECONDS_BETWEEN_LOOKS = 0.5
_LOOKS_BETWEEN_SIGNS_OF_LIFE = 30


async def send_events(request: Request, name: str) -> Response:
    """Send what a stream is and where it stands, at once and whenever it has moved."""
    database: Database = request.app.state.database
    await run_in_threadpool(streams.get, database, name)
    return StreamingResponse(_follow(request, name), media_type="text/event-stream")


async def _follow(request: Request, name: str) -> AsyncIterator[str]:
    # Looking at the row works whichever process changed it.
    state, looks, seen = request.app.state, 0, None
    while not await request.is_disconnected():
        try:
            # The token may have been revoked since, and the database may be gone: the sender of the
            # request asks again, and is told which.
            await state.access.check(request.headers.get("authorization"), Scope.READ)
            here = await run_in_threadpool(streams.get, state.database, name)
        except KeyholeError as error:
            state.outage.notice(error)
            return
        if here.version != seen:
            seen = here.version
            text = views.show_stream(here).model_dump_json()
            yield f"id: {seen}\nevent: stream\ndata: {text}\n\n"
        elif looks % _LOOKS_BETWEEN_SIGNS_OF_LIFE == 0:
            yield ": still here\n\n"
        looks += 1
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def send_log(database: Database, name: str, *, kind: export.Format) -> Response:
    """Return the log of a stream as a file."""
    streams.get(database, name)
    headers = {"content-disposition": f'attachment; filename="{name}.{kind.value}"'}
    if kind is export.Format.CSV:
        lines = export.csv_lines(database, name)
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)
    content = export.parquet(database, name)
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)
