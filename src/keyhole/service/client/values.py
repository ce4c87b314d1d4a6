"""What callers give, as the JSON that is sent: checked here where an error can name what they gave."""

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keyhole.errors import FeedbackError, InvalidError, LabelError, ScoreError, UnknownRoundError
from keyhole.feedback import Answer
from keyhole.predictor.context import Features
from keyhole.service.client.exchange import write_body
from keyhole.service.wire.responses import Label, Prediction, Verdict

Body = dict[str, object]
Metadata = Mapping[str, object]
MISSING = object()
SKIP = {"skip": True}
_KEY = re.compile(r"(?! )[ -~]{1,200}(?<! )")
_PARTS = ("answer", "label", "score", "loss", "right", "chance", "wrong", "judged")
_PAIR = 2  # a lower and an upper quantile


def make_key(key: str | None = None) -> str:
    """Return a key that a header can carry: the caller's, or a new one."""
    if key is None:
        return uuid.uuid4().hex
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise InvalidError(
            f"key {key!r:.80} cannot be sent; use 1 to 200 printable ASCII characters, with no space "
            "at either end"
        )
    return key


def write_metadata(metadata: Metadata | None) -> Body:
    if metadata is None:
        return {}
    body: Body = {"metadata": dict(metadata)}
    write_body(body)  # Within a batch an error would name the whole batch.
    return body


def find_id(prediction: Prediction | Verdict | str) -> str:
    found = prediction if isinstance(prediction, str) else getattr(prediction, "id", None)
    if not isinstance(found, str):
        raise UnknownRoundError(
            f"{prediction!r:.80} is no prediction of the service; give what predict returned, or its id"
        )
    return found


def write_output(output: Any) -> Body:
    if isinstance(output, Mapping):
        scores = [_write_number(score, f"score of {label!r}") for label, score in output.items()]
        labels = [plain_label(label) for label in output]
        if all(isinstance(label, str) for label in labels):
            return {"scores": dict(zip(labels, scores, strict=True))}
        return {"scores": scores, "labels": labels}  # The keys of JSON are text, whatever they were.
    if isinstance(output, tuple) and len(output) == _PAIR:
        lower, upper = output
        return {"lower": _write_number(lower, "lower"), "upper": _write_number(upper, "upper")}
    if hasattr(output, "__len__"):
        scores = [_write_number(score, f"score at place {n}") for n, score in enumerate(output)]
        return {"scores": scores}
    return {"centre": _write_number(output, "centre")}


def _write_number(value: Any, what: str, error: type[InvalidError] = ScoreError) -> float:
    """Return a number as JSON has it, or raise: there is none for NaN and the infinities."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what} is {value!r:.80}, which is no number; give a finite one") from None
    if not math.isfinite(number):
        raise error(f"{what} is {number}, which cannot be sent; give a finite number")
    return number


def write_right(right: object) -> bool:
    if right not in (True, False):
        raise FeedbackError(
            f"right={right!r:.80} is neither True nor False; say True if the answer was right, and "
            "False if it was wrong"
        )
    return bool(right)


def write_case(score: object) -> Body:
    """Return what is decided on as JSON values: a score, or candidates with a score each."""
    if isinstance(score, Mapping):
        named = {name: _write_number(value, f"score of {name!r}") for name, value in score.items()}
        return {"candidates": named}
    return {"score": _write_number(score, "score")}


@contextmanager
def name_place(what: str, place: int) -> Iterator[None]:
    """Let an error within say which one of many it is about."""
    try:
        yield
    except InvalidError as error:
        raise type(error)(f"{what} {place}: {error}") from None


def write_known(features: Features | None, groups: Iterable[object]) -> Body:
    """Return what is known of a case as JSON values: there a missing feature is null."""
    known: Body = {}
    if isinstance(features, Mapping):
        known["features"] = {name: _write_feature(name, value) for name, value in features.items()}
    elif features is not None:
        known["features"] = [_write_feature(n, value) for n, value in enumerate(features)]
    if isinstance(groups, str):
        raise InvalidError(f"groups {groups!r} are not a list; give [{groups!r}]")
    if members := [plain_label(group, "group", InvalidError) for group in groups]:
        known["groups"] = members
    return known


def _write_feature(name: object, value: object) -> object:
    """Return a feature as JSON has it; text is left for the service to refuse."""
    if value is None or isinstance(value, str) or value != value:  # NaN: it is missing
        return value if isinstance(value, str) else None
    return _write_number(value, f"feature {name!r}", InvalidError)


def plain_label(label: object, what: str = "label", error: type[InvalidError] = LabelError) -> Label:
    """Return a label as Python has it, whatever library it came from, or raise if none can be sent."""
    value = label.item() if hasattr(label, "item") else label
    if not isinstance(value, (str, int, float)):
        raise error(f"{what} {value!r:.80} cannot be sent; use text or a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise error(f"{what} {value} cannot be sent; use a finite number, or text")
    return value


def write_answer(given: Mapping[str, Any]) -> Body:
    """Return an answer as JSON values: what ``learn`` takes, by name; other names are left out."""
    answer, score, loss, right, judged = map(given.get, ("answer", "score", "loss", "right", "judged"))
    label = given.get("label", MISSING)
    more = _write_beside(given.get("chance"), given.get("wrong", 0.0), judged)
    count = (answer is not None) + (label is not MISSING) + (score is not None) + (loss is not None)
    if right is not None:
        if count:
            raise FeedbackError(
                "a decision takes one judgement, right=True or right=False; give it alone"
            )
        return {"right": write_right(right), **more}
    if count == 0 and judged is not None:
        return more
    if count != 1:
        raise FeedbackError(
            "a round takes one answer: keyhole.MISS, keyhole.HIT, label=..., score=... or loss=...; a "
            "decision right=True or right=False"
        )
    if label is not MISSING:
        return {"label": plain_label(label), **more}
    if score is not None:
        return {"score": _write_number(score, "score"), **more}
    if loss is not None:
        return {"loss": _write_number(loss, "loss", FeedbackError), **more}
    return {_name_answer(answer): True, **more}


def _write_beside(chance: float | None, wrong: float, judged: Answer | bool | None) -> Body:  # noqa: FBT001
    more: Body = {} if chance is None else {"chance": _write_number(chance, "chance", FeedbackError)}
    if wrong != 0.0:
        more["wrong"] = _write_number(wrong, "wrong", FeedbackError)
    if judged is not None:
        if not isinstance(judged, (bool, Answer)):
            raise FeedbackError(
                f"judged={judged!r:.80} cannot be sent; use keyhole.HIT or keyhole.MISS, or of a "
                "decision True or False"
            )
        more["judged"] = judged if isinstance(judged, bool) else _name_answer(judged)
    return more


def _name_answer(answer: object) -> str:
    if isinstance(answer, Answer) and answer.miss in (0.0, 1.0):
        return "miss" if answer.miss else "hit"
    raise FeedbackError(f"{answer!r} cannot be sent; use keyhole.MISS, keyhole.HIT or label=...")


def write_answer_of_batch(given: object) -> Body:
    """Return an answer of a batch as JSON values: itself, a label, or what ``learn`` takes by name."""
    if isinstance(given, Answer):
        return write_answer({"answer": given})
    if not isinstance(given, Mapping):
        return write_answer({"label": given})
    if given == SKIP:
        return dict(given)
    for name in given:
        if name not in _PARTS:
            raise FeedbackError(
                f"{name!r:.80} is no part of an answer; give {', '.join(_PARTS)}, or {SKIP} alone"
            )
    return write_answer(given)
