"""What is sent to the service and what comes back, as JSON has it and as callers hold it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from keyhole.errors import FeedbackError, GroupError, KeyholeError
from keyhole.feedback import Answer
from keyhole.service.http import problems

MISSING: Any = object()
_PAIR = 2  # a lower and an upper quantile


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


def write_output(output: Any) -> dict[str, Any]:
    """Return a model's output as JSON values."""
    if isinstance(output, Mapping):
        scores = [float(score) for score in output.values()]
        labels = [plain_label(label) for label in output]
        if all(isinstance(label, str) for label in labels):
            return {"scores": dict(zip(labels, scores, strict=True))}
        return {"scores": scores, "labels": labels}  # The keys of JSON are text, whatever they were.
    if isinstance(output, tuple) and len(output) == _PAIR:
        return {"lower": float(output[0]), "upper": float(output[1])}
    if hasattr(output, "__len__"):
        return {"scores": [float(score) for score in output]}
    return {"centre": float(output)}


def write_known(features: Any, groups: Iterable[Any]) -> dict[str, Any]:
    """Return what is known of a case as JSON values: there a missing feature is null."""
    known: dict[str, Any] = {}
    if isinstance(features, Mapping):
        known["features"] = {name: _number(value) for name, value in features.items()}
    elif features is not None:
        known["features"] = [_number(value) for value in features]
    if isinstance(groups, str):
        raise GroupError(f"groups {groups!r} are not a list; give [{groups!r}]")
    if members := [plain_label(group) for group in groups]:
        known["groups"] = members
    return known


def _number(value: Any) -> float | None:
    """Return a feature as JSON has it; what is no number is left for the service to refuse."""
    if value is None or isinstance(value, str):
        return value  # type: ignore[return-value]
    return None if math.isnan(value) else float(value)


def plain_label(label: Any) -> Any:
    """Return a label as Python has it, whatever library it came from."""
    return label.item() if hasattr(label, "item") else label


def write_feedback(
    answer: Answer | None, *, label: Any, score: float | None = None, loss: float | None = None
) -> dict[str, Any]:
    """Return an answer as JSON values, or raise unless it is one."""
    if (answer is not None) + (label is not MISSING) + (score is not None) + (loss is not None) != 1:
        raise FeedbackError(
            "a round takes one answer: keyhole.MISS, keyhole.HIT, label=..., score=... or loss=..."
        )
    if label is not MISSING:
        return {"label": plain_label(label)}
    graded = {"score": score, "loss": loss}
    for name, value in graded.items():
        if value is not None:
            return {name: float(value)}
    if isinstance(answer, Answer) and answer.miss == 0.0:
        return {"hit": True}
    if isinstance(answer, Answer) and answer.miss == 1.0:
        return {"miss": True}
    raise FeedbackError(f"{answer!r} cannot be sent; use keyhole.MISS, keyhole.HIT or label=...")


def read_result(sent: dict[str, Any]) -> Receipt | KeyholeError:
    """Return what an answer of a batch came to."""
    return problems.read_error(sent) if "error" in sent else Receipt(**sent)


def read_proposal(sent: dict[str, Any]) -> Proposal:
    """Return a prediction."""
    labels, interval = sent["labels"], sent["interval"]
    return Proposal(
        **{
            **sent,
            "labels": None if labels is None else tuple(labels),
            "interval": None if interval is None else (interval[0], interval[1]),
        }
    )
