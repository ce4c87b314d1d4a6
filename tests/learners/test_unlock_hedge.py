"""The estimates are unbiased, the weights exponential, the regret within its bound."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import MISS, grid
from keyhole.feedback import Answer
from keyhole.learners.rules.unlock_hedge import unlock_hedge

ALPHA = 0.1


def trained(**options: Any) -> tuple[Any, Any]:
    learner = unlock_hedge(alpha=ALPHA, window=None, **options)
    state = learner.start()
    rng = np.random.default_rng(3)
    for score, draw in zip(rng.beta(4, 3, 40), rng.random(40), strict=True):
        threshold, memo = learner.choose(state, draw)
        learner.observe(state, memo, MISS if score < threshold else Answer(0.0, score))
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
        played, memo = learner.choose(after, draw)
        assert played == threshold
        learner.observe(after, memo, MISS if score < threshold else Answer(0.0, score))
        expected += chance * (state.gains - after.gains)
    true = np.where(thresholds <= score, score - ALPHA * thresholds, (1.0 - ALPHA) * thresholds)
    assert expected == pytest.approx(true, abs=1e-12)


def test_probabilities_are_exponential_in_the_estimated_losses() -> None:
    learner, state = trained(arms=7, rate=0.3)
    weights = np.exp(0.3 * (state.gains - state.gains.max()))
    assert learner.distribution(state).probabilities == pytest.approx(weights / weights.sum())


def test_hit_and_miss_worked_out_by_hand() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], rate=1.0, window=None)
    state = learner.start()
    played, memo = learner.choose(state, 0.4)
    assert played == 0.5
    learner.observe(state, memo, Answer(0.0, 0.8))
    # Two of three equal arms cover: q = 2/3, so that their part (s - pi) counts 3/2.
    first = np.array([0.8 * 1.5, 0.45 + 0.3 * 1.5, 0.9])
    assert -state.gains == pytest.approx(first)
    _, memo = learner.choose(state, 0.99)
    learner.observe(state, memo, MISS)
    assert -state.gains == pytest.approx(first + np.array([0.0, 0.45, 0.9]))


def test_rate_adapts_as_adahedge_does() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], window=None)
    state = learner.start()
    assert state.slack == pytest.approx([math.log(3.0)])
    _, memo = learner.choose(state, 0.99)
    learner.observe(state, memo, MISS)
    losses = np.array([0.0, 0.45, 0.9])
    gap = losses.mean() + math.log(np.exp(-losses).mean())  # the first rate is 1
    assert state.slack == pytest.approx([math.log(3.0) + gap])


def test_discount_forgets_a_part_every_round() -> None:
    learner = unlock_hedge(alpha=ALPHA, thresholds=[0.0, 0.5, 1.0], window=4)
    state = learner.start()
    for _ in range(2):
        _, memo = learner.choose(state, 0.99)
        learner.observe(state, memo, MISS)
    assert -state.gains == pytest.approx(np.array([0.0, 0.45, 0.9]) * 1.75)
