"""Rounds of scale-free descent, coin betting, PI control and AgACI, worked out by hand."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, simulate
from keyhole.learners.rules.agaci import agaci
from keyhole.learners.rules.kt import kt
from keyhole.learners.rules.pi import pi
from keyhole.learners.rules.sf_ogd import sf_ogd

Lived = Callable[..., tuple[list[float], Any]]


def test_scale_free_descent_steps_by_the_gradient_over_all_gradients(lived: Lived) -> None:
    played, state = lived(sf_ogd(alpha=0.1), [0.5, 0.8])
    after_miss = 0.9 / math.sqrt(3.0 * 0.81)
    assert played == pytest.approx([1.0, 1.0 - after_miss])
    assert state.squares == pytest.approx([0.81 + 0.01])
    assert state.radius == pytest.approx([after_miss - 0.1 / math.sqrt(3.0 * 0.82)])


def test_scale_free_radius_never_falls_below_zero(lived: Lived) -> None:
    _, state = lived(sf_ogd(alpha=0.1), [1.0, 1.0])
    assert state.radius == [0.0]


def test_coin_bettor_bets_the_mean_coin(lived: Lived) -> None:
    played, state = lived(kt(alpha=0.1), [0.5, 0.5, 0.9])
    second = 0.9 / 2.0
    wealth = 1.0 + 0.9 * second
    assert played == pytest.approx([1.0, 1.0 - second, 1.0 - (0.9 + 0.9) / 3.0 * wealth])
    assert state.coins == pytest.approx([1.7])


def test_coin_bettors_wealth_is_at_least_the_potential() -> None:
    """The inequality that the bound on its misses rests on."""
    for seed, chance in enumerate((0.02, 0.1, 0.3, 0.9)):
        coins = (np.random.default_rng(seed).random(3_000) < chance) - 0.1
        log_wealth, total = 0.0, 0.0
        for t, coin in enumerate(coins, start=1):
            log_wealth += math.log1p(coin * total / t)
            total += coin
            assert log_wealth >= total**2 / (2 * t) - 1.0 - 0.5 * math.log(math.pi * t)


def test_coin_bettor_does_not_go_bankrupt_over_late_answers() -> None:
    learner = kt(alpha=0.1)
    state = learner.start()
    rng = np.random.default_rng(6)
    waiting: list[tuple[float, Any, float]] = []
    for score in rng.beta(6, 2, 5_000):
        waiting.append((*learner.choose(state, 0.5), score))
        if len(waiting) > 100:
            threshold, memo, late = waiting.pop(0)
            learner.observe(state, memo, MISS if late < threshold else HIT)
    assert state.wealth[0] > 0.0


def test_integrator_pushes_by_the_tangent_of_the_excess(lived: Lived) -> None:
    learner = pi(alpha=0.1, step=0.1, gain=0.5, saturation=2.0)
    played, _ = lived(learner, [0.0, 0.0])
    integrator = 0.5 * math.tan(0.9 * math.log(2.0) / (2.0 * 2.0))
    assert played == pytest.approx([0.5, 0.5 - 0.09 - integrator])


@pytest.mark.parametrize(("excess", "threshold"), [(1e6, 0.0), (-1e6, 2.0)])
def test_saturated_integrator_plays_all_or_nothing(excess: float, threshold: float) -> None:
    learner = pi(alpha=0.1)
    state = learner.start()
    state.excess[0], state.rounds[0] = excess, 1e5
    assert learner.choose(state, 0.5)[0] == threshold


def test_agaci_begins_as_a_tracker_of_the_mean_step(lived: Lived) -> None:
    played, _ = lived(agaci(alpha=0.1, steps=[0.1, 0.3]), [0.0, 1.0])
    assert played == pytest.approx([0.5, 0.5 - 0.9 * 0.2])


def test_agaci_charges_experts_with_second_order_losses(lived: Lived) -> None:
    learner = agaci(alpha=0.1, steps=[0.1, 0.3])
    _, state = lived(learner, [0.0, 0.0])
    losses = 0.9 * np.array([0.1, -0.1]) * 0.9  # (miss - alpha)(mean step - own step) excess
    assert state.losses == pytest.approx(0.5 * losses * (1.0 + losses))
    assert state.squares == pytest.approx(losses**2)
    # 2 ** (ceil(log2(0.082)) + 1) = 1/4, and sqrt(ln 2 / 0.0066) = 10.3
    assert state.rates == pytest.approx([4.0, 4.0])


def test_an_expert_of_agaci_that_is_far_ahead_takes_all_the_weight() -> None:
    """Kills: weights that overflow, because they are not those of the best."""
    learner = agaci(alpha=0.1, steps=[0.1, 0.3])
    state = learner.start()
    for losses, step in (([-5_000.0, 0.0], 0.1), ([9_000.0, -9_000.0], 0.3), ([9_000.0, 9_000.0], 0.2)):
        state.losses[:] = losses
        assert learner.choose(state)[1][0] == pytest.approx(step)


def test_agaci_learns_to_step_fast_where_the_scores_jump() -> None:
    rng = np.random.default_rng(8)
    wild = np.concatenate([rng.beta(a, 4, 400) for _ in range(8) for a in (12, 2)])
    fast = simulate(agaci(alpha=0.1), wild)
    excess = np.cumsum(fast.misses[0] - 0.1)[:-1]
    moving = np.abs(excess) > 5.0
    steps = (0.5 - fast.thresholds[0, 1:][moving]) / excess[moving]
    assert steps[-100:].mean() > 0.01
