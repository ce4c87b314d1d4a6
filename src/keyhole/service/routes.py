"""The routes under /v1."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from starlette.responses import Response

from keyhole.errors import FeedbackError, KeyholeError, LabelError, ScoreError
from keyhole.predictor import DEFAULT_LEARNER
from keyhole.service import live, models, views
from keyhole.service.access import needs
from keyhole.service.gate import Limits
from keyhole.store import answers, blueprint, export, history, proposals, streams
from keyhole.store.answers import Reply
from keyhole.store.proposals import Ask
from keyhole.store.tokens import Scope

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.Problem} for status in (400, 401, 403, 404, 409, 410, 413, 415, 422, 429)
}
router = APIRouter(prefix="/v1", responses=_PROBLEMS)
Name = Annotated[str, Path(max_length=64, examples=["triage"])]
READ, _predict = Depends(needs(Scope.READ)), Depends(needs(Scope.PREDICT))
_feedback, _admin = Depends(needs(Scope.FEEDBACK)), Depends(needs(Scope.ADMIN))
_LIMITS = ("open_limit", "lifetime", "window")


@router.post("/streams", status_code=201, response_model=models.Stream, dependencies=[_admin])
def create_stream(request: Request, new: models.NewStream) -> Response:
    """Make a stream."""
    request.state.fields = {FeedbackError: "regime", LabelError: "labels"}
    given = new.model_dump(exclude={"name", "learner"}, exclude_none=True)
    limits = {name: given.pop(name) for name in _LIMITS if name in given}
    plan, notes = blueprint.draft(new.learner or DEFAULT_LEARNER, limits=limits, **given)
    state = request.app.state
    here = streams.create(state.database, new.name, blueprint=plan, now=state.clock())
    return views.sent(views.stream(here, notes=notes), status=201)


@router.get("/streams", response_model=models.Streams, dependencies=[READ])
def list_streams(request: Request) -> Response:
    """List every stream, with where it stands."""
    found = streams.every(request.app.state.database)
    return views.sent({"streams": [views.stream(here) for here in found]})


@router.get("/streams/{name}", response_model=models.Stream, dependencies=[READ])
def get_stream(request: Request, name: Name) -> Response:
    """Say what a stream is and where it stands."""
    return views.sent(views.stream(streams.get(request.app.state.database, name)))


@router.post("/streams/{name}/archive", response_model=models.Stream, dependencies=[_admin])
def archive_stream(request: Request, name: Name) -> Response:
    """Close a stream for good: it can be read, and takes no more rounds."""
    state = request.app.state
    return views.sent(views.stream(streams.archive(state.database, name, now=state.clock())))


@router.post(
    "/streams/{name}/predictions",
    status_code=201,
    response_model=models.Prediction,
    dependencies=[_predict],
)
def predict(
    request: Request,
    name: Name,
    output: Annotated[models.Output, Body()],
    idempotency_key: Annotated[models.Key | None, Header()] = None,
) -> Response:
    """Propose a set or an interval; a retry with the same Idempotency-Key gives the same one."""
    made = _open(request, name, [Ask(output.value, idempotency_key)])[0]
    request.state.noted = {"stream": name, "prediction": made.id}
    return views.sent(views.prediction(made), status=200 if made.repeated else 201)


@router.post(
    "/streams/{name}/predictions/batch",
    status_code=201,
    response_model=models.Predictions,
    dependencies=[_predict],
)
def predict_batch(request: Request, name: Name, outputs: models.Outputs) -> Response:
    """Propose many at once, all or none."""
    made = _open(request, name, [Ask(output.value, output.key) for output in outputs.predictions])
    request.state.noted = {"stream": name, "predictions": len(made)}
    return views.sent({"predictions": [views.prediction(one) for one in made]}, status=201)


@router.post("/predictions/{id}/feedback", response_model=models.Counted, dependencies=[_feedback])
def answer(
    request: Request,
    id: Annotated[str, Path(max_length=200)],  # noqa: A002
    feedback: models.Feedback,
) -> Response:
    """Answer a prediction: the same answer twice counts once, a different second one is refused."""
    result = _settle(request, [Reply(id, feedback.answer)])[0]
    request.state.noted = {"prediction": id[:80]}
    if isinstance(result, KeyholeError):
        raise result
    return views.sent(views.counted(result))


@router.post("/feedback", response_model=models.CountedOrNot, dependencies=[_feedback])
def answer_batch(request: Request, feedbacks: models.Feedbacks) -> Response:
    """Answer many predictions at once; each is counted or refused on its own."""
    results = _settle(request, [Reply(one.id, one.answer) for one in feedbacks.feedback])
    request.state.noted = {"answers": len(results)}
    return views.sent({"results": [views.result(result) for result in results]})


@router.get("/streams/{name}/history", response_model=models.History, dependencies=[READ])
def get_history(
    request: Request, name: Name, points: Annotated[int, Query(ge=2, le=2000)] = 300
) -> Response:
    """Return miss rate and mean size as curves."""
    return views.sent(views.history(*history.curve(request.app.state.database, name, points=points)))


@router.get("/streams/{name}/rounds", response_model=models.Entries, dependencies=[READ])
def get_rounds(
    request: Request, name: Name, limit: Annotated[int, Query(ge=1, le=500)] = 20
) -> Response:
    """Return the newest rounds."""
    found = history.last(request.app.state.database, name, count=limit)
    return views.sent({"rounds": [views.entry(entry) for entry in found]})


@router.get("/streams/{name}/events", dependencies=[READ], response_class=Response)
async def get_events(request: Request, name: Name) -> Response:
    """Send the stream's numbers as server-sent events whenever they change."""
    return await live.events(request, name)


@router.get("/streams/{name}/export", dependencies=[READ], response_class=Response)
def get_export(
    request: Request,
    name: Name,
    format: Annotated[export.Format, Query()] = export.Format.CSV,  # noqa: A002
) -> Response:
    """Return the whole log as CSV or Parquet."""
    return live.download(request.app.state.database, name, format)


def _open(request: Request, name: str, asks: list[Ask]) -> list[proposals.Opened]:
    state = request.app.state
    for place, ask in enumerate(asks):
        _check_size(ask.output, state.limits, place)
    made = proposals.predict(state.database, name, asks=asks, now=state.clock())
    for one in made:
        if not one.repeated:
            state.gauges.proposed(name, one.region.size)
    return made


def _settle(request: Request, replies: list[Reply]) -> list[answers.Counted | KeyholeError]:
    state = request.app.state
    results = answers.answer(state.database, replies, now=state.clock())
    for reply, result in zip(replies, results, strict=True):
        if isinstance(result, answers.Counted) and not result.repeated:
            kind = reply.answer if isinstance(reply.answer, str) else "label"
            state.gauges.answered(result.stream, kind)
    return results


def _check_size(output: Any, limits: Limits, place: int) -> None:
    if isinstance(output, (Mapping, list)) and len(output) > limits.labels:
        raise ScoreError(
            f"{len(output)} labels in prediction {place} are too many; at most {limits.labels}"
        )
    if isinstance(output, Mapping) and output and max(map(len, output)) > limits.label_length:
        raise ScoreError(
            f"a label of prediction {place} is longer than {limits.label_length} characters"
        )
