"""What late answers do to a bound on the excess of misses: the guard's lemma, and how late is late.

A guard plays every label while the excess of misses D is above U, and none while it is below -V, where
U and V never fall. If at most d rounds are open at once, the one being answered among them, then
D <= U + d (1 - alpha) and D >= -V - d alpha after every answer: once D has passed a guard, only rounds
that were open already can carry it on. docs/guarantees.md has the proof.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from keyhole.checks import is_whole
from keyhole.errors import InvalidError


class Excess(NamedTuple):
    """Between what the excess of misses, sum(miss - alpha), lies after some rounds, on any sequence."""

    least: float
    most: float


@dataclass(frozen=True)
class Lateness:
    """How late answers come: at most so many rounds open at once, and no answer older than ``age``.

    The round being answered is one of the open ones, so that 1 means answers that come at once. Rounds
    that are never answered do not count. The age of an answer is how many answers were counted since
    its round was predicted; None is any. In order of prediction it is below ``open``.
    """

    open: int = 1
    age: int | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.open, least=1):
            raise InvalidError(
                f"{self.open!r} rounds open at once: give a whole number from 1 (prompt) to 2**63 - 1"
            )
        if self.age is not None and not is_whole(self.age, least=0):
            raise InvalidError(f"age {self.age!r} is not a number of answers; give 0 or more, or None")

    @property
    def is_prompt(self) -> bool:
        """Whether every answer comes before the next prediction."""
        return self.open == 1

    def level(self, rounds: int) -> int:
        """Return the most that a level which every answer older than it raises by one can reach.

        To reach h it takes answers of ages 1, 2, ..., h or more, h (h + 1) / 2 together; and an answer
        makes at most open - 1 others older by one.
        """
        together = (self.open - 1) * rounds
        reached = (math.isqrt(8 * together + 1) - 1) // 2
        return reached if self.age is None else min(reached, self.age)


def widen_guards(guards: Excess, *, alpha: float, open: int) -> Excess:  # noqa: A002
    """Return between what the excess stays behind guards at these two levels.

    Examples
    --------
    >>> widen_guards(Excess(least=-100.0, most=100.0), alpha=0.1, open=1)
    Excess(least=-100.1, most=100.9)
    """
    return Excess(least=guards.least - open * alpha, most=guards.most + open * (1.0 - alpha))


def bound_late_tracker(prompt: Excess, *, alpha: float, rounds: int, lateness: Lateness) -> Excess:
    """Return the bounds of a tracker whose guards stand at its prompt bounds, 2 levels farther out.

    Of the rounds that were open when a guard closed, each next one to be answered is older by one; if m
    of them carried the excess on, the level is at least m - 1. So m is at most level + 1, too.
    """
    level = lateness.level(rounds)
    guards = Excess(least=prompt.least - 2.0 * level, most=prompt.most + 2.0 * level)
    return widen_guards(guards, alpha=alpha, open=min(lateness.open, level + 1))
