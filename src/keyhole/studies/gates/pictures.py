"""The pictures of gates: accepted against wrong, and a log over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.numeric import Array
from keyhole.studies.gates.contest import Row
from keyhole.studies.gates.log import LogReplay
from keyhole.studies.pictures import open_figure

_COLOURS = {
    "gate-tracker": "#0b6e4f",
    "exaul": "#c44900",
    "gate-split": "#3a6ea5",
    "gate-fixed": "#8a8a8a",
}
_OTHER = "#7b2d8b"
_WIDEST = 6.0  # times alpha: what is wrong more often stands at the edge


def draw_field(rows: Sequence[Row], path: Path, *, alpha: float) -> None:
    """Write the picture of share accepted against share wrong, a dot a scenario, the target a line."""
    figure = open_figure(8.0, 5.2)
    axes = figure.subplots()
    axes.axvspan(0.0, alpha, color="#0b6e4f", alpha=0.06, lw=0)
    axes.axvline(alpha, color="#222222", lw=1.2, ls="--")
    most = _WIDEST * alpha
    for rule in reversed(dict.fromkeys(row.rule for row in rows)):  # the first on top
        mine = [row for row in rows if row.rule == rule]
        axes.scatter(
            [min(row.wrong, most) for row in mine],
            [row.accepted for row in mine],
            s=[30.0 + 50.0 * row.audit for row in mine],
            color=_COLOURS.get(rule, _OTHER),
            alpha=0.75,
            linewidths=0,
            label=rule,
        )
    axes.set(xlim=(0.0, 1.02 * most), ylim=(-0.02, 1.02))
    axes.set_xlabel(f"wrong among the accepted (dots at the right edge: {most:g} or more)")
    axes.set_ylabel("accepted without asking")
    axes.annotate(f"target {alpha:g}", (alpha, 1.02), (4, -12), textcoords="offset points", fontsize=9)
    figure.legend(
        frameon=False, loc="outside upper left", ncols=4, reverse=True,
        title="A dot is a scenario; the smaller, the fewer of its accepted answers were audited.",
    )  # fmt: skip
    _finish(figure, axes, path)


def draw_replay(replay: LogReplay, path: Path, *, alpha: float) -> None:
    """Write the picture of a log: what the gate accepts and gets wrong over time, and its threshold."""
    figure = open_figure(8.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    run, rounds = replay.run, np.arange(1, replay.cases.scores.size + 1)
    accepted = np.cumsum(run.accepted)
    wrong = np.cumsum(run.accepted * run.wrong) / np.maximum(accepted, 1)
    above.plot(rounds, accepted / rounds, color=_COLOURS["gate-tracker"], label="accepted")
    above.plot(rounds, wrong, color=_COLOURS["exaul"], label="wrong among the accepted")
    above.axhline(alpha, color="#222222", lw=1.0, ls="--", label=f"target {alpha:g}")
    above.axhline(
        replay.best, color=_COLOURS["gate-fixed"], lw=1.0, ls=":",
        label=f"best fixed threshold, {replay.best:.3f} accepted",
    )  # fmt: skip
    above.set(xlim=(0, rounds.size), ylim=(0.0, 1.0), ylabel="share so far")
    above.legend(frameon=False, fontsize=9, loc="upper right")
    below.plot(rounds, _mask_shut(run.thresholds), color=_COLOURS["gate-split"], lw=1.0)
    if replay.threshold <= 1.0:
        below.axhline(replay.threshold, color=_COLOURS["gate-fixed"], lw=1.0, ls=":")
    below.set(ylim=(0.0, 1.0), ylabel="threshold", xlabel="cases, in the order of the log")
    _finish(figure, above, path, below)


def _mask_shut(thresholds: Array) -> Array:
    """Return the thresholds, with gaps where the gate was shut."""
    return np.where(thresholds > 1.0, np.nan, thresholds)


def _finish(figure: Any, *parts: Any) -> None:
    path = next(part for part in parts if isinstance(part, Path))
    for axes in parts:
        if not isinstance(axes, Path):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="#000000", alpha=0.08, lw=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
