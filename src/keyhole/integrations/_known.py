"""What a table of forecasts knows of a row by itself: parts of its time, and its forecasts."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from keyhole.integrations._cases import is_missing
from keyhole.integrations._cells import Cells, join_cells

TABLE = "table"  # what says: all that the table knows
Forecasts = Mapping[str, Any]  # a column each, by the name of its model


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
    names: Sequence[str], model: str, times: Cells, cutoffs: Cells, forecasts: Forecasts
) -> dict[str, Any]:
    """Return the features of these names that the table knows by itself, a column each."""
    known = {}
    for name in names:
        if name in _READERS:
            known[name] = times.spread([_READERS[name](time) for time in times.values])
    if "horizon" in names:
        both = join_cells([times, cutoffs])
        steps = [_find_step(time, cutoff) for time, cutoff in both.values]
        known["horizon"] = both.spread([np.nan if step is None else step for step in steps])
    if "forecast" in names and model in forecasts:
        known["forecast"] = forecasts[model]
    if "spread" in names and len(forecasts) > 1:
        rows = np.stack([np.asarray(column, dtype=np.float64) for column in forecasts.values()])
        known["spread"] = rows.max(axis=0) - rows.min(axis=0)
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
