"""Strongly adaptive conformal prediction: experts of many ages, each alive for a stretch of time.

Expert t is born in round t and lives 8 times the largest power of two that divides t; coin betting
weighs those alive. Each is a scale-free gradient descent that starts where the mix stands.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import AlphaParameters
from keyhole.learners.rule import EVERY, About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel

_LIFE = 8
_ROOM = 256  # At most 6 experts a power of two: enough for 2^42 rounds.
_ROUNDOFF = 1e-12


class SaocpState(NamedTuple):
    """The experts alive come first in every array; ``clock`` holds the rounds and their number.

    ``prior`` is what an expert's age is worth, ``lead`` the sum of its gains over the mix, and
    ``won`` that sum weighted by its bets.
    """

    clock: Counts = np.zeros(2, dtype=np.int64)
    birth: Counts = np.zeros(_ROOM, dtype=np.int64)
    age: Counts = np.zeros(_ROOM, dtype=np.int64)
    radius: Array = np.zeros(_ROOM)
    squares: Array = np.zeros(_ROOM)
    prior: Array = np.zeros(_ROOM)
    lead: Array = np.zeros(_ROOM)
    won: Array = np.zeros(_ROOM)


@kernel
def _bet(state: SaocpState, k: int) -> float:
    if state.age[k] == 0:
        return 0.0
    return state.lead[k] / state.age[k] * (1.0 + state.won[k])


@kernel
def _mix(state: SaocpState) -> float:
    """Return the mean radius, weighted by prior times bet, or by prior if nobody bets."""
    total = 0.0
    mean = 0.0
    prior_total = 0.0
    prior_mean = 0.0
    for k in range(state.clock[1]):
        weight = state.prior[k] * max(0.0, _bet(state, k))
        total += weight
        mean += weight * state.radius[k]
        prior_total += state.prior[k]
        prior_mean += state.prior[k] * state.radius[k]
    if total > 0.0:
        return mean / total
    return prior_mean / prior_total if prior_total > 0.0 else 0.0


@kernel
def choose(settings: AlphaParameters, state: SaocpState, memo: Array, ask: Ask) -> float:
    return max(EVERY, 1.0 - _mix(state))


@kernel
def _lifetime(birth: int) -> int:
    return _LIFE * (birth & -birth)  # the largest power of two that divides the birth


@kernel
def _bury(state: SaocpState) -> None:
    """Drop the experts past their time; the others move up."""
    alive = 0
    for k in range(state.clock[1]):
        if state.age[k] <= _lifetime(state.birth[k]):
            state.birth[alive] = state.birth[k]
            state.age[alive] = state.age[k]
            state.radius[alive] = state.radius[k]
            state.squares[alive] = state.squares[k]
            state.prior[alive] = state.prior[k]
            state.lead[alive] = state.lead[k]
            state.won[alive] = state.won[k]
            alive += 1
    state.clock[1] = alive


@kernel
def _bear(state: SaocpState, radius: float) -> None:
    birth = state.clock[0] + 1  # The clock holds the rounds, and how many experts live.
    log2 = 0
    while birth >> (log2 + 1) > 0:
        log2 += 1
    k = min(state.clock[1], _ROOM - 1)  # more do not live at once, but in a damaged file
    state.clock[0] = birth
    state.clock[1] = k + 1
    state.birth[k] = birth
    state.age[k] = 0
    state.radius[k] = radius
    state.squares[k] = 0.0
    state.prior[k] = 1.0 / (float(birth) * float(birth) * (1.0 + log2))
    state.lead[k] = 0.0
    state.won[k] = 0.0


@kernel
def _pinball(residual: float, radius: float, alpha: float) -> float:
    return max((1.0 - alpha) * (residual - radius), alpha * (radius - residual))


@kernel
def _judge(state: SaocpState, k: int, gain: float) -> None:
    """Pay the expert's bet: a loss counts only while it bets."""
    bet = _bet(state, k)
    floor = -1.0 if bet > 0.0 else 0.0
    # An expert just born stands where the mix does: the sign of rounding must not decide.
    paid = 0.0 if abs(gain) < _ROUNDOFF else min(1.0, max(floor, gain))
    state.lead[k] += paid
    state.won[k] += paid * bet
    state.age[k] += 1


@kernel
def observe(settings: AlphaParameters, state: SaocpState, memo: Array, answer: Answer) -> None:
    """Renew the experts, then judge each against the mix and let it take its own step."""
    residual = 1.0 - answer.score
    before = _mix(state)
    _bury(state)
    _bear(state, before)
    played = _pinball(residual, _mix(state), settings.alpha)
    for k in range(state.clock[1]):
        own = _pinball(residual, state.radius[k], settings.alpha)
        _judge(state, k, (played - own) / (1.0 - settings.alpha))
        gradient = settings.alpha - (1.0 if residual > state.radius[k] else 0.0)
        if residual == state.radius[k]:  # at the kink of the loss
            gradient = 0.0
        state.squares[k] += gradient * gradient
        if state.squares[k] > 0.0:
            moved = state.radius[k] - gradient / math.sqrt(3.0 * state.squares[k])
            state.radius[k] = moved if moved > 0.0 else 0.0


saocp = Rule(
    name="saocp",
    needs=Needs.LABEL_ALWAYS,
    parameters=AlphaParameters,
    choose=choose,
    observe=observe,
    state=SaocpState,
    limits=lambda _: {"clock": (COUNT, _ROOM), "birth": COUNT, "age": COUNT},
    about=About(
        summary="scale-free descents started in every round, weighted by coin betting on every "
        "interval",
        guarantee="pinball regret O(sqrt(length ln T)) on every interval of the sequence at once",
        source="Bhatnagar, Wang, Xiong and Bai (2023), arXiv 2302.07869",
    ),
)
