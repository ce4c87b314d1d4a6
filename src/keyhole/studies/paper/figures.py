"""The paper's figures: curves with the band between the extreme runs, and box plots.

Two more explain it: what an answer reveals, and what the learners make of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keyhole.feedback import HIT, MISS, Answer, outcomes
from keyhole.learners import Learner, make
from keyhole.numeric import Array
from keyhole.scenarios.imagenet import SCHEDULE
from keyhole.studies.figure_files import open_figure
from keyhole.studies.paper.one_run import AIRFOIL, VARIANTS, Pair, Setting, Source, rounds_kept
from keyhole.studies.paper.plan import LABELS, MISS_RATE, SCENARIO_NAMES, Panel
from keyhole.studies.paper.results import PaperResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {
    "ocp-unlock+": "#1d4ed8",
    "ocp-unlock": "#d97706",
    "ocp-bandit": "#be123c",
    "sps": "#7c3aed",
    "mvp": "#047857",
}
_INK, _FAINT, _TARGET = "#1f2937", "#9ca3af", "#111827"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "keyhole",
    "font.size": 9.5,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.titlesize": 10.5,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
}
_LOG_FROM = 20.0
_HIT, _MISS, _UNSEEN = "#047857", "#be123c", "#9ca3af"
_PLAYED, _SCORES = 0.5, {"a hit": 0.75, "a miss": 0.25}
_FEEDBACK = {
    "full: the label, always": (Answer(0.0, 0.75), Answer(1.0, 0.25)),
    "semi-bandit: the label on a hit": (Answer(0.0, 0.75), MISS),
    "bandit: hit or miss": (HIT, MISS),
}


def draw(results: PaperResults, panels: Sequence[Panel], source: Source, stem: Path) -> None:
    """Write one figure, a row of axes for each panel (side by side for boxes), as PNG and SVG."""
    count, are_curves = len(panels), not panels[0].has_boxes
    size = (9.0, 2.75 * count + 0.45) if are_curves else (4.5 * count, 3.1)
    with _open_styled(*size, stem) as figure:
        if are_curves:
            axes = figure.subplots(count, 2, squeeze=False)
            for row, panel in zip(axes, panels, strict=True):
                _curves(results, panel, source, row)
            handles, names = axes[0, 0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
        else:
            axes = figure.subplots(1, count, squeeze=False, sharey=True)
            for axis, panel in zip(axes[0], panels, strict=True):
                _boxes(results, panel, source, axis)


@contextmanager
def _open_styled(width: float, height: float, stem: Path) -> Iterator["Figure"]:
    """Open a figure in the report's style; then write it as PNG and SVG, each time the same bytes."""
    figure = open_figure(width, height)
    from matplotlib import rc_context

    with rc_context(_STYLE):
        yield figure
        stem.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def _curves(results: PaperResults, panel: Panel, source: Source, axes: Any) -> None:
    scenario = SCENARIO_NAMES[panel.data, panel.scenario]
    for axis, field, title in zip(
        axes, ("miss_rates", "mean_sizes"), ("MC(t)", f"Ineff(t), {_unit(panel.data)}"), strict=True
    ):
        for setting in panel.settings:
            _band(results, Pair(source, setting), field, axis)
        axis.set_title(f"{title}  ({scenario})", loc="left")
        axis.set_xlim(0, panel.settings[0].horizon / 1000)
        axis.set_xlabel("round t, thousands")
        for change in _changes(panel.settings[0]):
            axis.axvline(change / 1000, color=_FAINT, linewidth=0.8, linestyle=":")
        _plain(axis)
    alpha = panel.settings[0].alpha
    axes[0].axhline(alpha, color=_TARGET, linewidth=1.0, linestyle="--", label=f"target {alpha:g}")
    axes[0].set_ylim(0.0, 3.0 * alpha)
    _scale_sizes(axes[1])


def _band(results: PaperResults, pair: Pair, field: str, axis: "Axes") -> None:
    rounds = rounds_kept(pair.setting.horizon) / 1000
    runs = np.array([getattr(run, field) for run in results.outcomes[pair].values()])
    colour = _COLOURS[pair.setting.learner]
    axis.fill_between(rounds, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.16, linewidth=0)
    axis.plot(
        rounds, runs.mean(axis=0), color=colour, linewidth=1.5, label=LABELS[pair.setting.learner]
    )


def _scale_sizes(axis: Any) -> None:
    """Use a logarithmic scale where the sizes differ by more than an eye can follow."""
    heights = np.concatenate(
        [line.get_ydata()[5:] for line in axis.get_lines() if len(line.get_ydata()) > 2]
    )
    if heights.max() > _LOG_FROM * max(heights.min(), 1e-9):
        axis.set_yscale("log")
    else:
        axis.set_ylim(0.0, 1.15 * heights.max())


