"""The strategy of EXP3.P: exponential weights mixed with uniform exploration, in epochs.

With a known horizon there is one epoch. Without one the learner starts afresh in epochs whose
lengths double, each tuned for its own length.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import HorizonError
from keyhole.learners.parameters import number, parameters
from keyhole.learners.weights import first_above, weigh
from keyhole.numeric import Array, Counts, kernel

_BONUS, _EXPLORATION, _RATE, _LENGTH = 0, 1, 2, 3  # columns of the epochs
_ROUNDS, _EPOCH = 0, 1
_MEMO_ARM, _MEMO_EPOCH, _MEMO_WEIGHTS = 0, 1, 2
_LONGEST_EPOCH = 10**12


class Epoch(NamedTuple):
    """How a strategy plays for so many rounds; to kernels, a row of a table.

    ``bonus`` is the paper's beta, ``exploration`` gamma, ``rate`` eta.
    """

    bonus: float
    exploration: float
    rate: float
    length: float


def tuned(arms: int, horizon: int) -> Epoch:
    """Return the paper's rates for a known horizon."""
    log = math.log(arms)
    return Epoch(
        bonus=math.sqrt(log / (arms * horizon)),
        exploration=1.05 * math.sqrt(arms * log / horizon),
        rate=0.95 * math.sqrt(log / (arms * horizon)),
        length=horizon,
    )


def shortest_horizon(arms: int) -> int:
    """Return the fewest rounds for which the tuned exploration is a probability."""
    return math.ceil(1.05**2 * arms * math.log(arms))


def theorem_horizon(arms: int) -> int:
    """Return the fewest rounds for which the tuned rates meet the theorems' conditions.

    Exploration is at most 1/2, and (1 + 2 beta) 0.95 <= 1.05, that is, beta <= 1/19.
    """
    log = math.log(arms)
    return math.ceil(max(4.0 * 1.05**2 * arms * log, 19.0**2 * log / arms))


def epoch_lengths(arms: int, horizon: int | None) -> list[int]:
    """Return the lengths of the epochs, the first one long enough for the theorem's conditions."""
    if horizon is not None:
        return [horizon]
    first = theorem_horizon(arms)
    doublings = math.ceil(math.log2(_LONGEST_EPOCH / first))
    return [first * 2**n for n in range(doublings + 1)]


def bonus(*, default: float | None) -> Any:
    meaning = "Beta; tuned to the horizon unless given."
    return number(meaning, default=default, least=0.0, remedy="try 0.001")


def exploration(*, default: float | None) -> Any:
    meaning = "Gamma; tuned to the horizon unless given."
    return number(meaning, default=default, above=0.0, most=1.0, remedy="try 0.05")


def rate(*, default: float | None) -> Any:
    meaning = "Eta; tuned to the horizon unless given."
    return number(meaning, default=default, above=0.0, remedy="try 0.01")


@parameters
class Tuning:
    """How fast a strategy learns and explores: whatever is None is tuned to the epoch's length."""

    bonus: float | None = bonus(default=None)
    exploration: float | None = exploration(default=None)
    rate: float | None = rate(default=None)

    def make_epoch(self, arms: int, length: int) -> Epoch:
        """Return an epoch of this length, or raise if it is too short."""
        default = tuned(arms, length)
        if self.exploration is None and default.exploration > 1.0:
            raise HorizonError(
                f"horizon {length} is too short for {arms} arms: exploration would be "
                f"{default.exploration:.2f} > 1; use at least {shortest_horizon(arms)} rounds "
                "or fewer arms"
            )
        given = (self.bonus, self.exploration, self.rate, None)
        return Epoch(*(d if g is None else g for g, d in zip(given, default, strict=True)))


class State(NamedTuple):
    """What the strategy has learnt: each arm's cumulative gain, and where in the epochs it is."""

    gains: Array
    clock: Counts


def start_arms(arms: int) -> State:
    return State(gains=np.zeros(arms), clock=np.zeros(2, dtype=np.int64))


def memory_of(arms: int) -> int:
    """Return how many numbers a round must remember: its arm, its epoch and its weights."""
    return _MEMO_WEIGHTS + arms


@kernel
def choose_arm(epochs: Array, state: State, memo: Array, draw: float) -> int:
    """Return the drawn arm; the memo keeps it with the weights it was drawn from."""
    epoch = state.clock[_EPOCH]
    exploration = epochs[epoch, _EXPLORATION]
    weights = memo[_MEMO_WEIGHTS:]
    weigh(state.gains, epochs[epoch, _RATE], weights)
    share = (1.0 - exploration) / weights[-1]  # Weights are running sums: the last is their total.
    arm = first_above(weights, share, exploration / weights.size, draw)
    memo[_MEMO_ARM] = arm
    memo[_MEMO_EPOCH] = epoch
    return arm


@kernel
def recall(epochs: Array, memo: Array) -> tuple[int, int, float, float, float]:
    """Return a round's arm, epoch, bonus, share and floor.

    At its time F(k) was share W(k) + floor (k + 1), with the running weights W in the memo.
    """
    epoch = int(memo[_MEMO_EPOCH])
    exploration = epochs[epoch, _EXPLORATION]
    arms = memo.size - _MEMO_WEIGHTS
    share = (1.0 - exploration) / memo[-1]
    return int(memo[_MEMO_ARM]), epoch, epochs[epoch, _BONUS], share, exploration / arms


@kernel
def running_weights(memo: Array) -> Array:
    return memo[_MEMO_WEIGHTS:]


@kernel
def is_current(state: State, memo: Array) -> bool:
    """Return whether the round was drawn in the present epoch: an older one teaches nothing."""
    return state.clock[_EPOCH] == memo[_MEMO_EPOCH]


@kernel
def add_bonuses(gains: Array, weights: Array, bonus: float, share: float, floor: float) -> None:
    """Add bonus / p to the gain of every arm; of none, if there are none."""
    if gains.size > 0:
        gains[0] += bonus / (share * weights[0] + floor)  # The first has no sum before it.
    for k in range(1, gains.size):
        gains[k] += bonus / (share * (weights[k] - weights[k - 1]) + floor)


@kernel
def advance(epochs: Array, state: State) -> None:
    """Count the round, and start afresh if it was the last of an epoch that has a successor."""
    state.clock[_ROUNDS] += 1  # of this epoch; the last epoch has no end
    epoch = state.clock[_EPOCH]
    if epoch + 1 < len(epochs) and state.clock[_ROUNDS] == epochs[epoch, _LENGTH]:
        state.clock[_ROUNDS] = 0
        state.clock[_EPOCH] += 1
        state.gains[:] = 0.0


@kernel
def reward(epochs: Array, state: State, memo: Array, gain: float) -> None:
    """Add EXP3.P's estimate to every arm: (gain + bonus) / p if chosen, bonus / p if not."""
    if not is_current(state, memo):
        return
    arm, _, bonus, share, floor = recall(epochs, memo)  # not the epoch, which is the present one
    weights = running_weights(memo)
    add_bonuses(state.gains, weights, bonus, share, floor)
    own = weights[arm] - weights[arm - 1] if arm > 0 else weights[0]
    state.gains[arm] += gain / (share * own + floor)
    advance(epochs, state)


def probabilities(epochs: Array, state: State) -> Array:
    memo = np.zeros(memory_of(state.gains.size))
    choose_arm(epochs, state, memo, 0.0)
    _, _, _, share, floor = recall(epochs, memo)
    return share * np.diff(running_weights(memo), prepend=0.0) + floor
