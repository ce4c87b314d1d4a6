"""The routes under /v1."""

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from keyhole.errors import (
    DatabaseError,
    FeedbackError,
    InvalidError,
    KeyholeError,
    LabelError,
    ScoreError,
)
from keyhole.service.http import live, models, responses, views
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.limits import Limits
from keyhole.service.store import (
    amendments,
    answers,
    export,
    history,
    proposals,
    rehearsals,
    settings,
    streams,
)
from keyhole.service.store.answers import Reply
from keyhole.service.store.direct import Connection
from keyhole.service.store.proposals import Ask
from keyhole.service.store.stream import Stream
from keyhole.service.store.together import Job, make_lone_job
from keyhole.service.store.tokens import Scope

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.Problem}
    for status in (400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 431, 503)
}
router = APIRouter(prefix="/v1", responses=PROBLEMS)
Name = Annotated[str, Path(max_length=64, examples=["triage"])]
READ, _predict = Depends(needs(Scope.READ)), Depends(needs(Scope.PREDICT))
_feedback, _admin = Depends(needs(Scope.FEEDBACK)), Depends(needs(Scope.ADMIN))
_APART = ("lifetime", "window", "description", "rehearse_from")
_SET, _GATE = "set", "gate"
Result = TypeVar("Result")


@router.post(
    "/streams",
    status_code=201,
    dependencies=[_admin],
    openapi_extra=describe_body(models.NewStream),
)
async def create_stream(
    request: Request, new: Annotated[models.NewStream, Depends(body_of(models.NewStream))]
) -> responses.Stream:
    """Make a stream."""
    request.state.fields = {FeedbackError: "regime", LabelError: "labels"}
    given = new.model_dump(exclude={"name"}, exclude_none=True)
    apart = {name: given.pop(name) for name in _APART if name in given}
    state = request.app.state

    def create() -> responses.Stream:
        setup, notes = settings.make_setup(**given)
        here = streams.create(state.database, new.name, setup=setup, now=state.clock(), **apart)
        return views.show_stream(here, notes=notes)

    return await _change(request, new.name, create)


