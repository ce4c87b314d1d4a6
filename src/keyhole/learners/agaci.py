"""AgACI, linearised: trackers of several speeds, averaged by Bernstein online aggregation.

Every expert steps with the miss or hit of the threshold that was played, and is judged by the
linearised pinball loss, so that hit or miss is enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from keyhole.errors import RateError
from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._arithmetic import ln
from keyhole.learners._point import EVERY, certain, checked_positive, checked_start
from keyhole.learners._rule import Excess, Rule, checked_alpha
from keyhole.learners._weights import exp

STEPS = tuple(0.001 * 2.0**n for n in range(8))


@dataclass(frozen=True, kw_only=True)
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

    alpha: float
    steps: Sequence[float] = field(default=STEPS, repr=False)
    start: float = 0.5
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        if len(self.steps) < 2:
            raise RateError(f"{len(self.steps)} steps leave nothing to average; give at least 2")
        steps = tuple(checked_positive(step, "step", "try 0.01") for step in self.steps)
        set_once(self, "steps", steps)
        set_once(self, "start", checked_start(self.start))


class AgaciSettings(NamedTuple):
    """The numbers the kernels read; ``log_experts`` is the logarithm of their number."""

    alpha: float
    steps: Array
    start: float
    log_experts: float


class AgaciState(NamedTuple):
    """The excess of misses, and of every expert its loss, squares, range and rate.

    All experts step with the same misses, so that each one's threshold is start - step excess.
    """

    excess: Array
    losses: Array
    squares: Array
    ranges: Array
    rates: Array


def prepare(parameters: AgaciParameters) -> AgaciSettings:
    """Return the numbers the kernels read."""
    steps = np.array(parameters.steps)
    return AgaciSettings(parameters.alpha, steps, parameters.start, math.log(steps.size))


def start(settings: AgaciSettings) -> AgaciState:
    """Return the state before the first round: equal weights."""
    experts = settings.steps.size
    return AgaciState(
        excess=np.zeros(1),
        losses=np.zeros(experts),
        squares=np.zeros(experts),
        ranges=np.zeros(experts),
        rates=np.ones(experts),
    )


def memory(settings: AgaciSettings) -> int:  # noqa: ARG001
    """Return that a round remembers its mean step and the excess of its time."""
    return 2


@kernel
def choose(settings: AgaciSettings, state: AgaciState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the mean of the experts' thresholds with weights rate exp(-rate loss)."""
    top = -np.inf
    for k in range(settings.steps.size):
        power = ln(state.rates[k]) - state.rates[k] * state.losses[k]
        top = power if power > top else top
    total = 0.0
    mean = 0.0
    for k in range(settings.steps.size):
        weight = exp(ln(state.rates[k]) - state.rates[k] * state.losses[k] - top)
        total += weight
        mean += weight * settings.steps[k]
    memo[0] = mean / total
    memo[1] = state.excess[0]
    return max(EVERY, settings.start - memo[0] * memo[1])


@kernel
def observe(
    settings: AgaciSettings,
    state: AgaciState,
    memo: Array,
    missed: bool,
    score: float,  # noqa: ARG001
) -> None:
    """Charge every expert with (miss - alpha)(its threshold - the one played)."""
    error = (1.0 if missed else 0.0) - settings.alpha
    for k in range(settings.steps.size):
        loss = error * (memo[0] - settings.steps[k]) * memo[1]
        _charge(state, k, loss, settings.log_experts)
    state.excess[0] += error


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
    part, power = math.frexp(x)
    return math.ldexp(0.5 if part == 0.5 else 1.0, power)


def excess(parameters: AgaciParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds: the threshold is start - (mean step) excess, the mean at least the slowest."""
    p = parameters
    slowest = min(p.steps)
    return Excess(least=-(1.0 - p.start) / slowest - p.alpha, most=p.start / slowest + (1.0 - p.alpha))


agaci = Rule(
    name="agaci",
    needs=Needs.HIT_OR_MISS,
    parameters=AgaciParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    observe=observe,
    distribution=certain(choose, memory),
    summary="trackers of eight speeds, averaged by how well each would have done",
    guarantee="|miss rate - alpha| <= (max(start, 1 - start) / smallest step + 1) / T on any stream",
    source="Zaffran et al. (2022), arXiv 2202.07282; Wintenberger (2017); linearised here",
    excess=excess,
)
