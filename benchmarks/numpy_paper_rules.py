"""The paper's other learners as one would write them in plain NumPy, one round at a time."""

import math

import numpy as np

from keyhole.learners import Learner
from keyhole.numeric import Array
from numpy_rule import NumpyUnlockPlus


class NumpyOcp:
    """OCP-Bandit and OCP-Unlock with a known horizon, on the tables of the plain OCP-Unlock+."""

    def __init__(self, learner: Learner) -> None:
        self.shares = learner.name == "ocp-unlock"
        self.tables = NumpyUnlockPlus(learner)

    def round(self, score: float, draw: float) -> float:
        """Play one round against the score and return the threshold played."""
        at = self.tables
        arms = at.thresholds.size
        weights = np.exp(at.rate * (at.gains - at.gains.max()))
        chances = (1.0 - at.exploration) * weights / weights.sum() + at.exploration / arms
        arm = min(int(np.searchsorted(np.cumsum(chances), draw, side="right")), arms - 1)
        hit = score >= at.thresholds[arm]
        if self.shares:
            seen = at.thresholds <= score if hit else np.arange(arms) >= arm
        else:
            seen = np.arange(arms) == arm
        gains = at.hit_gains if hit else at.miss_gains
        at.gains += at.bonus / chances + np.where(seen, gains / chances[seen].sum(), 0.0)
        return float(at.thresholds[arm])


class NumpySps:
    """SPS with a known horizon: the order statistic of every score so far."""

    def __init__(self, learner: Learner) -> None:
        self.alpha, self.horizon = learner.alpha, learner.horizon or 1
        self.thresholds: Array = learner.settings.grid
        self.seen = np.empty(self.horizon)
        self.rounds = 0
        self.threshold = 0.0

    def round(self, score: float, draw: float) -> float:  # noqa: ARG002
        """Play one round against the score and return the threshold played."""
        played = self.threshold
        below = self.thresholds[np.searchsorted(self.thresholds, score, side="right") - 1]
        self.seen[self.rounds] = max(below, played)
        self.rounds += 1
        band = math.sqrt(math.log(2.0 * self.horizon**2) / (2.0 * self.rounds))
        rank = math.floor(self.rounds * (self.alpha - band))
        if rank >= 0:
            found = np.partition(self.seen[: self.rounds], rank)[rank]
            self.threshold = max(played, float(found))
        return played


class NumpyMvp:
    """MVP with one group: every pull afresh, the first change of sign."""

    def __init__(self, learner: Learner) -> None:
        self.settings = learner.settings
        self.misses = np.zeros(self.settings.buckets)
        self.visits = np.zeros(self.settings.buckets)

    def round(self, score: float, draw: float) -> float:
        """Play one round against the score and return the threshold played."""
        buckets = self.settings.buckets
        scale = np.sqrt(self.visits + 1.0) * np.log2(self.visits + 2.0)
        leans = self.settings.rate * (self.settings.alpha * self.visits - self.misses).round(9) / scale
        pulls = (np.exp(leans) - np.exp(-leans)) / scale
        changes = np.flatnonzero(np.sign(pulls[:-1]) * np.sign(pulls[1:]) <= 0.0)
        edge, share = (0 if pulls[-1] > 0.0 else buckets), 0.0
        if changes.size:
            edge = int(changes[0]) + 1
            total = abs(pulls[edge - 1]) + abs(pulls[edge])
            share = float(abs(pulls[edge]) / total) if total > 0.0 else 1.0
        higher = draw >= 1.0 - share
        threshold = 1.0 - edge / buckets + (self.settings.step if higher else 0.0)
        bucket = edge - 1 if higher else min(edge, buckets - 1)
        self.misses[bucket] += score < threshold
        self.visits[bucket] += 1.0
        return float(threshold)
