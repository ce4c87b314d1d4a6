"""The routes: rounds predicted or decided and answered, streams and their logs, probes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from keyhole.errors import FeedbackError, InvalidError, KeyholeError, LabelError
from keyhole.service.http import bodies, event_stream, views
from keyhole.service.http.access import check_stream, covers_all, needs
from keyhole.service.http.bodies import ReadBody, read_object
from keyhole.service.http.openapi import PROBLEMS, demand_token
from keyhole.service.http.views import JsonResponse
from keyhole.service.store.log import export, history
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import (
    answers,
    calibrations,
    erasures,
    proposals,
    registry,
    settings,
    updates,
)
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.calibrations import Past
from keyhole.service.store.streams.shadows import NewShadow
from keyhole.service.store.streams.stream import Stream, Task, make_separate_task
from keyhole.service.store.tokens import Scope
from keyhole.service.wire import responses as wire
from keyhole.service.wire.problems import show_problem

router = APIRouter(prefix="/v1", responses=PROBLEMS)
probes = APIRouter(tags=["watching"], responses=PROBLEMS)
Name = Annotated[str, Path(max_length=64, examples=["triage"])]
ShadowName = Annotated[str, Path(max_length=64, examples=["wider"])]
Id = Annotated[str, Path(max_length=200)]
IdempotencyKey = Annotated[bodies.Key | None, Header(alias="Idempotency-Key")]
Output = Annotated[proposals.Query, Depends(ReadBody(bodies.OutputBody))]
Outputs = Annotated[list[proposals.Query], Depends(ReadBody(bodies.OutputsBody))]
Case = Annotated[proposals.Query, Depends(ReadBody(bodies.CaseBody))]
Cases = Annotated[list[proposals.Query], Depends(ReadBody(bodies.CasesBody))]
Answer = Annotated[str | dict[str, object], Depends(ReadBody(bodies.AnswerBody))]
Answers = Annotated[list[Reply], Depends(ReadBody(bodies.AnswersBody))]
New = Annotated[bodies.NewStream, Depends(ReadBody(bodies.NewStream))]
Changes = Annotated[bodies.UpdateBody, Depends(ReadBody(bodies.UpdateBody))]
Shadow = Annotated[NewShadow, Depends(ReadBody(bodies.ShadowBody))]
History = Annotated[tuple[list[Past], int | None], Depends(ReadBody(bodies.Calibration))]
_PREDICTIONS, _DECISIONS = "predictions", "decisions"
_MOST_LOGGED = 20  # names of streams in a line of the log
# no settings of a predictor
_SEPARATE = ("lifetime", "window", "description", "retention", "calibrate_from")
_TAGS: dict[Scope, str | Enum] = {
    Scope.PREDICT: "rounds",
    Scope.FEEDBACK: "rounds",
    Scope.ADMIN: "streams",
    Scope.READ: "reading",
}
Handler = TypeVar("Handler", bound=Callable[..., object])
Responses = dict[int | str, dict[str, Any]]


def _route(
    place: str,
    scope: Scope,
    *,
    gives: type | None = None,
    status: int = 200,
    repeats: bool = False,
    responses: Responses | None = None,
) -> Callable[[Handler], Handler]:
    """Add a route to what tokens of a scope may do; its response is JSON, if any."""
    method, path = place.split()
    repeated: Responses = {200: {"model": gives, "description": "Made by an earlier request"}}
    return router.api_route(
        path,
        methods=[method],
        status_code=status,
        response_model=gives,
        response_class=Response if gives is None else JSONResponse,
        responses=repeated if repeats else responses,
        dependencies=[Depends(needs(scope))],
        tags=[_TAGS[scope]],
        openapi_extra=demand_token(scope),
    )


def _describe_content(*kinds: str, schema: dict[str, str]) -> Responses:
    return {200: {"content": {kind: {"schema": schema} for kind in kinds}}}


@_route(
    "POST /streams/{name}/predictions", Scope.PREDICT, gives=wire.Prediction, status=201, repeats=True
)
async def predict(request: Request, name: Name, query: Output, key: IdempotencyKey = None) -> Response:
    """Predict a set or an interval; a retry with the same Idempotency-Key gives the same one."""
    (shown,), (repeated,) = opened = await _open(
        request, name, [query._replace(key=key)], makes=_PREDICTIONS
    )
    request.state.logged = {"stream": name, "prediction": shown.id}
    request.state.count = partial(request.app.state.metrics.count_sets, name, opened)
    return JsonResponse(shown, 200 if repeated else 201)


@_route("POST /predictions/{id}/feedback", Scope.FEEDBACK, gives=wire.Receipt)
async def answer(request: Request, id: Id, given: Answer) -> Response:
    """Answer a prediction or a decision: the same twice counts once, a different one is refused."""
    request.state.logged = {"prediction": id[:80]}
    (result,) = await _settle(request, [Reply(id, given)])
    if isinstance(result, KeyholeError):
        raise result
    return JsonResponse(result)


@_route("POST /predictions/{id}/amendment", Scope.FEEDBACK, gives=wire.Receipt)
async def amend(request: Request, id: Id, given: Answer) -> Response:
    """Correct an answer that turned out to be wrong; all statistics become those of the right one."""
    request.state.logged = {"prediction": id[:80]}
    (result,) = await _settle(request, [Reply(id, given)], amends=True)
    if isinstance(result, KeyholeError):
        raise result
    return JsonResponse(result)


@_route("POST /streams/{name}/predictions/batch", Scope.PREDICT, gives=wire.Predictions, status=201)
async def predict_batch(request: Request, name: Name, queries: Outputs) -> Response:
    """Predict many at once, all or none."""
    opened = await _open(request, name, queries, makes=_PREDICTIONS)
    request.state.logged = {"stream": name, "predictions": len(opened.shown)}
    request.state.count = partial(request.app.state.metrics.count_sets, name, opened)
    return JsonResponse(wire.Predictions(opened.shown), 201)


@_route("POST /feedback", Scope.FEEDBACK, gives=wire.Receipts)
async def answer_batch(request: Request, replies: Answers) -> Response:
    """Answer many predictions at once; each is counted or refused on its own."""
    request.state.logged = {"answers": len(replies)}
    results = await _settle(request, replies)
    shown = [show_problem(one) if isinstance(one, KeyholeError) else one for one in results]
    return JsonResponse(wire.Receipts(shown))


@_route("POST /streams/{name}/decisions", Scope.PREDICT, gives=wire.Verdict, status=201, repeats=True)
async def decide(request: Request, name: Name, query: Case, key: IdempotencyKey = None) -> Response:
    """Accept an answer or refer it, in a stream of decisions; retries are as for predictions."""
    (shown,), (repeated,) = await _open(request, name, [query._replace(key=key)], makes=_DECISIONS)
    request.state.logged = {"stream": name, "prediction": shown.id}
    return JsonResponse(shown, 200 if repeated else 201)


@_route("POST /streams/{name}/decisions/batch", Scope.PREDICT, gives=wire.Verdicts, status=201)
async def decide_batch(request: Request, name: Name, queries: Cases) -> Response:
    """Decide many at once, all or none."""
    opened = await _open(request, name, queries, makes=_DECISIONS)
    request.state.logged = {"stream": name, "predictions": len(opened.shown)}
    return JsonResponse(wire.Verdicts(opened.shown), 201)


@_route("PUT /streams/{name}/answers/{key:path}", Scope.FEEDBACK, gives=wire.Receipt)
async def answer_by_key(request: Request, name: Name, key: Id, given: Answer) -> Response:
    """Answer the prediction that was requested with this key, as by its id."""
    return await answer(request, await _find_id(request, name, key), given)


@_route("PUT /streams/{name}/amendments/{key:path}", Scope.FEEDBACK, gives=wire.Receipt)
async def amend_by_key(request: Request, name: Name, key: Id, given: Answer) -> Response:
    """Amend the answer to the prediction that was requested with this key, as by its id."""
    return await amend(request, await _find_id(request, name, key), given)


async def _find_id(request: Request, name: str, key: str) -> str:
    return await run_in_threadpool(history.find_round, request.app.state.database, name, key)


def _open(
    request: Request, name: str, queries: list[proposals.Query], *, makes: str
) -> asyncio.Future[proposals.Opened]:
    state, keys = request.app.state, [query.key for query in queries if query.key is not None]
    change = partial(proposals.open_rounds, asks=queries, now=state.clock(), makes=makes)
    opened: asyncio.Future[proposals.Opened] = state.queues.run(Task(name, change, keys=keys))
    return opened


async def _settle(
    request: Request, replies: list[Reply], *, amends: bool = False
) -> list[wire.Receipt | KeyholeError]:
    """Settle replies, each in the queue of its stream; let the request log say in which ones."""
    state, token = request.app.state, request.state.token
    check = partial(check_stream, token) if token is not None and token.streams else None
    tasks = answers.make_tasks(replies, now=state.clock(), amends=amends, check=check)
    outcomes = await asyncio.gather(*map(state.queues.run, tasks), return_exceptions=True)
    names = state.queues.names
    streams = sorted({names[task.stream] for task in tasks if task.stream in names})
    request.state.logged["stream"] = streams[0] if len(streams) == 1 else streams[:_MOST_LOGGED]
    results, counted = answers.gather_results(replies, tasks, outcomes), Counter[tuple[str, str]]()
    for reply, result in zip(replies, results, strict=True):
        if isinstance(result, KeyholeError):
            found = answers.read_id(reply.id)
            state.metrics.count_refused("" if found is None else names.get(found[0], ""), result)
        elif not result.repeated:
            counted[result.stream, answers.name_answer(reply.answer)] += 1
    if not amends:
        request.state.count = partial(state.metrics.count_answers, counted)
    return results


@_route("POST /streams", Scope.ADMIN, gives=wire.StreamView, status=201)
async def create_stream(request: Request, new: New) -> Response:
    """Create a stream."""
    request.state.fields = {FeedbackError: "feedback", LabelError: "labels"}
    request.state.logged = {"stream": new.name}
    for name in (new.name, *filter(None, (new.calibrate_from,))):
        check_stream(request.state.token, name)
    given = new.model_dump(exclude={"name"}, exclude_none=True)
    separate = {name: given.pop(name) for name in _SEPARATE if name in given}
    separate["shadows"] = [NewShadow(**one) for one in given.pop("shadows", ())]

    def create(database: Database, name: str, *, now: float) -> tuple[Stream, list[str]]:
        setup, notes, levels = settings.make_setups(**given)
        return registry.create(database, name, setup=setup, now=now, levels=levels, **separate), notes

    return await _change(request, new.name, create, status=201)


@_route("GET /streams", Scope.READ, gives=wire.StreamsView)
def list_streams(
    request: Request,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """List streams, the oldest first, with their statistics; a page at a time where they are many."""
    state = request.app.state
    found = registry.survey(state.database, after=after, limit=limit, now=state.clock())
    if after is None and found.next is None:
        state.quarantine.update(found.quarantined)
    token = request.state.token
    covers = token.covers if token is not None else lambda _name: True
    shown = [views.show_stream(one, listed=True) for one in found.usable if covers(one.name)]
    quarantined = {name: why for name, why in found.quarantined.items() if covers(name)}
    return JsonResponse(wire.StreamsView(shown, quarantined, found.next))


@_route("GET /overview", Scope.READ, gives=wire.OverviewView)
def get_overview(
    request: Request,
    words: Annotated[str, Query(max_length=64, description="A part of the name or the learner.")] = "",
    only: Annotated[wire.Selection, Query()] = wire.Selection.ALL,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Response:
    """List streams in a line each, those off target first, then by name, a page at a time."""
    overview, token = request.app.state.overview, request.state.token
    prefix = "" if token is None else token.streams
    return JsonResponse(overview.find(words, only, offset=offset, limit=limit, prefix=prefix))


@_route("GET /streams/{name}", Scope.READ, gives=wire.StreamView)
def get_stream(request: Request, name: Name) -> Response:
    """Return the settings and the statistics of a stream."""
    state = request.app.state
    found = registry.get(state.database, name, now=state.clock())
    return JsonResponse(views.show_stream(found, refused=state.metrics.list_refused(name)))


@_route("PATCH /streams/{name}", Scope.ADMIN, gives=wire.StreamView)
async def update_stream(request: Request, name: Name, changes: Changes) -> Response:
    """Change a stream from now on; the notes say what that does to the promise."""
    request.state.fields = {LabelError: "labels"}
    given = changes.model_dump(exclude_none=True)
    if not given:
        raise InvalidError(
            "nothing is to change; give alpha, lifetime, window, labels, description or retention"
        )
    return await _change(request, name, updates.update, updates.Update(**given))


@_route("POST /streams/{name}/shadows", Scope.ADMIN, gives=wire.StreamView, status=201)
async def add_shadow(request: Request, name: Name, new: Shadow) -> Response:
    """Put another learner beside a stream: it learns from the same answers, and shows nothing."""
    return await _change(request, name, updates.add, new, status=201)


@_route("DELETE /streams/{name}/shadows/{shadow}", Scope.ADMIN, gives=wire.StreamView)
async def remove_shadow(request: Request, name: Name, shadow: ShadowName) -> Response:
    """Remove a shadow."""
    return await _change(request, name, updates.remove, shadow)


@_route("POST /streams/{name}/shadows/{shadow}/promotion", Scope.ADMIN, gives=wire.StreamView)
async def promote_shadow(request: Request, name: Name, shadow: ShadowName) -> Response:
    """Make a shadow the stream's learner; the notes say what that does to the promise."""
    return await _change(request, name, updates.promote, shadow)


