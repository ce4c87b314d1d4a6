"""What the store holds, as JSON values: numbers that JSON has no word for become null."""

import json
import math
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from keyhole.scores import Interval, Region
from keyhole.service import problems
from keyhole.service.watch import verdict
from keyhole.store.answers import Counted
from keyhole.store.history import Curve, Entry
from keyhole.store.proposals import Opened
from keyhole.store.standing import Standing

_BAND = 2.576  # Standard errors to each side hold 99 of 100.


def sent(value: Any, *, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(json.dumps(value, allow_nan=False), status, media_type="application/json")


def number(value: float | None) -> float | None:
    """Return the number, or None where it is none or infinite."""
    return None if value is None or not math.isfinite(value) else value


def moment(seconds: float | None) -> str | None:
    """Return a time in ISO form, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")


def region(shown: Region) -> dict[str, Any]:
    """Return a set as labels, or an interval as two ends; an empty interval is null."""
    if not isinstance(shown, Interval):
        return {"labels": list(shown.labels), "interval": None}
    empty = shown.lower > shown.upper
    return {"labels": None, "interval": None if empty else [number(shown.lower), number(shown.upper)]}


def prediction(made: Opened) -> dict[str, Any]:
    """Return a prediction."""
    return {
        "id": made.id,
        "round": made.number,
        "threshold": number(made.region.threshold),
        **region(made.region),
        "size": number(made.region.size),
        "expires": moment(made.expires),
    }


def counted(result: Counted) -> dict[str, Any]:
    """Return what was counted."""
    return asdict(result)


def result(given: Any) -> dict[str, Any]:
    """Return what was counted, or why it was not."""
    return counted(given) if isinstance(given, Counted) else problems.body(given)


def stream(here: Standing, *, notes: list[str] | None = None) -> dict[str, Any]:
    """Return what a stream is and where it stands."""
    plan, tally = here.blueprint, here.tally
    rule, settings = plan.learner.rule, json.loads(plan.dump())
    settings["parameters"].pop("thresholds", None)
    thresholds, chances = plan.learner.distribution(here.state)
    return {
        "name": here.name,
        "learner": plan.learner.name,
        "parameters": settings["parameters"],
        "needs": rule.needs.value,
        "guarantee": rule.guarantee,
        "source": rule.source,
        "alpha": plan.learner.alpha,
        "regime": plan.regime.value,
        "kind": "labels" if settings["score"]["kind"] == "probabilities" else "interval",
        "labels": None if plan.labels is None else list(plan.labels),
        "score": {key: value for key, value in settings["score"].items() if key != "labels"},
        "open_limit": plan.open_limit,
        "lifetime": plan.lifetime,
        "created": moment(here.created),
        "archived": moment(here.archived),
        "predicted": tally.predicted,
        "rounds": tally.answered,
        "misses": tally.misses,
        "open": here.open,
        "expired": tally.expired,
        "broken_bounds": tally.bound_broken,
        "miss_rate": number(tally.miss_rate),
        "mean_size": number(tally.mean_size),
        "recent": recent(here),
        "distribution": {
            "thresholds": [number(threshold) for threshold in thresholds.tolist()],
            "probabilities": chances.tolist(),
        },
        "notes": [*(notes or []), *_notes(here)],
    }


def recent(here: Standing) -> dict[str, Any]:
    """Return the last window and what it says of the promise."""
    found = verdict(here)
    rounds, misses = here.recent_rounds, here.recent_misses
    return {
        "window": here.blueprint.window,
        "rounds": rounds,
        "misses": misses,
        "miss_rate": misses / rounds if rounds else None,
        "alert": found.alert.value,
        "p_value": found.p_value,
    }


def _notes(here: Standing) -> list[str]:
    horizon = here.blueprint.learner.horizon
    if horizon is not None and here.tally.answered > horizon:
        return [f"past its horizon of {horizon} rounds, for which it was tuned"]
    return []


def history(here: Standing, curve: Curve) -> dict[str, Any]:
    """Return the curves."""
    alpha = here.blueprint.learner.alpha
    spread = [_BAND * math.sqrt(alpha * (1 - alpha) / n) for n in curve.answered]
    return {
        "alpha": alpha,
        "rounds": curve.answered,
        "miss_rate": [m / n for m, n in zip(curve.misses, curve.answered, strict=True)],
        "mean_size": [number(s / n) for s, n in zip(curve.sizes, curve.answered, strict=True)],
        "band": [[max(0.0, alpha - half), min(1.0, alpha + half)] for half in spread],
    }


def entry(found: Entry) -> dict[str, Any]:
    """Return one round of the log."""
    return {
        "round": found.number,
        "id": found.id,
        "at": moment(found.at),
        "threshold": number(found.threshold),
        "size": number(found.size),
        **region(found.region),
        "answer": found.answer,
        "answered_at": moment(found.answered_at),
        "missed": found.missed,
        "score": found.score,
    }
