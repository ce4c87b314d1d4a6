"""Regret bounds on real runs; here and not among the unit tests, because it takes compiled loops."""

import math

import numpy as np
import pytest

from keyhole import grid, simulate
from keyhole.learners import bounds
from keyhole.learners.rules.unlock_hedge import unlock_hedge
from keyhole.numeric import Array

ALPHA = 0.1


def pinball_regret(thresholds: Array, scores: Array, arms: Array) -> Array:
    def losses(played: Array) -> Array:
        return np.maximum((1 - ALPHA) * (played - scores), ALPHA * (scores - played)).sum(axis=-1)

    best = min(float(losses(np.full(1, arm))) for arm in arms)
    return losses(thresholds) - best


@pytest.mark.parametrize("arms", [11, 101, 1001])
def test_mean_regret_keeps_its_bound_whatever_the_number_of_arms(arms: int) -> None:
    rounds = 3_000
    rng = np.random.default_rng(arms)
    scores = np.concatenate((rng.beta(8, 2, rounds // 2), rng.beta(3, 3, rounds // 2)))
    rate = math.sqrt(math.log(arms) / rounds)
    learner = unlock_hedge(alpha=ALPHA, arms=arms, rate=rate, window=None)
    run = simulate(learner, scores, runs=8)
    regrets = pinball_regret(run.thresholds, scores, grid.uniform(arms))
    error = regrets.std(ddof=1) / math.sqrt(8)
    assert regrets.mean() + 3 * error < bounds.unlock_hedge_regret(arms=arms, horizon=rounds)
