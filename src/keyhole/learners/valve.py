"""The safety valve: around any learner, it plays every label while misses exceed their budget.

With D the excess of misses, sum(miss - alpha), and the budget B_t = budget sqrt(t): if D >= B_t before
round t, the round is forced to threshold 0, which cannot miss. So D < B_T + 1 - alpha after T rounds,
whatever the sequence, the adversary and the learner inside.
"""

import math
from collections import namedtuple
from functools import cache, partial
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Lateness
from keyhole.learners.layout import ANY, COUNT, MEMO, spread
from keyhole.learners.parameters import parameters, positive
from keyhole.learners.rule import EVERY, Ask, Distribution, Excess, Learner, Rule, check_learner
from keyhole.numeric import Array, bind, kernel

SUFFIX = "+valve"
_EXCESS, _ROUNDS = 0, 1
_OWN = 2  # numbers of a memo, before those of the rule inside
_named: Any = namedtuple

# What stands for these names is bound anew for every rule inside.
_inner_choose: Any = None
_inner_observe: Any = None
_inside: Any = None
_hears_scores = _hears_missed_scores = False


@parameters
class ValveParameters:
    """The parameters of the learner inside, and the valve's budget after one round."""

    inner: Any
    budget: float = positive(default=1.0, remedy="try 1")

    @property
    def alpha(self) -> float:
        """The target miss rate."""
        return float(self.inner.alpha)

    @property
    def horizon(self) -> int | None:
        """The number of rounds that the learner inside is tuned for, if it is."""
        return getattr(self.inner, "horizon", None)

    @property
    def needs(self) -> Needs | None:
        """The least feedback the learner inside can work with, where its parameters decide it."""
        return getattr(self.inner, "needs", None)

    @property
    def groups(self) -> int:
        """How many groups the learner inside tells apart."""
        return int(getattr(self.inner, "groups", 0))

    @property
    def features(self) -> int:
        """How many features the learner inside takes."""
        return int(getattr(self.inner, "features", 0))


def safety_valve(learner: Learner, *, budget: float = 1.0) -> Learner:
    """Return the learner behind a safety valve, which bounds its misses for certain.

    While there are more misses than alpha a round and the budget allow, the valve plays threshold 0,
    every label, whatever the learner would. On such a round the learner inside learns what its own
    threshold would have brought, if it hears of scores; if only of hits and misses, nothing.

    Parameters
    ----------
    learner
        Any learner that has no valve yet.
    budget
        After t rounds the valve bears an excess of ``budget`` sqrt(t) misses.

    Examples
    --------
    >>> from keyhole import make
    >>> safety_valve(make("kt", alpha=0.1)).name
    'kt+valve'
    """
    check_learner(learner)
    return wrap(learner.rule)(inner=learner.parameters, budget=budget)


def wrap(rule: Rule[...]) -> Rule[...]:
    """Return the rule behind a valve, or raise if it has one, or is a gate's."""
    if rule.kind == "gate":
        raise InvalidError(
            f"{rule.name} is a rule for gates, which refer instead of showing every label"
        )
    if rule.name.endswith(SUFFIX):
        raise InvalidError(f"{rule.name} has a valve already; a second one would change nothing")
    return _wrap(rule)


class ValveSettings(NamedTuple):
    """The settings of the learner inside, and the valve's own."""

    inner: Any
    alpha: float
    budget: float


@kernel
def _is_forced(settings: ValveSettings, valve: Array) -> bool:
    return valve[_EXCESS] >= settings.budget * math.sqrt(valve[_ROUNDS] + 1.0)


@kernel
def choose(settings: ValveSettings, state: Any, memo: Array, ask: Ask) -> float:
    """Return what the learner inside would play, or 0 where the budget is spent.

    The valve's two numbers are the last array of the state; the first two of the memo are the
    threshold of the learner inside and whether it was overruled.
    """
    threshold = _inner_choose(settings.inner, _inside(*state[:-1]), memo[2:], ask)
    forced = _is_forced(settings, state[-1])
    memo[0] = threshold
    memo[1] = 1.0 if forced else 0.0
    return EVERY if forced else threshold


