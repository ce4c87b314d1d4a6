"""Responses that go on: events while a stream moves, and files of any length."""

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from keyhole.service import views
from keyhole.store import export, streams
from keyhole.store.database import Database

_SECONDS_BETWEEN_LOOKS = 0.5
_LOOKS_BETWEEN_SIGNS_OF_LIFE = 30


async def events(request: Request, name: str) -> Response:
    """Send what a stream is and where it stands, at once and whenever it has moved."""
    database: Database = request.app.state.database
    await run_in_threadpool(streams.get, database, name)
    return StreamingResponse(_moves(request, name), media_type="text/event-stream")


async def _moves(request: Request, name: str) -> AsyncIterator[str]:
    # Looking at the row works whichever process changed it.
    database: Database = request.app.state.database
    seen, looks = None, 0
    while not await request.is_disconnected():
        here = await run_in_threadpool(streams.get, database, name)
        if here.version != seen:
            seen = here.version
            yield f"id: {seen}\nevent: stream\ndata: {json.dumps(views.stream(here))}\n\n"
        elif looks % _LOOKS_BETWEEN_SIGNS_OF_LIFE == 0:
            yield ": still here\n\n"
        looks += 1
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)


def download(database: Database, name: str, kind: export.Format) -> Response:
    """Return the log of a stream as a file."""
    streams.get(database, name)
    headers = {"content-disposition": f'attachment; filename="{name}.{kind.value}"'}
    if kind is export.Format.CSV:
        lines = export.csv_lines(database, name)
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)
    content = export.parquet(database, name)
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)
