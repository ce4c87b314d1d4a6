"""What the OCP rules and EXP3-IX share: parameters, prepared tables, and the choice of a threshold."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from keyhole.learners import strategy
from keyhole.learners.layout import COUNT, Limits
from keyhole.learners.loss import Loss, cost
from keyhole.learners.parameters import (
    arms,
    complete_grid,
    horizon,
    number,
    parameters,
    target,
    thresholds,
)
from keyhole.learners.rule import About, Ask, Distribution, Rule
from keyhole.learners.strategy import Epoch, State, Tuning, choose_arm
from keyhole.numeric import Array, kernel

DEFAULT_ARMS = 20


@parameters
class OcpParameters:
    alpha: float = target()
    horizon: int | None = horizon(
        "Number of rounds to come (T). None starts afresh in epochs of doubling length; an answer "
        "to a round of an earlier epoch then still counts but teaches nothing, so give a horizon "
        "where answers come very late.",
        default=None,
    )
    arms: int | None = arms("Number of thresholds (K), evenly spaced; 20 unless given.", default=None)
    thresholds: Sequence[float] | None = thresholds(default=None)
    cost: float = cost(default=40.0)
    delta: float = number("How likely the guarantee may fail.", default=0.05, above=0.0, below=1.0)
    bonus: float | None = strategy.bonus(default=None)
    exploration: float | None = strategy.exploration(default=None)
    rate: float | None = strategy.rate(default=None)

    def complete(self) -> dict[str, object]:
        return complete_grid(self.thresholds, self.arms, default=DEFAULT_ARMS, theorem=5)

    @property
    def tuning(self) -> Tuning:
        """The rates that were given, to be completed for each epoch."""
        return Tuning(bonus=self.bonus, exploration=self.exploration, rate=self.rate)

    def loss(self, length: int) -> Loss:
        return Loss(alpha=self.alpha, horizon=length, cost=self.cost)

    def prepare(self) -> "OcpSettings":
        return prepare(np.array(self.thresholds), self.horizon, self.loss, self.tuning.make_epoch)


class OcpSettings(NamedTuple):
    """The numbers the kernels read: one row per epoch, one column per arm."""

    grid: Array
    epochs: Array
    hit_gains: Array
    miss_gains: Array


def prepare(
    grid: Array,
    horizon: int | None,
    make_loss: Callable[[int], Loss],
    tune: Callable[[int, int], Epoch],
) -> OcpSettings:
    """Return the tables of a rule, given the loss of an epoch's length and its rates."""
    lengths = strategy.epoch_lengths(grid.size, horizon)
    losses = [make_loss(length) for length in lengths]
    return OcpSettings(
        grid=grid,
        epochs=np.array([tune(grid.size, length) for length in lengths]),
        hit_gains=np.array([loss.gain(grid, missed=False) for loss in losses]),
        miss_gains=np.array([loss.gain(grid, missed=True) for loss in losses]),
    )


def start(settings: OcpSettings) -> State:
    return strategy.start_arms(settings.grid.size)


def count_memory(settings: OcpSettings) -> int:
    return strategy.memory_of(settings.grid.size)


def list_limits(settings: OcpSettings) -> Limits:
    """Return what the clock, and the arm and the epoch that a round remembers, may be."""
    last_arm, last_epoch = settings.grid.size - 1, len(settings.epochs) - 1
    return {"clock": (COUNT, last_epoch), "memo": (last_arm, last_epoch)}


def distribution(settings: OcpSettings, state: State) -> Distribution:
    return Distribution(settings.grid, strategy.probabilities(settings.epochs, state))


@kernel
def choose(settings: OcpSettings, state: State, memo: Array, ask: Ask) -> float:
    return settings.grid[choose_arm(settings.epochs, state, memo, ask.draw)]


rule = partial(
    Rule,
    parameters=OcpParameters,
    choose=choose,
    state=start,
    memory=count_memory,
    limits=list_limits,
    distribution=distribution,
)
about = partial(About, source="Yang, Kim and Park (2026), arXiv 2604.17984")
