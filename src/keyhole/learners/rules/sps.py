"""SPS: raise the threshold to a quantile of what was seen, less a confidence band, never lower it."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.feedback import Answer, Needs
from keyhole.grid import count_at_most, uniform
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import (
    arms,
    horizon,
    number,
    parameters,
    target,
)
from keyhole.learners.rule import Ask, Rule
from keyhole.numeric import Array, kernel

_ROUNDS, _BELOW, _ARM = 0, 1, 2


@parameters
class SpsParameters:
    """The parameters of SPS.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    horizon
        Number of rounds to come (T); without it the band widens with every round.
    arms
        Number of thresholds, evenly spaced; scores are rounded down to one of them.
    delta
        The guarantee may fail with this probability; 1 / T unless told, 0.05 without a horizon.
    """

    alpha: float = target()
    horizon: int | None = horizon(default=None)
    arms: int = arms(default=1000)
    delta: float | None = number(default=None, above=0.0, below=1.0, optional=True, remedy="try 0.05")


class SpsSettings(NamedTuple):
    """The numbers the kernels read; the band of round t is sqrt((width + growth ln t) / 2t)."""

    thresholds: Array
    alpha: float
    width: float
    growth: float


class SpsState(NamedTuple):
    """How many revealed scores lie at each arm, and rounds, scores below the arm, the arm itself."""

    counts: NDArray[np.int64]
    clock: NDArray[np.int64]


def prepare(parameters: SpsParameters) -> SpsSettings:
    """Return the numbers for these parameters: with a horizon, delta / T is risked every round."""
    thresholds = uniform(parameters.arms)
    if parameters.horizon is None:
        risk = 6.0 / math.pi**2 * (parameters.delta or 0.05)
        return SpsSettings(thresholds, parameters.alpha, width=math.log(2.0 / risk), growth=2.0)
    risk = (parameters.delta or 1.0 / parameters.horizon) / parameters.horizon
    return SpsSettings(thresholds, parameters.alpha, width=math.log(2.0 / risk), growth=0.0)


def start(settings: SpsSettings) -> SpsState:
    """Return the state before the first round: threshold 0, every label."""
    return SpsState(
        counts=np.zeros(settings.thresholds.size, dtype=np.int64), clock=np.zeros(3, dtype=np.int64)
    )


def limits(settings: SpsSettings) -> dict[str, Any]:
    """Return what the counts may be, and the arm."""
    return {"counts": COUNT, "clock": (COUNT, COUNT, settings.thresholds.size - 1)}


@kernel
def choose(settings: SpsSettings, state: SpsState, memo: Array, ask: Ask) -> float:  # noqa: ARG001
    """Return the threshold of the present arm; nothing is drawn."""
    return settings.thresholds[state.clock[_ARM]]


@kernel
def observe(
    settings: SpsSettings,
    state: SpsState,
    memo: Array,  # noqa: ARG001
    answer: Answer,
) -> None:
    """Count the score, and rise to the (k + 1)-th smallest of t, k = floor(t (alpha - band)).

    Thresholds never fall, so that a miss, whenever it was, lies below the present one: that is all
    that its rank needs.
    """
    clock = state.clock
    clock[_ROUNDS] += 1
    # A miss is below the present arm, wherever it is: -1 puts it there.
    arm = -1 if answer.miss > 0.0 else count_at_most(settings.thresholds, answer.score) - 1
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
    prepare=prepare,
    start=start,
    limits=limits,
    choose=choose,
    observe=observe,
    summary="semi-bandit prediction sets: a quantile of the scores seen, less a confidence band",
    guarantee="i.i.d. scores only: with probability 1 - delta no round's miss rate exceeds alpha; "
    "it never lowers a threshold, so after a downward drift it misses for ever",
    source="Ge et al. (2025), arXiv 2405.13268",
)
