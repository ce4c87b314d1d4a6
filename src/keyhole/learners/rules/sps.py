"""SPS: raise the threshold to a quantile of what was seen, less a confidence band, never lower it."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.grid import count_at_most, uniform
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import arms, horizon, number, parameters, target
from keyhole.learners.rule import About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel

_ROUNDS, _BELOW, _ARM = 0, 1, 2


@parameters
class SpsParameters:
    alpha: float = target()
    horizon: int | None = horizon(
        "Number of rounds to come (T); without it the band widens.", default=None
    )
    arms: int = arms("Number of thresholds; scores are rounded down to one of them.", default=1000)
    delta: float | None = number(
        "How likely the guarantee may fail; 1 / T, or 0.05, unless given.",
        default=None,
        above=0.0,
        below=1.0,
        remedy="try 0.05",
    )

    @property
    def grid(self) -> Array:
        return uniform(self.arms)

    @property
    def width(self) -> float:
        """With growth, the band of round t: sqrt((width + growth ln t) / 2t)."""
        if self.horizon is None:
            return math.log(2.0 / (6.0 / math.pi**2 * (self.delta or 0.05)))
        # With a horizon, delta / T is risked every round.
        return math.log(2.0 / ((self.delta or 1.0 / self.horizon) / self.horizon))

    @property
    def growth(self) -> float:
        return 2.0 if self.horizon is None else 0.0


class SpsState(NamedTuple):
    """How many revealed scores lie at each arm, and rounds, scores below the arm, the arm itself."""

    counts: Counts
    clock: Counts


def start(settings: SpsParameters) -> SpsState:
    return SpsState(
        counts=np.zeros(settings.grid.size, dtype=np.int64), clock=np.zeros(3, dtype=np.int64)
    )


@kernel
def choose(settings: SpsParameters, state: SpsState, memo: Array, ask: Ask) -> float:
    """Return the threshold of the present arm; nothing is drawn."""
    return settings.grid[state.clock[_ARM]]


@kernel
def observe(settings: SpsParameters, state: SpsState, memo: Array, answer: Answer) -> None:
    """Count the score, and rise to the (k + 1)-th smallest of t, k = floor(t (alpha - band)).

    Thresholds never fall, so that a miss, whenever it was, lies below the present one: that is all
    that its rank needs.
    """
    clock = state.clock
    clock[_ROUNDS] += 1
    # A miss is below the present arm, wherever it is: -1 puts it there.
    arm = -1 if answer.miss > 0.0 else count_at_most(settings.grid, answer.score) - 1
    if arm < clock[_ARM]:
        clock[_BELOW] += 1
    else:
        state.counts[arm] += 1
    rounds = clock[_ROUNDS]
    band = math.sqrt((settings.width + settings.growth * math.log(rounds)) / (2.0 * rounds))
    rank = math.floor(rounds * (settings.alpha - band)) + 1
    # The rank is at most alpha t + 1, no more than there are scores: the climb ends on the grid, unless
    # the counts of a damaged file do not add up.
    last = state.counts.size - 1
    while clock[_ARM] < last and clock[_BELOW] + state.counts[clock[_ARM]] < rank:
        clock[_BELOW] += state.counts[clock[_ARM]]
        clock[_ARM] += 1


sps = Rule(
    name="sps",
    needs=Needs.LABEL_IF_HIT,
    parameters=SpsParameters,
    choose=choose,
    observe=observe,
    state=start,
    limits=lambda s: {"counts": COUNT, "clock": (COUNT, COUNT, s.grid.size - 1)},
    about=About(
        summary="semi-bandit prediction sets: a quantile of the scores seen, less a confidence band",
        guarantee="i.i.d. scores only: with probability 1 - delta no round's miss rate exceeds alpha; "
        "it never lowers a threshold, so after a downward drift it misses for ever",
        source="Ge et al. (2025), arXiv 2405.13268",
    ),
)
