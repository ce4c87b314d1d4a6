"""What the answered rounds of a predictor add up to."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

_ENDLESS = math.inf
_RECENT = 1_000  # answers over which staleness is averaged
_MEDIAN_PACE, _MEDIAN_LEAST = 0.02, 0.001  # how far one size moves the running median


class Outcome(NamedTuple):
    """What an answer came to: the loss, and the true score, NaN if it was not told.

    ``unreachable`` says that no threshold would have covered the truth.
    """

    miss: float
    score: float
    unreachable: bool = False
    residual: float | None = None


@dataclass(slots=True)
class Tally:
    """What the rounds add up to.

    ``misses`` and ``weight`` count an answer of known chance as often as the learner heard it, and a
    graded one by its loss; ``size`` is the sum of the bounded sizes, ``median`` follows their middle.
    ``stale`` is how stale the last thousand answers or so were on average; ``members`` holds of every
    group its rounds and its misses.
    """

    predicted: int = 0
    answered: int = 0
    weight: float = 0.0
    misses: float = 0.0
    size: float = 0.0
    median: float = 0.0
    unbounded: int = 0
    expired: int = 0
    skipped: int = 0
    unreachable: int = 0
    calibrated: int = 0
    calibrated_excess: float = 0.0
    floor: int = 0  # Every round before this one is closed.
    stale: float = 0.0
    members: list[list[float]] = field(default_factory=list)

    @classmethod
    def start(cls, groups: int) -> "Tally":
        """Return a tally of no rounds yet, with room for so many groups."""
        return cls(members=[[0.0, 0.0] for _ in range(groups)])

    @property
    def miss_rate(self) -> float:
        """The share of answered rounds that missed; NaN before the first answer."""
        return self.misses / self.weight if self.weight else math.nan

    @property
    def bounded(self) -> int:
        """How many of the answered sizes were bounded."""
        return self.answered - self.unbounded

    @property
    def mean_size(self) -> float:
        """The mean of the bounded sizes that were answered; NaN before the first of them."""
        return self.size / self.bounded if self.bounded else math.nan

    def count(
        self,
        miss: float,
        size: float,
        times: int = 1,
        *,
        stale: float = 0.0,
        groups: tuple[int, ...] = (),
    ) -> None:
        """Add an answered round of these groups by its loss and its size; it counts so many times."""
        self.answered += 1
        self.weight += times
        if miss:
            self.misses += times * miss
        if stale or self.stale:
            over = self.answered if self.answered < _RECENT else _RECENT
            self.stale += (stale - self.stale) / over
        for group in groups:
            self.members[group][0] += times
            self.members[group][1] += times * miss
        if size == _ENDLESS:
            self.unbounded += 1
            return
        self.size += size
        median = self.median
        if size != median:
            if self.answered - self.unbounded == 1:
                self.median = size
                return
            pace = _MEDIAN_PACE * median + _MEDIAN_LEAST
            if size < median:
                self.median = median - pace
            else:  # never beyond the size itself
                self.median = median + (pace if pace < size - median else size - median)
