"""A series as a fan chart: nested intervals, outcomes, and those that were missed."""

from collections.abc import Sequence
from typing import Any

from keyhole.errors import MissingExtraError
from keyhole.integrations._series import Kept

_BLUE, _RED, _INK = "#1f5fa8", "#b3261e", "#30343b"
_STRONGEST, _WEAKEST = 0.45, 0.15  # how dark the innermost interval is, and the outermost


def draw_fan(rows: Sequence[tuple[Any, Kept]], levels: Sequence[str], *, title: str, axes: Any) -> Any:
    """Draw these rows, in order of time; the levels are those of what was shown, outermost first."""
    axis = _make_axes() if axes is None else axes
    times = [time for time, _ in rows]
    for place, level in enumerate(levels):
        shown: list[Any] = [kept.shown[place] for _, kept in rows]
        share = place / max(1, len(levels) - 1) if len(levels) > 1 else 0.5
        axis.fill_between(
            times,
            [_bounded(one.lower) for one in shown],
            [_bounded(one.upper) for one in shown],
            color=_BLUE,
            alpha=_WEAKEST + share * (_STRONGEST - _WEAKEST),
            linewidth=0.0,
            label=f"{level} %",
        )
    if rows and not isinstance(rows[0][1].output, tuple):
        forecasts = [kept.output for _, kept in rows]
        axis.plot(times, forecasts, color=_BLUE, linewidth=1.0, label="forecast")
    for name, colour, size, wanted in (("outcome", _INK, 9, False), ("missed", _RED, 20, True)):
        dots = [
            (time, kept.truth)
            for time, kept in rows
            if kept.truth is not None and (kept.truth not in kept.shown[0]) is wanted
        ]
        axis.scatter(
            [time for time, _ in dots], [truth for _, truth in dots], s=size, color=colour,
            label=name if not wanted else f"outside {levels[0]} %", zorder=3,
        )  # fmt: skip
    axis.set_title(title, loc="left")
    axis.legend(frameon=False, fontsize="small", ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    axis.figure.autofmt_xdate()
    return axis


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
