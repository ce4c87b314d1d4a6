"""The guard of a gate: the promise, whatever the threshold does.

It keeps the excess, sum((wrong - alpha) / chance) over the accepted and judged, within a budget that
grows with the root of the rounds. The proof is in docs/guarantees-gate.md.
"""

import math
from typing import Any

from keyhole.feedback import Answer
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
