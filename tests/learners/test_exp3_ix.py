import math

import numpy as np
import pytest

from keyhole import HIT, MISS
from keyhole.learners.loss import Loss
from keyhole.learners.rules.exp3_ix import exp3_ix, tune


def test_rates_are_those_of_the_theorem() -> None:
    rates = tune(20, 10_000)
    assert rates.rate == pytest.approx(math.sqrt(2.0 * math.log(20) / (20 * 10_000)))
    assert rates.bonus == rates.rate / 2.0
    assert rates.exploration == 0.0


@pytest.mark.parametrize("missed", [False, True])
def test_only_the_chosen_arm_is_charged_and_a_little_less_than_fairly(missed: bool) -> None:  # noqa: FBT001
    learner = exp3_ix(alpha=0.1, horizon=1_000, arms=5)
    state = learner.start()
    threshold, memo = learner.choose(state, 0.5)
    learner.observe(state, memo, MISS if missed else HIT)
    loss = Loss(alpha=0.1, horizon=1_000, cost=40.0)
    own = 1.0 - float(loss.gain(np.array([threshold]), missed=missed)[0])
    expected = np.zeros(5)
    expected[2] = -own / (0.2 + tune(5, 1_000).bonus)
    assert state.gains == pytest.approx(expected)


def test_estimates_fall_short_of_the_loss_by_the_implicit_exploration_only() -> None:
    """By enumeration of the arms: E estimate = loss p / (p + gamma)."""
    learner = exp3_ix(alpha=0.1, horizon=1_000, arms=5)
    state = learner.start()
    state.gains[:] = [-3.0, -1.0, 0.0, -2.0, -5.0]
    chances = learner.distribution(state).probabilities
    implicit = tune(5, 1_000).bonus
    losses = 1.0 - Loss(alpha=0.1, horizon=1_000, cost=40.0).gain(learner.settings.grid, missed=True)
    expected = np.zeros(5)
    for chance, draw in zip(chances, np.cumsum(chances) - chances / 2, strict=True):
        after = type(state)(*(values.copy() for values in state))
        _, memo = learner.choose(after, float(draw))
        learner.observe(after, memo, MISS)
        expected += chance * (state.gains - after.gains)
    assert expected == pytest.approx(losses * chances / (chances + implicit), rel=1e-9)
