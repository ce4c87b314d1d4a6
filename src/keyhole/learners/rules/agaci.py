"""AgACI, linearised: trackers of several speeds, averaged by Bernstein online aggregation.

Every expert steps with the miss or hit of the threshold that was played, and is judged by the
linearised pinball loss, so that hit or miss is enough.

This departs from the published code (Zaffran et al., 2022) in what partial feedback asks for: there
an expert is ACI on the level of a quantile of past scores and steps with its own miss, which needs
every label; the two ends of an interval are mixed apart; and there are thirty rates, from 0 to
0.09. Here an expert is a threshold, one mixture plays it, and there are eight steps. The
aggregation is the same, its range rounded up to a power of two. Ours are also the shorter steps of
stale answers, and the guards.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import (
    find_excess,
    find_late_excess,
    guard_threshold,
    raise_level,
    slow,
)
from keyhole.learners.parameters import first_threshold, number, parameters, target
from keyhole.learners.rule import ON_ANY, About, Ask, Rule
from keyhole.numeric import Array, Counts, exp, kernel, ln

STEPS = tuple(0.001 * 2.0**n for n in range(8))


@parameters
class AgaciParameters:
    alpha: float = target()
    steps: Sequence[float] = number(
        "The experts' steps.", default=STEPS, above=0.0, many=True, remedy="try 0.01"
    )
    start: float = first_threshold(default=0.5)

    def complete(self) -> None:
        if len(self.steps) < 2:
            raise InvalidError(f"{len(self.steps)} steps leave nothing to average; give at least 2")

    @property
    def speeds(self) -> Array:
        return np.array(self.steps)

    @property
    def log_experts(self) -> float:
        return math.log(len(self.steps))

    @property
    def most(self) -> float:
        """The most that misses exceed alpha a round by, with answers that come at once.

        The threshold is start - (mean step) excess, the mean at least the slowest.
        """
        return self.start / min(self.steps) + (1.0 - self.alpha)

    @property
    def least(self) -> float:
        return -(1.0 - self.start) / min(self.steps) - self.alpha

    excess = find_excess
    late_excess = find_late_excess


class AgaciState(NamedTuple):
    """How far misses have moved all experts, and of every expert its loss, squares, range and rate.

    All experts step with the same misses, so that each one's threshold is start - step moved. That is
    the excess of misses as long as answers come at once; ``lateness`` says how late they were.
    """

    moved: Array
    excess: Array
    lateness: Counts
    losses: Array
    squares: Array
    ranges: Array
    rates: Array


def start(settings: AgaciParameters) -> AgaciState:
    experts = settings.speeds.size
    return AgaciState(
        moved=np.zeros(1),
        excess=np.zeros(1),
        lateness=np.zeros(1, dtype=np.int64),
        losses=np.zeros(experts),
        squares=np.zeros(experts),
        ranges=np.zeros(experts),
        rates=np.ones(experts),
    )


@kernel
def choose(settings: AgaciParameters, state: AgaciState, memo: Array, ask: Ask) -> float:
    """Return the mean of the experts' thresholds with weights rate exp(-rate loss)."""
    top = -np.inf  # Weights are logarithms until the largest is known: none may overflow.
    for k in range(settings.speeds.size):
        power = ln(state.rates[k]) - state.rates[k] * state.losses[k]
        top = power if power > top else top
    total = 0.0
    mean = 0.0
    for k in range(settings.speeds.size):
        weight = exp(ln(state.rates[k]) - state.rates[k] * state.losses[k] - top)
        total += weight
        mean += weight * settings.speeds[k]
    # Every expert is at start - step moved, so that two numbers say where each of them was.
    memo[0] = mean / total
    memo[1] = state.moved[0]
    threshold = settings.start - memo[0] * memo[1]
    return guard_threshold(threshold, state.excess[0], state.lateness[0], settings.most, settings.least)


@kernel
def observe(settings: AgaciParameters, state: AgaciState, memo: Array, answer: Answer) -> None:
    """Charge every expert with (miss - alpha)(its threshold - the one played)."""
    whole = answer.miss - settings.alpha
    error = whole / slow(answer.stale)
    for k in range(settings.speeds.size):
        loss = error * (memo[0] - settings.speeds[k]) * memo[1]
        _charge(state, k, loss, settings.log_experts)
    state.moved[0] += error
    state.excess[0] += whole
    raise_level(state.lateness, answer.age)


@kernel
def _charge(state: AgaciState, expert: int, loss: float, log_experts: float) -> None:
    """Add a loss with its second-order correction, and tune the expert's rate anew."""
    state.squares[expert] += loss * loss
    state.ranges[expert] = max(state.ranges[expert], abs(loss))
    scale = 2.0 * _power_of_two(state.ranges[expert] + 0.001)
    rate = state.rates[expert]
    too_fast = scale if rate * loss > 0.5 else 0.0
    state.losses[expert] += 0.5 * (loss * (1.0 + rate * loss) + too_fast)
    if state.squares[expert] > 0.0:
        state.rates[expert] = min(1.0 / scale, math.sqrt(log_experts / state.squares[expert]))


@kernel
def _power_of_two(x: float) -> float:
    part, power = math.frexp(x)  # x = part 2^power, part in [1/2, 1)
    return math.ldexp(0.5 if part == 0.5 else 1.0, power)


agaci = Rule(
    name="agaci",
    needs=Needs.HIT_OR_MISS,
    parameters=AgaciParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=2,
    about=About(
        summary="trackers of eight speeds, averaged by how well each would have done",
        guarantee=f"|miss rate - alpha| <= (max(start, 1 - start) / smallest step + 1) / T {ON_ANY}",
        source="Zaffran et al. (2022), arXiv 2202.07282; Wintenberger (2017); linearised here",
        late="a stale answer moves the experts less, and guards that widen keep its bound: answers 100 "
        "rounds late double the size of sets, 1,000 late multiply it by thirty",
    ),
)