@kernel
def observe(settings: ValveSettings, state: Any, memo: Array, answer: Answer) -> None:
    """Count the miss, and let the learner inside hear of its own threshold what can be said."""
    valve = state[-1]
    valve[_EXCESS] += answer.miss - settings.alpha
    valve[_ROUNDS] += 1.0
    held = _inside(*state[:-1])
    if memo[1] == 0.0:
        _inner_observe(settings.inner, held, memo[2:], answer)
    elif _hears_scores and answer.miss == 0.0:
        own_miss = answer.score < memo[0]
        told = answer.score if not own_miss or _hears_missed_scores else np.nan
        own = Answer(1.0 if own_miss else 0.0, told, answer.age, answer.stale, answer.cost)
        _inner_observe(settings.inner, held, memo[2:], own)


def excess(parameters: ValveParameters, rounds: int) -> Excess:
    """Return the bounds; the lower one says only that there are no fewer than no misses."""
    alpha = parameters.alpha
    most = parameters.budget * math.sqrt(rounds) + 1.0 - alpha
    return Excess(least=-alpha * rounds, most=most)


def late_excess(parameters: ValveParameters, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds with late answers: as many misses pass the valve as rounds are open."""
    alpha = parameters.alpha
    most = parameters.budget * math.sqrt(rounds) + lateness.open * (1.0 - alpha)
    return Excess(least=-alpha * rounds, most=most)


def _find_state(rule: Rule[...]) -> Any:
    """Return the class of a rule's state, which the kernels must know before there is one."""
    try:
        told = get_type_hints(rule.start).get("return")
    except NameError:  # It stands for something that is imported for type checkers alone.
        told = None
    if not hasattr(told, "_fields"):
        raise InvalidError(
            f"{rule.name} does not say what its state is, as a valve must know; give the rule state=, "
            "or let start say which named tuple it returns"
        )
    return told


def _count_memory(inner: Rule[...], settings: ValveSettings) -> int:
    return inner.memory(settings.inner) if callable(inner.memory) else inner.memory


def _limit(inner: Rule[...], settings: ValveSettings) -> dict[str, Any]:
    """Return the limits of the rule inside, behind those of the valve's own numbers."""
    held = {} if inner.limits is None else inner.limits(settings.inner)
    memo = spread(held.get(MEMO, ()), _count_memory(inner, settings))
    return {**held, "valve": (ANY, COUNT), MEMO: [ANY] * _OWN + memo.tolist()}


@cache
def _wrap(inner: Rule[...]) -> Rule[...]:
    """Return the rule around this one; made once, so that its kernels compile once."""
    inside: Any = None
    valved: Any = None

    def prepare(parameters: ValveParameters) -> ValveSettings:
        held = inner.prepare_settings(parameters.inner)
        return ValveSettings(held, parameters.alpha, parameters.budget)

    def start(settings: ValveSettings) -> Any:
        return valved(*inner.start_state(settings.inner), np.zeros(2))

    def memory(settings: ValveSettings) -> int:
        return _OWN + _count_memory(inner, settings)

    def context(settings: ValveSettings) -> int:
        return 0 if inner.context is None else inner.context(settings.inner)

    def distribution(settings: ValveSettings, state: Any) -> Distribution:
        if _is_forced(settings, state[-1]):
            return Distribution(np.array([EVERY]), np.ones(1))
        if inner.distribution is not None:
            return inner.distribution(settings.inner, inside(*state[:-1]))
        threshold = rule.choose(settings, state, np.zeros(memory(settings)), Ask())
        return Distribution(np.array([threshold]), np.ones(1))

    inside = inner.state or _find_state(inner)
    # numba finds a class again by the name that its module has for it.
    valved = globals()[f"{inside.__name__}Valved"] = _named(
        f"{inside.__name__}Valved", (*inside._fields, "valve"), module=__name__
    )
    names = {
        "_inner_choose": inner.choose,
        "_inner_observe": inner.observe,
        "_inside": inside,
        "_hears_scores": inner.needs != Needs.HIT_OR_MISS,
        "_hears_missed_scores": inner.needs == Needs.LABEL_ALWAYS,
    }
    rule = Rule(
        name=inner.name + SUFFIX,
        needs=inner.needs,
        parameters=ValveParameters,
        prepare=prepare,
        start=start,
        memory=memory,
        limits=partial(_limit, inner),
        draws=inner.draws,
        context=None if inner.context is None else context,
        choose=bind(choose, **names),
        observe=bind(observe, **names),
        distribution=distribution,
        excess=excess,
        late_excess=late_excess,
        summary=f"{inner.name}, and every label while there are too many misses",
        guarantee="miss rate < alpha + (budget sqrt(T) + 1 - alpha) / T on any sequence",
        source="this project",
        inner=inner,
    )
    return rule
