"""The routes of streams: made, shown, changed, and their logs read."""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from keyhole.errors import FeedbackError, InvalidError, LabelError
from keyhole.service.http import (
    live,
    models,
    responses,
    round_models,
    round_responses,
    round_views,
    views,
)
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.round_responses import PROBLEMS
from keyhole.service.store.log import export, history
from keyhole.service.store.streams import amendments, calibrations, registry, settings
from keyhole.service.store.streams.unit_of_work import make_separate_task
from keyhole.service.store.tokens import Scope

router = APIRouter(prefix="/v1", responses=PROBLEMS)
Name = Annotated[str, Path(max_length=64, examples=["triage"])]
READ, _admin = Depends(needs(Scope.READ)), Depends(needs(Scope.ADMIN))
Result = TypeVar("Result")
_APART = ("lifetime", "window", "description", "calibrate_from")


@router.post(
    "/streams",
    status_code=201,
    dependencies=[_admin],
    openapi_extra=describe_body(models.NewStream),
)
async def create_stream(
    request: Request, new: Annotated[models.NewStream, Depends(body_of(models.NewStream))]
) -> responses.StreamView:
    """Make a stream."""
    request.state.fields = {FeedbackError: "feedback", LabelError: "labels"}
    given = new.model_dump(exclude={"name"}, exclude_none=True)
    apart = {name: given.pop(name) for name in _APART if name in given}
    state = request.app.state

    def create() -> responses.StreamView:
        setup, notes = settings.make_setup(**given)
        here = registry.create(state.database, new.name, setup=setup, now=state.clock(), **apart)
        return views.show_stream(here, notes=notes)

    return await _change(request, new.name, create)


@router.get("/streams", dependencies=[READ])
def list_streams(
    request: Request,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> responses.StreamsView:
    """List streams, the oldest first, with where they stand; a page at a time where they are many."""
    state = request.app.state
    found = registry.survey(state.database, after=after, limit=limit)
    if after is None and found.next is None:
        state.quarantine.note(found.quarantined)
    shown = [views.show_stream(here, listed=True) for here in found.usable]
    return responses.StreamsView(streams=shown, quarantined=found.quarantined, next=found.next)


@router.get("/streams/{name}", dependencies=[READ])
def get_stream(request: Request, name: Name) -> responses.StreamView:
    """Say what a stream is and where it stands."""
    return views.show_stream(registry.get(request.app.state.database, name))


@router.patch(
    "/streams/{name}", dependencies=[_admin], openapi_extra=describe_body(models.AmendmentBody)
)
async def amend_stream(
    request: Request,
    name: Name,
    wanted: Annotated[models.AmendmentBody, Depends(body_of(models.AmendmentBody))],
) -> responses.StreamView:
    """Change a stream from now on; the notes say what that does to the promise."""
    request.state.fields = {LabelError: "labels"}
    state = request.app.state
    given = wanted.model_dump(exclude_none=True)
    if not given:
        raise InvalidError("nothing is to change; give alpha, lifetime, window, labels or description")
    amendment = amendments.Amendment(**given)

    def amend() -> responses.StreamView:
        here, said = amendments.amend(state.database, name, amendment, now=state.clock())
        return views.show_stream(here, notes=said)

    return await _change(request, name, amend)


@router.delete("/streams/{name}", status_code=204, dependencies=[_admin])
async def delete_stream(request: Request, name: Name) -> None:
    """Remove a stream that is archived, or quarantined, and its log for good."""
    await _change(request, name, lambda: registry.delete(request.app.state.database, name))
    request.app.state.gauges.forget(name)


@router.post(
    "/streams/{name}/calibration",
    dependencies=[_admin],
    openapi_extra=describe_body(round_models.Calibration),
)
async def calibrate(
    request: Request,
    name: Name,
    history: Annotated[round_models.Calibration, Depends(body_of(round_models.Calibration))],
) -> responses.StreamView:
    """Teach a stream labelled history before its first round."""
    state = request.app.state

    def teach() -> responses.StreamView:
        past = [
            calibrations.Past(one.value, one.label, one.features, one.groups) for one in history.rounds
        ]
        here = calibrations.calibrate(
            state.database, name, past, now=state.clock(), after=history.after
        )
        return views.show_stream(here)

    return await _change(request, name, teach)


@router.post("/streams/{name}/archive", dependencies=[_admin])
async def archive_stream(request: Request, name: Name) -> responses.StreamView:
    """Close a stream for good: it can be read, and takes no more rounds."""
    state = request.app.state
    return await _change(
        request,
        name,
        lambda: views.show_stream(registry.archive(state.database, name, now=state.clock())),
    )


async def _change(request: Request, name: str, change: Callable[[], Result]) -> Result:
    """Return what a change of a stream returns that is neither a round nor an answer."""
    result: Result = await request.app.state.turns.run(make_separate_task(name, change))
    return result


@router.get("/streams/{name}/history", dependencies=[READ])
def get_history(
    request: Request, name: Name, points: Annotated[int, Query(ge=2, le=2000)] = 300
) -> responses.HistoryView:
    """Return miss rate and mean size as curves, and what the newest rounds were like."""
    return views.show_history(*history.curve(request.app.state.database, name, points=points))


@router.get("/streams/{name}/rounds", dependencies=[READ])
def get_rounds(
    request: Request,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=500)] = 20,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    metadata: Annotated[
        str | None,
        Query(max_length=2000, description='Rounds that hold this: {"model": "v3"}.'),
    ] = None,
) -> responses.RoundsView:
    """Return the newest rounds, the newest first, a page at a time."""
    found, following = history.last(
        request.app.state.database, name, count=limit, before=before, metadata=_read_metadata(metadata)
    )
    return responses.RoundsView(
        rounds=[round_views.show_round(entry) for entry in found], next=following
    )


def _read_metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, dict):
        raise InvalidError(f'metadata {text[:80]!r} is not a JSON object; give {{"model": "v3"}}')
    return wanted


@router.get(
    "/streams/{name}/events",
    dependencies=[READ],
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def get_events(request: Request, name: Name) -> Response:
    """Send the stream's numbers as server-sent events whenever they change."""
    return await live.send_events(request, name)


@router.get(
    "/streams/{name}/export",
    dependencies=[READ],
    response_class=Response,
    responses={
        200: {
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in ("text/csv", "application/vnd.apache.parquet")
            }
        },
        501: {"model": round_responses.Problem},
    },
)
def get_export(
    request: Request,
    name: Name,
    format: Annotated[export.Format, Query()] = export.Format.CSV,  # noqa: A002
) -> Response:
    """Return the whole log as CSV or Parquet."""
    return live.send_log(request.app.state.database, name, kind=format)
