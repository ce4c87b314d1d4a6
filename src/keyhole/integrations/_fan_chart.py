"""A series as a fan chart: nested intervals, outcomes, and those that were missed."""

from collections.abc import Mapping, Sequence
from typing import Any

from keyhole.errors import MissingExtraError

_BLUE, _RED = "#3b7dd8", "#d3382f"  # which can be told from white and from black
_STRONGEST, _WEAKEST = 0.5, 0.2  # how dark the innermost interval is, and the outermost
_NARROW = 5.0  # inches of axes beside whose title there is no room for a legend


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
    axis = _make_axes() if axes is None else axes
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


def _make_axes() -> Any:
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "a picture needs matplotlib; pip install 'keyhole-conformal[plot]'"
        ) from None
    _, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    return axis


def _bounded(end: float) -> float:
    return end if abs(end) != float("inf") else float("nan")
