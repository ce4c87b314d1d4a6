"""The decaying tracker: steps that shrink, and start afresh when the misses say that it drifted."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import TheoremError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Excess
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import first_threshold, number, parameters, positive, target, whole
from keyhole.learners.rule import EVERY, ON_ANY, About, Ask, Rule
from keyhole.numeric import Array, Counts, exp, kernel, ln

_CLOCK, _SEEN, _MISSES = 0, 1, 2


@parameters
class DecayingParameters:
    alpha: float = target()
    first: float = positive("The first step; step n is first n^-decay.", default=1.0)
    decay: float = number("How fast steps shrink.", default=0.6, above=0.0, below=1.0)
    start: float = first_threshold(default=0.5)
    window: int | None = whole(
        "How many misses are watched for drift, upon which steps start afresh; None never.",
        default=200,
        most=10**6,
        optional=True,
    )
    alarm: float = positive("How many standard errors from alpha are drift.", default=4.0)

    @property
    def length(self) -> int:
        return self.window or 1

    @property
    def tolerance(self) -> float:
        """How far the window's miss rate may be from alpha; infinity never starts afresh."""
        if self.window is None:
            return math.inf
        return self.alarm * math.sqrt(self.alpha * (1.0 - self.alpha) / self.length)

    def excess(self, rounds: int) -> Excess:
        """Return the bounds, which hold as long as the steps only shrink."""
        if self.window is not None:
            raise TheoremError(
                "no theorem bounds the misses of steps that start afresh; use window=None"
            )
        last = self.first * rounds**-self.decay
        return Excess(least=-(1.0 + self.first) / last, most=(1.0 + self.first) / last)


class DecayingState(NamedTuple):
    """The threshold; the steps taken, rounds seen and misses of the window; and those rounds."""

    threshold: Array
    clock: Counts = np.zeros(3, dtype=np.int64)
    recent: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)


def start(settings: DecayingParameters) -> DecayingState:
    recent = np.zeros(settings.length, dtype=np.bool_)
    return DecayingState(np.array([settings.start]), recent=recent)


@kernel
def play_held(settings: Any, state: Any, memo: Array, ask: Ask) -> float:
    """Return the threshold that the state holds; at 0, or below, it is every label, above 1 none."""
    return max(EVERY, state.threshold[0])


@kernel
def observe(settings: DecayingParameters, state: DecayingState, memo: Array, answer: Answer) -> None:
    """Step against miss - alpha, then look for drift."""
    clock = state.clock
    clock[_CLOCK] += 1
    step = settings.first * exp(-settings.decay * ln(float(clock[_CLOCK])))
    state.threshold[0] -= step * (answer.miss - settings.alpha)
    _remember(state, answer.miss > 0.0)
    if clock[_SEEN] >= settings.length:
        rate = clock[_MISSES] / settings.length
        if abs(rate - settings.alpha) > settings.tolerance:
            clock[:] = 0
            state.recent[:] = False


@kernel
def _remember(state: DecayingState, missed: bool) -> None:
    place = state.clock[_SEEN] % state.recent.size
    state.clock[_MISSES] += int(missed) - int(state.recent[place])
    state.recent[place] = missed
    state.clock[_SEEN] += 1


tracker_decaying = Rule(
    name="tracker-decaying",
    needs=Needs.HIT_OR_MISS,
    parameters=DecayingParameters,
    choose=play_held,
    observe=observe,
    state=start,
    limits=lambda _: {"clock": COUNT},
    about=About(
        summary="a tracker whose steps shrink as n^-0.6, and restart when the misses drift",
        guarantee="without restarts |miss rate - alpha| <= (1 + first) T^decay / (first T) "
        f"{ON_ANY}; i.i.d.: the threshold converges",
        source="Angelopoulos, Barber and Bates (2024), arXiv 2402.01139; the restart is this project's",
        late="every answer counts alike, however old, and its first steps are long: with answers 10 "
        "rounds late sets are hundreds of times too large, with 100 thousands of times; use it only "
        "with prompt answers",
    ),
)
