"""What the three OCP rules share: parameters, prepared tables, and the choice of a threshold."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole import grid
from keyhole.checks import is_real
from keyhole.errors import RateError, TheoryWarning
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import strategy
from keyhole.learners._rule import Distribution, Rule, checked_alpha
from keyhole.learners.loss import Loss
from keyhole.learners.strategy import State, Tuning

DEFAULT_ARMS = 20


@dataclass(frozen=True, kw_only=True)
class OcpParameters:
    """The parameters of an OCP rule.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    horizon
        Number of rounds to come (T). None starts afresh in epochs of doubling length; an answer to
        a round of an earlier epoch then still counts but teaches nothing, so give a horizon where
        answers come very late.
    arms
        Number of thresholds (K), evenly spaced; 20 unless told.
    thresholds
        A grid of one's own instead: increasing from 0, at most 1.
    cost
        Weight of the set's size in the loss (c).
    delta
        The guarantee may fail with this probability.
    bonus, exploration, rate
        Beta, gamma and eta; tuned to the horizon unless told.
    """

    alpha: float
    horizon: int | None = None
    arms: int | None = None
    thresholds: Sequence[float] | None = field(default=None, repr=False)
    cost: float = 40.0
    delta: float = 0.05
    bonus: float | None = None
    exploration: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        values = grid.chosen(self.thresholds, self.arms, default=DEFAULT_ARMS)
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "horizon", strategy.checked_horizon(self.horizon))
        set_once(self, "arms", values.size)
        set_once(self, "thresholds", tuple(values.tolist()))
        if not (is_real(self.cost) and self.cost >= 0.0):
            raise RateError(f"cost (c) {self.cost!r} is not a number of at least 0; the paper uses 40")
        if not (is_real(self.delta) and 0.0 < self.delta < 1.0):
            raise RateError(f"delta {self.delta!r} is not a number between 0 and 1; try 0.05")
        for name, value in {**asdict(self.tuning), "cost": self.cost, "delta": self.delta}.items():
            set_once(self, name, None if value is None else float(value))
        if values.size < 5:
            warnings.warn(
                f"{values.size} arms work, but the theorem begins at 5", TheoryWarning, stacklevel=4
            )

    @property
    def tuning(self) -> Tuning:
        """The rates that were given, to be completed for each epoch."""
        return Tuning(bonus=self.bonus, exploration=self.exploration, rate=self.rate)

    def loss(self, length: int) -> Loss:
        """Return the loss of an epoch of this length."""
        return Loss(alpha=self.alpha, horizon=length, cost=self.cost)


class OcpSettings(NamedTuple):
    """The numbers the kernels read: one row per epoch, one column per arm."""

    thresholds: Array
    lengths: NDArray[np.int64]
    rates: Array
    hit_gains: Array
    miss_gains: Array


def prepare(parameters: OcpParameters) -> OcpSettings:
    """Return the tables for these parameters."""
    thresholds = np.array(parameters.thresholds)
    lengths = strategy.epoch_lengths(thresholds.size, parameters.horizon)
    losses = [parameters.loss(length) for length in lengths]
    return OcpSettings(
        thresholds=thresholds,
        lengths=np.array(lengths),
        rates=np.array([parameters.tuning.rates(thresholds.size, length) for length in lengths]),
        hit_gains=np.array([loss.gain(thresholds, missed=False) for loss in losses]),
        miss_gains=np.array([loss.gain(thresholds, missed=True) for loss in losses]),
    )


def start(settings: OcpSettings) -> State:
    """Return the state before the first round."""
    return strategy.start(settings.thresholds.size)


def memory(settings: OcpSettings) -> int:
    """Return how many numbers a round must remember."""
    return strategy.memory(settings.thresholds.size)


def distribution(settings: OcpSettings, state: State) -> Distribution:
    """Return the thresholds and how likely each is to be played next."""
    return strategy.distribution(settings.thresholds, settings.rates, state)


@kernel
def choose(settings: OcpSettings, state: State, memo: Array, draw: float) -> float:
    """Return the threshold of the drawn arm."""
    return settings.thresholds[strategy.choose_arm(settings.rates, state, memo, draw)]


rule = partial(
    Rule,
    parameters=OcpParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    distribution=distribution,
    source="Yang, Kim and Park (2026), arXiv 2604.17984",
)
