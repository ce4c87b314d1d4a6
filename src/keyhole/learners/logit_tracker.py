"""The logit tracker: a quantile tracker whose threshold moves on the logit scale.

A fixed step in the threshold jumps where sets explode, near 0; the same step in its logit does not.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import RateError
from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._arithmetic import sigmoid
from keyhole.learners._point import EVERY, NONE, certain, checked_between, checked_positive, one_number
from keyhole.learners._rule import Excess, Rule, checked_alpha


@dataclass(frozen=True, kw_only=True)
class LogitTrackerParameters:
    """The parameters of the logit tracker; none of them needs tuning.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    step
        The step in logits, for ever.
    first
        The first step; round t steps by max(step, first / (1 + alpha t)).
    margin
        Thresholds below this are every label, above 1 minus this none.
    """

    alpha: float
    step: float = 0.1
    first: float = 0.5
    margin: float = 1e-6
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "step", checked_positive(self.step, "step", "try 0.1"))
        set_once(self, "first", checked_positive(self.first, "first step", "try 0.5"))
        set_once(self, "margin", checked_between(self.margin, "margin", "try 1e-6", low=0.0, high=0.5))
        if self.first < self.step:
            raise RateError(
                f"first step {self.first} is below the last, {self.step}; make it at least as large"
            )

    @property
    def edge(self) -> float:
        """The logit beyond which a set is empty, and below whose negative it is full (Z)."""
        return math.log((1.0 - self.margin) / self.margin)


class LogitTrackerSettings(NamedTuple):
    """The numbers the kernels read."""

    alpha: float
    step: float
    first: float
    edge: float


class LogitTrackerState(NamedTuple):
    """The logit of the threshold, never clipped, and how many rounds were answered."""

    position: Array
    rounds: NDArray[np.int64]


def prepare(parameters: LogitTrackerParameters) -> LogitTrackerSettings:
    """Return the numbers the kernels read."""
    return LogitTrackerSettings(parameters.alpha, parameters.step, parameters.first, parameters.edge)


def start(settings: LogitTrackerSettings) -> LogitTrackerState:  # noqa: ARG001
    """Return the state before the first round: threshold 1/2."""
    return LogitTrackerState(np.zeros(1), np.zeros(1, dtype=np.int64))


@kernel
def choose(settings: LogitTrackerSettings, state: LogitTrackerState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the threshold of this position; beyond the edges it is all or nothing."""
    position = state.position[0]
    threshold = sigmoid(position)
    if position < -settings.edge:
        threshold = EVERY
    elif position > settings.edge:
        threshold = NONE
    memo[0] = threshold
    return threshold


@kernel
def observe(
    settings: LogitTrackerSettings,
    state: LogitTrackerState,
    memo: Array,  # noqa: ARG001
    missed: bool,
    score: float,  # noqa: ARG001
) -> None:
    """Step against miss - alpha; the first steps are larger."""
    early = settings.first / (1.0 + settings.alpha * state.rounds[0])
    step = early if early > settings.step else settings.step
    state.position[0] -= step * ((1.0 if missed else 0.0) - settings.alpha)
    state.rounds[0] += 1


def excess(parameters: LogitTrackerParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds.

    Once the step is constant, excess + position / step is too. The position stays in
    [-edge - first, edge + first alpha], because below -edge it cannot miss and above edge it must.
    Before, with r = first / step, hits add at most w = r ln r - (r - 1)(1 - alpha) to that sum, and
    misses take away at most w (1 - alpha) / alpha. Summation by parts gives the other lower bound.
    """
    p = parameters
    ratio = p.first / p.step
    warm_up = ratio * math.log(ratio) - (ratio - 1.0) * (1.0 - p.alpha)
    reach = p.edge + p.first
    by_sum = (p.edge + p.first * p.alpha) / p.step + warm_up * (1.0 - p.alpha) / p.alpha
    by_parts = reach * (2.0 / p.step - 1.0 / p.first)
    return Excess(least=-min(by_sum, by_parts), most=reach / p.step + warm_up)


logit_tracker = Rule(
    name="logit-tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=LogitTrackerParameters,
    prepare=prepare,
    start=start,
    memory=one_number,
    choose=choose,
    observe=observe,
    distribution=certain(choose, one_number),
    summary="the tracker on the logit of the threshold: one step size for every scale of scores",
    guarantee="miss rate <= alpha + 149 / T and >= alpha - 179 / T (at alpha 0.1) on any stream",
    source="this project; keyhole.bounds.excess has the numbers",
    excess=excess,
)
