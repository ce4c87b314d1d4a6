"""Unlock-hedge: exponential weights on the pinball loss, of which every arm's estimate is unbiased.

Shifted by (1 - alpha) score, which is the same for every arm, the pinball loss of threshold pi is
(1 - alpha) pi on a miss, known without the score, and that plus (score - pi) on a hit. So only hits
need a correction: the part (score - pi), divided by the probability q of a hit. The second moment of
these estimates is at most 2 - q, whatever the number of arms.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.grid import count_at_most
from keyhole.learners.parameters import (
    arms,
    complete_grid,
    number,
    parameters,
    target,
    thresholds,
    whole,
)
from keyhole.learners.rule import About, Ask, Distribution, Rule
from keyhole.learners.weights import first_above, shares, weigh
from keyhole.numeric import Array, exp, kernel, ln

_MEMO_RATE, _MEMO_WEIGHTS = 0, 1
_FASTEST = 50.0


@parameters
class HedgeParameters:
    alpha: float = target()
    arms: int | None = arms(
        "Number of thresholds (K); 101 unless given. More cost only time.", default=None
    )
    thresholds: Sequence[float] | None = thresholds(default=None)
    window: int | None = whole(
        "About how many rounds to remember; None remembers all.", default=2000, least=2, optional=True
    )
    rate: float | None = number(
        "A fixed rate (eta); None adapts it, as AdaHedge does.",
        default=None,
        above=0.0,
        remedy="try 0.1",
    )

    def complete(self) -> dict[str, object]:
        return complete_grid(self.thresholds, self.arms, default=101)

    @property
    def grid(self) -> Array:
        return np.array(self.thresholds)

    @property
    def keep(self) -> float:
        """What is kept of the past in a round."""
        return 1.0 if self.window is None else 1.0 - 1.0 / self.window

    @property
    def fixed(self) -> float:
        """The fixed rate, 0 where it adapts."""
        return self.rate or 0.0

    @property
    def log_arms(self) -> float:
        return math.log(self.grid.size)


class HedgeState(NamedTuple):
    """The arms' estimated losses with their sign turned, and what AdaHedge lost by mixing."""

    gains: Array
    slack: Array


def start(settings: HedgeParameters) -> HedgeState:
    return HedgeState(np.zeros(settings.grid.size), np.array([settings.log_arms]))


def distribution(settings: HedgeParameters, state: HedgeState) -> Distribution:
    return Distribution(settings.grid, shares(state.gains, _rate(settings, state)))


@kernel
def _rate(settings: HedgeParameters, state: HedgeState) -> float:
    return settings.fixed if settings.fixed > 0.0 else settings.log_arms / state.slack[0]


@kernel
def choose(settings: HedgeParameters, state: HedgeState, memo: Array, ask: Ask) -> float:
    """Return a threshold drawn with probability proportional to exp(-rate loss)."""
    weights = memo[_MEMO_WEIGHTS:]
    memo[_MEMO_RATE] = _rate(settings, state)
    weigh(state.gains, memo[_MEMO_RATE], weights)
    return settings.grid[first_above(weights, 1.0 / weights[-1], 0.0, ask.draw)]


@kernel
def observe(settings: HedgeParameters, state: HedgeState, memo: Array, answer: Answer) -> None:
    """Charge every arm with its unbiased estimate, and AdaHedge with its gap."""
    rate = memo[_MEMO_RATE]
    weights = memo[_MEMO_WEIGHTS:]
    missed = answer.miss > 0.0
    # A hit tells the loss of every covering arm, and happens when one of them is drawn: their part is
    # divided by that chance. Arm 0 has threshold 0, so that a hit has at least one.
    covering = 0 if missed else count_at_most(settings.grid, answer.score)
    per_chance = 0.0 if missed else weights[-1] / weights[covering - 1]  # 1 / P(hit)
    mean = 0.0
    mixed = 0.0
    before = 0.0
    for k in range(weights.size):
        threshold = settings.grid[k]
        loss = (1.0 - settings.alpha) * threshold  # known of every arm without an answer
        if k < covering:
            loss += (answer.score - threshold) * per_chance
        share = weights[k] - before  # Weights are running sums.
        before = weights[k]
        mean += share * loss
        mixed += share * exp(-rate * loss)
        state.gains[k] = settings.keep * state.gains[k] - loss
    # What mixing lost against the best response: never below 0 but for rounding.
    gap = (mean / weights[-1]) + ln(mixed / weights[-1]) / rate
    # The gap is what mixing lost; below 0 it is by rounding alone.
    slack = settings.keep * state.slack[0] + max(0.0, gap)
    state.slack[0] = max(slack, settings.log_arms / _FASTEST)


unlock_hedge = Rule(
    name="unlock-hedge",
    needs=Needs.LABEL_IF_HIT,
    parameters=HedgeParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=lambda s: _MEMO_WEIGHTS + s.grid.size,
    distribution=distribution,
    about=About(
        summary="exponential weights on unbiased pinball losses of all arms; any grid, ln K not K",
        guarantee="expected pinball regret <= 2 sqrt(T ln K) with rate sqrt(ln K / T), window None",
        source="this project; keyhole.bounds.unlock_hedge_regret has the numbers",
    ),
)
