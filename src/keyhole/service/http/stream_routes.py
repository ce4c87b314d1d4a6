"""The routes of streams: made, shown, changed, their logs read; and the probes of the service."""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from keyhole.errors import FeedbackError, InvalidError, LabelError
from keyhole.service.http import events, models, views
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.openapi import PROBLEMS
from keyhole.service.store.log import export, history
from keyhole.service.store.streams import amendments, calibrations, registry, settings
from keyhole.service.store.streams.unit_of_work import make_separate_task
from keyhole.service.store.tokens import Scope
from keyhole.service.wire import responses as wire

router = APIRouter(prefix="/v1", responses=PROBLEMS)
probes = APIRouter(tags=["watching"], responses=PROBLEMS)
Name = Annotated[str, Path(max_length=64, examples=["triage"])]
_read, _admin = Depends(needs(Scope.READ)), Depends(needs(Scope.ADMIN))
_SEPARATE = ("lifetime", "window", "description", "calibrate_from")  # no settings of a predictor
Result = TypeVar("Result")


def _describe_content(*kinds: str, schema: dict[str, str]) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {kind: {"schema": schema} for kind in kinds}}}


@router.post(
    "/streams",
    status_code=201,
    response_model=wire.StreamView,
    dependencies=[_admin],
    openapi_extra=describe_body(models.NewStream),
)
async def create_stream(
    request: Request, new: Annotated[models.NewStream, Depends(body_of(models.NewStream))]
) -> Response:
    """Create a stream."""
    request.state.fields = {FeedbackError: "feedback", LabelError: "labels"}
    given = new.model_dump(exclude={"name"}, exclude_none=True)
    separate = {name: given.pop(name) for name in _SEPARATE if name in given}
    state = request.app.state

    def create() -> Response:
        setup, notes = settings.make_setup(**given)
        stream = registry.create(state.database, new.name, setup=setup, now=state.clock(), **separate)
        return views.send(views.show_stream(stream, notes=notes), status=201)

    return await _change(request, new.name, create)


@router.get("/streams", response_model=wire.StreamsView, dependencies=[_read])
def list_streams(
    request: Request,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """List streams, the oldest first, with their statistics; a page at a time where they are many."""
    state = request.app.state
    found = registry.survey(state.database, after=after, limit=limit)
    if after is None and found.next is None:
        state.quarantine.update(found.quarantined)
    shown = [views.show_stream(stream, listed=True) for stream in found.usable]
    return views.send(wire.StreamsView(shown, found.quarantined, found.next))


@router.get("/streams/{name}", response_model=wire.StreamView, dependencies=[_read])
def get_stream(request: Request, name: Name) -> Response:
    """Return what a stream is, and its statistics."""
    return views.send(views.show_stream(registry.get(request.app.state.database, name)))


@router.patch(
    "/streams/{name}",
    response_model=wire.StreamView,
    dependencies=[_admin],
    openapi_extra=describe_body(models.AmendmentBody),
)
async def amend_stream(
    request: Request,
    name: Name,
    changes: Annotated[models.AmendmentBody, Depends(body_of(models.AmendmentBody))],
) -> Response:
    """Change a stream from now on; the notes say what that does to the promise."""
    request.state.fields = {LabelError: "labels"}
    state, given = request.app.state, changes.model_dump(exclude_none=True)
    if not given:
        raise InvalidError("nothing is to change; give alpha, lifetime, window, labels or description")
    amendment = amendments.Amendment(**given)

    def amend() -> Response:
        stream, notes = amendments.amend(state.database, name, amendment, now=state.clock())
        return views.send(views.show_stream(stream, notes=notes))

    return await _change(request, name, amend)


@router.delete("/streams/{name}", status_code=204, dependencies=[_admin])
async def delete_stream(request: Request, name: Name) -> None:
    """Remove a stream that is archived, or quarantined, and its log for good."""
    await _change(request, name, lambda: registry.delete(request.app.state.database, name))
    request.app.state.metrics.forget(name)


@router.post(
    "/streams/{name}/calibration",
    response_model=wire.StreamView,
    dependencies=[_admin],
    openapi_extra=describe_body(models.Calibration),
)
async def calibrate(
    request: Request,
    name: Name,
    history: Annotated[models.Calibration, Depends(body_of(models.Calibration))],
) -> Response:
    """Teach a stream labelled history before its first round."""
    state = request.app.state

    def teach() -> Response:
        past = [
            calibrations.Past(one.output, one.label, one.features, one.groups) for one in history.rounds
        ]
        stream = calibrations.calibrate(
            state.database, name, past, now=state.clock(), after=history.after
        )
        return views.send(views.show_stream(stream))

    return await _change(request, name, teach)


@router.post("/streams/{name}/archive", response_model=wire.StreamView, dependencies=[_admin])
async def archive_stream(request: Request, name: Name) -> Response:
    """Close a stream for good: it can be read, but takes no more rounds."""
    state = request.app.state

    def archive() -> Response:
        stream = registry.archive(state.database, name, now=state.clock())
        return views.send(views.show_stream(stream))

    return await _change(request, name, archive)


async def _change(request: Request, name: str, change: Callable[[], Result]) -> Result:
    """Return the result of a change that is neither a round nor an answer, made in a thread."""
    result: Result = await request.app.state.queues.run(make_separate_task(name, change))
    return result


@router.get("/streams/{name}/history", response_model=wire.HistoryView, dependencies=[_read])
def get_history(
    request: Request, name: Name, points: Annotated[int, Query(ge=2, le=2000)] = 300
) -> Response:
    """Return miss rate and mean size as curves, and what the newest rounds were like."""
    found = history.curve(request.app.state.database, name, points=points)
    return views.send(views.show_history(*found))


@router.get("/streams/{name}/rounds", response_model=wire.RoundsView, dependencies=[_read])
def get_rounds(
    request: Request,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=500)] = 20,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    metadata: Annotated[
        str | None,
        Query(max_length=2000, description='Rounds that hold this: {"model": "v3"}.'),
    ] = None,
) -> Response:
    """Return the newest rounds, the newest first, a page at a time."""
    found, following = history.last(
        request.app.state.database, name, count=limit, before=before, metadata=_read_metadata(metadata)
    )
    return views.send(wire.RoundsView([views.show_round(entry) for entry in found], following))


