"""Conformal PI control: a quantile tracker and an integrator of past errors that saturates."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._arithmetic import ln, tan
from keyhole.learners._point import EVERY, NONE, certain, checked_positive, checked_start, one_number
from keyhole.learners._rule import Excess, Rule, checked_alpha

_QUARTER_TURN = math.pi / 2.0


@dataclass(frozen=True, kw_only=True)
class PiParameters:
    """The parameters of PI control.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    step
        The tracker's step (the P of PI).
    gain
        The weight of the integrator (K_I).
    saturation
        How slowly the integrator saturates (C_sat).
    start
        The tracker's first threshold.
    """

    alpha: float
    step: float = 0.005
    gain: float = 0.1
    saturation: float = 5.0
    start: float = 0.5
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "step", checked_positive(self.step, "step", "try 0.005"))
        set_once(self, "gain", checked_positive(self.gain, "gain", "try 0.1"))
        set_once(self, "saturation", checked_positive(self.saturation, "saturation", "try 5"))
        set_once(self, "start", checked_start(self.start))


class PiSettings(NamedTuple):
    """The numbers the kernels read."""

    alpha: float
    step: float
    gain: float
    saturation: float
    start: float


class PiState(NamedTuple):
    """The tracker's threshold, the excess of misses over alpha a round, and the rounds."""

    threshold: Array
    excess: Array
    rounds: Array


def prepare(parameters: PiParameters) -> PiSettings:
    """Return the numbers the kernels read."""
    p = parameters
    return PiSettings(p.alpha, p.step, p.gain, p.saturation, p.start)


def start(settings: PiSettings) -> PiState:
    """Return the state before the first round."""
    return PiState(np.array([settings.start]), np.zeros(1), np.zeros(1))


@kernel
def choose(settings: PiSettings, state: PiState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the tracker's threshold less the integrator, which is infinite once saturated."""
    after = state.rounds[0] + 1.0
    angle = state.excess[0] * ln(after) / (settings.saturation * after)
    if angle >= _QUARTER_TURN:
        threshold = EVERY
    elif angle <= -_QUARTER_TURN:
        threshold = NONE
    else:
        threshold = max(EVERY, state.threshold[0] - settings.gain * tan(angle))
    memo[0] = threshold
    return threshold


@kernel
def observe(settings: PiSettings, state: PiState, memo: Array, missed: bool, score: float) -> None:  # noqa: ARG001
    """Step the tracker against miss - alpha, and add it to the excess."""
    error = (1.0 if missed else 0.0) - settings.alpha
    state.threshold[0] -= settings.step * error
    state.excess[0] += error
    state.rounds[0] += 1.0


def excess(parameters: PiParameters, rounds: int) -> Excess:
    """Return the bounds: beyond them the integrator is saturated, and the set full or empty."""
    saturated = _QUARTER_TURN * parameters.saturation * (rounds + 1.0) / math.log(rounds + 1.0)
    return Excess(least=-saturated - 1.0, most=saturated + 1.0)


pi = Rule(
    name="pi",
    needs=Needs.HIT_OR_MISS,
    parameters=PiParameters,
    prepare=prepare,
    start=start,
    memory=one_number,
    choose=choose,
    observe=observe,
    distribution=certain(choose, one_number),
    summary="a tracker plus a saturating integrator of past errors",
    guarantee="|miss rate - alpha| <= (pi / 2) saturation (T + 1) / (T ln(T + 1)) + 1 / T "
    "on any stream",
    source="Angelopoulos, Candes and Tibshirani (2023), arXiv 2307.16895",
    excess=excess,
)
