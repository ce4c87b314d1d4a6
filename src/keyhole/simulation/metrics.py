"""Arrays of rounds in, numbers out. The last axis runs over rounds."""

import numpy as np
from numpy.typing import NDArray

from keyhole.learners.loss import Loss
from keyhole.numeric import Array

Misses = NDArray[np.bool_]


def miss_rate(misses: Misses) -> Array:
    """Return the share of misses: the paper's MC(T)."""
    return np.mean(misses, axis=-1)


def miss_rate_so_far(misses: Misses) -> Array:
    """Return the share of misses up to and with each round: the paper's MC(t)."""
    return running_mean(misses.astype(np.float64))


def running_mean(values: Array) -> Array:
    """Return the mean up to and with each round."""
    return np.cumsum(values, axis=-1) / np.arange(1, values.shape[-1] + 1)


def window_mean(values: Array, window: int) -> Array:
    """Return the mean of every ``window`` rounds in a row; the first is that of the first ones."""
    sums = np.cumsum(np.insert(values, 0, 0.0, axis=-1), axis=-1)
    return (sums[..., window:] - sums[..., :-window]) / window


def regret(thresholds: Array, scores: Array, *, loss: Loss, grid: Array) -> Array:
    """Return Reg(T): the loss of the thresholds played less that of the best one on the grid."""
    played = loss.loss(thresholds, missed=scores < thresholds).sum(axis=-1)
    fixed = np.array([loss.loss(np.full(1, pi), missed=scores < pi).sum(axis=-1) for pi in grid])
    return played - fixed.min(axis=0)


def coverage_slack(thresholds: Array, misses: Misses, *, loss: Loss) -> Array:
    """Return the paper's C_mc(T) = a(0) - mean a_t + MC(T) - alpha."""
    size_costs = loss.size_cost(thresholds, missed=misses)
    return -loss.scale - size_costs.mean(axis=-1) + miss_rate(misses) - loss.alpha
