"""What a table of forecasts knows of a row by itself: parts of its time, and its forecasts."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from keyhole.integrations._cases import is_missing

TABLE = "table"  # what says: all that the table knows
Forecasts = Mapping[str, Sequence[Any]]  # a column each, by the name of its model


def find_known(times: Sequence[Any], cutoffs: Sequence[Any], forecasts: Forecasts) -> tuple[str, ...]:
    """Return which features a table knows; none where its times are numbers, which say too little.

    The hour and the weekday count where they vary, the weekday also in a table of one day; the month
    in a table of more than a year whose times are days, as it is too slow a feature for hours.
    """
    if not times or not all(hasattr(time, "weekday") for time in times):
        return ()
    steps = set(map(_find_step, times, cutoffs))
    times = list(set(times))
    months = [12 * time.year + time.month for time in times]
    days = {(time.year, time.month, time.day) for time in times}
    has_hours = any(_READERS["hour"](time) for time in times)
    found = {
        "hour": has_hours,
        "weekday": len(days) == 1 or len({time.weekday() for time in times}) > 1,
        "month": not has_hours and max(months) - min(months) >= 12,
        "horizon": len(steps) > 1,
        "forecast": True,
        "spread": len(forecasts) > 1,
    }
    return tuple(name for name, is_known in found.items() if is_known)


def read_known(
    names: Sequence[str],
    model: str,
    times: Sequence[Any],
    cutoffs: Sequence[Any],
    forecasts: Forecasts,
) -> dict[str, Sequence[Any]]:
    """Return the features of these names that the table knows by itself, a column each."""
    known: dict[str, Sequence[Any]] = {}
    for name in names:
        if name in _READERS:
            parts = {time: _READERS[name](time) for time in set(times)}
            known[name] = [parts[time] for time in times]
    if "horizon" in names:
        known["horizon"] = list(map(_find_step, times, cutoffs))
    if "forecast" in names and model in forecasts:
        known["forecast"] = forecasts[model]
    if "spread" in names and len(forecasts) > 1:
        rows = zip(*forecasts.values(), strict=True)
        known["spread"] = [max(row) - min(row) for row in rows]
    return known


_READERS: dict[str, Callable[[Any], float]] = {
    "hour": lambda time: getattr(time, "hour", 0) + getattr(time, "minute", 0) / 60,
    "weekday": lambda time: float(time.weekday()),
    "month": lambda time: float(time.month),
}
KNOWN = (*_READERS, "horizon", "forecast", "spread")


def _find_step(time: Any, cutoff: Any) -> float | None:
    """Return how long before its time a row was forecast; None where nobody says when."""
    if is_missing(cutoff):
        return None
    step = time - cutoff
    return step.total_seconds() if isinstance(step, timedelta) else float(step)