@_route("DELETE /streams/{name}", Scope.ADMIN, status=204)
async def delete_stream(request: Request, name: Name) -> None:
    """Remove an archived or quarantined stream and its log permanently."""
    state = request.app.state
    await state.queues.run(make_separate_task(name, partial(registry.delete, state.database, name)))
    state.metrics.forget(name)


@_route("POST /streams/{name}/calibration", Scope.ADMIN, gives=wire.StreamView)
async def calibrate(request: Request, name: Name, history: History) -> Response:
    """Teach a stream labelled or judged history before its first round."""
    past, after = history
    return await _change(request, name, partial(calibrations.calibrate, after=after), past)


@_route("POST /streams/{name}/archive", Scope.ADMIN, gives=wire.StreamView)
async def archive_stream(request: Request, name: Name) -> Response:
    """Close a stream permanently: it can be read, but takes no more rounds."""
    return await _change(request, name, registry.archive)


async def _change(
    request: Request,
    name: str,
    change: Callable[..., Stream | tuple[Stream, list[str]]],
    *given: object,
    status: int = 200,
) -> Response:
    """Show a stream and notes after a change that is neither a round nor an answer."""
    state = request.app.state

    def run() -> Response:  # in a thread, as a change and its view take long
        with settings.collect_notes() as warned:  # as of a shadow's learner
            changed = change(state.database, name, *given, now=state.clock())
        stream, notes = changed if isinstance(changed, tuple) else (changed, [])
        return JsonResponse(views.show_stream(stream, notes=[*notes, *warned]), status)

    response: Response = await state.queues.run(make_separate_task(name, run))
    return response