def _read_metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise InvalidError(f'metadata {text[:80]!r} is not a JSON object; give {{"model": "v3"}}')
    return metadata


@router.get(
    "/streams/{name}/events",
    dependencies=[_read],
    response_class=Response,
    responses=_describe_content("text/event-stream", schema={"type": "string"}),
)
async def get_events(request: Request, name: Name) -> Response:
    """Send the stream's statistics as server-sent events whenever they change."""
    await run_in_threadpool(registry.get, request.app.state.database, name)
    return StreamingResponse(events.follow(request, name), media_type="text/event-stream")


@router.get(
    "/streams/{name}/export",
    dependencies=[_read],
    response_class=Response,
    responses={
        **_describe_content(
            "text/csv",
            "application/vnd.apache.parquet",
            schema={"type": "string", "format": "binary"},
        ),
        501: {"model": wire.Problem},
    },
)
def get_export(
    request: Request,
    name: Name,
    format: Annotated[export.Format, Query()] = export.Format.CSV,  # noqa: A002
) -> Response:
    """Return the whole log as CSV or Parquet."""
    database = request.app.state.database
    registry.get(database, name)
    headers = {"content-disposition": f'attachment; filename="{name}.{format.value}"'}
    if format is export.Format.CSV:
        lines = export.csv_lines(database, name)
        return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)
    content = export.parquet(database, name)
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)


@probes.head("/healthz", include_in_schema=False)
@probes.get("/healthz", response_model=wire.Health)
async def healthz(request: Request) -> Response:
    """Say that the process runs; this needs neither the database nor a thread."""
    return views.send(wire.Health(sorted(request.app.state.quarantine.reasons)))


@probes.head("/readyz", include_in_schema=False)
@probes.get("/readyz", response_model=wire.Health)
async def readyz(request: Request) -> Response:
    """Say whether the database takes writes."""
    await request.app.state.readiness.check()
    request.app.state.outage.end()
    return await healthz(request)


@probes.get(
    "/metrics",
    dependencies=[_read],
    response_class=Response,
    responses=_describe_content("text/plain", schema={"type": "string"}),
)
def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus's text format."""
    return Response(request.app.state.metrics.write(), media_type="text/plain; version=0.0.4")
