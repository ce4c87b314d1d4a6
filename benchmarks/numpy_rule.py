"""OCP-Unlock+ as one would write it in plain NumPy: the reference that speed is measured against."""

import numpy as np

from keyhole.learners import Learner
from keyhole.numeric import Array


class NumpyUnlockPlus:
    """The rule of ``keyhole.ocp_unlock_plus`` with a known horizon, one array operation at a time."""

    def __init__(self, learner: Learner) -> None:
        settings = learner.settings
        self.thresholds: Array = settings.grid
        self.bonus, self.exploration, self.rate, _ = settings.epochs[0].tolist()
        self.hit_gains: Array = settings.hit_gains[0]
        self.miss_gains: Array = settings.miss_gains[0]
        self.gains = np.zeros(self.thresholds.size)

    def round(self, score: float, draw: float) -> float:
        """Play one round against the score and return the threshold played."""
        arms = self.thresholds.size
        weights = np.exp(self.rate * (self.gains - self.gains.max()))
        chances = (1.0 - self.exploration) * weights / weights.sum() + self.exploration / arms
        running = np.cumsum(chances)
        arm = min(int(np.searchsorted(running, draw, side="right")), arms - 1)
        if score >= self.thresholds[arm]:
            covering = self.thresholds <= score
            rewarded = (self.hit_gains + self.bonus) / chances[covering].sum() + self.bonus
        else:
            covering = np.arange(arms) < arm
            rewarded = self.miss_gains + self.bonus / chances + self.bonus
        rest = self.miss_gains + self.bonus / running
        self.gains += np.where(covering, rewarded, rest)
        return float(self.thresholds[arm])
