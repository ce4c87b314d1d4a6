"""EXP3-IX: a bandit over thresholds that explores implicitly, on the loss of the OCP family."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole import grid
from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import strategy
from keyhole.learners._rule import Distribution, Rule, checked_alpha
from keyhole.learners._weights import shares
from keyhole.learners.loss import Loss
from keyhole.learners.strategy import Rates, State


@dataclass(frozen=True, kw_only=True)
class Exp3IxParameters:
    """The parameters of EXP3-IX.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    horizon
        Number of rounds to come (T); None starts afresh in epochs of doubling length.
    arms
        Number of thresholds (K), evenly spaced; 20 unless told.
    thresholds
        A grid of one's own instead: increasing from 0, at most 1.
    cost
        Weight of the set's size in the loss (c).
    """

    alpha: float
    horizon: int | None = None
    arms: int | None = None
    thresholds: Sequence[float] | None = field(default=None, repr=False)
    cost: float = 40.0

    def __post_init__(self) -> None:
        values = grid.chosen(self.thresholds, self.arms, default=20)
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "horizon", strategy.checked_horizon(self.horizon))
        set_once(self, "arms", values.size)
        set_once(self, "thresholds", tuple(values.tolist()))


class Exp3IxSettings(NamedTuple):
    """The numbers the kernels read: one row per epoch, one column per arm."""

    thresholds: Array
    lengths: NDArray[np.int64]
    rates: Array
    hit_losses: Array
    miss_losses: Array


def tuned(arms: int, horizon: int) -> Rates:
    """Return eta = 2 gamma = sqrt(2 ln K / (K T)); gamma, the implicit exploration, as the bonus."""
    rate = math.sqrt(2.0 * math.log(arms) / (arms * horizon))
    return Rates(bonus=rate / 2.0, exploration=0.0, rate=rate)


def prepare(parameters: Exp3IxParameters) -> Exp3IxSettings:
    """Return the tables for these parameters."""
    p = parameters
    thresholds = np.array(p.thresholds)
    lengths = strategy.epoch_lengths(thresholds.size, p.horizon)
    losses = [Loss(alpha=p.alpha, horizon=length, cost=p.cost) for length in lengths]
    return Exp3IxSettings(
        thresholds=thresholds,
        lengths=np.array(lengths),
        rates=np.array([tuned(thresholds.size, length) for length in lengths]),
        hit_losses=np.array([1.0 - loss.gain(thresholds, missed=False) for loss in losses]),
        miss_losses=np.array([1.0 - loss.gain(thresholds, missed=True) for loss in losses]),
    )


def start(settings: Exp3IxSettings) -> State:
    """Return the state before the first round."""
    return strategy.start(settings.thresholds.size)


def memory(settings: Exp3IxSettings) -> int:
    """Return how many numbers a round must remember."""
    return strategy.memory(settings.thresholds.size)


def distribution(settings: Exp3IxSettings, state: State) -> Distribution:
    """Return the thresholds and how likely each is to be played next."""
    rate = Rates(*settings.rates[state.clock[-1]]).rate
    return Distribution(settings.thresholds, shares(state.gains, rate))


@kernel
def choose(settings: Exp3IxSettings, state: State, memo: Array, draw: float) -> float:
    """Return the threshold of the drawn arm."""
    return settings.thresholds[strategy.choose_arm(settings.rates, state, memo, draw)]


@kernel
def charge(lengths: NDArray[np.int64], rates: Array, state: State, memo: Array, loss: float) -> None:
    """Charge the chosen arm with loss / (p + gamma): a little less than an unbiased estimate."""
    if not strategy.is_current(state, memo):
        return
    arm, _, implicit, share, _ = strategy.recall(rates, memo)
    weights = strategy.running_weights(memo)
    own = weights[arm] - weights[arm - 1] if arm > 0 else weights[0]
    state.gains[arm] -= loss / (share * own + implicit)
    strategy.advance(lengths, state)


@kernel
def observe(settings: Exp3IxSettings, state: State, memo: Array, missed: bool, score: float) -> None:  # noqa: ARG001
    """Charge the chosen arm with its own loss; the score is not used."""
    arm, epoch, _, _, _ = strategy.recall(settings.rates, memo)
    loss = settings.miss_losses[epoch, arm] if missed else settings.hit_losses[epoch, arm]
    charge(settings.lengths, settings.rates, state, memo, loss)


exp3_ix = Rule(
    name="exp3-ix",
    needs=Needs.HIT_OR_MISS,
    parameters=Exp3IxParameters,
    prepare=prepare,
    start=start,
    memory=memory,
    choose=choose,
    observe=observe,
    distribution=distribution,
    summary="a bandit with implicit exploration, on the loss of the OCP family",
    guarantee="regret <= L (2 sqrt(2 K T ln K) + (sqrt(2 K T / ln K) + 1) ln(2 / delta)) with "
    "probability 1 - delta, on any stream",
    source="Neu (2015), arXiv 1506.03271",
)
