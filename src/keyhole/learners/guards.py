"""Guards on the excess of misses, of all rounds and of each group, and what they prove.

Where the excess of a group that the round belongs to has reached its bound, every label is shown, or
none, so that the outcome is forced and the count turns back. Guards can be at odds.
"""

import math
from typing import Any

from keyhole.learners.lateness import Lateness, bound_late_tracker
from keyhole.learners.rule import Excess
from keyhole.numeric import Array, Counts, kernel

_CONFLICTS, _MOST_GROUPS = 0, 1


@kernel
def ask_guards(excess: Array, members: Array, bound: float) -> tuple[int, float]:
    """Return 1 if a guard wants every label, -1 if none, else 0, and whether guards are at odds.

    The first excess is that of all rounds; the others are of groups, to which the round belongs where
    ``members`` is not 0. Of guards at odds those farther beyond their bound win.
    """
    hot, cold, high, low = 0, 0, 0.0, 0.0
    for row in range(excess.size):
        if row > 0 and members[row - 1] == 0.0:
            continue  # not a group of this round
        if excess[row] >= bound:
            hot += 1
            high += max(excess[row] - bound - 1.0, 0.0)
        if excess[row] <= -bound:
            cold += 1
            low += max(-excess[row] - bound - 1.0, 0.0)
    at_odds = 1.0 if hot > 0 and cold > 0 else 0.0
    if hot > 0 and (cold == 0 or high >= low):
        return 1, at_odds
    return -1 if cold > 0 else 0, at_odds


@kernel
def count_miss(excess: Array, members: Array, error: float, conflicts: Counts, at_odds: float) -> int:
    """Add miss - alpha to the excess of all rounds and of the round's groups; return their number."""
    excess[0] += error
    groups = 0
    for group in range(excess.size - 1):
        if members[group] > 0.0:
            excess[1 + group] += error
            groups += 1
    if at_odds > 0.0:
        conflicts[_CONFLICTS] += 1
    conflicts[_MOST_GROUPS] = max(conflicts[_MOST_GROUPS], 1 + groups)
    return groups


def excess(parameters: Any, rounds: int) -> Excess:
    """Return the bounds on the misses of all rounds.

    Without groups the guard keeps them: at the guard the outcome is forced, and the count turns back.
    Nothing is used of how the offset is learnt. With groups see ``bound_groups``; here every round may
    be a conflict of as many groups as there are.
    """
    p = parameters
    if p.groups == 0:
        return Excess(least=-p.guard - p.alpha, most=p.guard + 1.0 - p.alpha)
    most = _bound(p, conflicts=rounds, groups=1 + p.groups, level=0)
    return Excess(least=-most, most=most)


def late_excess(parameters: Any, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds on the misses of all rounds with late answers; see ``bound_groups``."""
    p = parameters
    if p.groups == 0:
        guards = Excess(least=-p.guard, most=p.guard)
        return bound_late_tracker(guards, alpha=p.alpha, rounds=rounds, lateness=lateness)
    most = _bound(p, conflicts=rounds, groups=1 + p.groups, level=lateness.level(rounds))
    return Excess(least=-most, most=most)


def bound_groups(parameters: Any, state: Any) -> float:
    """Return what no group's |excess|, nor that of all rounds, has passed by now."""
    conflicts, groups = (int(count) for count in state.conflicts)
    return _bound(parameters, conflicts=conflicts, groups=groups, level=int(state.lateness[0]))


def _bound(p: Any, *, conflicts: int, groups: int, level: int) -> float:
    """Return the bound after so many conflicts of at most so many groups (K), answers so late (L).

    With e_g what |excess| is beyond guard + 1: no e_g grows outside a conflict, and a conflict adds at
    most K (1 - alpha)^2 to the sum of their squares. With late answers and no conflict at most L + 1
    rounds that were open when a guard closed carry an excess on: each next one is older by one. In a
    conflict who is farther beyond its bound may be out of date, by 5 L + 3 for each group, but for the
    at most L answers that are older than L. docs/guarantees.md has the proof.
    """
    hit = 1.0 - p.alpha
    if level == 0:
        return float(p.guard + 1.0 + hit * math.sqrt(groups * conflicts))
    if conflicts == 0:
        return float(p.guard + 3.0 * level + 1.0)
    behind = 5.0 * level + 3.0
    beyond = math.sqrt(groups * conflicts * hit * (hit + 2.0 * behind))
    return float(p.guard + 4.0 * level + 1.0 + beyond)
