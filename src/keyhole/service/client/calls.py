"""The requests that clients send, each described once: what is asked, and how the response reads.

Every call that is marked ``safe`` may be sent again when no answer came: it only reads, or a prediction
carries a key, or an answer counts once however often it arrives.
"""

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keyhole.errors import FeedbackError, InvalidError, KeyholeError, UnknownRoundError
from keyhole.predictor.context import read_rows
from keyhole.service.client.exchange import Call, write_body
from keyhole.service.client.wire import (
    Proposal,
    Receipt,
    Verdict,
    name_place,
    plain_label,
    read_proposal,
    read_result,
    write_case,
    write_known,
    write_one,
    write_output,
)

_AT_ONCE, _MOST_ROUNDS = 1000, 500  # rounds of history in a request, of the log in a response
_KEY = re.compile(r"(?! )[ -~]{1,200}(?<! )")


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


def calibrate(name: str, past: Sequence[Any], *, after: int) -> Call[dict[str, Any]]:
    """Return the call that teaches a stream some history; what is sent again counts once."""
    rounds: list[dict[str, Any]] = []
    for output, label, row, own in past:
        with name_place("round", after + len(rounds)):
            known = {**write_output(output), **write_known(row, own)}
            rounds.append({**known, "label": plain_label(label)})
    body = {"rounds": rounds, "after": after}
    return Call(method="POST", parts=("streams", name, "calibration"), json=body, read=_json)


def cut_history(
    outputs: Sequence[Any],
    labels: Sequence[Any],
    *,
    features: Any,
    groups: Sequence[Iterable[Any]] | None,
) -> list[list[Any]]:
    """Return history as what is sent at once, round by round, or raise if a part of one is missing."""
    if len(outputs) != len(labels):
        raise FeedbackError(f"{len(labels)} labels came for {len(outputs)} outputs; give one for each")
    rows, members = read_rows(len(outputs), features, groups)
    past = list(zip(outputs, labels, rows, members, strict=True))
    return [past[start : start + _AT_ONCE] for start in range(0, len(past), _AT_ONCE)]


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
        json={**write_output(output), **write_known(features, groups), **_about(metadata)},
        headers={"Idempotency-Key": _make_key(key)},
        read=lambda sent: read_proposal(sent.json()),
    )


def predict_batch(
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
    about = _about(metadata)
    asked: list[dict[str, Any]] = []
    for output, row, own in zip(given, rows, members, strict=True):
        with name_place("output", len(asked)):
            known = {**write_output(output), **write_known(row, own), **about}
            asked.append({**known, "key": uuid.uuid4().hex})
    return Call(
        method="POST",
        parts=("streams", stream, "predictions", "batch"),
        json={"predictions": asked},
        read=lambda sent: [read_proposal(one) for one in sent.json()["predictions"]],
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
        json={**write_case(score), **write_known(None, groups), **_about(metadata)},
        headers={"Idempotency-Key": _make_key(key)},
        read=lambda sent: Verdict(**sent.json()),
    )


def decide_batch(
    stream: str,
    scores: Iterable[Any],
    *,
    groups: Sequence[Iterable[str]] | None,
    metadata: Mapping[str, Any] | None,
) -> Call[list[Verdict]]:
    """Return the call that asks a gate many times."""
    given = list(scores)
    _, members = read_rows(len(given), None, groups)
    about = _about(metadata)
    asked: list[dict[str, Any]] = []
    for score, own in zip(given, members, strict=True):
        with name_place("case", len(asked)):
            known = {**write_case(score), **write_known(None, own), **about}
            asked.append({**known, "key": uuid.uuid4().hex})
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
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise InvalidError(
            f"key {key!r:.80} cannot be sent; use 1 to 200 printable ASCII characters, with no space "
            "at either end"
        )
    return key


def learn(prediction: Proposal | Verdict | str, told: dict[str, Any]) -> Call[Receipt]:
    """Return the call that answers a prediction, or judges a decision."""
    return Call(
        method="POST",
        parts=("predictions", _id(prediction), "feedback"),
        json=told,
        read=lambda sent: Receipt(**sent.json()),
    )


def learn_key(stream: str, key: str, told: dict[str, Any]) -> Call[Receipt]:
    """Return the call that answers the prediction of a key."""
    return replace(learn("", told), method="PUT", parts=("streams", stream, "answers", key))


def _about(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    about = {"metadata": dict(metadata)}
    write_body(about)  # Later it may be a part of others, and only they would be named.
    return about


def learn_batch(
    answers: Sequence[tuple[Proposal | Verdict | str, Any]],
) -> Call[list[Receipt | KeyholeError]]:
    """Return the call that answers many."""
    asked: list[dict[str, Any]] = []
    for prediction, given in answers:
        with name_place("answer", len(asked)):
            asked.append({"id": _id(prediction), **write_one(given)})
    return Call(
        method="POST",
        parts=("feedback",),
        json={"feedback": asked},
        read=lambda sent: [read_result(one) for one in sent.json()["results"]],
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


def _json(response: Any) -> Any:
    return response.json()


def _id(prediction: Proposal | Verdict | str) -> str:
    found = prediction if isinstance(prediction, str) else getattr(prediction, "id", None)
    if not isinstance(found, str):
        raise UnknownRoundError(
            f"{prediction!r:.80} is no prediction of the service; give what predict returned, or its id"
        )
    return found
