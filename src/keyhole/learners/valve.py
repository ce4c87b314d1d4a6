"""The safety valve: around any learner, it plays every label while misses exceed their budget.

With D the excess of misses, sum(miss - alpha), and the budget B_t = budget sqrt(t): if D >= B_t before
round t, the round is forced to threshold 0, which cannot miss. So D < B_T + 1 - alpha after T rounds,
whatever the stream, the adversary and the learner inside.
"""

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._point import EVERY, checked_positive
from keyhole.learners._rule import Distribution, Excess, Learner, Parameters, Rule

SUFFIX = "+valve"
_EXCESS, _ROUNDS = 0, 1
_named: Any = namedtuple

Choose = Callable[[Any, Any, Array, float], float]
Observe = Callable[[Any, Any, Array, bool, float], None]


@dataclass(frozen=True, kw_only=True)
class ValveParameters:
    """The parameters of the learner inside, and the valve's budget after one round."""

    inner: Parameters
    budget: float

    @property
    def alpha(self) -> float:
        """The target miss rate."""
        return self.inner.alpha

    @property
    def horizon(self) -> int | None:
        """The number of rounds that the learner inside is tuned for, if it is."""
        return self.inner.horizon


def safety_valve(learner: Learner, *, budget: float = 1.0) -> Learner:
    """Return the learner behind a safety valve.

    On a forced round the learner inside learns what its own threshold would have brought, if it
    hears of scores; if it hears only of hits and misses it learns nothing.

    Parameters
    ----------
    learner
        Any learner.
    budget
        After t rounds the valve bears an excess of ``budget`` sqrt(t) misses.

    Examples
    --------
    >>> from keyhole import make
    >>> safety_valve(make("kt", alpha=0.1)).name
    'kt+valve'
    """
    budget = checked_positive(budget, "budget", "try 1")
    parameters = ValveParameters(inner=learner.parameters, budget=budget)
    inside: Any = type(learner.start())
    return Learner(_rule(learner.rule, inside), parameters)


class ValveSettings(NamedTuple):
    """The settings of the learner inside, and the valve's own."""

    inner: Any
    alpha: float
    budget: float
    groups: int


@kernel
def _is_forced(settings: ValveSettings, valve: Array) -> bool:
    return valve[_EXCESS] >= settings.budget * math.sqrt(valve[_ROUNDS] + 1.0)


def excess(parameters: ValveParameters, rounds: int) -> Excess:
    """Return the bounds; the lower one says only that there are no fewer than no misses."""
    alpha = parameters.alpha
    most = parameters.budget * math.sqrt(rounds) + 1.0 - alpha
    return Excess(least=-alpha * rounds, most=most)


def _kernels(inner: Rule[...], inside: Any) -> tuple[Choose, Observe]:
    """Return the kernels around those of a rule whose state is of this type.

    The valve's two numbers are the last array of the state. The first two numbers of the memo are
    the threshold of the learner inside and whether it was overruled.
    """
    inner_choose, inner_observe = inner.choose, inner.observe
    hears_scores = inner.needs != Needs.HIT_OR_MISS
    hears_missed_scores = inner.needs == Needs.LABEL_ALWAYS

    @kernel
    def choose(settings: ValveSettings, state: Any, memo: Array, draw: float) -> float:
        threshold = inner_choose(settings.inner, inside(*state[:-1]), memo[2:], draw)
        forced = _is_forced(settings, state[-1])
        memo[0] = threshold
        memo[1] = 1.0 if forced else 0.0
        return EVERY if forced else threshold

    @kernel
    def observe(settings: ValveSettings, state: Any, memo: Array, missed: bool, score: float) -> None:
        valve = state[-1]
        valve[_EXCESS] += (1.0 if missed else 0.0) - settings.alpha
        valve[_ROUNDS] += 1.0
        held = inside(*state[:-1])
        if memo[1] == 0.0:
            inner_observe(settings.inner, held, memo[2:], missed, score)
        elif hears_scores and not missed:
            own_miss = score < memo[0]
            told = score if not own_miss or hears_missed_scores else np.nan
            inner_observe(settings.inner, held, memo[2:], own_miss, told)

    return choose, observe


@cache
def _rule(inner: Rule[...], inside: Any) -> Rule[...]:
    """Return the rule around this one; made once, so that its kernels compile once."""
    state_type = _named(f"{inside.__name__}Valved", (*inside._fields, "valve"))
    choose, observe = _kernels(inner, inside)

    def prepare(parameters: ValveParameters) -> ValveSettings:
        held = inner.prepare(parameters.inner)
        groups = int(getattr(held, "groups", 0))
        return ValveSettings(held, parameters.alpha, parameters.budget, groups)

    def start(settings: ValveSettings) -> Any:
        return state_type(*inner.start(settings.inner), np.zeros(2))

    def memory(settings: ValveSettings) -> int:
        return inner.memory(settings.inner) + 2

    def distribution(settings: ValveSettings, state: Any) -> Distribution:
        if _is_forced(settings, state[-1]):
            return Distribution(np.array([EVERY]), np.ones(1))
        return inner.distribution(settings.inner, inside(*state[:-1]))

    return Rule(
        name=inner.name + SUFFIX,
        needs=inner.needs,
        parameters=ValveParameters,
        prepare=prepare,
        start=start,
        memory=memory,
        choose=choose,
        observe=observe,
        distribution=distribution,
        summary=f"{inner.name}, and every label while there are too many misses",
        guarantee="miss rate < alpha + (budget sqrt(T) + 1 - alpha) / T on any stream",
        source="this project",
        excess=excess,
    )
