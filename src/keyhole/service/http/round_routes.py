"""The routes of rounds: predicted or decided, and answered.

What they send is described by ``round_responses`` and written by ``round_views.send``, without a check
of every value: ``round_views`` makes it, and mypy holds that to the description.
"""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from keyhole.errors import KeyholeError, ScoreError
from keyhole.service.http import round_models, round_responses, round_views
from keyhole.service.http.access import needs
from keyhole.service.http.bodies import body_of, describe_body
from keyhole.service.http.round_responses import PROBLEMS
from keyhole.service.http.stream_routes import Name
from keyhole.service.store.log import history
from keyhole.service.store.streams import answers, proposals
from keyhole.service.store.streams.answers import Counted, Reply
from keyhole.service.store.streams.proposals import Opened, Query
from keyhole.service.store.tokens import Scope

router = APIRouter(prefix="/v1", responses=PROBLEMS)
_predict, _feedback = Depends(needs(Scope.PREDICT)), Depends(needs(Scope.FEEDBACK))
_PREDICTIONS, _DECISIONS = "predictions", "decisions"


@router.post(
    "/streams/{name}/predictions",
    status_code=201,
    response_model=round_responses.Prediction,
    responses={200: {"model": round_responses.Prediction, "description": "Made by an earlier request"}},
    dependencies=[_predict],
    openapi_extra=describe_body(round_models.OutputBody),
)
async def predict(
    request: Request,
    name: Name,
    ask: Annotated[Query, Depends(body_of(round_models.OutputBody, round_models.OutputBody.ask))],
    idempotency_key: Annotated[round_models.Key | None, Header()] = None,
) -> Response:
    """Propose a set or an interval; a retry with the same Idempotency-Key gives the same one."""
    (made,) = await _open(request, name, [ask._replace(key=idempotency_key)], makes=_PREDICTIONS)
    request.state.noted = {"stream": name, "prediction": made.id}
    return round_views.send(round_views.show_prediction(made), status=200 if made.repeated else 201)


@router.post(
    "/predictions/{id}/feedback",
    response_model=round_responses.CountedView,
    dependencies=[_feedback],
    openapi_extra=describe_body(round_models.AnswerBody),
)
async def answer(
    request: Request,
    id: Annotated[str, Path(max_length=200)],  # noqa: A002
    told: Annotated[Any, Depends(body_of(round_models.AnswerBody, round_models.AnswerBody.read))],
) -> Response:
    """Answer a prediction or a decision: the same twice counts once, a different one is refused."""
    request.state.noted = {"prediction": id[:80]}
    (result,) = await _settle(request, [Reply(id, told)])
    if isinstance(result, KeyholeError):
        raise result
    return round_views.send(round_views.show_counted(result))


@router.post(
    "/streams/{name}/predictions/batch",
    status_code=201,
    response_model=round_responses.Predictions,
    dependencies=[_predict],
    openapi_extra=describe_body(round_models.OutputsBody),
)
async def predict_batch(
    request: Request,
    name: Name,
    asks: Annotated[
        list[Query], Depends(body_of(round_models.OutputsBody, round_models.OutputsBody.ask))
    ],
) -> Response:
    """Propose many at once, all or none."""
    made = await _open(request, name, asks, makes=_PREDICTIONS)
    request.state.noted = {"stream": name, "predictions": len(made)}
    return round_views.send(
        {"predictions": [round_views.show_prediction(one) for one in made]}, status=201
    )


@router.post(
    "/feedback",
    response_model=round_responses.CountedOrNot,
    dependencies=[_feedback],
    openapi_extra=describe_body(round_models.AnswersBody),
)
async def answer_batch(
    request: Request,
    replies: Annotated[
        list[Reply], Depends(body_of(round_models.AnswersBody, round_models.AnswersBody.read))
    ],
) -> Response:
    """Answer many predictions at once; each is counted or refused on its own."""
    results = await _settle(request, replies)
    request.state.noted = {"answers": len(results)}
    return round_views.send({"results": [round_views.show_result(result) for result in results]})


@router.post(
    "/streams/{name}/decisions",
    status_code=201,
    response_model=round_responses.DecisionView,
    responses={
        200: {"model": round_responses.DecisionView, "description": "Made by an earlier request"}
    },
    dependencies=[_predict],
    openapi_extra=describe_body(round_models.CaseBody),
)
async def decide(
    request: Request,
    name: Name,
    ask: Annotated[Query, Depends(body_of(round_models.CaseBody, round_models.CaseBody.ask))],
    idempotency_key: Annotated[round_models.Key | None, Header()] = None,
) -> Response:
    """Accept an answer or refer it, in a stream that is a gate; retries are as for predictions."""
    (made,) = await _open(request, name, [ask._replace(key=idempotency_key)], makes=_DECISIONS)
    request.state.noted = {"stream": name, "prediction": made.id}
    return round_views.send(round_views.show_decision(made), status=200 if made.repeated else 201)


@router.post(
    "/streams/{name}/decisions/batch",
    status_code=201,
    response_model=round_responses.DecisionsView,
    dependencies=[_predict],
    openapi_extra=describe_body(round_models.CasesBody),
)
async def decide_batch(
    request: Request,
    name: Name,
    asks: Annotated[list[Query], Depends(body_of(round_models.CasesBody, round_models.CasesBody.ask))],
) -> Response:
    """Decide many at once, all or none."""
    made = await _open(request, name, asks, makes=_DECISIONS)
    request.state.noted = {"stream": name, "predictions": len(made)}
    return round_views.send({"decisions": [round_views.show_decision(one) for one in made]}, status=201)


@router.put(
    "/streams/{name}/answers/{key:path}",
    response_model=round_responses.CountedView,
    dependencies=[_feedback],
    openapi_extra=describe_body(round_models.AnswerBody),
)
async def answer_by_key(
    request: Request,
    name: Name,
    key: Annotated[str, Path(max_length=200)],
    told: Annotated[Any, Depends(body_of(round_models.AnswerBody, round_models.AnswerBody.read))],
) -> Response:
    """Answer the prediction that was asked for with this key, as by its id."""
    found = await run_in_threadpool(history.find_round, request.app.state.database, name, key)
    return await answer(request, found, told)


async def _open(request: Request, name: str, asks: list[Query], *, makes: str) -> list[Opened]:
    state = request.app.state
    _check_labels(asks, most=state.limits.label_length)
    task = proposals.make_task(name, asks=asks, now=state.clock(), makes=makes)
    made: list[Opened] = await state.turns.run(task)
    if makes == _PREDICTIONS:
        request.state.count = partial(state.gauges.count_sets, name, made)
    return made


def _check_labels(asks: list[Query], *, most: int) -> None:
    for place, ask in enumerate(asks):
        if isinstance(ask.output, dict):
            names = [label for label in ask.output if isinstance(label, str)]
            if names and len(max(names, key=len)) > most:
                raise ScoreError(f"a label of prediction {place} is longer than {most} characters")


async def _settle(request: Request, replies: list[Reply]) -> list[Counted | KeyholeError]:
    """Settle replies, in a turn of each of their streams."""
    state = request.app.state
    tasks = answers.make_tasks(replies, now=state.clock())
    outcomes = await asyncio.gather(*map(state.turns.run, tasks), return_exceptions=True)
    results = answers.gather_results(replies, tasks, outcomes)
    request.state.count = partial(state.gauges.count_answers, replies, results)
    return results
