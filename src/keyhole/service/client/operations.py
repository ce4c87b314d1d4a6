"""What clients can do, each operation written once; ``client.py`` makes methods of them.

An operation yields the calls that it sends and receives what they return. A call that is marked
``safe`` may be sent again when no answer came: it only reads, or a prediction carries a key, or an
answer counts once however often it arrives.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from keyhole.errors import FeedbackError, InvalidError, KeyholeError, UnknownRoundError
from keyhole.feedback import Answer
from keyhole.predictor.context import Features, Groups, read_rows
from keyhole.service.client.exchange import Call, Steps, read_as, read_json, send, write_body
from keyhole.service.client.requests import (
    MISSING,
    Body,
    name_place,
    plain_label,
    write_answer,
    write_answer_of_batch,
    write_case,
    write_known,
    write_output,
)
from keyhole.service.wire.problems import read_error
from keyhole.service.wire.responses import (
    HistoryView,
    Label,
    Prediction,
    Predictions,
    Receipt,
    RoundsView,
    RoundView,
    StreamsView,
    StreamView,
    Verdict,
    Verdicts,
)

if TYPE_CHECKING:
    from httpx import Response

_AT_ONCE, _MOST_ROUNDS = 1000, 500  # rounds of history in a request, of the log in a response
_KEY = re.compile(r"(?! )[ -~]{1,200}(?<! )")
Output = Mapping[Any, float] | Sequence[float] | float | Any  # Any: an array of numpy or its like
Columns = Mapping[str, Sequence[Any]] | Sequence[Features]
Metadata = Mapping[str, Any]
Opened = TypeVar("Opened", Prediction, Verdict)


def create_stream(
    name: str,
    *,
    alpha: float,
    kind: Literal["labels", "interval", "band", "gate"] | None = None,
    learner: str | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, Any] | None = None,
    features: Sequence[str] | int | None = None,
    groups: Sequence[str] | int | None = None,
    labels: Sequence[str] | None = None,
    power: float | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    bound: float | None = None,
    scale: float | None = None,
    side: Literal["both", "upper", "lower"] | None = None,
    score: Mapping[str, Any] | None = None,
    feedback: str | None = None,
    seed: int | None = None,
    open_limit: int | None = None,
    lifetime: float | None = None,
    window: int | None = None,
    description: str | None = None,
    calibrate_from: str | None = None,
) -> Steps[StreamView]:
    """Make a stream; the settings are those of ``POST /v1/streams``."""
    settings = {name: value for name, value in locals().items() if value is not None}
    # Sent twice it would fail the second time.
    return send(Call("POST", ("streams",), read_json(StreamView), json=settings, safe=False))


def streams() -> Steps[list[StreamView]]:
    """Return every stream, with its statistics."""
    found: list[StreamView] = []
    parameters: dict[str, Any] = {}
    while True:
        call = Call("GET", ("streams",), read_json(StreamsView), parameters=parameters)
        page = yield from send(call)
        found += page.streams
        if page.next is None:
            return found
        parameters = {"after": page.next}


def stream(name: str) -> Steps[StreamView]:
    """Return what a stream is, and its statistics."""
    return send(Call("GET", ("streams", name), read_json(StreamView)))


def amend(
    name: str,
    *,
    alpha: float | None = None,
    lifetime: float | None = None,
    window: int | None = None,
    labels: Sequence[str] | None = None,
    description: str | None = None,
) -> Steps[StreamView]:
    """Change a stream from now on; labels are added to those that there are."""
    given = {
        "alpha": alpha,
        "lifetime": lifetime,
        "window": window,
        "labels": labels,
        "description": description,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return send(Call("PATCH", ("streams", name), read_json(StreamView), json=changes))


def delete(name: str) -> Steps[None]:
    """Remove an archived stream and its log for good."""
    return send(Call("DELETE", ("streams", name), lambda _: None, safe=False))


def archive(name: str) -> Steps[StreamView]:
    """Close a stream for good."""
    return send(Call("POST", ("streams", name, "archive"), read_json(StreamView)))


def calibrate(
    name: str,
    outputs: Sequence[Output],
    labels: Sequence[Label],
    *,
    features: Columns | None = None,
    groups: Sequence[Groups] | None = None,
) -> Steps[StreamView]:
    """Teach a stream labelled history before its first round, a thousand rounds at a time.

    Features and groups are given as for ``predict_batch``.
    """
    if len(outputs) != len(labels):
        raise FeedbackError(f"{len(labels)} labels came for {len(outputs)} outputs; give one for each")
    rows, members = read_rows(len(outputs), features, groups)
    history = list(zip(outputs, labels, rows, members, strict=True))
    found = yield from stream(name)
    for start in range(0, len(history), _AT_ONCE):
        rounds: list[Body] = []
        for output, label, row, own in history[start : start + _AT_ONCE]:
            with name_place("round", found.calibrated + len(rounds)):
                body = {**write_output(output), **write_known(row, own)}
                rounds.append({**body, "label": plain_label(label)})
        found = yield from send(
            Call(
                "POST",
                ("streams", name, "calibration"),
                read_json(StreamView),
                json={"rounds": rounds, "after": found.calibrated},
            )
        )
    return found


def predict(
    stream: str,
    output: Output,
    *,
    features: Features | None = None,
    groups: Groups = (),
    key: str | None = None,
    metadata: Metadata | None = None,
) -> Steps[Prediction]:
    """Return the set for a label-to-score map, a list or an array of scores.

    Or the interval for a centre, or for a tuple of a lower and an upper quantile.
    """
    body = {**write_output(output), **write_known(features, groups), **_write_metadata(metadata)}
    return _open(stream, "predictions", body, key, Prediction)


def decide(
    stream: str,
    score: float | Mapping[str, float],
    *,
    groups: Iterable[str] = (),
    key: str | None = None,
    metadata: Metadata | None = None,
) -> Steps[Verdict]:
    """Return whether a gate accepts an answer of this score, or the best of several candidates."""
    body = {**write_case(score), **write_known(None, groups), **_write_metadata(metadata)}
    return _open(stream, "decisions", body, key, Verdict)


def predict_batch(
    stream: str,
    outputs: Iterable[Output],
    *,
    features: Columns | None = None,
    groups: Sequence[Groups] | None = None,
    metadata: Metadata | None = None,
) -> Steps[list[Prediction]]:
    """Return a prediction for every output, in order, made in one transaction.

    Features are a row for each output, or a column for each name; groups a list for each.
    """
    given = list(outputs)
    rows, members = read_rows(len(given), features, groups)
    more = _write_metadata(metadata)
    bodies: list[Body] = []
    for output, row, own in zip(given, rows, members, strict=True):
        with name_place("output", len(bodies)):
            bodies.append({**write_output(output), **write_known(row, own), **more, **_new_key()})
    parts, body = ("streams", stream, "predictions", "batch"), {"predictions": bodies}
    made = yield from send(Call("POST", parts, read_json(Predictions), json=body))
    return made.predictions


def decide_batch(
    stream: str,
    scores: Iterable[float | Mapping[str, float]],
    *,
    groups: Sequence[Iterable[str]] | None = None,
    metadata: Metadata | None = None,
) -> Steps[list[Verdict]]:
    """Return a verdict for every score or map of candidates, in order, in one transaction."""
    given = list(scores)
    _, members = read_rows(len(given), None, groups)
    more = _write_metadata(metadata)
    bodies: list[Body] = []
    for score, own in zip(given, members, strict=True):
        with name_place("case", len(bodies)):
            bodies.append({**write_case(score), **write_known(None, own), **more, **_new_key()})
    parts, body = ("streams", stream, "decisions", "batch"), {"decisions": bodies}
    made = yield from send(Call("POST", parts, read_json(Verdicts), json=body))
    return made.decisions


def learn(
    prediction: Prediction | Verdict | str,
    answer: Answer | None = None,
    *,
    label: Any = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
    chance: float | None = None,
    wrong: float = 0.0,
) -> Steps[Receipt]:
    """Answer as ``Predictor.learn`` does, or judge with ``right`` as ``Gate.learn`` does."""
    body = write_answer(
        answer, label=label, score=score, loss=loss, right=right, chance=chance, wrong=wrong
    )
    return _answer(prediction, body)


def learn_key(
    stream: str,
    key: str,
    answer: Answer | None = None,
    *,
    label: Any = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
    chance: float | None = None,
    wrong: float = 0.0,
) -> Steps[Receipt]:
    """Answer the prediction that was asked for with this key; else as ``learn``."""
    body = write_answer(
        answer, label=label, score=score, loss=loss, right=right, chance=chance, wrong=wrong
    )
    return send(Call("PUT", ("streams", stream, "answers", key), read_json(Receipt), json=body))


def skip(prediction: Prediction | Verdict | str) -> Steps[Receipt]:
    """Close a round that nobody will answer."""
    return _answer(prediction, {"skip": True})


def learn_batch(
    answers: Sequence[tuple[Prediction | Verdict | str, Any]],
) -> Steps[list[Receipt | KeyholeError]]:
    """Answer many, each with ``HIT``, ``MISS`` or a label; an error stays in its place.

    Or with what ``learn`` takes by name, ``{"right": True}`` or ``{"score": 0.4, "chance": 0.5}``,
    or with ``{"skip": True}``.
    """
    bodies: list[Body] = []
    for prediction, given in answers:
        with name_place("answer", len(bodies)):
            bodies.append({"id": _find_id(prediction), **write_answer_of_batch(given)})

    def read_results(response: "Response") -> list[Receipt | KeyholeError]:
        results = response.json()["results"]
        return [read_error(one) if "error" in one else read_as(Receipt, one) for one in results]

    return send(Call("POST", ("feedback",), read_results, json={"answers": bodies}))


def history(stream: str, *, points: int = 300) -> Steps[HistoryView]:
    """Return miss rate and mean size as curves."""
    parts = ("streams", stream, "history")
    return send(Call("GET", parts, read_json(HistoryView), parameters={"points": points}))


def rounds(
    stream: str, *, limit: int = 20, before: int | None = None, metadata: Metadata | None = None
) -> Steps[list[RoundView]]:
    """Return the newest rounds, the newest first; those before a round, or with this metadata."""
    found: list[RoundView] = []
    while len(found) < limit:
        given = {
            "limit": min(limit - len(found), _MOST_ROUNDS),
            "before": before,
            "metadata": None if metadata is None else json.dumps(metadata),
        }
        parameters = {name: value for name, value in given.items() if value is not None}
        parts = ("streams", stream, "rounds")
        page = yield from send(Call("GET", parts, read_json(RoundsView), parameters=parameters))
        found += page.rounds
        before = page.next
        if before is None:
            break
    return found


def export(stream: str, *, format: Literal["csv", "parquet"] = "csv") -> Steps[bytes]:  # noqa: A002
    """Return the whole log as the bytes of a CSV or Parquet file."""
    parts, parameters = ("streams", stream, "export"), {"format": format}
    return send(Call("GET", parts, lambda response: response.content, parameters=parameters))


def _open(stream: str, what: str, body: Body, key: str | None, kind: type[Opened]) -> Steps[Opened]:
    headers = {"Idempotency-Key": _check_key(key)}
    return send(Call("POST", ("streams", stream, what), read_json(kind), json=body, headers=headers))


def _answer(prediction: Prediction | Verdict | str, body: Body) -> Steps[Receipt]:
    parts = ("predictions", _find_id(prediction), "feedback")
    return send(Call("POST", parts, read_json(Receipt), json=body))


def _check_key(key: str | None) -> str:
    """Return a key that a header can carry: the caller's, or a new one."""
    if key is None:
        return uuid.uuid4().hex
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise InvalidError(
            f"key {key!r:.80} cannot be sent; use 1 to 200 printable ASCII characters, with no space "
            "at either end"
        )
    return key


def _new_key() -> Body:
    return {"key": uuid.uuid4().hex}


def _write_metadata(metadata: Metadata | None) -> Body:
    if metadata is None:
        return {}
    body = {"metadata": dict(metadata)}
    write_body(body)  # Within a batch an error would name the whole batch.
    return body


def _find_id(prediction: Prediction | Verdict | str) -> str:
    found = prediction if isinstance(prediction, str) else getattr(prediction, "id", None)
    if not isinstance(found, str):
        raise UnknownRoundError(
            f"{prediction!r:.80} is no prediction of the service; give what predict returned, or its id"
        )
    return found
