"""The regret theorems of EXP3.P and the OCP family, with the constants that their proofs give.

For losses that span 1, with R1 = sqrt(T K / ln K) ln(1/delta) and R2 = sqrt(T K ln K), the regret is,
with probability at least 1 - delta and against any adversary, at most

- exp3.p, ocp-bandit: R1 + 5.15 R2
- ocp-unlock:         R1 + 5.15 R2 + e T
- ocp-unlock+:        R1 + 4.15 R2 + sqrt(T C ln K) + e T

The paper writes o(T)^-1 for e, an order and not a number. It is how much more than the gain that was
played the estimates can give out in a round, because arms that share an outcome do not share a gain;
``sharing_gap`` has it exactly, and docs/guarantees.md the proof.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.checks import is_real, is_whole
from keyhole.errors import InvalidError
from keyhole.learners.loss import Loss
from keyhole.learners.strategy import tuned
from keyhole.numeric import Array

FARTHEST = 10**18  # rounds; nobody plays more


@dataclass(frozen=True)
class Theorem:
    """What tells the regret bounds apart."""

    exploring: float  # the factor of R2, as published
    shares: bool = False  # whether an answer is shared by arms, so that e is there
    complexity: bool = False  # whether sqrt(T C ln K) is there, in place of one R2


THEOREMS = {
    "ocp-bandit": Theorem(exploring=5.15),
    "ocp-unlock": Theorem(exploring=5.15, shares=True),
    "ocp-unlock+": Theorem(exploring=4.15, shares=True, complexity=True),
}


@dataclass(frozen=True)
class Conditions:
    """What the theorems ask of arms and rates."""

    enough_arms: bool  # K >= 5
    moderate_exploration: bool  # gamma <= 1/2
    slow_enough: bool  # (1 + 2 beta) K eta <= gamma

    @property
    def hold(self) -> bool:
        """Whether all of them hold."""
        return self.enough_arms and self.moderate_exploration and self.slow_enough


def sharing_gap(theorem: Theorem, loss: Loss, thresholds: Array) -> float:
    """Return e: by how much the estimates of a round can exceed the gain that was played.

    If arm j is the highest that covers, a hit gives its gain to all that cover, the full set
    included. Arms above j miss; what they gain by that is credited too (ocp-unlock+) or withheld
    (ocp-unlock, whose estimate for an arm above the chosen one is too low). What ocp-unlock+ credits
    the arms below with on a miss, their pseudo-gain, is never as much.
    """
    if not theorem.shares:
        return 0.0
    hit, miss = (loss.gain(thresholds, missed=missed) for missed in (False, True))
    above = np.append(miss[1:], 0.0)  # of the arm above j; there is none above the last
    return float((hit - hit[0] + above).max())


def bound_regret(
    theorem: Theorem, *, arms: int, horizon: int, delta: float, complexity: float, gap: float
) -> float:
    """Return the bound for losses that span 1."""
    check_counts(arms, horizon)
    if not (is_real(delta) and 0.0 < delta < 1.0 and is_real(complexity) and complexity >= 0.0):
        raise InvalidError(
            f"delta {delta!r}, complexity {complexity!r}: give one between 0 and 1, one of at least 0"
        )
    log = math.log(arms)
    confident = math.sqrt(horizon * arms / log) * math.log(1.0 / delta)
    exploring = _exploring(theorem, arms, horizon) * math.sqrt(horizon * arms * log)
    unlocking = math.sqrt(horizon * complexity * log) if theorem.complexity else 0.0
    return confident + exploring + unlocking + gap * horizon


def _exploring(theorem: Theorem, arms: int, horizon: int) -> float:
    """Return the factor of R2: the published one, or what it rounds where that is larger.

    The proof sums (K beta T) + gamma T + (1 + b beta) eta K T + ln K / beta + ln K / eta. With b = 2,
    of ocp-unlock+, this exceeds the published 4.15 for 5 to 9 arms and the shortest horizons that the
    theorem allows; with b = 1, of the others, it never exceeds 5.15.
    """
    if not theorem.complexity:
        return theorem.exploring
    return max(
        theorem.exploring, 1.05 + 0.95 * (1.0 + 2.0 * tuned(arms, horizon).bonus) + 1.0 + 1.0 / 0.95
    )


def check_counts(arms: int, horizon: int) -> None:
    """Raise unless these are numbers of arms and rounds."""
    if not (is_whole(arms, least=2) and is_whole(horizon, least=1)):
        raise InvalidError(f"{arms!r} arms, {horizon!r} rounds: give at least 2 and 1, whole numbers")


def bound_miss_rate(loss: Loss, regret_per_round: float) -> float:
    """Return the bound on the miss rate that comes from comparing with threshold 0."""
    per_miss = (1.0 - loss.alpha) * (1.0 - 2.0 * loss.alpha)
    per_hit = loss.scale / (1.0 - loss.alpha)
    return (regret_per_round + per_hit) / (per_miss + per_hit)


def find_first(holds: Callable[[int], bool]) -> float:
    """Return the smallest horizon at which a bound that falls with the horizon holds, or infinity."""
    high = 1
    while not holds(high):
        high *= 2
        if high > FARTHEST:
            return math.inf
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
