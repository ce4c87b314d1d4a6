"""AgACI, linearised: trackers of several speeds, averaged by Bernstein online aggregation.

Every expert steps with the miss or hit of the threshold that was played, and is judged by the
linearised pinball loss, so that hit or miss is enough.

This departs from the published code (Zaffran et al., 2022) in what partial feedback asks for: there
an expert is ACI on the level of a quantile of past scores and steps with its own miss, which needs
every label; the two ends of an interval are aggregated apart; and there are thirty rates, from 0 to
0.09. Here an expert is a threshold, one aggregate plays it, and there are eight steps. The
aggregation is the same, its range rounded up to a power of two. Ours are also the shorter steps of
stale answers, and the guards.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Lateness
from keyhole.learners.parameters import (
    number,
    parameters,
    target,
)
from keyhole.learners.patience import bound_stretched, check_late_guards, raise_level, slow
from keyhole.learners.rule import EVERY, NONE, Ask, Excess, Rule
from keyhole.numeric import Array, Counts, exp, kernel, ln

STEPS = tuple(0.001 * 2.0**n for n in range(8))


@parameters
class AgaciParameters:
    """The parameters of AgACI.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    steps
        The experts' steps; by default eight, doubling from 0.001.
    start
        The first threshold.
    """

    alpha: float = target()
    steps: Sequence[float] = number(
        default=STEPS, above=0.0, many=True, called="step", remedy="try 0.01"
    )
    start: float = number(default=0.5, least=0.0, most=1.0, called="first threshold", remedy="try 0.5")

    def complete(self) -> None:
        """Raise if there is nothing to average."""
        if len(self.steps) < 2:
            raise InvalidError(f"{len(self.steps)} steps leave nothing to average; give at least 2")


class AgaciSettings(NamedTuple):
    """The numbers the kernels read; ``log_experts`` is the logarithm of their number."""

    alpha: float
    steps: Array
    start: float
    log_experts: float
    most: float
    least: float


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


def prepare(parameters: AgaciParameters) -> AgaciSettings:
    """Return the numbers the kernels read."""
    steps, (least, most) = np.array(parameters.steps), excess(parameters, 0)
    return AgaciSettings(parameters.alpha, steps, parameters.start, math.log(steps.size), most, least)


def start(settings: AgaciSettings) -> AgaciState:
    """Return the state before the first round: equal weights."""
    experts = settings.steps.size
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
def choose(settings: AgaciSettings, state: AgaciState, memo: Array, ask: Ask) -> float:  # noqa: ARG001
    """Return the mean of the experts' thresholds with weights rate exp(-rate loss)."""
    top = -np.inf  # Weights are logarithms until the largest is known: none may overflow.
    for k in range(settings.steps.size):
        power = ln(state.rates[k]) - state.rates[k] * state.losses[k]
        top = power if power > top else top
    total = 0.0
    mean = 0.0
    for k in range(settings.steps.size):
        weight = exp(ln(state.rates[k]) - state.rates[k] * state.losses[k] - top)
        total += weight
        mean += weight * settings.steps[k]
    # Every expert is at start - step moved, so that two numbers say where each of them was.
    memo[0] = mean / total
    memo[1] = state.moved[0]
    guard = check_late_guards(state.excess[0], state.lateness[0], settings.most, settings.least)
    if guard != 0:
        return EVERY if guard > 0 else NONE
    return max(EVERY, settings.start - memo[0] * memo[1])


@kernel
def observe(
    settings: AgaciSettings,
    state: AgaciState,
    memo: Array,
    answer: Answer,
) -> None:
    """Charge every expert with (miss - alpha)(its threshold - the one played)."""
    whole = answer.miss - settings.alpha
    error = whole / slow(answer.stale)
    for k in range(settings.steps.size):
        loss = error * (memo[0] - settings.steps[k]) * memo[1]
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
    """Return the smallest power of two that is at least x."""
    part, power = math.frexp(x)  # x = part 2^power, part in [1/2, 1)
    return math.ldexp(0.5 if part == 0.5 else 1.0, power)


def excess(parameters: AgaciParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds: the threshold is start - (mean step) excess, the mean at least the slowest."""
    p = parameters
    slowest = min(p.steps)
    return Excess(least=-(1.0 - p.start) / slowest - p.alpha, most=p.start / slowest + (1.0 - p.alpha))


def late_excess(parameters: AgaciParameters, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds that the guards keep, which stand at those of prompt answers, and wider."""
    prompt = excess(parameters, rounds)
    return bound_stretched(prompt, alpha=parameters.alpha, rounds=rounds, lateness=lateness)


agaci = Rule(
    name="agaci",
    needs=Needs.HIT_OR_MISS,
    parameters=AgaciParameters,
    prepare=prepare,
    start=start,
    memory=2,
    choose=choose,
    observe=observe,
    summary="trackers of eight speeds, averaged by how well each would have done",
    guarantee="|miss rate - alpha| <= (max(start, 1 - start) / smallest step + 1) / T on any sequence",
    source="Zaffran et al. (2022), arXiv 2202.07282; Wintenberger (2017); linearised here",
    excess=excess,
    late_excess=late_excess,
    late="a stale answer moves the experts less, and guards that widen keep its bound: answers 100 "
    "rounds late double the size of sets, 1,000 late multiply it by thirty",
)
