"""Arrays of rounds in, numbers out. The last axis runs over rounds."""

import numpy as np
from numpy.typing import NDArray

from keyhole.learners.loss import Loss
from keyhole.numeric import Array

Misses = NDArray[np.bool_]


def miss_rate(misses: Misses) -> Array:
    """Return the share of misses: the paper's MC(T).

    Examples
    --------
    >>> float(miss_rate(np.array([True, False, False, False])))
    0.25
    """
    return np.mean(misses, axis=-1)


def miss_rate_so_far(misses: Misses) -> Array:
    """Return the share of misses up to and with each round: the paper's MC(t).

    Examples
    --------
    >>> miss_rate_so_far(np.array([True, False])).tolist()
    [1.0, 0.5]
    """
    return running_mean(misses.astype(np.float64))


def running_mean(values: Array) -> Array:
    """Return the mean up to and with each round.

    Examples
    --------
    >>> running_mean(np.array([3.0, 1.0])).tolist()
    [3.0, 2.0]
    """
    return np.cumsum(values, axis=-1) / np.arange(1, values.shape[-1] + 1)


def window_mean(values: Array, window: int) -> Array:
    """Return the mean of every ``window`` rounds in a row; the first is that of the first ones.

    Examples
    --------
    >>> window_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [2.0, 4.0]
    """
    sums = np.cumsum(np.insert(values, 0, 0.0, axis=-1), axis=-1)
    return (sums[..., window:] - sums[..., :-window]) / window


def regret(thresholds: Array, scores: Array, *, loss: Loss, grid: Array) -> Array:
    """Return Reg(T): the loss of the thresholds played less that of the best one on the grid.

    Examples
    --------
    >>> from keyhole import bounds, make, simulate
    >>> learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)
    >>> run = simulate(learner, np.full(50_000, 0.5))
    >>> loss = bounds.loss_of(learner)
    >>> lost = regret(run.thresholds, run.scores, loss=loss, grid=learner.thresholds)
    >>> bool(lost[0] < bounds.regret(learner))
    True
    """
    played = loss.loss(thresholds, missed=scores < thresholds).sum(axis=-1)
    fixed = np.array([loss.loss(np.full(1, pi), missed=scores < pi).sum(axis=-1) for pi in grid])
    return played - fixed.min(axis=0)


def coverage_slack(thresholds: Array, misses: Misses, *, loss: Loss) -> Array:
    """Return the paper's C_mc(T) = a(0) - mean a_t + MC(T) - alpha.

    Examples
    --------
    >>> from keyhole import bounds, make, simulate
    >>> learner = make("ocp-unlock+", alpha=0.1, horizon=3_000, arms=20)
    >>> run = simulate(learner, np.full(3_000, 0.5))
    >>> slack = coverage_slack(run.thresholds, run.misses, loss=bounds.loss_of(learner))
    >>> bool(slack[0] > miss_rate(run.misses)[0] - 0.1 - bounds.regret(learner) / 3_000)
    True
    """
    size_costs = loss.size_cost(thresholds, missed=misses)
    return -loss.scale - size_costs.mean(axis=-1) + miss_rate(misses) - loss.alpha


def coverage_gap(rates: Array, *, loss: Loss) -> Array:
    """Return the paper's C_gap(T) = (1 / alpha - 1 / MC(T)) / o(T)^-1, of miss rates above 0.

    It is (1 - alpha) / alpha less the hits per miss, over the order that the paper takes it to have;
    0 where the miss rate is alpha, below it negative.

    Examples
    --------
    >>> coverage_gap(np.array([0.125, 0.2, 0.25]), loss=Loss(alpha=0.2, horizon=10_000, cost=40.0))
    array([-30.,   0.,  10.])
    """
    return (1.0 / loss.alpha - 1.0 / rates) / loss.slack
