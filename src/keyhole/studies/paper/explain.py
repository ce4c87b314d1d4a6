"""Two figures that explain the paper: what an answer reveals, and what the learners make of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keyhole.feedback import HIT, MISS, Answer, outcomes
from keyhole.learners import Learner, make
from keyhole.numeric import Array
from keyhole.studies.figure_files import open_figure
from keyhole.studies.paper.figures import STYLE, save
from keyhole.studies.paper.one_run import VARIANTS
from keyhole.studies.paper.plan import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HIT, _MISS, _UNSEEN = "#047857", "#be123c", "#9ca3af"
_PLAYED, _SCORES = 0.5, {"a hit": 0.75, "a miss": 0.25}
_FEEDBACK = {
    "full: the label, always": (Answer(0.0, 0.75), Answer(1.0, 0.25)),
    "semi-bandit: the label on a hit": (Answer(0.0, 0.75), MISS),
    "bandit: hit or miss": (HIT, MISS),
}


def draw_feedback(stem: Path) -> None:
    """Write what a hit and a miss reveal of every threshold, under each kind of feedback."""
    grid = np.linspace(0.0, 1.0, 11)
    figure = open_figure(9.0, 2.7)
    from matplotlib import rc_context

    with rc_context(STYLE):
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
        save(figure, stem)


def draw_methods(stem: Path) -> None:
    """Write what a hit and a miss add to the gain of every arm, by each of the paper's learners."""
    figure = open_figure(9.0, 4.8)
    from matplotlib import rc_context

    with rc_context(STYLE):
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
        save(figure, stem)


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
