"""Probes: does the process live, can the database be written, what do the numbers say."""

import asyncio
import time

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from keyhole.errors import DatabaseError, KeyholeError
from keyhole.service.http import responses
from keyhole.service.http.round_responses import PROBLEMS
from keyhole.service.http.stream_routes import READ
from keyhole.service.store.sql.database import Database

router = APIRouter(tags=["watching"], responses=PROBLEMS)
_SECONDS_TO_WAIT = 2.0
_SECONDS_TO_REMEMBER = 1.0


class Readiness:
    """Whether the database took a write, asked at most once a second and one at a time."""

    def __init__(self, database: Database) -> None:
        self._database, self._at = database, 0.0
        self._fault: KeyholeError | None = None
        self._thread: CapacityLimiter | None = None

    async def check(self) -> None:
        """Raise unless the database could be written a moment ago."""
        if self._thread is None:
            self._thread = CapacityLimiter(1)  # A thread of its own: the others may all be waiting.
        if time.monotonic() - self._at >= _SECONDS_TO_REMEMBER:
            try:
                async with asyncio.timeout(_SECONDS_TO_WAIT):
                    await to_thread.run_sync(self._look, limiter=self._thread, abandon_on_cancel=True)
            except TimeoutError:
                raise DatabaseError(
                    f"the database took no write within {_SECONDS_TO_WAIT:g} seconds"
                ) from None
        if self._fault is not None:
            raise self._fault

    def _look(self) -> None:
        if time.monotonic() - self._at < _SECONDS_TO_REMEMBER:
            return  # Another request has looked while this one waited.
        try:
            self._database.try_write()
            self._fault = None
        except KeyholeError as error:
            self._fault = error
        self._at = time.monotonic()


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz(request: Request) -> responses.Health:
    """Say that the process runs; this needs neither the database nor a thread."""
    return responses.Health(quarantined=sorted(request.app.state.quarantine.reasons))


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> responses.Health:
    """Say whether the database takes writes."""
    await request.app.state.readiness.check()
    request.app.state.outage.end()
    return responses.Health(quarantined=sorted(request.app.state.quarantine.reasons))


@router.get(
    "/metrics",
    dependencies=[READ],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus's text format."""
    return Response(request.app.state.gauges.text(), media_type="text/plain; version=0.0.4")