def _boxes(results: PaperResults, panel: Panel, source: Source, axis: "Axes") -> None:
    rates = [results.values(Pair(source, setting), MISS_RATE) for setting in panel.settings]
    alphas = [setting.alpha for setting in panel.settings]
    places = np.arange(len(alphas))
    axis.boxplot(
        rates,
        positions=places,
        widths=0.5,
        whis=(0, 100),
        patch_artist=True,
        boxprops={"facecolor": "#93c5fd", "edgecolor": "none"},
        medianprops={"color": _COLOURS["ocp-unlock+"], "linewidth": 1.2},
        whiskerprops={"color": _COLOURS["ocp-unlock+"], "linewidth": 0.9},
        capprops={"color": _COLOURS["ocp-unlock+"], "linewidth": 0.9},
    )
    for place, alpha in zip(places, alphas, strict=True):
        axis.hlines(alpha, place - 0.4, place + 0.4, color=_TARGET, linewidth=1.0, linestyle="--")
    axis.set_xticks(places, [f"{alpha:g}" for alpha in alphas])
    axis.set_xlabel("target α (dashes)")
    axis.set_title(f"MC(T)  ({SCENARIO_NAMES[panel.data, panel.scenario]})", loc="left")
    axis.set_ylim(0.0, 0.45)
    _plain(axis)


def _unit(data: str) -> str:
    return "dB" if data == AIRFOIL else "labels"


def _changes(setting: Setting) -> list[float]:
    if not setting.shift:
        return []
    if setting.data == AIRFOIL:
        return [setting.horizon / 3]
    return [setting.horizon * part / len(SCHEDULE) for part in range(1, len(SCHEDULE))]


def _plain(axis: "Axes") -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color=_FAINT, alpha=0.25, linewidth=0.6)
    axis.tick_params(length=3)


def draw_feedback(stem: Path) -> None:
    """Write what a hit and a miss reveal of every threshold, under each kind of feedback."""
    grid = np.linspace(0.0, 1.0, 11)
    with _open_styled(9.0, 2.7, stem) as figure:
        axes = figure.subplots(2, 3, sharex=True, sharey=True)
        for column, (title, answers) in enumerate(_FEEDBACK.items()):
            axes[0, column].set_title(title, loc="left")
            axes[1, column].set_xlabel("threshold")
            for axis, answer, (outcome, score) in zip(
                axes[:, column], answers, _SCORES.items(), strict=True
            ):
                told = outcomes(answer, threshold=_PLAYED, thresholds=grid)
                axis.axvline(_PLAYED, color="#111827", linewidth=1.0, zorder=0)
                if answer.score == answer.score:  # not NaN: it is revealed
                    axis.axvline(score, color="#1d4ed8", linewidth=1.0, linestyle="--", zorder=0)
                for kind, colour, label in (
                    (0, _HIT, "would hit"),
                    (1, _MISS, "would miss"),
                    (-1, _UNSEEN, "not revealed"),
                ):
                    chosen = grid[told == kind]
                    face = "white" if kind < 0 else colour
                    axis.scatter(chosen, chosen * 0.0, s=46, color=face, edgecolor=colour, label=label)
                axis.set_ylim(-1.0, 1.0)
                axis.set_yticks([])
                axis.spines[["top", "right", "left"]].set_visible(False)
                if column == 0:
                    axis.set_ylabel(outcome, rotation=0, ha="right", va="center")
        lines = axes[0, 0].get_lines()
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            [*handles, *lines[:2]],
            [*names, "the threshold played", "the true label's score, if revealed"],
            loc="outside lower center",
            ncols=5,
            frameon=False,
        )


def draw_methods(stem: Path) -> None:
    """Write what a hit and a miss add to the gain of every arm, by each of the paper's learners."""
    with _open_styled(9.0, 4.8, stem) as figure:
        axes = figure.subplots(2, 3, sharex=True, sharey="row")
        for column, name in enumerate(VARIANTS):
            learner = make(name, alpha=0.1, horizon=50_000, arms=11)
            for axis, (outcome, score) in zip(axes[:, column], _SCORES.items(), strict=True):
                _bars(axis, learner, score)
                axis.set_title(f"{LABELS[name]}, {outcome}", loc="left")
            axes[1, column].set_xlabel("threshold")
        for axis in axes[:, 0]:
            axis.set_ylabel("added to its gain")
        shown = [axes[0, 0].patches[0], axes[0, 0].patches[-1], axes[0, 0].get_lines()[0]]
        names = ["would hit", "would miss", "the threshold played"]
        figure.legend(shown, names, loc="outside lower center", ncols=3, frameon=False)


def _bars(axis: "Axes", learner: Learner, score: float) -> None:
    grid = learner.settings.grid
    covers = grid <= score
    axis.bar(
        grid,
        estimate(learner, score),
        width=0.06,
        color=[_HIT if covered else _MISS for covered in covers],
    )
    axis.axvline(_PLAYED, color="#111827", linewidth=1.0, zorder=0)
    axis.set_yscale("log")
    axis.spines[["top", "right"]].set_visible(False)


def estimate(learner: Learner, score: float) -> Array:
    """Return what a round adds to each arm's gain, when all are as likely and the middle is played."""
    state = learner.start()
    threshold, memo = learner.choose(state, 0.5)
    learner.observe(state, memo, Answer(0.0, score) if threshold <= score else MISS)
    return np.array(state.gains)
