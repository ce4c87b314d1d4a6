"""ExAUL: a bandit over thresholds for accepting or abstaining, with unlocked feedback.

After Lee, Jung and Park (arXiv 2506.14067). Its text was not at hand in full; settled here are the
weight of a wrong answer in the loss, the anytime rate, and that the loss of abstaining is counted when
it happens, without waiting for a judgement.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.grid import count_at_most
from keyhole.learners.gates import ACCEPTED, CHANCE, FOR_GATES, OWN
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import arms, complete_grid, number, parameters, target, thresholds
from keyhole.learners.rule import About, Ask, Distribution, Rule
from keyhole.learners.weights import first_above, shares, weigh
from keyhole.numeric import Array, Counts, kernel, ln

_SEEN = OWN  # what a round remembers: how likely its truth was to be seen


@parameters
class ExaulParameters:
    alpha: float = target("Target share of wrong answers among the accepted, between 0 and 1/2.")
    arms: int | None = arms("Number of thresholds (K), evenly spaced; 50 unless given.", default=None)
    thresholds: Sequence[float] | None = thresholds(default=None)
    weight: float = number(
        "What a wrong accepted answer costs more than alpha; to refer costs 1. It is 1 / alpha "
        "unless given, so that it pays to accept what is wrong less often than 2 alpha.",
        default=None,
        above=0.0,
        remedy="try 20",
    )

    def complete(self) -> dict[str, object]:
        grid = complete_grid(self.thresholds, self.arms, default=50)
        return {**grid, "weight": 1.0 / self.alpha if self.weight is None else self.weight}

    @property
    def grid(self) -> Array:
        return np.array(self.thresholds)


class ExaulState(NamedTuple):
    """Minus the estimated losses of the thresholds, and how many rounds were decided."""

    gains: Array
    rounds: Counts


def start(settings: ExaulParameters) -> ExaulState:
    return ExaulState(np.zeros(settings.grid.size), np.zeros(1, dtype=np.int64))


@kernel
def rate_of(arms: int, rounds: float) -> float:
    """Return eta = 2 gamma = sqrt(ln K / t), as if each round told of half the thresholds."""
    return math.sqrt(ln(float(arms)) / (rounds + 1.0))


@kernel
def choose(settings: ExaulParameters, state: ExaulState, memo: Array, ask: Ask) -> float:
    weights = memo[_SEEN + 1 :]
    weigh(state.gains, rate_of(weights.size, state.rounds[0]), weights)
    return settings.grid[first_above(weights, 1.0 / weights[-1], 0.0, ask.draw)]


@kernel
def observe(settings: ExaulParameters, state: ExaulState, memo: Array, answer: Answer) -> None:
    """Charge every threshold whose loss is known; by the chance that it would be."""
    grid = settings.grid
    accepting = count_at_most(grid, answer.score)  # how many thresholds accept this score
    span = 1.0 + settings.weight
    implicit = 0.5 * rate_of(grid.size, state.rounds[0])
    if answer.miss != answer.miss:  # NaN: a decision; the thresholds above the score refer, for certain
        weights = memo[_SEEN + 1 :]
        memo[_SEEN] = weights[accepting - 1] / weights[-1] if accepting > 0 else 0.0
        for k in range(accepting, grid.size):
            state.gains[k] -= (1.0 + settings.weight * settings.alpha) / span / (1.0 + implicit)
        state.rounds[0] += 1
        return
    seen = memo[_SEEN] * memo[CHANCE] if memo[ACCEPTED] > 0.0 else 1.0 - memo[_SEEN]
    loss = settings.weight * answer.miss / span
    for k in range(accepting):
        state.gains[k] -= loss / (seen + implicit)


def distribution(settings: ExaulParameters, state: ExaulState) -> Distribution:
    rate = rate_of(settings.grid.size, float(state.rounds[0]))
    return Distribution(settings.grid, shares(state.gains, rate))


exaul = Rule(
    name="exaul",
    needs=Needs.HIT_OR_MISS,
    parameters=ExaulParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=lambda s: OWN + 1 + s.grid.size,  # running weights come last
    limits=lambda _: {"rounds": COUNT},
    distribution=distribution,
    graded=True,
    kind=FOR_GATES,
    about=About(
        summary="a bandit that learns about every threshold from each accepted answer",
        guarantee="regret of order sqrt(T ln K) against the best threshold of its loss; none for "
        "certain",
        source="Lee, Jung and Park, arXiv 2506.14067; the loss's weight and the rate are this "
        "project's",
    ),
)
