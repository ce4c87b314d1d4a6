"""What an answer comes to, and what the answered rounds of a predictor add up to."""

import math
import struct
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np

from keyhole.numeric import Array

_ENDLESS = math.inf
_CAUTION, _CHECKS = 20, 400  # checks that are as good as made at the start, and that are averaged
_RECENT = 1_000  # answers over which staleness is averaged
_MEDIAN_PACE, _MEDIAN_LEAST = 0.02, 0.001  # how far one size moves the running median


class Outcome(NamedTuple):
    """What an answer came to: the loss, and the true score, NaN where it is unknown.

    ``unreachable`` says that no threshold would have covered the truth, ``weight`` for how many
    rounds the answer counts, ``check`` the truth less what a judge had said, NaN if nobody looked.
    """

    miss: float
    score: float
    unreachable: bool = False
    residual: float | None = None
    weight: float = 1.0
    check: float | None = None


class CountedRound(NamedTuple):
    """What an answered round counts for, whatever it held."""

    number: int
    size: float
    miss: float
    weight: float


class Sums(NamedTuple):
    """The sums from which curves are drawn; those that a kind does not have are 0."""

    answered: int
    misses: float
    weight: float
    size: float
    bounded: int
    predicted: int
    accepted: int


class Statistics(NamedTuple):
    """What is reported of the rounds of a kind; what it does not have, or has not yet, is None."""

    mean_size: float | None = None
    median_size: float | None = None
    unbounded_share: float | None = None
    accepted_share: float | None = None
    wrong_share: float | None = None


def _move_median(median: float, size: float) -> float:
    """Return a running median after one more size, beyond which it never goes."""
    pace = _MEDIAN_PACE * median + _MEDIAN_LEAST
    if size < median:
        return median - pace
    return median + (pace if pace < size - median else size - median)


