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


@pytest.mark.parametrize(("stream", "naive"), [((60, 1), "every label"), ((2, 30), "any arm")])
@pytest.mark.parametrize("arms", [11, 101, 301])
def test_mean_regret_keeps_a_bound_that_a_naive_player_breaks(
    arms: int, stream: tuple[float, float], naive: str
) -> None:
    """Whatever the number of arms; and who shows every label, or draws an arm, has more regret."""
    rounds = 3_000
    rng = np.random.default_rng(arms)
    scores = rng.beta(*stream, rounds)
    rate = math.sqrt(math.log(arms) / rounds)
    learner = unlock_hedge(alpha=ALPHA, arms=arms, rate=rate, window=None)
    run = simulate(learner, scores, runs=8)
    regrets = pinball_regret(run.thresholds, scores, grid.uniform(arms))
    error = regrets.std(ddof=1) / math.sqrt(8)
    bound = bounds.unlock_hedge_regret(arms=arms, horizon=rounds)
    assert regrets.mean() + 3 * error < bound
    drawn = np.zeros(rounds) if naive == "every label" else rng.choice(grid.uniform(arms), rounds)
    assert pinball_regret(drawn[None], scores, grid.uniform(arms))[0] > bound
