"""The self-scaled tracker: a logit tracker whose step follows the spread of the scores near it.

For scores that are badly normalised or jump in scale. Its steps vary, which breaks the sum that
bounds the misses of a plain tracker; an integral term and a guard on the excess take its place.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._arithmetic import logit, sigmoid
from keyhole.learners._point import EVERY, NONE, certain, checked_positive
from keyhole.learners._rule import Excess, Rule, checked_alpha
from keyhole.learners._weights import exp

_EDGE = math.log((1.0 - 1e-8) / 1e-8)
_NARROWEST, _WIDEST = math.log(1e-3), math.log(10.0)
_STEPS, _RUN = 0, 1


@dataclass(frozen=True, kw_only=True)
class SelfScaledParameters:
    """The parameters of the self-scaled tracker.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    step
        The step, in widths of the band it follows (c).
    stretch
        How fast that width moves (kappa).
    budget
        The excess of misses, or of hits, at which it plays every label, or none (B).
    """

    alpha: float
    step: float = 0.1
    stretch: float = 0.1
    budget: float = 100.0
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "step", checked_positive(self.step, "step", "try 0.1"))
        set_once(self, "stretch", checked_positive(self.stretch, "stretch", "try 0.1"))
        set_once(self, "budget", checked_positive(self.budget, "budget", "try 100"))


class SelfScaledSettings(NamedTuple):
    """The numbers the kernels read; ``inside`` is how much a score in the band narrows it."""

    alpha: float
    step: float
    stretch: float
    budget: float
    inside: float
    run: int


class SelfScaledState(NamedTuple):
    """Logit of the threshold, logarithm of the band's width, excess of misses; and the last logits.

    ``clock`` holds the steps taken and how many hits came in a row.
    """

    position: Array
    log_width: Array
    excess: Array
    clock: NDArray[np.int64]
    logits: Array


def prepare(parameters: SelfScaledParameters) -> SelfScaledSettings:
    """Return the numbers the kernels read."""
    p = parameters
    inside = max(2.0, 4.0 * p.alpha / (1.0 - p.alpha))
    return SelfScaledSettings(p.alpha, p.step, p.stretch, p.budget, inside, math.ceil(5.0 / p.alpha))


def start(settings: SelfScaledSettings) -> SelfScaledState:
    """Return the state before the first round: threshold 1/2, width 1."""
    return SelfScaledState(
        position=np.zeros(1),
        log_width=np.zeros(1),
        excess=np.zeros(1),
        clock=np.zeros(2, dtype=np.int64),
        logits=np.zeros(settings.run),
    )


def memory(settings: SelfScaledSettings) -> int:  # noqa: ARG001
    """Return that a round remembers its position and whether the guard forced its threshold."""
    return 2


@kernel
def choose(settings: SelfScaledSettings, state: SelfScaledState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the threshold of this position, or all or nothing where the guard says so."""
    position = state.position[0]
    excess = state.excess[0]
    memo[0] = position
    memo[1] = 1.0 if abs(excess) >= settings.budget else 0.0
    if excess >= settings.budget or (position < -_EDGE and excess > -settings.budget):
        return EVERY
    if excess <= -settings.budget or position > _EDGE:
        return NONE
    return sigmoid(position)


@kernel
def observe(
    settings: SelfScaledSettings, state: SelfScaledState, memo: Array, missed: bool, score: float
) -> None:
    """Count the miss; unless forced, step and stretch the band; after many hits in a row, jump up."""
    place = -_EDGE if missed else logit(score, _EDGE)
    state.excess[0] += (1.0 if missed else 0.0) - settings.alpha
    if memo[1] == 0.0:
        _step(settings, state, memo[0], missed, place)
    if missed:
        state.clock[_RUN] = 0
        return
    state.logits[state.clock[_RUN] % settings.run] = place
    state.clock[_RUN] += 1
    if state.clock[_RUN] >= settings.run:
        state.position[0] = max(state.position[0], state.logits.min())


@kernel
def _step(
    settings: SelfScaledSettings, state: SelfScaledState, played: float, missed: bool, place: float
) -> None:
    miss = 1.0 if missed else 0.0
    width = exp(state.log_width[0] - _WIDEST) * 10.0
    pace = max(settings.step, 1.0 / (1.0 + settings.alpha * state.clock[_STEPS]))
    pull = settings.step * settings.step / 16.0 * settings.alpha * state.excess[0]
    state.position[0] -= width * (pace * (miss - settings.alpha) + pull)
    in_band = 1.0 if not missed and place < played + width else 0.0
    moved = state.log_width[0] + settings.stretch * (miss + settings.alpha - settings.inside * in_band)
    state.log_width[0] = min(_WIDEST, max(_NARROWEST, moved))
    state.clock[_STEPS] += 1


def excess(parameters: SelfScaledParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds, which the guard keeps."""
    p = parameters
    return Excess(least=-p.budget - p.alpha, most=p.budget + 1.0 - p.alpha)


self_scaled = Rule(
    name="self-scaled",
    needs=Needs.LABEL_IF_HIT,
    parameters=SelfScaledParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    observe=observe,
    distribution=certain(choose, memory),
    summary="a logit tracker that finds its own step; for scores of unknown or changing scale",
    guarantee="alpha - (budget + alpha) / T <= miss rate <= alpha + (budget + 1 - alpha) / T "
    "on any stream",
    source="this project",
    excess=excess,
)
