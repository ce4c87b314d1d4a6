"""How intervals in a table have fared, whoever made them: in figures, and as a fan chart."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.integrations._cases import list_names
from keyhole.integrations._forecasts import make_table, read_table
from keyhole.numeric import Array
from keyhole.predictor.plot import make_axes

_LOWER = re.compile(r"^(?P<model>.*)-lo-(?P<level>\d+(\.\d+)?)$")
_BY = ("series", "horizon")
_BLUE, _RED = "#3b7dd8", "#d3382f"  # which can be told from white and from black
_STRONGEST, _WEAKEST = 0.5, 0.2  # how dark the innermost interval is, and the outermost
_NARROW = 5.0  # inches of axes beside whose title there is no room for a legend


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
    ids = list_names(series)
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
    try:
        return np.array(frame[name].to_list(), dtype=np.float64)  # None is NaN
    except (TypeError, ValueError):
        raise InvalidError(f"the column {name!r} holds what is no number") from None


def _list_groups(
    frame: Any, ids: list[str], time: str, cutoff: str, by: Sequence[str]
) -> list[tuple[dict[str, Any], NDArray[np.int_]]]:
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


def draw_fan(
    times: Sequence[Any],
    shown: Mapping[str, Sequence[tuple[float, float]]],
    *,
    outputs: Sequence[Any],
    truths: Sequence[Any],
    title: str,
    axes: Any,
) -> Any:
    """Draw rows in order of time; what was shown is by level, the outermost first."""
    axis = make_axes(1, size=(8.0, 4.0))[0] if axes is None else axes
    for place, (level, ends) in enumerate(shown.items()):
        share = place / (len(shown) - 1) if len(shown) > 1 else 0.5
        axis.fill_between(
            times,
            [_bounded(lower) for lower, _ in ends],
            [_bounded(upper) for _, upper in ends],
            color=_BLUE,
            alpha=_WEAKEST + share * (_STRONGEST - _WEAKEST),
            linewidth=0.0,
            label=f"{level} %",
        )
    if outputs and not isinstance(outputs[0], tuple):
        axis.plot(times, outputs, color=_BLUE, linewidth=1.0, label="forecast")
    level, outermost = next(iter(shown.items()))
    rows = list(zip(times, truths, outermost, strict=True))
    for name, colour, size, wanted in (
        ("outcome", axis.xaxis.label.get_color(), 9, False),
        (f"outside {level} %", _RED, 20, True),
    ):
        dots = [
            (time, truth)
            for time, truth, (lower, upper) in rows
            if truth is not None and (not lower <= truth <= upper) is wanted
        ]
        axis.scatter(
            [time for time, _ in dots], [truth for _, truth in dots], s=size, color=colour,
            label=name, zorder=3,
        )  # fmt: skip
    _add_legend(axis, title)
    axis.figure.autofmt_xdate()
    return axis


def _add_legend(axis: Any, title: str) -> None:
    """Put title and legend above the axes: beside each other, or where these are narrow one above."""
    if axis.get_window_extent().width / axis.figure.dpi > _NARROW:
        axis.set_title(title, loc="left")
        columns, place = 3, {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
    else:
        rows = (len(axis.get_legend_handles_labels()[0]) + 1) // 2
        axis.set_title(title, loc="left", pad=6.0 + 14.0 * rows)
        columns, place = 2, {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    axis.legend(frameon=False, fontsize="small", ncols=columns, borderaxespad=0.0, **place)


def _bounded(end: float) -> float:
    return end if abs(end) != float("inf") else float("nan")
