"""Rounds and answers, as they are sent."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import to_json
from starlette.responses import Response

from keyhole.errors import KeyholeError
from keyhole.feedback import is_miss
from keyhole.scores import Decision, Interval, LabelSet, Region
from keyhole.service.http import problems, responses, round_responses
from keyhole.service.store.log.history import LogEntry
from keyhole.service.store.streams.answers import Counted
from keyhole.service.store.streams.proposals import Opened
from keyhole.service.times import show_time


def show_prediction(made: Opened) -> round_responses.Prediction:
    """Return a prediction."""
    shown: Any = made.region
    is_set = isinstance(shown, LabelSet)
    return {
        "id": made.id,
        "round": made.number,
        "threshold": shown.threshold,
        "labels": list(shown.labels) if is_set else None,
        "interval": None if is_set or shown.lower > shown.upper else [shown.lower, shown.upper],
        "size": shown.size,
        "expires": show_time(made.expires),
    }


def show_decision(made: Opened) -> round_responses.DecisionView:
    """Return a decision."""
    decision: Any = made.region
    return {
        "id": made.id,
        "round": made.number,
        "accepted": decision.accepted,
        "threshold": decision.threshold,
        "score": decision.score,
        "candidate": decision.candidate,
        "expires": show_time(made.expires),
    }


def show_counted(result: Counted) -> round_responses.CountedView:
    """Return what was counted."""
    return {
        "id": result.id,
        "stream": result.stream,
        "missed": result.missed,
        "repeated": result.repeated,
    }


def show_result(given: Counted | KeyholeError) -> round_responses.CountedView | round_responses.Problem:
    """Return what was counted, or why it was not."""
    return show_counted(given) if isinstance(given, Counted) else problems.show_problem(given)


def send(value: Mapping[str, Any], *, status: int = 200) -> Response:
    """Return the response that holds a value as JSON, which has no word for NaN and the infinities."""
    return Response(to_json(value, inf_nan_mode="null"), status, media_type="application/json")


def show_round(found: LogEntry) -> responses.RoundView:
    """Return one round of the log."""
    return responses.RoundView(
        round=found.number,
        id=found.id,
        at=show_time(found.at),
        threshold=found.threshold,
        size=found.size,
        **_show_region(found.region),
        decision=_name_decision(found.region),
        features=found.known.features,
        groups=list(found.known.groups),
        answer=found.answer,
        answered_at=None if found.answered_at is None else show_time(found.answered_at),
        missed=is_miss(found.miss),
        weight=found.weight,
        score=found.score,
        key=found.key,
        metadata=found.metadata,
    )


def _show_region(shown: Region | Decision) -> dict[str, Any]:
    """Return a set as labels, or an interval as two ends; an empty interval is None."""
    if isinstance(shown, Decision):
        named = None if shown.candidate is None else [shown.candidate]
        return {"labels": named, "interval": None}
    if not isinstance(shown, Interval):
        return {"labels": list(shown.labels), "interval": None}
    empty = shown.lower > shown.upper
    return {"labels": None, "interval": None if empty else [shown.lower, shown.upper]}


def _name_decision(shown: Region | Decision) -> Literal["accepted", "referred"] | None:
    if not isinstance(shown, Decision):
        return None
    return "accepted" if shown.accepted else "referred"
