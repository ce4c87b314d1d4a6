"""What clients can do, each operation written once; ``client.py`` makes methods of them.

An operation yields the calls that it sends and receives what they return. A call that is marked
``safe`` may be sent again when no answer came: it only reads, or a prediction carries a key, or an
answer counts once however often it arrives.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from keyhole.errors import FeedbackError, InvalidError, KeyholeError
from keyhole.feedback import Answer
from keyhole.predictor.context import Features, Groups, read_rows
from keyhole.scores.score import Kind
from keyhole.service.client.exchange import Call, Steps, make_reader, read_json, send
from keyhole.service.client.values import (
    MISSING,
    Body,
    Metadata,
    find_id,
    make_key,
    name_place,
    plain_label,
    write_answer,
    write_answer_of_batch,
    write_case,
    write_known,
    write_metadata,
    write_output,
    write_right,
)
from keyhole.service.wire import responses as wire
from keyhole.service.wire.problems import read_error

if TYPE_CHECKING:
    from httpx import Response

_AT_ONCE, _MOST_ROUNDS = 1000, 500  # rounds of history in a request, of the log in a response
Output = Mapping[Any, float] | Sequence[float] | float | Any  # Any: an array of numpy or its like
Columns = Mapping[str, Sequence[object]] | Sequence[Features]
Answerable = wire.Prediction | wire.Verdict | str  # what was opened, or its id
Opened = TypeVar("Opened", wire.Prediction, wire.Verdict)
Value = TypeVar("Value")


def create_stream(
    name: str,
    *,
    alpha: float | Sequence[float],
    kind: Kind | None = None,
    learner: str | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, object] | None = None,
    features: Sequence[str] | int | None = None,
    groups: Sequence[str] | int | None = None,
    labels: Sequence[str] | None = None,
    power: float | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    bound: float | None = None,
    scale: float | None = None,
    side: Literal["both", "upper", "lower"] | None = None,
    score: Mapping[str, object] | None = None,
    feedback: str | None = None,
    seed: int | None = None,
    open_limit: int | None = None,
    least_chance: float | None = None,
    lifetime: float | None = None,
    window: int | None = None,
    description: str | None = None,
    retention: float | None = None,
    calibrate_from: str | None = None,
    shadows: Sequence[Mapping[str, object]] | None = None,
) -> Steps[wire.StreamView]:
    """Create a stream; the settings are those of ``POST /v1/streams``.

    Several alphas give nested sets or intervals: the ``levels`` of its predictions.
    """
    # Sent twice it would fail the second time.
    return _request_stream("POST", (), json=_list_given(locals()), safe=False)


def streams() -> Steps[list[wire.StreamView]]:
    """Return every stream, with its statistics."""
    found: list[wire.StreamView] = []
    parameters: dict[str, str] = {}
    while True:
        call = Call("GET", ("streams",), read_json(wire.StreamsView), parameters=parameters)
        page = yield from send(call)
        found += page.streams
        if page.next is None:
            return found
        parameters = {"after": page.next}


def stream(name: str) -> Steps[wire.StreamView]:
    """Return the settings and the statistics of a stream."""
    return _request_stream("GET", (name,))


def update_stream(
    name: str,
    *,
    alpha: float | None = None,
    lifetime: float | None = None,
    window: int | None = None,
    labels: Sequence[str] | None = None,
    description: str | None = None,
    retention: float | None = None,
) -> Steps[wire.StreamView]:
    """Change a stream from now on; labels are added to the existing ones."""
    return _request_stream("PATCH", (name,), json=_list_given(locals(), but="name"))


def add_shadow(
    stream: str,
    name: str,
    *,
    alpha: float | None = None,
    learner: str | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, object] | None = None,
) -> Steps[wire.StreamView]:
    """Put another learner beside a stream: it learns from the same answers, and shows nothing."""
    body = _list_given(locals(), but="stream")
    return _request_stream("POST", (stream, "shadows"), json=body, safe=False)


def remove_shadow(stream: str, name: str) -> Steps[wire.StreamView]:
    """Remove a shadow."""
    return _request_stream("DELETE", (stream, "shadows", name), safe=False)


def promote_shadow(stream: str, name: str) -> Steps[wire.StreamView]:
    """Make a shadow the learner of its stream from now on."""
    return _request_stream("POST", (stream, "shadows", name, "promotion"), safe=False)


def delete(name: str) -> Steps[None]:
    """Remove an archived stream and its log permanently."""
    return send(Call("DELETE", ("streams", name), lambda _: None, safe=False))


def archive(name: str) -> Steps[wire.StreamView]:
    """Close a stream permanently; its log stays."""
    return _request_stream("POST", (name, "archive"))


def calibrate(
    name: str,
    outputs: Sequence[Output],
    labels: Sequence[wire.Label],
    *,
    features: Columns | None = None,
    groups: Sequence[Groups] | None = None,
) -> Steps[wire.StreamView]:
    """Teach a stream labelled history before its first round, a thousand rounds at a time.

    For decisions the outputs are scores and the labels whether each answer was right. Features and
    groups are given as for ``predict_batch``.
    """
    if len(outputs) != len(labels):
        raise FeedbackError(f"{len(labels)} labels came for {len(outputs)} outputs; give one for each")
    rows, members = read_rows(len(outputs), features, groups)
    history = list(zip(outputs, labels, rows, members, strict=True))
    found = yield from stream(name)
    decides = found.kind == "gate"
    for start in range(0, len(history), _AT_ONCE):
        rounds: list[Body] = []
        for output, label, row, own in history[start : start + _AT_ONCE]:
            with name_place("round", found.calibrated + len(rounds)):
                known = write_known(row, own)
                if decides:
                    rounds.append({**write_case(output), **known, "right": write_right(label)})
                else:
                    rounds.append({**write_output(output), **known, "label": plain_label(label)})
        body = {"decisions" if decides else "rounds": rounds, "after": found.calibrated}
        found = yield from _request_stream("POST", (name, "calibration"), json=body)
    return found


def predict(
    stream: str,
    output: Output,
    *,
    features: Features | None = None,
    groups: Groups = (),
    key: str | None = None,
    metadata: Metadata | None = None,
) -> Steps[wire.Prediction]:
    """Return the set for a label-to-score map, a list or an array of scores.

    Or the interval for a centre, or for a tuple of a lower and an upper quantile.
    """
    body = {**write_output(output), **write_known(features, groups), **write_metadata(metadata)}
    return _open(stream, "predictions", body, key, wire.Prediction)


def decide(
    stream: str,
    score: float | Mapping[str, float],
    *,
    groups: Iterable[str] = (),
    key: str | None = None,
    metadata: Metadata | None = None,
) -> Steps[wire.Verdict]:
    """Return whether to accept an answer of this score, or the best of several candidates."""
    body = {**write_case(score), **write_known(None, groups), **write_metadata(metadata)}
    return _open(stream, "decisions", body, key, wire.Verdict)


def predict_batch(
    stream: str,
    outputs: Iterable[Output],
    *,
    features: Columns | None = None,
    groups: Sequence[Groups] | None = None,
    metadata: Metadata | None = None,
) -> Steps[list[wire.Prediction]]:
    """Return a prediction for every output, in order, made in one transaction.

    Features are a row for each output, or a column for each name; groups a list for each.
    """
    bodies = _write_batch("output", write_output, list(outputs), features, groups, metadata)
    parts, body = ("streams", stream, "predictions", "batch"), {"predictions": bodies}
    made = yield from send(Call("POST", parts, read_json(wire.Predictions), json=body))
    return made.predictions


def decide_batch(
    stream: str,
    scores: Iterable[float | Mapping[str, float]],
    *,
    groups: Sequence[Iterable[str]] | None = None,
    metadata: Metadata | None = None,
) -> Steps[list[wire.Verdict]]:
    """Return a verdict for every score or map of candidates, in order, in one transaction."""
    bodies = _write_batch("case", write_case, list(scores), None, groups, metadata)
    parts, body = ("streams", stream, "decisions", "batch"), {"decisions": bodies}
    made = yield from send(Call("POST", parts, read_json(wire.Verdicts), json=body))
    return made.decisions


def _write_batch(
    what: str,
    write: Callable[[Any], Body],
    given: Sequence[object],
    features: Columns | None,
    groups: Sequence[Groups] | None,
    metadata: Metadata | None,
) -> list[Body]:
    rows, members = read_rows(len(given), features, groups)
    more, bodies = write_metadata(metadata), list[Body]()
    for one, row, own in zip(given, rows, members, strict=True):
        with name_place(what, len(bodies)):
            known = write_known(row, own)
            bodies.append({**write(one), **known, **more, "key": make_key()})
    return bodies


def learn(
    prediction: Answerable,
    answer: Answer | None = None,
    *,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
    chance: float | None = None,
    wrong: float = 0.0,
    judged: Answer | bool | None = None,
) -> Steps[wire.Receipt]:
    """Answer a prediction as ``Predictor.learn`` does, or judge a decision with ``right``."""
    return _answer(prediction, "feedback", write_answer(locals()))


def amend(
    prediction: Answerable,
    answer: Answer | None = None,
    *,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
) -> Steps[wire.Receipt]:
    """Correct an answer or a judgement that turned out to be wrong, as ``Predictor.amend`` does."""
    return _answer(prediction, "amendment", write_answer(locals()))


def learn_key(
    stream: str,
    key: str,
    answer: Answer | None = None,
    *,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
    chance: float | None = None,
    wrong: float = 0.0,
    judged: Answer | bool | None = None,
) -> Steps[wire.Receipt]:
    """Answer the prediction that was requested with this key; otherwise as ``learn``."""
    return _put(stream, "answers", key, write_answer(locals()))


def amend_key(
    stream: str,
    key: str,
    answer: Answer | None = None,
    *,
    label: object = MISSING,
    score: float | None = None,
    loss: float | None = None,
    right: bool | None = None,
) -> Steps[wire.Receipt]:
    """Correct the answer to the prediction that was requested with this key, as ``amend`` does."""
    return _put(stream, "amendments", key, write_answer(locals()))


def skip(prediction: Answerable) -> Steps[wire.Receipt]:
    """Close a round that nobody will answer."""
    return _answer(prediction, "feedback", {"skip": True})


def skip_key(stream: str, key: str) -> Steps[wire.Receipt]:
    """Close the round that was requested with this key, which nobody will answer."""
    return _put(stream, "answers", key, {"skip": True})


def learn_batch(
    answers: Sequence[tuple[Answerable, object]],
) -> Steps[list[wire.Receipt | KeyholeError]]:
    """Answer many, each with ``HIT``, ``MISS`` or a label; an error stays in its place.

    Or with what ``learn`` takes by name, ``{"right": True}`` or ``{"score": 0.4, "chance": 0.5}``,
    or with ``{"skip": True}``.
    """
    bodies: list[Body] = []
    for prediction, given in answers:
        with name_place("answer", len(bodies)):
            bodies.append({"id": find_id(prediction), **write_answer_of_batch(given)})

    def read_results(response: "Response") -> list[wire.Receipt | KeyholeError]:
        results, read = response.json()["results"], make_reader(wire.Receipt)
        return [read_error(one) if "error" in one else read(one) for one in results]

    return send(Call("POST", ("feedback",), read_results, json={"answers": bodies}))


def history(stream: str, *, points: int = 300) -> Steps[wire.HistoryView]:
    """Return miss rate and mean size as curves."""
    parts = ("streams", stream, "history")
    return send(Call("GET", parts, read_json(wire.HistoryView), parameters={"points": points}))


def rounds(
    stream: str, *, limit: int = 20, before: int | None = None, metadata: Metadata | None = None
) -> Steps[list[wire.RoundView]]:
    """Return the newest rounds, the newest first; those before a round, or with this metadata."""
    found: list[wire.RoundView] = []
    while len(found) < limit:
        given: dict[str, str | int | None] = {
            "limit": min(limit - len(found), _MOST_ROUNDS),
            "before": before,
            "metadata": None if metadata is None else json.dumps(metadata),
        }
        parts, read = ("streams", stream, "rounds"), read_json(wire.RoundsView)
        page = yield from send(Call("GET", parts, read, parameters=_list_given(given)))
        found += page.rounds
        before = page.next
        if before is None:
            break
    return found


def erase(
    stream: str,
    prediction: Answerable | None = None,
    *,
    metadata: Metadata | None = None,
) -> Steps[int]:
    """Erase the content of a round, or of all rounds with this metadata; return how many were erased.

    Outputs, labels, answers, features, keys and metadata are removed permanently; the statistics stay
    as they are.
    """
    if (prediction is None) == (metadata is None):
        raise InvalidError("say what to erase: give either a prediction or metadata")
    parts: tuple[str, ...] = ("streams", stream, "rounds")
    parameters = {} if metadata is None else {"metadata": json.dumps(metadata)}
    if prediction is not None:
        parts += (find_id(prediction),)
    call = Call("DELETE", parts, read_json(wire.Erased), parameters=parameters)
    return (yield from send(call)).erased


def export(stream: str, *, format: Literal["csv", "jsonl", "parquet"] = "csv") -> Steps[bytes]:
    """Return the whole log as the bytes of a CSV, JSON lines or Parquet file."""
    parts, parameters = ("streams", stream, "export"), {"format": format}
    return send(Call("GET", parts, lambda response: response.content, parameters=parameters))


def _list_given(parameters: Mapping[str, Value | None], *, but: str = "") -> dict[str, Value]:
    """Return the parameters of an operation that are not None, which its body has by the same names."""
    return {name: one for name, one in parameters.items() if one is not None and name != but}


def _request_stream(
    method: str, parts: tuple[str, ...], *, json: Body | None = None, safe: bool = True
) -> Steps[wire.StreamView]:
    """Send what is answered with a stream, as it is then."""
    return send(Call(method, ("streams", *parts), read_json(wire.StreamView), json=json, safe=safe))


def _open(stream: str, what: str, body: Body, key: str | None, kind: type[Opened]) -> Steps[Opened]:
    headers = {"Idempotency-Key": make_key(key)}
    return send(Call("POST", ("streams", stream, what), read_json(kind), json=body, headers=headers))


def _answer(prediction: Answerable, what: str, body: Body) -> Steps[wire.Receipt]:
    parts = ("predictions", find_id(prediction), what)
    return send(Call("POST", parts, read_json(wire.Receipt), json=body))


def _put(stream: str, what: str, key: str, body: Body) -> Steps[wire.Receipt]:
    return send(Call("PUT", ("streams", stream, what, key), read_json(wire.Receipt), json=body))
