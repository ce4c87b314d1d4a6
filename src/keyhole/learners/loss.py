"""The loss of the OCP family, its normalised gain and the pseudo-gain."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.learners.parameters import number
from keyhole.numeric import Array

Outcome = NDArray[np.bool_] | bool


def cost(*, default: float) -> Any:
    """Return the field of the loss's cost."""
    meaning = "Weight of the set's size in the loss (c)."
    return number(meaning, default=default, least=0.0, remedy="the paper uses 40")


@dataclass(frozen=True)
class Loss:
    """What a hit and a miss cost at each threshold.

    ``cost`` is the paper's c; ``horizon`` enters through o(T)^-1 = T^(-1/4), the reading under
    which the paper's tables come out.
    """

    alpha: float
    horizon: int
    cost: float

    @property
    def scale(self) -> float:
        """The weight of the set's size against a miss: v = c alpha T^(-1/4)."""
        return self.cost * self.alpha * self.slack

    @property
    def slack(self) -> float:
        """The paper's o(T)^-1."""
        return float(self.horizon) ** -0.25

    def size_cost(self, thresholds: Array, *, missed: Outcome) -> Array:
        """Return a_t: what the set's size costs; never above 0."""
        hit = -self.scale * (1.0 + thresholds * thresholds / (1.0 - self.alpha))
        miss = -self.scale / (1.0 + self.alpha * (1.0 - 2.0 * self.alpha) * thresholds)
        return np.where(missed, miss, hit)

    def miss_cost(self, *, missed: Outcome) -> Array:
        """Return d_t: what the outcome costs."""
        spread = self.alpha * (1.0 - self.alpha)
        return np.where(missed, 1.0 - spread, self.alpha + spread)

    def loss(self, thresholds: Array, *, missed: Outcome) -> Array:
        """Return l_t = d_t + a_t."""
        return self.miss_cost(missed=missed) + self.size_cost(thresholds, missed=missed)

    @property
    def largest(self) -> float:
        """l_max: a miss at threshold 1."""
        return float(self.loss(np.array(1.0), missed=True))

    @property
    def smallest(self) -> float:
        """l_min: a hit at threshold 1."""
        return float(self.loss(np.array(1.0), missed=False))

    @property
    def span(self) -> float:
        """l_max - l_min."""
        return self.largest - self.smallest

    def gain(self, thresholds: Array, *, missed: Outcome) -> Array:
        """Return the normalised gain, in [0, 1]; with a miss it is also the pseudo-gain.

        Rounding may carry the two ends, which are 0 and 1 exactly, over the edge: they are clipped.
        """
        loss = self.loss(thresholds, missed=missed)
        return np.clip((self.largest - loss) / self.span, 0.0, 1.0)
