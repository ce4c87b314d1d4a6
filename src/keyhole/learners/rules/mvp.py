"""MVP: every bucket of thresholds that is played covers at the target rate, in every group."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import check_room, number, parameters, target, whole
from keyhole.learners.rule import About, Ask, Distribution, Rule
from keyhole.numeric import Array, Counts, exp, kernel

_ROUNDING = 1e-9  # A surplus of exactly 0 counts as a change of sign: rounding must not hide it.
_VISIT_SUM = 1.628  # sum over n of 1 / ((n + 1) log2(n + 2)^2)


@parameters
class MvpParameters:
    alpha: float = target()
    buckets: int = whole("Number of buckets of thresholds (m).", default=40, least=2, most=10**6)
    resolution: float = number(
        "Neighbours are 1 / (resolution buckets) apart (r).", default=800_000.0, least=1.0
    )
    rate: float = number(
        "How sharply a bucket's record counts (eta); tuned unless given.",
        default=None,
        above=0.0,
        remedy="try 0.17",
    )
    groups: int = whole(
        "Number of groups, which may overlap; each is to miss at the target rate.", default=0, least=0
    )

    def complete(self) -> dict[str, object]:
        """Return the rate, tuned to the number of cells unless given."""
        cells = (1 + self.groups) * self.buckets
        check_room(3 * cells, f"{self.buckets:,} buckets in {1 + self.groups:,} groups")
        tuned = math.sqrt(math.log(cells) / (2.0 * _VISIT_SUM * cells))
        return {"rate": tuned if self.rate is None else self.rate}

    @property
    def step(self) -> float:
        """By what the higher one of two neighbouring thresholds is above an edge."""
        return 1.0 / (self.resolution * self.buckets)


class MvpState(NamedTuple):
    """One row for all rounds and one per group, one column per bucket.

    A bucket whose surplus, alpha visits - misses, is above 0 covers too much. ``pulls`` is what that
    adds to the bucket's sign, kept because only the bucket played changes.
    """

    misses: Counts
    visits: Counts
    pulls: Array


def start(settings: MvpParameters) -> MvpState:
    shape = (1 + settings.groups, settings.buckets)
    return MvpState(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), np.zeros(shape))


def distribution(settings: MvpParameters, state: MvpState) -> Distribution:
    """Return the one or two thresholds that may be played next, in a round of no group."""
    edge, share = _crossing(settings, state, np.zeros(settings.groups))
    lower = 1.0 - edge / settings.buckets
    thresholds, chances = np.array([lower, lower + settings.step]), np.array([1.0 - share, share])
    return Distribution(thresholds[chances > 0.0], chances[chances > 0.0])


@kernel
def _own_pull(settings: MvpParameters, misses: int, visits: int) -> float:
    """Return (e^x - e^-x) / f with x = rate surplus / f, f = sqrt(n + 1) log2(n + 2) after n visits."""
    surplus = settings.alpha * visits - misses
    if abs(surplus) < _ROUNDING:
        return 0.0
    scale = math.sqrt(visits + 1.0) * math.log2(visits + 2.0)
    small = exp(-abs(settings.rate * surplus / scale))
    size = (1.0 / small - small) / scale
    return size if surplus > 0.0 else -size


@kernel
def _pull(state: MvpState, groups: Array, bucket: int) -> float:
    """Return the sum over all rounds and the round's groups: above 0 if the bucket covers too much."""
    total = 0.0 + state.pulls[0, bucket]
    for group in range(groups.size):
        if groups[group] > 0.0:
            total += state.pulls[1 + group, bucket]
    return total


@kernel
def _crossing(settings: MvpParameters, state: MvpState, groups: Array) -> tuple[int, float]:
    """Return the first edge between buckets where the pull changes sign, and the weight below it.

    Edge 0 if every bucket covers too much, the last one if every bucket covers too little.
    """
    before = _pull(state, groups, 0)
    for edge in range(1, settings.buckets):
        after = _pull(state, groups, edge)
        if (before <= 0.0 <= after) or (before >= 0.0 >= after):
            total = abs(before) + abs(after)
            return edge, abs(after) / total if total > 0.0 else 1.0
        before = after
    return 0 if before > 0.0 else settings.buckets, 0.0


@kernel
def choose(settings: MvpParameters, state: MvpState, memo: Array, ask: Ask) -> float:
    """Return the threshold at the edge, or a hair above it: one bucket or its neighbour."""
    groups = ask.context[:]  # none for a learner that tells no groups apart
    for group in range(groups.size):
        memo[1 + group] = groups[group]
    edge, share = _crossing(settings, state, groups)
    threshold = 1.0 - edge / settings.buckets
    if ask.draw >= 1.0 - share:
        memo[0] = edge - 1
        return threshold + settings.step
    memo[0] = min(edge, settings.buckets - 1)
    return threshold


@kernel
def observe(settings: MvpParameters, state: MvpState, memo: Array, answer: Answer) -> None:
    """Add the outcome to the record of the bucket played; the score is not used."""
    bucket = int(memo[0])
    for row in range(state.pulls.shape[0]):
        if row > 0 and memo[row] == 0.0:  # row 0 is of all rounds
            continue  # not a group of this round
        state.misses[row, bucket] += 1 if answer.miss > 0.0 else 0
        state.visits[row, bucket] += 1
        state.pulls[row, bucket] = _own_pull(
            settings, state.misses[row, bucket], state.visits[row, bucket]
        )


mvp = Rule(
    name="mvp",
    needs=Needs.HIT_OR_MISS,
    parameters=MvpParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=lambda s: 1 + s.groups,  # its bucket, and to which groups it belongs
    limits=lambda s: {"misses": COUNT, "visits": COUNT, "memo": [s.buckets - 1]},
    distribution=distribution,
    about=About(
        summary="multivalid prediction: each bucket of thresholds, in each group, covers at the target",
        guarantee="threshold-calibrated coverage, up to O(sqrt(m / n)) for a bucket played n times, "
        "against smooth adversaries; nothing about set size",
        source="Bastani et al. (2022), arXiv 2206.01067",
    ),
)
