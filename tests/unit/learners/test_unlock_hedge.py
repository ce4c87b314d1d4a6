"""The estimates are unbiased, the weights exponential, the regret within its bound."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import grid
from keyhole.learners.unlock_hedge import unlock_hedge

ALPHA = 0.1


def trained(**options: Any) -> tuple[Any, Any]:
    learner = unlock_hedge(alpha=ALPHA, window=None, **options)
    state = learner.start()
    rng = np.random.default_rng(3)
    for score, draw in zip(rng.beta(4, 3, 40), rng.random(40), strict=True):
        memo = learner.memo()
        threshold = learner.choose(state, memo, draw)
        missed = score < threshold
        learner.observe(state, memo, missed=missed, score=np.nan if missed else score)
    return learner, state


@pytest.mark.parametrize("score", [0.0, 0.03, 0.31, 0.5, 0.77, 1.0])
def test_estimates_are_unbiased_arm_by_arm(score: float) -> None:
    """Every arm that could be drawn, with its probability: an exact expectation."""
    learner, state = trained(thresholds=grid.geometric(9, smallest=0.01).tolist())
    thresholds, chances = learner.distribution(state)
    expected = np.zeros(thresholds.size)
    middles = np.cumsum(chances) - chances / 2.0
    for chance, draw, threshold in zip(chances, middles, thresholds, strict=True):
        after = type(state)(*(values.copy() for values in state))
        memo = learner.memo()
        assert learner.choose(after, memo, draw) == threshold
        missed = score < threshold
        learner.observe(after, memo, missed=bool(missed), score=np.nan if missed else score)
        expected += chance * (state.gains - after.gains)
    true = np.where(thresholds <= score, score - ALPHA * thresholds, (1.0 - ALPHA) * thresholds)
    assert expected == pytest.approx(true, abs=1e-12)


def test_probabilities_are_exponential_in_the_estimated_losses() -> None:
    learner, state = trained(arms=7, rate=0.3)
    weights = np.exp(0.3 * (state.gains - state.gains.max()))
    assert learner.distribution(state).probabilities == pytest.approx(weights / weights.sum())


def test_hit_and_miss_worked_out_by_hand() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], rate=1.0, window=None)
    state, memo = learner.start(), learner.memo()
    assert learner.choose(state, memo, 0.4) == 0.5
    learner.observe(state, memo, missed=False, score=0.8)
    # Two of three equal arms cover: q = 2/3, so that their part (s - pi) counts 3/2.
    first = np.array([0.8 * 1.5, 0.45 + 0.3 * 1.5, 0.9])
    assert -state.gains == pytest.approx(first)
    learner.choose(state, memo, 0.99)
    learner.observe(state, memo, missed=True, score=np.nan)
    assert -state.gains == pytest.approx(first + np.array([0.0, 0.45, 0.9]))


def test_rate_adapts_as_adahedge_does() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], window=None)
    state, memo = learner.start(), learner.memo()
    assert state.slack == pytest.approx([math.log(3.0)])
    learner.choose(state, memo, 0.99)
    learner.observe(state, memo, missed=True, score=np.nan)
    losses = np.array([0.0, 0.45, 0.9])
    gap = losses.mean() + math.log(np.exp(-losses).mean())  # the first rate is 1
    assert state.slack == pytest.approx([math.log(3.0) + gap])


def test_discount_forgets_a_part_every_round() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], window=4)
    state, memo = learner.start(), learner.memo()
    for _ in range(2):
        learner.choose(state, memo, 0.99)
        learner.observe(state, memo, missed=True, score=np.nan)
    assert -state.gains == pytest.approx(np.array([0.0, 0.45, 0.9]) * 1.75)
