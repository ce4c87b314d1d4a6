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
    months = [12 * time.year + time.month for time in times]
    days = {(time.year, time.month, time.day) for time in times}
    steps = {_find_step(*one) for one in zip(times, cutoffs, strict=True)}
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
) -> list[dict[str, Any]]:
    """Return of every row the features of these names that the table knows by itself."""
    rows: list[dict[str, Any]] = [{} for _ in times]
    for place, (row, time) in enumerate(zip(rows, times, strict=True)):
        given = [float(column[place]) for column in forecasts.values()]
        for name in names:
            if name in _READERS:
                row[name] = _READERS[name](time)
        if "horizon" in names:
            row["horizon"] = _find_step(time, cutoffs[place])
        if "forecast" in names and model in forecasts:
            row["forecast"] = float(forecasts[model][place])
        if "spread" in names and len(given) > 1:
            row["spread"] = max(given) - min(given)
    return rows


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
