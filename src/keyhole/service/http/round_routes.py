"""The routes of rounds: predicted or decided, and answered."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from keyhole.errors import KeyholeError
from keyhole.service.http import models, views
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.openapi import PROBLEMS
from keyhole.service.http.stream_routes import Name
from keyhole.service.store.log import history
from keyhole.service.store.streams import answers, proposals
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Opened, Query
from keyhole.service.store.tokens import Scope
from keyhole.service.wire import responses as wire

router = APIRouter(prefix="/v1", responses=PROBLEMS)
_predict, _feedback = Depends(needs(Scope.PREDICT)), Depends(needs(Scope.FEEDBACK))
_PREDICTIONS, _DECISIONS = "predictions", "decisions"
_REPEATED = "Made by an earlier request"
IdempotencyKey = Annotated[models.Key | None, Header(alias="Idempotency-Key")]
AnswerGiven = Annotated[Any, Depends(body_of(models.AnswerBody, models.AnswerBody.read))]


@router.post(
    "/streams/{name}/predictions",
    status_code=201,
    response_model=wire.Prediction,
    responses={200: {"model": wire.Prediction, "description": _REPEATED}},
    dependencies=[_predict],
    openapi_extra=describe_body(models.OutputBody),
)
async def predict(
    request: Request,
    name: Name,
    query: Annotated[Query, Depends(body_of(models.OutputBody, models.OutputBody.read))],
    key: IdempotencyKey = None,
) -> Response:
    """Predict a set or an interval; a retry with the same Idempotency-Key gives the same one."""
    (opened,) = await _open(request, name, [query._replace(key=key)], makes=_PREDICTIONS)
    request.state.noted = {"stream": name, "prediction": opened.id}
    return views.send(views.show_prediction(opened), status=200 if opened.repeated else 201)


@router.post(
    "/predictions/{id}/feedback",
    response_model=wire.Receipt,
    dependencies=[_feedback],
    openapi_extra=describe_body(models.AnswerBody),
)
async def answer(
    request: Request,
    id: Annotated[str, Path(max_length=200)],  # noqa: A002
    given: AnswerGiven,
) -> Response:
    """Answer a prediction or a decision: the same twice counts once, a different one is refused."""
    request.state.noted = {"prediction": id[:80]}
    (result,) = await _answer(request, [Reply(id, given)])
    if isinstance(result, KeyholeError):
        raise result
    return views.send(result)


@router.post(
    "/streams/{name}/predictions/batch",
    status_code=201,
    response_model=wire.Predictions,
    dependencies=[_predict],
    openapi_extra=describe_body(models.OutputsBody),
)
async def predict_batch(
    request: Request,
    name: Name,
    queries: Annotated[list[Query], Depends(body_of(models.OutputsBody, models.OutputsBody.read))],
) -> Response:
    """Predict many at once, all or none."""
    opened = await _open(request, name, queries, makes=_PREDICTIONS)
    request.state.noted = {"stream": name, "predictions": len(opened)}
    shown = wire.Predictions([views.show_prediction(one) for one in opened])
    return views.send(shown, status=201)


@router.post(
    "/feedback",
    response_model=wire.Receipts,
    dependencies=[_feedback],
    openapi_extra=describe_body(models.AnswersBody),
)
async def answer_batch(
    request: Request,
    replies: Annotated[list[Reply], Depends(body_of(models.AnswersBody, models.AnswersBody.read))],
) -> Response:
    """Answer many predictions at once; each is counted or refused on its own."""
    results = await _answer(request, replies)
    request.state.noted = {"answers": len(results)}
    return views.send(wire.Receipts([views.show_result(result) for result in results]))


@router.post(
    "/streams/{name}/decisions",
    status_code=201,
    response_model=wire.Verdict,
    responses={200: {"model": wire.Verdict, "description": _REPEATED}},
    dependencies=[_predict],
    openapi_extra=describe_body(models.CaseBody),
)
async def decide(
    request: Request,
    name: Name,
    query: Annotated[Query, Depends(body_of(models.CaseBody, models.CaseBody.read))],
    key: IdempotencyKey = None,
) -> Response:
    """Accept an answer or refer it, in a stream that is a gate; retries are as for predictions."""
    (opened,) = await _open(request, name, [query._replace(key=key)], makes=_DECISIONS)
    request.state.noted = {"stream": name, "prediction": opened.id}
    return views.send(views.show_decision(opened), status=200 if opened.repeated else 201)


@router.post(
    "/streams/{name}/decisions/batch",
    status_code=201,
    response_model=wire.Verdicts,
    dependencies=[_predict],
    openapi_extra=describe_body(models.CasesBody),
)
async def decide_batch(
    request: Request,
    name: Name,
    queries: Annotated[list[Query], Depends(body_of(models.CasesBody, models.CasesBody.read))],
) -> Response:
    """Decide many at once, all or none."""
    opened = await _open(request, name, queries, makes=_DECISIONS)
    request.state.noted = {"stream": name, "predictions": len(opened)}
    return views.send(wire.Verdicts([views.show_decision(one) for one in opened]), status=201)


@router.put(
    "/streams/{name}/answers/{key:path}",
    response_model=wire.Receipt,
    dependencies=[_feedback],
    openapi_extra=describe_body(models.AnswerBody),
)
async def answer_by_key(
    request: Request,
    name: Name,
    key: Annotated[str, Path(max_length=200)],
    given: AnswerGiven,
) -> Response:
    """Answer the prediction that was requested with this key, as by its id."""
    found = await run_in_threadpool(history.find_round, request.app.state.database, name, key)
    return await answer(request, found, given)


async def _open(request: Request, name: str, queries: list[Query], *, makes: str) -> list[Opened]:
    state = request.app.state
    task = proposals.make_task(name, asks=queries, now=state.clock(), makes=makes)
    opened: list[Opened] = await state.queues.run(task)
    if makes == _PREDICTIONS:
        request.state.count = partial(state.metrics.count_sets, name, opened)
    return opened


async def _answer(request: Request, replies: list[Reply]) -> list[wire.Receipt | KeyholeError]:
    """Settle replies, each in the queue of its stream."""
    state = request.app.state
    tasks = answers.make_tasks(replies, now=state.clock())
    outcomes = await asyncio.gather(*map(state.queues.run, tasks), return_exceptions=True)
    results = answers.gather_results(replies, tasks, outcomes)
    request.state.count = partial(state.metrics.count_answers, replies, results)
    return results
