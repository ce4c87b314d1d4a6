"""The self-scaled tracker: a logit tracker whose step follows the spread of the scores near it.

For scores that are badly normalised or jump in scale. Its steps vary, which breaks the sum that
bounds the misses of a plain tracker; an integral term and a guard on the excess take its place.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Excess, Lateness, bound_stretched, raise_level, slow, stretch
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import parameters, positive, target
from keyhole.learners.rule import EVERY, NONE, ON_ANY, About, Ask, Rule
from keyhole.numeric import Array, Counts, exp, kernel, logit, sigmoid

_EDGE = math.log((1.0 - 1e-8) / 1e-8)
_NARROWEST, _WIDEST = math.log(1e-3), math.log(10.0)
_STEPS, _RUN = 0, 1


@parameters
class SelfScaledParameters:
    alpha: float = target()
    step: float = positive("The step, in widths of the band it follows (c).", default=0.1)
    stretch: float = positive("How fast that width moves (kappa).", default=0.1)
    budget: float = positive("The excess at which it plays every label, or none (B).", default=100.0)

    @property
    def inside(self) -> float:
        """How much a score in the band narrows it."""
        return max(2.0, 4.0 * self.alpha / (1.0 - self.alpha))

    @property
    def run(self) -> int:
        """After how many hits in a row it jumps up."""
        return math.ceil(5.0 / self.alpha)

    def excess(self, rounds: int) -> Excess:
        """Return the bounds, which the guard keeps."""
        return Excess(least=-self.budget - self.alpha, most=self.budget + 1.0 - self.alpha)

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds that the guards keep, which widen with how late answers were."""
        guards = Excess(least=-self.budget, most=self.budget)
        return bound_stretched(guards, alpha=self.alpha, rounds=rounds, lateness=lateness)


class SelfScaledState(NamedTuple):
    """Logit of the threshold, logarithm of the band's width, excess of misses; and the last logits.

    ``clock`` holds the steps taken and how many hits came in a row.
    """

    position: Array = np.zeros(1)
    log_width: Array = np.zeros(1)
    excess: Array = np.zeros(1)
    clock: Counts = np.zeros(2, dtype=np.int64)
    lateness: Counts = np.zeros(1, dtype=np.int64)
    logits: Array = np.zeros(1)


def start(settings: SelfScaledParameters) -> SelfScaledState:
    return SelfScaledState(logits=np.zeros(settings.run))


@kernel
def choose(settings: SelfScaledParameters, state: SelfScaledState, memo: Array, ask: Ask) -> float:
    """Return the threshold of this position, or all or nothing where the guard says so."""
    position = state.position[0]
    excess = state.excess[0]
    budget = settings.budget * stretch(state.lateness[0]) + 2.0 * state.lateness[0]
    # A forced outcome says nothing of the position, so that its round must not step.
    memo[0] = position
    memo[1] = 1.0 if abs(excess) >= budget else 0.0  # whether the guard forced the outcome
    if excess >= budget or (position < -_EDGE and excess > -budget):
        return EVERY
    if excess <= -budget or position > _EDGE:
        return NONE
    return sigmoid(position)


@kernel
def observe(
    settings: SelfScaledParameters, state: SelfScaledState, memo: Array, answer: Answer
) -> None:
    """Count the miss; unless forced, step and stretch the band; after many hits in a row, jump up."""
    missed = answer.miss > 0.0
    place = -_EDGE if missed else logit(answer.score, _EDGE)  # of a miss only "below" is told
    state.excess[0] += answer.miss - settings.alpha
    if memo[1] == 0.0:
        _step(settings, state, memo[0], missed, place, slow(answer.stale))
    raise_level(state.lateness, answer.age)
    if missed:
        state.clock[_RUN] = 0
        return
    state.logits[state.clock[_RUN] % settings.run] = place
    state.clock[_RUN] += 1
    if state.clock[_RUN] >= settings.run:
        state.position[0] = max(state.position[0], state.logits.min())


@kernel
def _step(
    settings: SelfScaledParameters,
    state: SelfScaledState,
    played: float,
    missed: bool,
    place: float,
    damping: float,
) -> None:
    miss = 1.0 if missed else 0.0
    width = exp(state.log_width[0] - _WIDEST) * 10.0  # exp is for powers up to 0
    pace = max(settings.step, 1.0 / (1.0 + settings.alpha * state.clock[_STEPS]))
    # Steps of changing width break the sum that keeps misses at alpha; this pull restores it slowly.
    pull = settings.step * settings.step / 16.0 * settings.alpha * state.excess[0]
    state.position[0] -= width * (pace * (miss - settings.alpha) + pull) / damping
    in_band = 1.0 if not missed and place < played + width else 0.0
    stretch = settings.stretch / damping
    moved = state.log_width[0] + stretch * (miss + settings.alpha - settings.inside * in_band)
    state.log_width[0] = min(_WIDEST, max(_NARROWEST, moved))
    state.clock[_STEPS] += 1


self_scaled = Rule(
    name="self-scaled",
    needs=Needs.LABEL_IF_HIT,
    parameters=SelfScaledParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=2,
    limits=lambda _: {"clock": COUNT, "lateness": COUNT},
    about=About(
        summary="a logit tracker that finds its own step; for scores of unknown or changing scale",
        guarantee="alpha - (budget + alpha) / T <= miss rate <= alpha + (budget + 1 - alpha) / T "
        f"{ON_ANY}",
        source="this project",
        late="a stale answer moves it and its band less, and guards that widen keep its bound: answers "
        "300 rounds late, or batches of 100, cost 5 percent; 1,000 late triple the size of sets, and "
        "the miss rate is off by 0.03",
    ),
)
