"""Adaptive conformal inference on the level: quantiles of past scores, the level steered by misses.

The score of a miss is not seen; the threshold it fell short of stands in for it.
"""

from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import (
    find_excess,
    find_late_excess,
    guard_threshold,
    raise_level,
    slow,
)
from keyhole.learners.parameters import parameters, positive, target, whole
from keyhole.learners.rule import ON_ANY, About, Ask, Rule
from keyhole.learners.window import LIMITS, Window, add, quantile, start_window
from keyhole.numeric import Array, Counts, kernel


@parameters
class AciParameters:
    alpha: float = target()
    step: float = positive("How fast the level moves (gamma).", default=0.005)
    window: int = whole("How many past scores to take quantiles of.", default=500, most=10**6)

    @property
    def most(self) -> float:
        """The most that misses exceed alpha a round by, with answers that come at once.

        The level is alpha - step excess; at 0 it cannot miss, at 1 it must.
        """
        return self.alpha / self.step + (1.0 - self.alpha)

    @property
    def least(self) -> float:
        return -(1.0 - self.alpha) / self.step - self.alpha

    excess = find_excess
    late_excess = find_late_excess


class AciState(NamedTuple):
    """The level, the excess of misses, how late answers were, and past scores by size and by age."""

    level: Array
    excess: Array
    lateness: Counts
    ranked: Array
    aged: Array
    added: Counts


def start(settings: AciParameters) -> AciState:
    level, lateness = np.array([settings.alpha]), np.zeros(1, dtype=np.int64)
    return AciState(level, np.zeros(1), lateness, *start_window(settings.window))


@kernel
def choose(settings: AciParameters, state: AciState, memo: Array, ask: Ask) -> float:
    """Return the quantile of the past scores at the present level."""
    scores = Window(state.ranked, state.aged, state.added)
    threshold = quantile(scores, state.level[0])
    memo[0] = guard_threshold(
        threshold, state.excess[0], state.lateness[0], settings.most, settings.least
    )
    return memo[0]


@kernel
def observe(settings: AciParameters, state: AciState, memo: Array, answer: Answer) -> None:
    """Move the level by step (alpha - miss), and keep the score or what stands in for it."""
    error = answer.miss - settings.alpha
    state.level[0] -= settings.step * error / slow(answer.stale)
    state.excess[0] += error
    raise_level(state.lateness, answer.age)
    # A miss does not tell its score; the threshold it fell short of stands in for it.
    known = min(memo[0], 1.0) if answer.miss > 0.0 else answer.score
    add(Window(state.ranked, state.aged, state.added), known)


aci = Rule(
    name="aci",
    needs=Needs.LABEL_IF_HIT,
    parameters=AciParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=1,
    limits=lambda _: LIMITS,
    about=About(
        summary="a quantile of the last 500 scores, its level steered by the misses",
        guarantee=f"|miss rate - alpha| <= (1 - alpha + step) / (step T) {ON_ANY}",
        source="Gibbs and Candes (2021), arXiv 2106.00170; missed scores imputed here",
        late="a stale answer moves the level less, and guards that widen keep its bound; it shows "
        "every label now and then even with prompt answers, and twice as often with answers 100 rounds "
        "late",
    ),
)
