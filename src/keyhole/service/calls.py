"""The requests that clients send, each described once: what is asked, and how the response reads.

Every call that is marked ``safe`` may be sent again when no answer came: it only reads, or a prediction
carries a key, or an answer counts once however often it arrives.
"""

import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from keyhole.errors import FeedbackError, GroupError, InvalidError, KeyholeError
from keyhole.feedback import Answer
from keyhole.predictor.context import read_rows
from keyhole.service.http import problems

MISSING: Any = object()
_RETRIED = (429, 502, 503, 504)
_FIRST_PAUSE = 0.1
_AT_ONCE = 1000  # rounds of history in a request
_MOST_ROUNDS = 500  # of the log in a response
_KEY = re.compile(r"(?! )[ -~]{1,200}(?<! )")
_PAIR = 2  # a lower and an upper quantile

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set of labels or an interval that the service proposed; it waits for an answer."""

    id: str
    round: int
    threshold: float | None
    labels: tuple[Any, ...] | None
    interval: tuple[float | None, float | None] | None
    size: float | None
    expires: str

    def __contains__(self, label: object) -> bool:
        if self.labels is not None:
            return label in self.labels
        if self.interval is None:
            return False
        lower, upper = self.interval
        return (lower is None or lower <= label) and (upper is None or label <= upper)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a gate of the service accepted an answer; it waits for a judgement."""

    id: str
    round: int
    accepted: bool
    threshold: float
    score: float
    candidate: Any
    expires: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """An answer that is durable; ``repeated`` if the service had it already.

    ``missed`` is None where the round was skipped.
    """

    id: str
    stream: str
    missed: bool | None
    repeated: bool


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Result]):
    """A request, and what turns its response into what the caller wants."""

    method: str
    parts: tuple[str, ...]
    read: Callable[[Any], Result]
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    safe: bool = True

    @property
    def path(self) -> str:
        """The path; no part of it, whatever it holds, can reach another."""
        return "/v1/" + "/".join(_quote(part) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often, and after which pauses, a call is sent again."""

    most: int
    longest_pause: float

    def allow(self, call: Call[Any], turn: int, *, status: int | None) -> bool:
        """Return whether a call may be sent once more; a status of None means that none came."""
        if turn >= self.most:
            return False
        # Refused for now, it was not done; without an answer nobody knows.
        return call.safe if status is None else status in _RETRIED

    def pause(self, turn: int, *, asked: str | None = None) -> float:
        """Return the seconds to wait before the next try: more each time, and what was asked for."""
        wanted = float(asked) if asked is not None and asked.isdecimal() else 0.0
        return min(self.longest_pause, max(wanted, _FIRST_PAUSE * 2.0**turn))


def create_stream(name: str, *, alpha: float, settings: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """Return the call that makes a stream: sent twice it would fail the second time."""
    body = {"name": name, "alpha": alpha, **settings}
    return Call(method="POST", parts=("streams",), json=body, read=_json, safe=False)


def list_streams(after: str | None) -> Call[dict[str, Any]]:
    """Return the call that lists streams, after one of them."""
    parameters = {} if after is None else {"after": after}
    return Call(method="GET", parts=("streams",), parameters=parameters, read=_json)


def get_stream(name: str) -> Call[dict[str, Any]]:
    """Return the call that says where a stream stands."""
    return Call(method="GET", parts=("streams", name), read=_json)


def amend_stream(name: str, *, changes: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """Return the call that changes a stream: twice is as good as once."""
    return Call(method="PATCH", parts=("streams", name), json=dict(changes), read=_json)


def delete_stream(name: str) -> Call[None]:
    """Return the call that removes an archived stream for good."""
    return Call(method="DELETE", parts=("streams", name), read=lambda _: None, safe=False)


def rehearse(
    name: str, outputs: Sequence[Any], labels: Sequence[Any], *, after: int
) -> Call[dict[str, Any]]:
    """Return the call that teaches a stream some history; what is sent again counts once."""
    rounds = [
        {**_output(output), "label": _plain(label)}
        for output, label in zip(outputs, labels, strict=True)
    ]
    body = {"rounds": rounds, "after": after}
    return Call(method="POST", parts=("streams", name, "rehearsal"), json=body, read=_json)


def slice_history(outputs: Sequence[Any], labels: Sequence[Any]) -> Iterable[tuple[int, int]]:
    """Return from where to where history is sent at once, or raise if labels are missing."""
    if len(outputs) != len(labels):
        raise FeedbackError(f"{len(labels)} labels came for {len(outputs)} outputs; give one for each")
    return [(start, start + _AT_ONCE) for start in range(0, len(outputs), _AT_ONCE)]


def archive_stream(name: str) -> Call[dict[str, Any]]:
    """Return the call that closes a stream."""
    return Call(method="POST", parts=("streams", name, "archive"), read=_json)


def predict(
    stream: str,
    output: Any,
    *,
    features: Any,
    groups: Iterable[Any],
    key: str | None,
    metadata: Mapping[str, Any] | None,
) -> Call[Proposal]:
    """Return the call that asks for a set or an interval."""
    return Call(
        method="POST",
        parts=("streams", stream, "predictions"),
        json={**_output(output), **_known(features, groups), **_about(metadata)},
        headers={"Idempotency-Key": _make_key(key)},
        read=lambda sent: _proposal(sent.json()),
    )


def predict_many(
    stream: str,
    outputs: Iterable[Any],
    *,
    features: Any,
    groups: Sequence[Iterable[Any]] | None,
    metadata: Mapping[str, Any] | None,
) -> Call[list[Proposal]]:
    """Return the call that asks for many."""
    given = list(outputs)
    rows, members = read_rows(len(given), features, groups)
    asked = [
        {**_output(output), **_known(row, own), **_about(metadata), "key": uuid.uuid4().hex}
        for output, row, own in zip(given, rows, members, strict=True)
    ]
    return Call(
        method="POST",
        parts=("streams", stream, "predictions", "batch"),
        json={"predictions": asked},
        read=lambda sent: [_proposal(one) for one in sent.json()["predictions"]],
    )


def decide(
    stream: str,
    score: Any,
    *,
    groups: Iterable[str],
    key: str | None,
    metadata: Mapping[str, Any] | None,
) -> Call[Verdict]:
    """Return the call that asks a gate."""
    return Call(
        method="POST",
        parts=("streams", stream, "decisions"),
        json={**_case(score), **_known(None, groups), **_about(metadata)},
        headers={"Idempotency-Key": _make_key(key)},
        read=lambda sent: Verdict(**sent.json()),
    )


def decide_many(
    stream: str, scores: Iterable[Any], *, groups: Sequence[Iterable[str]] | None
) -> Call[list[Verdict]]:
    """Return the call that asks a gate many times."""
    given = list(scores)
    _, members = read_rows(len(given), None, groups)
    asked = [
        {**_case(score), **_known(None, own), "key": uuid.uuid4().hex}
        for score, own in zip(given, members, strict=True)
    ]
    return Call(
        method="POST",
        parts=("streams", stream, "decisions", "batch"),
        json={"decisions": asked},
        read=lambda sent: [Verdict(**one) for one in sent.json()["decisions"]],
    )


def _make_key(key: str | None) -> str:
    """Return a key that a header can carry: the caller's, or a new one."""
    if key is None:
        return uuid.uuid4().hex
    if _KEY.fullmatch(key) is None:
        raise InvalidError(
            f"key {key[:80]!r} cannot be sent; use 1 to 200 printable ASCII characters, with no space "
            "at either end"
        )
    return key


def _case(score: Any) -> dict[str, Any]:
    if isinstance(score, Mapping):
        return {"candidates": {name: float(value) for name, value in score.items()}}
    return {"score": float(score)}


def learn(
    prediction: Proposal | Verdict | str,
    answer: Answer | None,
    *,
    label: Any,
    score: float | None,
    loss: float | None,
    right: bool | None,
    chance: float | None,
    wrong: float,
) -> Call[Receipt]:
    """Return the call that answers a prediction, or judges a decision."""
    more = {} if chance is None else {"chance": float(chance)}
    more |= {} if wrong == 0.0 else {"wrong": float(wrong)}
    if right is not None:
        if label is not MISSING or any(one is not None for one in (answer, score, loss)):
            raise FeedbackError(
                "a decision takes one judgement, right=True or right=False; give it alone"
            )
        return _answer(prediction, {"right": bool(right), **more})
    return _answer(prediction, {**_feedback(answer, label=label, score=score, loss=loss), **more})


def learn_key(stream: str, key: str, call: Call[Receipt]) -> Call[Receipt]:
    """Return the call that answers the prediction of a key, as another one does by its id."""
    return replace(call, method="PUT", parts=("streams", stream, "answers", key))


def _about(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if metadata is None else {"metadata": dict(metadata)}


def skip(prediction: Proposal | Verdict | str) -> Call[Receipt]:
    """Return the call that closes a round which nobody will answer."""
    return _answer(prediction, {"skip": True})


def _answer(prediction: Proposal | Verdict | str, body: dict[str, Any]) -> Call[Receipt]:
    return Call(
        method="POST",
        parts=("predictions", _id(prediction), "feedback"),
        json=body,
        read=lambda sent: Receipt(**sent.json()),
    )


def learn_many(
    answers: Sequence[tuple[Proposal | str, Any]],
) -> Call[list[Receipt | KeyholeError]]:
    """Return the call that answers many."""
    asked = []
    for prediction, given in answers:
        told = isinstance(given, Answer)
        answer = _feedback(given, label=MISSING) if told else _feedback(None, label=given)
        asked.append({"id": _id(prediction), **answer})
    return Call(
        method="POST",
        parts=("feedback",),
        json={"feedback": asked},
        read=lambda sent: [_result(one) for one in sent.json()["results"]],
    )


def get_history(stream: str, *, points: int) -> Call[dict[str, Any]]:
    """Return the call that gives the curves."""
    parts = ("streams", stream, "history")
    return Call(method="GET", parts=parts, parameters={"points": points}, read=_json)


def get_rounds(
    stream: str, *, limit: int, before: int | None, metadata: Mapping[str, Any] | None
) -> Call[dict[str, Any]]:
    """Return the call that gives the newest rounds before one of them."""
    parameters: dict[str, Any] = {"limit": min(limit, _MOST_ROUNDS)}
    parameters |= {} if before is None else {"before": before}
    parameters |= {} if metadata is None else {"metadata": json.dumps(metadata)}
    parts = ("streams", stream, "rounds")
    return Call(method="GET", parts=parts, parameters=parameters, read=_json)


def get_export(stream: str, *, kind: str) -> Call[bytes]:
    """Return the call that gives the log as a file."""
    return Call(
        method="GET",
        parts=("streams", stream, "export"),
        parameters={"format": kind},
        read=lambda sent: sent.content,
    )


def read_refusal(response: Any) -> KeyholeError:
    """Return what a response that is no success says, as the library would raise it."""
    try:
        return problems.read_error(response.json())
    except ValueError:
        return problems.read_error(response.text)


def _json(response: Any) -> Any:
    return response.json()


def _quote(part: str) -> str:
    quoted = quote(part, safe="")
    # A path of dots alone would be taken for a folder above, here or at a proxy.
    return quoted.replace(".", "%2E") if set(part) <= {"."} else quoted


def _id(prediction: Proposal | Verdict | str) -> str:
    return prediction if isinstance(prediction, str) else prediction.id


def _output(output: Any) -> dict[str, Any]:
    if isinstance(output, Mapping):
        scores = [float(score) for score in output.values()]
        labels = [_plain(label) for label in output]
        if all(isinstance(label, str) for label in labels):
            return {"scores": dict(zip(labels, scores, strict=True))}
        return {"scores": scores, "labels": labels}  # The keys of JSON are text, whatever they were.
    if isinstance(output, tuple) and len(output) == _PAIR:
        return {"lower": float(output[0]), "upper": float(output[1])}
    if hasattr(output, "__len__"):
        return {"scores": [float(score) for score in output]}
    return {"centre": float(output)}


def _known(features: Any, groups: Iterable[Any]) -> dict[str, Any]:
    """Return what is known of a case as JSON values: there a missing feature is null."""
    known: dict[str, Any] = {}
    if isinstance(features, Mapping):
        known["features"] = {name: _number(value) for name, value in features.items()}
    elif features is not None:
        known["features"] = [_number(value) for value in features]
    if isinstance(groups, str):
        raise GroupError(f"groups {groups!r} are not a list; give [{groups!r}]")
    if members := [_plain(group) for group in groups]:
        known["groups"] = members
    return known


def _number(value: Any) -> float | None:
    """Return a feature as JSON has it; what is no number is left for the service to refuse."""
    if value is None or isinstance(value, str):
        return value  # type: ignore[return-value]
    return None if math.isnan(value) else float(value)


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label


def _feedback(
    answer: Answer | None, *, label: Any, score: float | None = None, loss: float | None = None
) -> dict[str, Any]:
    if (answer is not None) + (label is not MISSING) + (score is not None) + (loss is not None) != 1:
        raise FeedbackError(
            "a round takes one answer: keyhole.MISS, keyhole.HIT, label=..., score=... or loss=..."
        )
    if label is not MISSING:
        return {"label": _plain(label)}
    graded = {"score": score, "loss": loss}
    for name, value in graded.items():
        if value is not None:
            return {name: float(value)}
    if isinstance(answer, Answer) and answer.miss == 0.0:
        return {"hit": True}
    if isinstance(answer, Answer) and answer.miss == 1.0:
        return {"miss": True}
    raise FeedbackError(f"{answer!r} cannot be sent; use keyhole.MISS, keyhole.HIT or label=...")


def _result(sent: dict[str, Any]) -> Receipt | KeyholeError:
    return problems.read_error(sent) if "error" in sent else Receipt(**sent)


def _proposal(sent: dict[str, Any]) -> Proposal:
    labels, interval = sent["labels"], sent["interval"]
    return Proposal(
        **{
            **sent,
            "labels": None if labels is None else tuple(labels),
            "interval": None if interval is None else (interval[0], interval[1]),
        }
    )
