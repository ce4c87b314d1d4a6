"""MVP: every bucket of thresholds that is played covers at the target rate, in every group."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_real, is_whole
from keyhole.errors import GridError, RateError
from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._point import checked_count
from keyhole.learners._rule import Distribution, Rule, checked_alpha
from keyhole.learners._weights import exp

_MEMO_GROUPS = 1  # where in the memo the groups begin
_ROUNDING = 1e-9  # A surplus of exactly 0 counts as a change of sign: rounding must not hide it.
_VISIT_SUM = 1.628  # sum over n of 1 / ((n + 1) log2(n + 2)^2)


@dataclass(frozen=True, kw_only=True)
class MvpParameters:
    """The parameters of MVP.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    buckets
        Number of buckets of thresholds (m).
    resolution
        Two neighbours are told apart by 1 / (resolution buckets) (r).
    rate
        How sharply a bucket's record counts (eta); tuned to the number of buckets unless told.
    groups
        Number of groups, which may overlap, each of which is to miss at the target rate. Group 0
        holds every round; to which others a round belongs is said when it is predicted.
    """

    alpha: float
    buckets: int = 40
    resolution: float = 800_000.0
    rate: float | None = None
    groups: int = 1

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(
            self, "groups", checked_count(self.groups, "number of groups", "1 is all rounds together")
        )
        if not is_whole(self.buckets, least=2):
            raise GridError(f"{self.buckets!r} buckets are not a whole number from 2; try 40")
        if not (is_real(self.resolution) and self.resolution >= 1.0):
            raise RateError(f"resolution (r) {self.resolution!r} is not a number from 1; try 800000")
        rate = _tuned(self.groups * self.buckets) if self.rate is None else self.rate
        if not (is_real(rate) and rate > 0.0):
            raise RateError(f"rate (eta) {rate!r} is not a positive number; try 0.17")
        for name, value in (("resolution", self.resolution), ("rate", rate)):
            set_once(self, name, float(value))
        set_once(self, "buckets", int(self.buckets))

    @property
    def horizon(self) -> None:
        """None: the rule is not tuned to a number of rounds."""
        return


def _tuned(cells: int) -> float:
    return math.sqrt(math.log(cells) / (2.0 * _VISIT_SUM * cells))


class MvpSettings(NamedTuple):
    """The numbers the kernels read."""

    alpha: float
    buckets: int
    step: float
    rate: float
    groups: int


class MvpState(NamedTuple):
    """One row per group, one column per bucket.

    A bucket whose surplus, alpha visits - misses, is above 0 covers too much. ``pulls`` is what that
    adds to the bucket's sign, kept because only the bucket played changes.
    """

    misses: NDArray[np.int64]
    visits: NDArray[np.int64]
    pulls: Array


def prepare(parameters: MvpParameters) -> MvpSettings:
    """Return the numbers for these parameters."""
    p = parameters
    assert p.rate is not None  # noqa: S101
    step = 1.0 / (p.resolution * p.buckets)
    return MvpSettings(p.alpha, p.buckets, step, p.rate, p.groups)


def start(settings: MvpSettings) -> MvpState:
    """Return the state before the first round."""
    shape = (settings.groups, settings.buckets)
    return MvpState(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), np.zeros(shape))


def memory(settings: MvpSettings) -> int:
    """Return how many numbers a round must remember: its bucket, and to which groups it belongs."""
    return _MEMO_GROUPS + settings.groups


def distribution(settings: MvpSettings, state: MvpState) -> Distribution:
    """Return the one or two thresholds that may be played next, in a round of group 0 alone."""
    memo = np.zeros(memory(settings))
    memo[_MEMO_GROUPS] = 1.0
    edge, share = _crossing(settings, state, memo)
    lower = 1.0 - edge / settings.buckets
    thresholds, chances = np.array([lower, lower + settings.step]), np.array([1.0 - share, share])
    return Distribution(thresholds[chances > 0.0], chances[chances > 0.0])


@kernel
def _own_pull(settings: MvpSettings, misses: int, visits: int) -> float:
    """Return (e^x - e^-x) / f with x = rate surplus / f, f = sqrt(n + 1) log2(n + 2) after n visits."""
    surplus = settings.alpha * visits - misses
    if abs(surplus) < _ROUNDING:
        return 0.0
    scale = math.sqrt(visits + 1.0) * math.log2(visits + 2.0)
    small = exp(-abs(settings.rate * surplus / scale))
    size = (1.0 / small - small) / scale
    return size if surplus > 0.0 else -size


@kernel
def _pull(state: MvpState, memo: Array, bucket: int) -> float:
    """Return the sum over the round's groups: above 0 if the bucket covers too much."""
    total = 0.0
    for group in range(state.pulls.shape[0]):
        if memo[_MEMO_GROUPS + group] > 0.0:
            total += state.pulls[group, bucket]
    return total


@kernel
def _crossing(settings: MvpSettings, state: MvpState, memo: Array) -> tuple[int, float]:
    """Return the first edge between buckets where the pull changes sign, and the weight below it.

    Edge 0 if every bucket covers too much, the last one if every bucket covers too little.
    """
    before = _pull(state, memo, 0)
    for edge in range(1, settings.buckets):
        after = _pull(state, memo, edge)
        if (before <= 0.0 <= after) or (before >= 0.0 >= after):
            total = abs(before) + abs(after)
            return edge, abs(after) / total if total > 0.0 else 1.0
        before = after
    return 0 if before > 0.0 else settings.buckets, 0.0


@kernel
def choose(settings: MvpSettings, state: MvpState, memo: Array, draw: float) -> float:
    """Return the threshold at the edge, or a hair above it: one bucket or its neighbour."""
    edge, share = _crossing(settings, state, memo)
    threshold = 1.0 - edge / settings.buckets
    if draw >= 1.0 - share:
        memo[0] = edge - 1
        return threshold + settings.step
    memo[0] = min(edge, settings.buckets - 1)
    return threshold


@kernel
def observe(settings: MvpSettings, state: MvpState, memo: Array, missed: bool, score: float) -> None:  # noqa: ARG001
    """Add the outcome to the record of the bucket played; the score is not used."""
    bucket = int(memo[0])
    for group in range(state.pulls.shape[0]):
        if memo[_MEMO_GROUPS + group] == 0.0:
            continue
        state.misses[group, bucket] += 1 if missed else 0
        state.visits[group, bucket] += 1
        state.pulls[group, bucket] = _own_pull(
            settings, state.misses[group, bucket], state.visits[group, bucket]
        )


mvp = Rule(
    name="mvp",
    needs=Needs.HIT_OR_MISS,
    parameters=MvpParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    observe=observe,
    distribution=distribution,
    summary="multivalid prediction: each bucket of thresholds, in each group, covers at the target",
    guarantee="threshold-calibrated coverage, up to O(sqrt(m / n)) for a bucket played n times, "
    "against smooth adversaries; nothing on set size",
    source="Bastani et al. (2022), arXiv 2206.01067",
)
