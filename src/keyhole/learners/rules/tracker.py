"""The quantile tracker: after a miss the threshold falls, after a hit it rises a little."""

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
from keyhole.learners.parameters import first_threshold, parameters, positive, target
from keyhole.learners.rule import ON_ANY, About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel


@parameters
class TrackerParameters:
    alpha: float = target()
    step: float = positive("It moves by step (miss - alpha).", default=0.005)
    start: float = first_threshold(default=0.5)

    @property
    def most(self) -> float:
        """The most that misses exceed alpha a round by, with answers that come at once.

        The threshold tells the excess: at or below 0 it cannot miss, and above 1 it must.
        """
        return self.start / self.step + (1.0 - self.alpha)

    @property
    def least(self) -> float:
        return -(1.0 - self.start) / self.step - self.alpha

    excess = find_excess
    late_excess = find_late_excess


class TrackerState(NamedTuple):
    """The threshold, which may leave [0, 1]; the excess of misses; how late answers were.

    ``scale`` is the largest weight that was ever usual: the guards stand that many times as far out.
    """

    threshold: Array
    excess: Array = np.zeros(1)
    lateness: Counts = np.zeros(1, dtype=np.int64)
    scale: Array = np.ones(1)


def start(settings: TrackerParameters) -> TrackerState:
    return TrackerState(np.array([settings.start]))


@kernel
def choose(settings: TrackerParameters, state: TrackerState, memo: Array, ask: Ask) -> float:
    """Return the threshold; at 0, or below, it is every label, above 1 none; and so at the guards."""
    excess = state.excess[0] / state.scale[0]
    return guard_threshold(state.threshold[0], excess, state.lateness[0], settings.most, settings.least)


@kernel
def observe(settings: TrackerParameters, state: TrackerState, memo: Array, answer: Answer) -> None:
    """Step against the gradient of the pinball loss, which is miss - alpha; less for stale answers."""
    error = answer.miss - settings.alpha
    state.threshold[0] -= answer.pace * settings.step * error / slow(answer.stale)
    state.excess[0] += answer.weight * error
    state.scale[0] = max(state.scale[0], answer.weight / answer.pace)
    raise_level(state.lateness, answer.age)


tracker = Rule(
    name="tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=TrackerParameters,
    choose=choose,
    observe=observe,
    state=start,
    graded=True,
    about=About(
        summary="one step down after a miss, a small one up after a hit: ACI on the threshold itself",
        guarantee=f"|miss rate - alpha| <= (max(start, 1 - start) + step) / (step T) {ON_ANY}",
        source="Gibbs and Candes (2021), arXiv 2106.00170; Angelopoulos et al. (2023), arXiv "
        "2307.16895",
        late="a stale answer moves it less, and guards that widen keep its bound: sets are 1.5 times "
        "the best with answers 10 rounds late and 2.3 times with 100, hundreds of times where scores "
        "are near 0; with 1,000 the miss rate is off by 0.07",
    ),
)
