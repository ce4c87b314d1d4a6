"""How far an answer that comes late still moves a learner, and how late answers have been.

A learner that steps once for every answer, however old, adds up its steps before it hears of the first
one's consequence: past some fifty rounds of lateness its threshold swings from end to end. The cure is
a shorter step for a staler answer. Steps of different lengths break the sum that bounds the misses, so
that guards take its place; they widen with how late answers have been.
"""

from keyhole.learners.lateness import Lateness, bound_late_tracker
from keyhole.learners.rule import Excess
from keyhole.numeric import Counts, kernel

PATIENCE = 60.0  # An answer this stale moves a learner half as far.
SEARCH = 3.0  # In logits: a few delays then find a scale that is a hundred times off.


@kernel
def slow(stale: float) -> float:
    """Return by what to divide the step of an answer; 1 for one that comes at once."""
    return 1.0 + stale / PATIENCE


@kernel
def shorten(step: float, last: float, stale: float, searching: float) -> float:
    """Return the step of a stale answer, whose step would be ``step``, and in the end ``last``.

    What makes first steps longer shrinks first: as many of them as answers are late would carry a
    learner to the end of its scale before the first consequence is heard, and at a small alpha hits
    bring it back slowly.
    ``searching`` is alpha at a hit before which there was no miss at all, else 0. Until the first miss
    nothing says how far there is to go, and so hits may move by ``SEARCH`` while as many are heard as
    the answer is stale: at the last step times alpha that would take tens of thousands.
    """
    slower = slow(stale)
    shorter = max(last, step / slower) / slower
    if searching > 0.0:
        shorter = max(shorter, min(step, SEARCH / (stale * searching)))
    return shorter


@kernel
def raise_level(lateness: Counts, age: float) -> None:
    """Count an answer that is older than the level: one answer a year late adds 1 and not a year."""
    if age > lateness[0]:
        lateness[0] += 1


@kernel
def stretch(lateness: int) -> float:
    """Return how many times as much excess shorter steps may need, answers being this late.

    With a fixed delay an answer is stale by twice its age: as many were counted, as many predicted.
    """
    return 1.0 + 2.0 * lateness / PATIENCE


@kernel
def check_late_guards(excess: float, lateness: int, most: float, least: float) -> int:
    """Return what ``check_guards`` does, for rules whose prompt bounds leave no room.

    Such a rule may need all of its bound to get where it must, and with shorter steps more of it, so
    that the guards stand ``stretch`` times as far. As long as every answer came at once there are none:
    rounding must not close what the rule's own sum keeps open.
    """
    if lateness == 0:
        return 0
    far = stretch(lateness)
    return check_guards(excess, lateness, far * most, far * least)


@kernel
def check_guards(excess: float, lateness: int, most: float, least: float) -> int:
    """Return 1 where every label must be shown, -1 where none may be, 0 where neither guard closes."""
    slack = 2.0 * lateness
    if excess > most + slack:
        return 1
    if excess < least - slack:
        return -1
    return 0


def bound_stretched(prompt: Excess, *, alpha: float, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds that ``check_late_guards`` keeps around those of prompt answers."""
    far = stretch(lateness.level(rounds))
    guards = Excess(least=far * prompt.least, most=far * prompt.most)
    return bound_late_tracker(guards, alpha=alpha, rounds=rounds, lateness=lateness)
