"""The safety valve: around any learner, it plays every label while misses exceed their budget.

With D the excess of misses, sum(miss - alpha), and the budget B_t = budget sqrt(t): if D >= B_t before
round t, the round is forced to threshold 0, which cannot miss. So D < B_T + 1 - alpha after T rounds,
whatever the sequence, the adversary and the learner inside.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Excess, Lateness, widen_guards
from keyhole.learners.layout import ANY, COUNT, MEMO, Limits, spread
from keyhole.learners.parameters import derive_tuple, parameters, positive, prepare_settings
from keyhole.learners.rule import (
    EVERY,
    FOR_SETS,
    ON_ANY,
    About,
    Ask,
    Distribution,
    Learner,
    Rule,
    check_learner,
)
from keyhole.numeric import Array, bind, kernel

SUFFIX = "+valve"
_EXCESS, _ROUNDS = 0, 1
_PASSED_ON = {"horizon", "needs", "features", "groups", "informed"}  # as the rule inside has them
_OWN = 2  # numbers of a memo, before those of the rule inside
_INNER: dict[Rule[...], Rule[...]] = {}  # the rule inside, by the one with a valve

# What stands for these names is bound anew for every rule inside.
_inner_choose: Any = None
_inner_observe: Any = None
_inside: Any = None
_needs_scores = _needs_missed_scores = False


class ValveSettings(NamedTuple):
    inner: Any
    alpha: float
    budget: float


@parameters
class ValveParameters:
    """The parameters of the learner inside, and the valve's budget after one round."""

    inner: Any
    budget: float = positive(default=1.0, remedy="try 1")

    @property
    def alpha(self) -> float:
        return float(self.inner.alpha)

    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(self.inner, name)
        raise AttributeError(name)

    def prepare(self) -> ValveSettings:
        return ValveSettings(prepare_settings(self.inner), self.alpha, self.budget)

    def excess(self, rounds: int) -> Excess:
        """Return the bounds; the lower one says only that there are no fewer than no misses."""
        most = self.budget * math.sqrt(rounds) + 1.0 - self.alpha
        return Excess(least=-self.alpha * rounds, most=most)

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds with late answers: as many misses pass the valve as rounds are open."""
        guards = Excess(least=0.0, most=self.budget * math.sqrt(rounds))
        most = widen_guards(guards, alpha=self.alpha, lateness=lateness).most
        return Excess(least=-self.alpha * rounds, most=most)


def safety_valve(learner: Learner, *, budget: float = 1.0) -> Learner:
    """Return the learner behind a safety valve, which bounds its misses for certain.

    While there are more misses than alpha a round and the budget allow, the valve plays threshold 0,
    every label, whatever the learner would play. In such a round the learner inside learns the outcome
    of its own threshold if the feedback reveals scores; with only hits and misses it learns nothing.

    Parameters
    ----------
    learner
        Any learner that has no valve yet.
    budget
        After t rounds the valve allows an excess of ``budget`` sqrt(t) misses.

    Examples
    --------
    >>> from keyhole import make
    >>> safety_valve(make("kt", alpha=0.1)).name
    'kt+valve'
    """
    check_learner(learner)
    return wrap(learner.rule)(inner=learner.parameters, budget=budget)


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
    """Count the miss, and teach the learner inside what its own threshold would have brought."""
    if answer.miss != answer.miss:  # It is the model's word.
        _inner_observe(settings.inner, _inside(*state[:-1]), memo[2:], answer)
        return
    valve = state[-1]
    valve[_EXCESS] += answer.miss - settings.alpha
    valve[_ROUNDS] += 1.0
    held = _inside(*state[:-1])
    if memo[1] == 0.0:
        _inner_observe(settings.inner, held, memo[2:], answer)
    elif _needs_scores and answer.miss == 0.0 and answer.score == answer.score:
        own_miss = answer.score < memo[0]
        known = answer.score if not own_miss or _needs_missed_scores else np.nan
        own = Answer(
            1.0 if own_miss else 0.0, known, answer.age, answer.stale, answer.cost, 1.0, 1.0, 0.0
        )
        _inner_observe(settings.inner, held, memo[2:], own)


@cache
def wrap(inner: Rule[...]) -> Rule[...]:
    """Return the rule behind a valve, made once, so that its kernels compile once; or raise."""
    inside = _find_inside(inner)
    valved = derive_tuple(inside, "Valved", (*inside._fields, "valve"))

    def limits(settings: ValveSettings) -> Limits:
        held = inner.list_limits(settings.inner)
        memo = spread(held.get(MEMO, ()), inner.count_memory(settings.inner))
        return {**held, "valve": (ANY, COUNT), MEMO: [ANY] * _OWN + memo.tolist()}

    def distribution(settings: ValveSettings, state: Any) -> Distribution:
        if inner.distribution is None or _is_forced(settings, state[-1]):
            return Distribution(np.array([EVERY]), np.ones(1))
        return inner.distribution(settings.inner, inside(*state[:-1]))

    names = {
        "_inner_choose": inner.choose,
        "_inner_observe": inner.observe,
        "_inside": inside,
        "_needs_scores": inner.needs != Needs.HIT_OR_MISS
        or getattr(inner.parameters, "informed", False),
        "_needs_missed_scores": inner.needs == Needs.LABEL_ALWAYS,
    }
    rule = Rule(
        name=inner.name + SUFFIX,
        needs=inner.needs,
        parameters=ValveParameters,
        choose=bind(choose, **names),
        observe=bind(observe, **names),
        state=lambda s: valved(*inner.start_state(s.inner), np.zeros(2)),
        memory=lambda s: _OWN + inner.count_memory(s.inner),
        limits=limits,
        distribution=None if inner.distribution is None else distribution,
        about=About(
            summary=f"{inner.name}, and every label while there are too many misses",
            guarantee=f"miss rate < alpha + (budget sqrt(T) + 1 - alpha) / T {ON_ANY}",
            source="this project",
        ),
    )
    _INNER[rule] = inner
    return rule


def unwrap(rule: Rule[...]) -> Rule[...] | None:
    """Return the rule inside, or None for a rule without a valve."""
    return _INNER.get(rule)


def _find_inside(rule: Rule[...]) -> Any:
    """Return the class of the states of a rule that a valve can be put around, or raise."""
    rule.check_kind(FOR_SETS)  # A valve shows every label.
    if rule in _INNER:
        raise InvalidError(f"{rule.name} has a valve already; a second one would change nothing")
    found = rule.find_state()
    if found is None:
        raise InvalidError(
            f"{rule.name} does not say what its state is, as a valve must know; give state= a named "
            "tuple, or annotate the function with the one that it returns"
        )
    return found