@_route("GET /streams/{name}/history", Scope.READ, gives=wire.HistoryView)
def get_history(
    request: Request, name: Name, points: Annotated[int, Query(ge=2, le=2000)] = 300
) -> Response:
    """Return miss rate and mean size as curves, and what the newest rounds were like."""
    found = history.curve(request.app.state.database, name, points=points)
    return JsonResponse(views.show_history(*found))


@_route("GET /streams/{name}/rounds", Scope.READ, gives=wire.RoundsView)
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
    """Return the newest rounds, the newest first, a page at a time; of long ones fewer than asked."""
    found, following = history.last(
        request.app.state.database, name, count=limit, before=before, metadata=_read_metadata(metadata)
    )
    return JsonResponse(wire.RoundsView([views.show_round(entry) for entry in found], following))


def _read_metadata(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        metadata = read_object(text)
    except InvalidError:
        raise
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise InvalidError(f'metadata {text[:80]!r} is not a JSON object; give {{"model": "v3"}}')
    return metadata


@_route("DELETE /streams/{name}/rounds", Scope.ADMIN, gives=wire.Erased)
async def erase_rounds(
    request: Request,
    name: Name,
    metadata: Annotated[
        str, Query(max_length=2000, description='Of rounds that hold this: {"user": "42"}.')
    ],
) -> Response:
    """Erase the content of all rounds with this metadata; the statistics stay."""
    state, wanted = request.app.state, _read_metadata(metadata)
    erase = partial(erasures.erase_matching, state.database, name, metadata=wanted, now=state.clock())
    return JsonResponse(wire.Erased(await state.queues.run(make_separate_task(name, erase))))


@_route("DELETE /streams/{name}/rounds/{id}", Scope.ADMIN, gives=wire.Erased)
async def erase_round(request: Request, name: Name, id: Id) -> Response:
    """Erase the content of a round, its answer and its metadata; the statistics stay."""
    state = request.app.state
    erase = partial(erasures.erase_round, state.database, name, id, now=state.clock())
    return JsonResponse(wire.Erased(await state.queues.run(make_separate_task(name, erase))))


@_route(
    "GET /streams/{name}/events",
    Scope.READ,
    responses=_describe_content("text/event-stream", schema={"type": "string"}),
)
async def get_events(request: Request, name: Name) -> Response:
    """Send the stream's statistics as server-sent events whenever they change."""
    await run_in_threadpool(registry.get, request.app.state.database, name)
    return StreamingResponse(event_stream.follow(request, name), media_type="text/event-stream")


@_route(
    "GET /streams/{name}/export",
    Scope.READ,
    responses={
        **_describe_content(*export.MEDIA.values(), schema={"type": "string", "format": "binary"}),
        501: {"model": wire.Problem},
    },
)
def get_export(
    request: Request,
    name: Name,
    format: Annotated[export.Format, Query()] = export.Format.CSV,
) -> Response:
    """Return the whole log as CSV, JSON lines or Parquet, sent as it is read."""
    database = request.app.state.database
    registry.get(database, name)
    headers = {"content-disposition": f'attachment; filename="{name}.{format.value}"'}
    content = export.pieces(database, name, format)
    return StreamingResponse(content, media_type=export.MEDIA[format], headers=headers)


@probes.head("/healthz", include_in_schema=False)
@probes.get("/healthz", response_model=wire.Health)
async def healthz(request: Request) -> Response:
    """Say that the process runs; this needs neither the database nor a thread."""
    return JsonResponse(wire.Health(sorted(request.app.state.quarantine.reasons)))


@probes.head("/readyz", include_in_schema=False)
@probes.get("/readyz", response_model=wire.Health)
async def readyz(request: Request) -> Response:
    """Say whether the database takes writes."""
    await request.app.state.readiness.check()
    request.app.state.outage.end()
    return await healthz(request)


@probes.get(
    "/metrics",
    dependencies=[Depends(needs(Scope.READ)), Depends(covers_all)],
    response_class=Response,
    responses=_describe_content("text/plain", schema={"type": "string"}),
    openapi_extra=demand_token(Scope.READ),
)
def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus's text format."""
    return Response(request.app.state.metrics.write(), media_type="text/plain; version=0.0.4")