@router.get("/streams", dependencies=[READ])
def list_streams(
    request: Request,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> responses.Streams:
    """List streams, the oldest first, with where they stand; a page at a time where they are many."""
    state = request.app.state
    found = streams.survey(state.database, after=after, limit=limit)
    if after is None and found.next is None:
        state.quarantine.note(found.quarantined)
    shown = [views.show_stream(here, listed=True) for here in found.usable]
    return responses.Streams(streams=shown, quarantined=found.quarantined, next=found.next)


@router.get("/streams/{name}", dependencies=[READ])
def get_stream(request: Request, name: Name) -> responses.Stream:
    """Say what a stream is and where it stands."""
    return views.show_stream(streams.get(request.app.state.database, name))


@router.patch("/streams/{name}", dependencies=[_admin], openapi_extra=describe_body(models.Amendment))
async def amend_stream(
    request: Request,
    name: Name,
    wanted: Annotated[models.Amendment, Depends(body_of(models.Amendment))],
) -> responses.Stream:
    """Change a stream from now on; the notes say what that does to the promise."""
    request.state.fields = {LabelError: "labels"}
    state = request.app.state
    given = wanted.model_dump(exclude_none=True)
    if not given:
        raise InvalidError("nothing is to change; give alpha, lifetime, window, labels or description")
    amendment = amendments.Amendment(**given)

    def amend() -> responses.Stream:
        here, said = amendments.amend(state.database, name, amendment, now=state.clock())
        return views.show_stream(here, notes=said)

    return await _change(request, name, amend)


@router.delete("/streams/{name}", status_code=204, dependencies=[_admin])
async def delete_stream(request: Request, name: Name) -> None:
    """Remove a stream that is archived, or quarantined, and its log for good."""
    await _change(request, name, lambda: streams.delete(request.app.state.database, name))
    request.app.state.gauges.forget(name)


@router.post(
    "/streams/{name}/rehearsal",
    dependencies=[_admin],
    openapi_extra=describe_body(models.Rehearsal),
)
async def rehearse(
    request: Request,
    name: Name,
    history: Annotated[models.Rehearsal, Depends(body_of(models.Rehearsal))],
) -> responses.Stream:
    """Teach a stream labelled history before its first round."""
    state = request.app.state

    def teach() -> responses.Stream:
        past = [
            rehearsals.Past(one.value, one.label, one.features, one.groups) for one in history.rounds
        ]
        here = rehearsals.rehearse(state.database, name, past, now=state.clock(), after=history.after)
        return views.show_stream(here)

    return await _change(request, name, teach)


@router.post("/streams/{name}/archive", dependencies=[_admin])
async def archive_stream(request: Request, name: Name) -> responses.Stream:
    """Close a stream for good: it can be read, and takes no more rounds."""
    state = request.app.state
    return await _change(
        request,
        name,
        lambda: views.show_stream(streams.archive(state.database, name, now=state.clock())),
    )


@router.post(
    "/streams/{name}/predictions",
    status_code=201,
    responses={200: {"model": responses.Prediction, "description": "Made by an earlier request"}},
    dependencies=[_predict],
    openapi_extra=describe_body(models.Output),
)
async def predict(
    request: Request,
    response: Response,
    name: Name,
    output: Annotated[models.Output, Depends(body_of(models.Output))],
    idempotency_key: Annotated[models.Key | None, Header()] = None,
) -> responses.Prediction:
    """Propose a set or an interval; a retry with the same Idempotency-Key gives the same one."""
    (made,) = await _open(request, name, [output.ask(idempotency_key)])
    request.state.noted = {"stream": name, "prediction": made.id}
    if made.repeated:
        response.status_code = 200
    return views.show_prediction(made)


@router.post(
    "/streams/{name}/predictions/batch",
    status_code=201,
    dependencies=[_predict],
    openapi_extra=describe_body(models.Outputs),
)
async def predict_batch(
    request: Request,
    name: Name,
    outputs: Annotated[models.Outputs, Depends(body_of(models.Outputs))],
) -> responses.Predictions:
    """Propose many at once, all or none."""
    asks = [output.ask(output.key) for output in outputs.predictions]
    made = await _open(request, name, asks)
    request.state.noted = {"stream": name, "predictions": len(made)}
    shown = [views.show_prediction(one) for one in made]
    return responses.Predictions.model_construct(predictions=shown)


@router.post(
    "/streams/{name}/decisions",
    status_code=201,
    responses={200: {"model": responses.Decision, "description": "Made by an earlier request"}},
    dependencies=[_predict],
    openapi_extra=describe_body(models.Case),
)
async def decide(
    request: Request,
    response: Response,
    name: Name,
    case: Annotated[models.Case, Depends(body_of(models.Case))],
    idempotency_key: Annotated[models.Key | None, Header()] = None,
) -> responses.Decision:
    """Accept an answer or refer it, in a stream that is a gate; retries are as for predictions."""
    (made,) = await _open(request, name, [case.ask(idempotency_key)], kind=_GATE)
    request.state.noted = {"stream": name, "prediction": made.id}
    if made.repeated:
        response.status_code = 200
    return views.show_decision(made)


@router.post(
    "/streams/{name}/decisions/batch",
    status_code=201,
    dependencies=[_predict],
    openapi_extra=describe_body(models.Cases),
)
async def decide_batch(
    request: Request,
    name: Name,
    cases: Annotated[models.Cases, Depends(body_of(models.Cases))],
) -> responses.Decisions:
    """Decide many at once, all or none."""
    made = await _open(request, name, [case.ask(case.key) for case in cases.decisions], kind=_GATE)
    request.state.noted = {"stream": name, "predictions": len(made)}
    shown = [views.show_decision(one) for one in made]
    return responses.Decisions.model_construct(decisions=shown)


@router.post(
    "/predictions/{id}/feedback",
    dependencies=[_feedback],
    openapi_extra=describe_body(models.Feedback),
)
async def answer(
    request: Request,
    id: Annotated[str, Path(max_length=200)],  # noqa: A002
    feedback: Annotated[models.Feedback, Depends(body_of(models.Feedback))],
) -> responses.Counted:
    """Answer a prediction or a decision: the same twice counts once, a different one is refused."""
    request.state.noted = {"prediction": id[:80]}
    (result,) = await _settle(request, [Reply(id, feedback.answer)])
    if isinstance(result, KeyholeError):
        raise result
    return views.show_counted(result)


@router.put(
    "/streams/{name}/answers/{key:path}",
    dependencies=[_feedback],
    openapi_extra=describe_body(models.Feedback),
)
async def answer_by_key(
    request: Request,
    name: Name,
    key: Annotated[str, Path(max_length=200)],
    feedback: Annotated[models.Feedback, Depends(body_of(models.Feedback))],
) -> responses.Counted:
    """Answer the prediction that was asked for with this key, as by its id."""
    found = await run_in_threadpool(history.find_round, request.app.state.database, name, key)
    return await answer(request, found, feedback)


@router.post("/feedback", dependencies=[_feedback], openapi_extra=describe_body(models.Feedbacks))
async def answer_batch(
    request: Request, feedbacks: Annotated[models.Feedbacks, Depends(body_of(models.Feedbacks))]
) -> responses.CountedOrNot:
    """Answer many predictions at once; each is counted or refused on its own."""
    results = await _settle(request, [Reply(one.id, one.answer) for one in feedbacks.feedback])
    request.state.noted = {"answers": len(results)}
    shown = [views.show_result(result) for result in results]
    return responses.CountedOrNot.model_construct(results=shown)


@router.get("/streams/{name}/history", dependencies=[READ])
def get_history(
    request: Request, name: Name, points: Annotated[int, Query(ge=2, le=2000)] = 300
) -> responses.History:
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
) -> responses.Rounds:
    """Return the newest rounds, the newest first, a page at a time."""
    found, following = history.last(
        request.app.state.database, name, count=limit, before=before, metadata=_read_metadata(metadata)
    )
    return responses.Rounds(rounds=[views.show_round(entry) for entry in found], next=following)


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
        501: {"model": responses.Problem},
    },
)
def get_export(
    request: Request,
    name: Name,
    format: Annotated[export.Format, Query()] = export.Format.CSV,  # noqa: A002
) -> Response:
    """Return the whole log as CSV or Parquet."""
    return live.send_log(request.app.state.database, name, kind=format)


