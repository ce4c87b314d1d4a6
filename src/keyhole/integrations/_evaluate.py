"""How intervals in a table have fared, whoever made them."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.integrations._table import make_table, read_table
from keyhole.numeric import Array

_LOWER = re.compile(r"^(?P<model>.*)-lo-(?P<level>\d+(\.\d+)?)$")
_BY = ("series", "horizon")


def evaluate(
    table: object,
    *,
    models: Sequence[str] | None = None,
    by: Sequence[str] = (),
    window: int = 1_000,
    series: str | Sequence[str] = "unique_id",
    time: str = "ds",
    truth: str = "y",
    cutoff: str = "cutoff",
) -> Any:
    """Return coverage, width and score of the intervals in a table, a row for each model and level.

    Intervals are columns ``MODEL-lo-LEVEL`` and ``MODEL-hi-LEVEL``, as Keyhole, statsforecast and
    others write them. Rows without an outcome, or without an interval, are passed over.

    Parameters
    ----------
    table
        A table in memory.
    models
        Which models; by default all that have intervals.
    by
        What else to tell apart: "series", "horizon" (``ds`` less ``cutoff``), or both.
    window
        So many rows in a row, in order of time, make the window for ``worst_window``: how far their
        miss rate is at most from that of the level. NaN where there are fewer.

    Returns
    -------
    A table with the columns model, level, and those of ``by``; rows; coverage; width, the mean of the
    bounded intervals; interval_score, the mean of theirs: the width, and 2 / alpha times the distance
    by which an outcome lies outside; unbounded, the share of intervals with an infinite end; and
    worst_window.
    """
    if not set(by) <= set(_BY):
        raise InvalidError(f"by {list(by)!r} is unknown; give some of {list(_BY)}", field="by")
    if not is_whole(window, least=1):
        raise InvalidError(f"window {window!r} is not a number of rows; try 1_000", field="window")
    ids = [series] if isinstance(series, str) else list(series)
    needed = [time, truth, *(ids if "series" in by else []), *([cutoff] if "horizon" in by else [])]
    frame = read_table(table, needed)
    found = _find_intervals(frame.columns, models)
    frame = frame.sort(time)
    truths = _read_numbers(frame, truth)
    groups = _list_groups(frame, ids, time, cutoff, by)
    made: dict[str, list[Any]] = {}
    for model, level in found:
        lower = _read_numbers(frame, f"{model}-lo-{level}")
        upper = _read_numbers(frame, f"{model}-hi-{level}")
        for names, places in groups:
            lacks = np.isnan(truths[places]) | np.isnan(lower[places]) | np.isnan(upper[places])
            known = places[~lacks]
            row = {"model": model, "level": float(level), **names}
            row |= _score(truths[known], lower[known], upper[known], float(level), window)
            for name, value in row.items():
                made.setdefault(name, []).append(value)
    return make_table(made, frame.implementation)


def name_level(alpha: float) -> str:
    """Return the level of a target miss rate, in percent, as it stands in the name of a column."""
    return f"{100 * (1 - alpha):.10g}"


def _find_intervals(columns: Sequence[str], models: Sequence[str] | None) -> list[tuple[str, str]]:
    found = [
        (match["model"], match["level"])
        for match in map(_LOWER.match, columns)
        if match and f"{match['model']}-hi-{match['level']}" in columns
    ]
    for model in models or ():
        if model not in {name for name, _ in found}:
            raise InvalidError(f"there are no columns {model}-lo-... and {model}-hi-... in the table")
    if not found:
        raise InvalidError("there are no columns MODEL-lo-LEVEL and MODEL-hi-LEVEL in the table")
    return [one for one in found if models is None or one[0] in models]


def _read_numbers(frame: Any, name: str) -> Array:
    values = [np.nan if value is None else value for value in frame[name].to_list()]
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidError(f"the column {name!r} holds what is no number") from None


def _list_groups(
    frame: Any, ids: list[str], time: str, cutoff: str, by: Sequence[str]
) -> list[tuple[dict[str, Any], NDArray[np.int_]]]:
    """Return the rows of every group, and what it is called."""
    columns: dict[str, list[Any]] = {}
    if "series" in by:
        columns.update({name: frame[name].to_list() for name in ids})
    if "horizon" in by:
        times = zip(frame[time].to_list(), frame[cutoff].to_list(), strict=True)
        columns["horizon"] = [at - before for at, before in times]
    if not columns:
        return [({}, np.arange(len(frame)))]
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, names in enumerate(zip(*columns.values(), strict=True)):
        places.setdefault(names, []).append(place)
    return [
        (dict(zip(columns, names, strict=True)), np.array(places[names]))
        for names in sorted(places, key=lambda names: tuple(map(_order, names)))
    ]


def _order(value: object) -> Any:
    return (0, value, "") if not isinstance(value, str) else (1, 0, value)


def _score(truths: Array, lower: Array, upper: Array, level: float, window: int) -> dict[str, Any]:
    alpha = 1.0 - level / 100.0
    below, above = np.maximum(lower - truths, 0.0), np.maximum(truths - upper, 0.0)
    missed = (truths < lower) | (truths > upper)
    bounded = np.isfinite(upper - lower)
    widths = (upper - lower)[bounded]
    scores = widths + 2.0 / alpha * (below + above)[bounded]
    return {
        "rows": int(truths.size),
        "coverage": _mean(~missed),
        "width": _mean(widths),
        "interval_score": _mean(scores),
        "unbounded": _mean(~bounded),
        "worst_window": _find_worst(missed, alpha, window),
    }


def _mean(values: Array | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if values.size else float("nan")


def _find_worst(missed: NDArray[np.bool_], alpha: float, window: int) -> float:
    if missed.size < window:
        return float("nan")
    sums = np.concatenate(([0.0], np.cumsum(missed)))
    return float(np.abs((sums[window:] - sums[:-window]) / window - alpha).max())