@dataclass(slots=True)
class Tally:
    """What the rounds add up to, sets or decisions.

    ``misses`` and ``weight`` count an answer of known chance as often as the learner heard it, and a
    graded one by its loss; ``size`` is the sum of the bounded sizes, ``median`` follows their middle.
    ``stale`` is how stale the last thousand answers or so were on average, ``usual`` the weight of the
    last hundred; ``amended`` is how far amendments have moved the misses, up and down added;
    ``bias`` follows the truth less what a judge said, over so many ``checks``, -1 of one who was heard
    and never checked;
    ``members`` holds of every group its rounds and its misses. What bounds must know: the largest
    weight, the lowest and the highest loss that an answer counted as, the losses of rounds that showed
    everything, how many showed nothing and lost less than alpha, and how many rounds were open, at
    most, when a stale answer came, its own among them.

    Of a gate that ``decides``, ``misses`` and ``weight`` are of the accepted answers that were judged,
    an audited one counted for the 1 / chance that it stands for. Its rule keeps account of late
    judgements itself, and everything can be referred: what bounds ask of that stays 0.
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
    calibrated: int = 0  # rounds of history
    calibrated_excess: float = 0.0
    floor: int = 0  # Every round before this one is closed.
    stale: float = 0.0
    usual: float = 1.0
    amended: float = 0.0
    bias: float = 0.0
    checks: int = 0
    heaviest: float = 1.0
    lowest: float = 0.0
    highest: float = 1.0
    lost_in_full: float = 0.0
    spared_empty: int = 0
    most_open: int = 0
    members: list[list[float]] = field(default_factory=list)
    accepted: int = 0
    decides: bool = False

    @classmethod
    def start(cls, groups: int, *, decides: bool = False) -> Self:
        return cls(members=[[0.0, 0.0] for _ in range(groups)], decides=decides)

    def dump(self) -> dict[str, Any]:
        """Return what a file keeps, by name."""
        names, _ = FORMATS[self.decides]
        return {name: getattr(self, name) for name in (*names, "members")}

    @property
    def miss_rate(self) -> float:
        return self.misses / self.weight if self.weight else math.nan

    @property
    def bounded(self) -> int:
        return self.answered - self.unbounded

    @property
    def mean_size(self) -> float:
        return self.size / self.bounded if self.bounded else math.nan

    @property
    def median_size(self) -> float:
        """A running median of the bounded sizes that were answered; NaN before the first of them."""
        return self.median if self.bounded else math.nan

    @property
    def unbounded_share(self) -> float:
        return self.unbounded / self.answered if self.answered else math.nan

    @property
    def accepted_share(self) -> float:
        return self.accepted / self.predicted if self.predicted else math.nan

    def sum_up(self) -> Sums:
        bounded = 0 if self.decides else self.bounded
        return Sums(
            self.answered, self.misses, self.weight, self.size, bounded, self.predicted, self.accepted
        )

    def describe(self) -> Statistics:
        if self.decides:
            share = self.accepted_share if self.predicted else None
            return Statistics(accepted_share=share, wrong_share=self.miss_rate)
        return Statistics(
            mean_size=self.mean_size,
            median_size=self.median if self.bounded else None,
            unbounded_share=self.unbounded_share if self.answered else None,
        )

    def count(
        self,
        miss: float,
        size: float,
        times: float = 1.0,
        stale: float = 0.0,
        groups: tuple[int, ...] = (),
    ) -> None:
        """Add an answered round of these groups by its loss and its size; it counts so many times."""
        self.answered += 1
        self.weight += times
        if miss:
            self.misses += times * miss
        if stale or self.stale:
            self._count_late(stale)
        for group in groups:
            self.members[group][0] += times
            self.members[group][1] += times * miss
        if size == _ENDLESS:
            self.unbounded += 1
            return
        self.size += size
        if size != self.median:
            if self.answered - self.unbounded == 1:
                self.median = size
            else:
                self.median = _move_median(self.median, size)

    def count_all(self, misses: Array, sizes: Array, stales: Array) -> None:
        """Add answered sets of labels as ``count`` does one after the other."""
        before, late, rows = self.answered, self.stale, np.arange(1, len(misses) + 1)
        came_late = np.flatnonzero(stales)
        self.weight += len(misses)
        self.misses = reduce(add, misses.tolist(), self.misses)  # In turn: it may not be whole.
        self.size += float(sizes.sum())
        if late or came_late.size:
            over = np.minimum(before + rows, _RECENT).tolist()
            for stale, answers in zip(stales.tolist(), over, strict=True):
                late += (stale - late) / answers
            self.stale = late
        if came_late.size:
            waiting = self.predicted - before - int(came_late[0]) - self.expired - self.skipped
            self.most_open = max(self.most_open, waiting)
        median = self.median if before > self.unbounded else sizes.item(0)
        for size in sizes.tolist():
            if size != median:
                median = _move_median(median, size)
        self.median = median
        self.answered = before + len(misses)

    def _count_late(self, stale: float) -> None:
        over = self.answered if self.answered < _RECENT else _RECENT
        self.stale += (stale - self.stale) / over
        if stale:
            waiting = 1 + self.predicted - self.answered - self.expired - self.skipped
            self.most_open = max(self.most_open, waiting)

    def note_conditions(self, miss: float, weight: float, *, threshold: float, alpha: float) -> None:
        """Take note of an answer that what is proven must allow for."""
        self.heaviest = max(self.heaviest, weight)
        self.lowest, self.highest = min(self.lowest, miss), max(self.highest, miss)
        if threshold <= 0.0:
            self.lost_in_full += weight * max(miss, 0.0)
        elif threshold > 1.0 and miss < alpha:
            self.spared_empty += 1


def count_check(tally: Tally, difference: float, pace: float = 1.0) -> None:
    """Follow the truth less what a judge says, over the last 400 checks or so; the first count less.

    NaN is that of a round which was not checked. ``pace`` is the weight of its answer over the usual
    one: the bias is that of all rounds, which rare answers stand for.
    """
    if math.isnan(difference):
        tally.checks = tally.checks or -1
        return
    tally.checks = max(tally.checks, 0) + 1
    tally.bias += (difference - tally.bias) * min(pace / min(tally.checks + _CAUTION, _CHECKS), 1.0)


def amend_misses(tally: Tally, change: float, groups: tuple[int, ...]) -> None:
    """Count so many misses more, in these groups too, of rounds that were counted already."""
    tally.misses += change
    tally.amended += abs(change)
    for group in groups:
        tally.members[group][1] += change


# What is packed of the tallies of sets, and of those that decide, and how.
_COUNTED = [one.name for one in fields(Tally)][: -len(("members", "accepted", "decides"))]
_DECIDED = [
    "predicted", "answered", "accepted", "weight", "misses", "expired", "skipped", "floor", "amended",
    "bias", "checks", "calibrated", "calibrated_excess", "heaviest", "lowest", "highest", "most_open",
]  # fmt: skip
FORMATS = {
    False: (_COUNTED, struct.Struct("<qqddddqqqqqdqddddqddddqq")),
    True: (_DECIDED, struct.Struct("<qqqddqqqddqqddddq")),
}