async def _open(
    request: Request, name: str, asks: list[Ask], *, kind: str = _SET
) -> list[proposals.Opened]:
    state = request.app.state
    for place, ask in enumerate(asks):
        _check_size(ask.output, state.limits, place=place)

    now = state.clock()

    def alone() -> list[proposals.Opened]:
        return proposals.predict(state.database, name, asks=asks, now=now, kind=kind)

    def join(connection: Connection, here: Stream) -> list[proposals.Opened]:
        return proposals.join(connection, here, asks=asks, now=now, kind=kind)

    made: list[proposals.Opened] = await state.turns.run(Job(name, join, alone))
    state.turns.learn(answers.find_stream(made[0].id), name)
    for one in made:
        if not one.repeated and kind == _SET:
            state.gauges.proposed(name, one.region.size)
    return made


async def _change(request: Request, name: str, change: Callable[[], Result]) -> Result:
    """Return what a change of a stream returns that is neither a round nor an answer."""
    result: Result = await request.app.state.turns.run(make_lone_job(name, change))
    return result


async def _settle(request: Request, replies: list[Reply]) -> list[answers.Counted | KeyholeError]:
    state = request.app.state
    places: dict[int, list[int]] = {}
    for place, reply in enumerate(replies):
        # What is no id belongs to no stream, as minus one does.
        places.setdefault(answers.find_stream(reply.id) or -1, []).append(place)
    # Each stream has its own turn: one that is held keeps back no answers but its own.
    told = await asyncio.gather(
        *(
            _settle_stream(state, wanted, [replies[place] for place in own])
            for wanted, own in places.items()
        )
    )
    settled = dict(zip(chain(*places.values()), chain(*told), strict=True))
    results = [settled[place] for place in range(len(replies))]
    for reply, result in zip(replies, results, strict=True):
        if isinstance(result, DatabaseError):
            raise result  # What was counted stays counted, and will be found so by a retry.
        if isinstance(result, answers.Counted) and not result.repeated:
            kind = reply.answer if isinstance(reply.answer, str) else next(iter(reply.answer))
            state.gauges.answered(result.stream, kind)
    return results


async def _settle_stream(
    state: Any, wanted: int, replies: list[Reply]
) -> list[answers.Counted | KeyholeError]:
    now = state.clock()

    def join(connection: Connection, here: Stream) -> list[answers.Counted | KeyholeError]:
        return answers.join(connection, here, replies, now=now)

    def alone() -> list[answers.Counted | KeyholeError]:
        return answers.answer(state.database, replies, now=now)

    if wanted < 0:
        return alone()
    try:
        results: list[answers.Counted | KeyholeError] = await state.turns.run(Job(wanted, join, alone))
    except KeyholeError as error:
        return [error] * len(replies)
    return results


def _check_size(output: Any, limits: Limits, *, place: int) -> None:
    if isinstance(output, Mapping) and output:
        longest = max((len(label) for label in output if isinstance(label, str)), default=0)
        if longest > limits.label_length:
            raise ScoreError(
                f"a label of prediction {place} is longer than {limits.label_length} characters"
            )
