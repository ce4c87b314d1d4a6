"""SPS: raise the threshold to a quantile of what was seen, less a confidence band, never lower it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole import grid
from keyhole.checks import is_real
from keyhole.errors import RateError
from keyhole.feedback import Needs
from keyhole.grid import Array, count_at_most
from keyhole.kernel import kernel
from keyhole.learners._rule import Distribution, Rule, checked_alpha
from keyhole.learners.strategy import checked_horizon

_ROUNDS, _BELOW, _ARM = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
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

    alpha: float
    horizon: int | None = None
    arms: int = 1000
    delta: float | None = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "horizon", checked_horizon(self.horizon))
        set_once(self, "arms", grid.uniform(self.arms).size)
        if self.delta is not None and not (is_real(self.delta) and 0.0 < self.delta < 1.0):
            raise RateError(f"delta {self.delta!r} is not a number between 0 and 1; try 0.05")
        set_once(self, "delta", None if self.delta is None else float(self.delta))


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
    thresholds = grid.uniform(parameters.arms)
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


def memory(settings: SpsSettings) -> int:  # noqa: ARG001
    """Return 0: an answer says all that its round must remember."""
    return 0


def distribution(settings: SpsSettings, state: SpsState) -> Distribution:
    """Return the one threshold that will be played."""
    return Distribution(settings.thresholds[state.clock[_ARM:]], np.ones(1))


@kernel
def choose(settings: SpsSettings, state: SpsState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the threshold of the present arm; nothing is drawn."""
    return settings.thresholds[state.clock[_ARM]]


@kernel
def observe(
    settings: SpsSettings,
    state: SpsState,
    memo: Array,  # noqa: ARG001
    missed: bool,
    score: float,
) -> None:
    """Count the score, and rise to the (k + 1)-th smallest of t, k = floor(t (alpha - band)).

    Thresholds never fall, so that a miss, whenever it was, lies below the present one: that is all
    that its rank needs.
    """
    clock = state.clock
    clock[_ROUNDS] += 1
    arm = -1 if missed else count_at_most(settings.thresholds, score) - 1
    if arm < clock[_ARM]:
        clock[_BELOW] += 1
    else:
        state.counts[arm] += 1
    rounds = clock[_ROUNDS]
    band = math.sqrt((settings.width + settings.growth * math.log(rounds)) / (2.0 * rounds))
    rank = math.floor(rounds * (settings.alpha - band)) + 1
    while clock[_BELOW] + state.counts[clock[_ARM]] < rank:
        clock[_BELOW] += state.counts[clock[_ARM]]
        clock[_ARM] += 1


sps = Rule(
    name="sps",
    needs=Needs.LABEL_IF_HIT,
    parameters=SpsParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    observe=observe,
    distribution=distribution,
    summary="semi-bandit prediction sets: a quantile of the scores seen, less a confidence band",
    guarantee="i.i.d. scores only: with probability 1 - delta no round's miss rate exceeds alpha; "
    "it never lowers a threshold, so that a drift downwards stays missed for ever",
    source="Ge et al. (2025), arXiv 2405.13268",
)
