"""Late answers: how far one still moves a learner, and what they do to a bound on its misses.

A learner that steps once for every answer, however old, adds up its steps before it hears of the first
one's consequence: past some fifty rounds of lateness its threshold swings from end to end. The cure is
a shorter step for a staler answer. Steps of different lengths break the sum that bounds the misses, so
that guards take its place; they widen with how late answers have been.

A guard plays every label while the excess of misses D is above U, and none while it is below -V, where
U and V never fall. If at most d rounds are open at once, the one being answered among them, then
D <= U + d (1 - alpha) and D >= -V - d alpha after every answer: once D has passed a guard, only rounds
that were open already can carry it on. An answer that counts for more than one round carries it that
much farther. docs/guarantees.md has the proof.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.learners.rule import EVERY, NONE
from keyhole.numeric import Counts, kernel

HALVED_AT = 60.0  # An answer this stale moves a learner half as far.
SEARCH = 3.0  # In logits: a few delays then find a scale that is a hundred times off.


class Excess(NamedTuple):
    """Between what the excess of misses, sum(miss - alpha), lies after some rounds, on any sequence."""

    least: float
    most: float


@dataclass(frozen=True)
class Lateness:
    """How answers come: at most so many rounds open at once, and no answer older than ``age``.

    The round being answered is one of the open ones, so that 1 means answers that come at once. Rounds
    that are never answered do not count, but ``lost`` says that there may be some: an answer is stale
    once a later round was predicted, and moves a learner less. The age of an answer is how many answers
    were counted since its round was predicted; None is any. In order of prediction it is below
    ``open``. An answer counts for at most ``weight`` rounds, and as a loss of ``told`` at the least and
    the most; ``scale`` is the largest weight that was usual.
    """

    open: int = 1
    age: int | None = None
    lost: bool = False
    weight: float = 1.0
    scale: float = 1.0
    told: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not is_whole(self.open, least=1):
            raise InvalidError(
                f"{self.open!r} rounds open at once: give a whole number from 1 (prompt) to 2**63 - 1"
            )
        if self.age is not None and not is_whole(self.age, least=0):
            raise InvalidError(f"age {self.age!r} is not a number of answers; give 0 or more, or None")

    @property
    def is_prompt(self) -> bool:
        """Whether every round is answered before the next prediction, and by a hit or a miss."""
        return self.open == 1 and not self.lost and self.weight == 1.0 and self.told == (0.0, 1.0)

    def level(self, rounds: int) -> int:
        """Return the most that a level which every answer older than it raises by one can reach.

        To reach h it takes answers of ages 1, 2, ..., h or more, h (h + 1) / 2 together; and an answer
        makes at most open - 1 others older by one. Rules that read no weights hear it several times.
        """
        together = (self.open - 1) * rounds * math.ceil(self.weight)
        reached = (math.isqrt(8 * together + 1) - 1) // 2
        return reached if self.age is None else min(reached, self.age)


def widen_guards(guards: Excess, *, alpha: float, lateness: Lateness) -> Excess:
    """Return between what the excess stays behind guards at these two levels.

    Examples
    --------
    >>> widen_guards(Excess(least=-100.0, most=100.0), alpha=0.1, lateness=Lateness())
    Excess(least=-100.1, most=100.9)
    """
    low, high = lateness.told
    each = lateness.open * lateness.weight
    return Excess(least=guards.least - each * (alpha - low), most=guards.most + each * (high - alpha))


def bound_late_tracker(prompt: Excess, *, alpha: float, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds of a tracker whose guards stand at its prompt bounds, 2 levels farther out.

    Of the rounds that were open when a guard closed, each next one to be answered is older by one; if m
    of them carried the excess on, the level is at least m - 1. So m is at most level + 1, too.
    """
    level, scale = lateness.level(rounds), lateness.scale
    guards = Excess(scale * (prompt.least - 2.0 * level), scale * (prompt.most + 2.0 * level))
    carried = replace(lateness, open=min(lateness.open, level + 1))
    return widen_guards(guards, alpha=alpha, lateness=carried)


@kernel
def slow(stale: float) -> float:
    """Return by what to divide the step of an answer; 1 for one that comes at once."""
    return 1.0 + stale / HALVED_AT


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
    return 1.0 + 2.0 * lateness / HALVED_AT


@kernel
def guard_threshold(threshold: float, excess: float, lateness: int, most: float, least: float) -> float:
    """Return the threshold, or all or nothing where guards say so.

    It is for rules whose prompt bounds leave no room: such a rule may need all of them to get where it
    must, and with shorter steps more, so that the guards stand ``stretch`` times as far. With prompt
    answers the rule is at its end when it reaches them, and they change nothing.
    """
    far = stretch(lateness)
    guard = check_guards(excess, lateness, far * most, far * least)
    if guard > 0 or (guard == 0 and threshold < EVERY):
        return EVERY
    return NONE if guard < 0 and threshold <= 1.0 else threshold


@kernel
def check_guards(excess: float, lateness: int, most: float, least: float) -> int:
    """Return 1 where every label must be shown, -1 where none may be, 0 where neither guard closes."""
    slack = 2.0 * lateness
    if excess > most + slack:
        return 1
    if excess < least - slack:
        return -1
    return 0


# For rules whose parameters say, as ``most`` and ``least``, between what the excess of misses lies as
# long as answers come at once.
def find_excess(given: Any, rounds: int) -> Excess:
    return Excess(least=given.least, most=given.most)


def find_late_excess(given: Any, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds that ``guard_threshold`` keeps around those of prompt answers."""
    prompt = find_excess(given, rounds)
    return bound_stretched(prompt, alpha=given.alpha, rounds=rounds, lateness=lateness)


def bound_stretched(prompt: Excess, *, alpha: float, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds of guards that stand ``stretch`` times as far out as these."""
    far = stretch(lateness.level(rounds))
    guards = Excess(least=far * prompt.least, most=far * prompt.most)
    return bound_late_tracker(guards, alpha=alpha, rounds=rounds, lateness=lateness)
