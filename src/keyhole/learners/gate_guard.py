"""The guard of a gate: the promise, whatever the threshold does.

It keeps the excess, sum((wrong - alpha) / chance) over the accepted and judged, within a budget that
grows with the root of the rounds. The proof is in docs/guarantees-gate.md.
"""

import math
from typing import Any

from keyhole.errors import TheoremError
from keyhole.feedback import Answer
from keyhole.learners.lateness import Lateness
from keyhole.learners.rule import Excess
from keyhole.numeric import kernel

_LATE = 2.0  # budget for every answer of lateness


@kernel
def allowance(settings: Any, rounds: float) -> float:
    """Return the budget by that round, in wrong answers beyond alpha of the accepted."""
    counted = min(rounds, settings.window) if settings.window > 0.0 else rounds
    return settings.budget + settings.growth * math.sqrt(counted)


@kernel
def is_open(settings: Any, state: Any) -> bool:
    """Return whether one more wrong answer would leave the excess within the budget."""
    budget = allowance(settings, state.rounds[0] + 1.0) + _LATE * state.late[0]
    return state.excess[0] / state.weight[0] + (1.0 - settings.alpha) <= budget


@kernel
def spread_of(wrong: float) -> float:
    """Return 1 / (1 - 2q), from what a judge who errs at rate q comes to: (told - q) / (1 - 2q)."""
    return abs(2.0 * wrong - 1.0)


@kernel
def count_wrong(settings: Any, state: Any, chance: float, answer: Answer) -> None:
    """Add a judged accepted answer to the excess."""
    spread = spread_of(answer.miss)
    if answer.age > state.late[0]:
        state.late[0] += 1.0
    state.excess[0] += (answer.miss - settings.alpha) / chance
    state.weight[0] += (spread / chance - state.weight[0]) / (state.judged[0] + 2.0)
    state.grain[0] += (spread * math.sqrt(1.0 / chance) - state.grain[0]) / (state.judged[0] + 2.0)
    if settings.window > 0.0:
        # Credit from before the window must not pay for wrong answers in it.
        least = -allowance(settings, state.rounds[0]) * state.weight[0]
        state.excess[0] = max(least, state.excess[0])
    state.judged[0] += 1


def excess(parameters: Any, rounds: int) -> Excess:
    """Return the bounds.

    The guard lets a round through only if one more wrong answer leaves the excess within the budget,
    so that it stays there; each answer takes at most alpha off it. What a memory of m rounds forgets
    is at most budget / m a round. See docs/guarantees-gate.md.
    """
    p = parameters
    most = allowance(p, float(rounds))
    forgotten = most * rounds / p.window if p.window > 0.0 else 0.0
    return Excess(least=-p.alpha * rounds, most=most + forgotten)


def late_excess(parameters: Any, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds where so many rounds wait at once for their judgement.

    The guard allows for lateness, and of what waited when it shut all may be wrong but the one that it
    had made room for.
    """
    p = parameters
    if p.window > 0.0:
        raise TheoremError("no theorem bounds late judgements together with a memory; leave it out")
    least, most = excess(p, rounds)
    waiting = (lateness.open - 1) * (1.0 - p.alpha)
    return Excess(least, most + _LATE * lateness.level(rounds) + waiting)
