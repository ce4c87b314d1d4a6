"""Bounds on the excess of misses that are attained, nearly: neither false nor idle."""

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.learners import Learner, bounds
from keyhole.numeric import Array

ALPHAS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45]


def excesses(learner: Learner, scores: Array) -> Array:
    run = simulate(learner, scores, feedback="bandit")
    return np.cumsum(run.misses[0] - learner.alpha)


def to_the_bottom(learner: Learner) -> Array:
    """Misses at once, while steps are large, until every label is shown; then hits to the very top."""
    hits = int(400 / learner.alpha)  # from -14 to 14 in steps of 0.1 alpha are 280 / alpha
    return excesses(learner, np.concatenate((np.zeros(60), np.ones(hits))))


def to_the_top(learner: Learner) -> Array:
    """Hits until no label is shown, then misses to the very bottom."""
    hits = int(400 / learner.alpha)
    return excesses(learner, np.concatenate((np.ones(hits), np.zeros(600))))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_lower_bound_of_the_logit_tracker_holds_where_alpha_is_small_and_is_nearly_attained(
    alpha: float,
) -> None:
    """Kills: 2 / step -> 1.5 / step in the bound by parts, false from alpha .02 down."""
    learner = make("logit-tracker", alpha=alpha)
    least = bounds.excess(learner, rounds=10**9).least
    reached = min(to_the_bottom(learner).min(), to_the_top(learner).min())
    assert least <= reached
    assert reached < 0.8 * least


@pytest.mark.parametrize("alpha", ALPHAS)
def test_upper_bound_of_the_logit_tracker_holds_and_is_nearly_attained(alpha: float) -> None:
    learner = make("logit-tracker", alpha=alpha)
    most = bounds.excess(learner, rounds=10**9).most
    reached = max(to_the_bottom(learner).max(), to_the_top(learner).max())
    assert 0.8 * most < reached <= most


@pytest.mark.parametrize("start", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.4])
def test_each_bound_of_the_tracker_is_attained_up_to_one_round(alpha: float, start: float) -> None:
    """Kills: the two bounds swapped, which starting in the middle hides."""
    learner = make("tracker", alpha=alpha, options={"start": start})
    limits = bounds.excess(learner, rounds=10**9)
    most = excesses(learner, np.zeros(1_000)).max()
    least = excesses(learner, np.ones(int(250 / alpha))).min()
    assert limits.most - 1.0 < most <= limits.most + 1e-9
    assert limits.least - 1e-9 <= least < limits.least + 1.0
