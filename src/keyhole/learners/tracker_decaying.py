"""The decaying tracker: steps that shrink, and start afresh when the misses say that it drifted."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import TheoremError
from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._arithmetic import ln
from keyhole.learners._point import (
    certain,
    checked_between,
    checked_count,
    checked_positive,
    checked_start,
    held_threshold,
    one_number,
)
from keyhole.learners._rule import Excess, Rule, checked_alpha
from keyhole.learners._weights import exp

_CLOCK, _SEEN, _MISSES = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class DecayingTrackerParameters:
    """The parameters of the decaying tracker.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    first
        The first step; step n is first n^-decay.
    decay
        How fast steps shrink, between 1/2 and 1.
    start
        The first threshold.
    window
        Start the steps afresh when the misses of this many rounds are ``alarm`` standard errors
        from alpha; None never does.
    alarm
        How many standard errors.
    """

    alpha: float
    first: float = 1.0
    decay: float = 0.6
    start: float = 0.5
    window: int | None = 200
    alarm: float = 4.0
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "first", checked_positive(self.first, "first step", "try 1"))
        set_once(self, "decay", checked_between(self.decay, "decay", "try 0.6", low=0.0, high=1.0))
        set_once(self, "start", checked_start(self.start))
        set_once(self, "alarm", checked_positive(self.alarm, "alarm", "try 4"))
        if self.window is not None:
            set_once(self, "window", checked_count(self.window, "window", "try 200, or None"))


class DecayingTrackerSettings(NamedTuple):
    """The numbers the kernels read; a tolerance of infinity never starts afresh."""

    alpha: float
    first: float
    decay: float
    start: float
    window: int
    tolerance: float


class DecayingTrackerState(NamedTuple):
    """The threshold; the steps taken, rounds seen and misses of the window; and those rounds."""

    threshold: Array
    clock: NDArray[np.int64]
    recent: NDArray[np.bool_]


def prepare(parameters: DecayingTrackerParameters) -> DecayingTrackerSettings:
    """Return the numbers the kernels read."""
    alpha, window = parameters.alpha, parameters.window or 1
    error = math.sqrt(alpha * (1.0 - alpha) / window)
    return DecayingTrackerSettings(
        alpha=alpha,
        first=parameters.first,
        decay=parameters.decay,
        start=parameters.start,
        window=window,
        tolerance=math.inf if parameters.window is None else parameters.alarm * error,
    )


def start(settings: DecayingTrackerSettings) -> DecayingTrackerState:
    """Return the state before the first round."""
    return DecayingTrackerState(
        threshold=np.array([settings.start]),
        clock=np.zeros(3, dtype=np.int64),
        recent=np.zeros(settings.window, dtype=np.bool_),
    )


@kernel
def observe(
    settings: DecayingTrackerSettings,
    state: DecayingTrackerState,
    memo: Array,  # noqa: ARG001
    missed: bool,
    score: float,  # noqa: ARG001
) -> None:
    """Step against miss - alpha, then look for drift."""
    clock = state.clock
    clock[_CLOCK] += 1
    step = settings.first * exp(-settings.decay * ln(float(clock[_CLOCK])))
    state.threshold[0] -= step * ((1.0 if missed else 0.0) - settings.alpha)
    _remember(state, missed)
    if clock[_SEEN] >= settings.window:
        rate = clock[_MISSES] / settings.window
        if abs(rate - settings.alpha) > settings.tolerance:
            clock[:] = 0
            state.recent[:] = False


@kernel
def _remember(state: DecayingTrackerState, missed: bool) -> None:
    place = state.clock[_SEEN] % state.recent.size
    state.clock[_MISSES] += int(missed) - int(state.recent[place])
    state.recent[place] = missed
    state.clock[_SEEN] += 1


def excess(parameters: DecayingTrackerParameters, rounds: int) -> Excess:
    """Return the bounds, which hold as long as the steps only shrink."""
    p = parameters
    if p.window is not None:
        raise TheoremError("no theorem bounds the misses of steps that start afresh; use window=None")
    last = p.first * rounds**-p.decay
    return Excess(least=-(1.0 + p.first) / last, most=(1.0 + p.first) / last)


tracker_decaying = Rule(
    name="tracker-decaying",
    needs=Needs.HIT_OR_MISS,
    parameters=DecayingTrackerParameters,
    prepare=prepare,
    start=start,
    memory=one_number,
    choose=held_threshold,
    observe=observe,
    distribution=certain(held_threshold, one_number),
    summary="a tracker whose steps shrink as n^-0.6, and start afresh when the misses drift",
    guarantee="without restarts |miss rate - alpha| <= (1 + first) T^decay / (first T) on any stream; "
    "i.i.d.: the threshold converges",
    source="Angelopoulos, Barber and Bates (2024), arXiv 2402.01139; the restart is this project's",
    excess=excess,
)
