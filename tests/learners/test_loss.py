"""The appendix of the paper as properties."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole import MISS
from keyhole.feedback import Answer
from keyhole.grid import uniform
from keyhole.learners import Rule, bounds, strategy
from keyhole.learners.loss import Loss
from keyhole.learners.rules.ocp_bandit import ocp_bandit
from keyhole.learners.rules.ocp_unlock import ocp_unlock
from keyhole.learners.rules.ocp_unlock_plus import ocp_unlock_plus
from keyhole.numeric import Array

alphas = st.floats(0.001, 0.499)
horizons = st.integers(100, 10**9)
costs = st.floats(0.0, 200.0)
losses = st.builds(Loss, alpha=alphas, horizon=horizons, cost=costs)
grids = st.integers(2, 200).map(uniform)
RULES = [ocp_bandit, ocp_unlock, ocp_unlock_plus]


@given(losses, grids)
def test_among_hits_the_loss_falls_as_the_threshold_grows(loss: Loss, grid: Array) -> None:
    assert (np.diff(loss.loss(grid, missed=False)) <= 1e-12).all()


@given(losses, grids)
def test_among_misses_the_loss_rises_with_the_threshold(loss: Loss, grid: Array) -> None:
    assert (np.diff(loss.loss(grid, missed=True)) >= -1e-12).all()


@given(losses, grids)
def test_no_hit_costs_more_than_any_miss(loss: Loss, grid: Array) -> None:
    assert loss.loss(grid, missed=False).max() <= loss.loss(grid, missed=True).min() + 1e-12


@given(losses, grids)
def test_smallest_and_largest_loss_are_attained_at_threshold_one(loss: Loss, grid: Array) -> None:
    both = np.concatenate([loss.loss(grid, missed=missed) for missed in (False, True)])
    assert both.min() == loss.smallest == loss.loss(grid[-1:], missed=False)[0]
    assert both.max() == loss.largest == loss.loss(grid[-1:], missed=True)[0]


@given(losses, grids)
def test_gains_lie_in_the_unit_interval_and_reach_its_ends(loss: Loss, grid: Array) -> None:
    gains = np.concatenate([loss.gain(grid, missed=missed) for missed in (False, True)])
    assert gains.min() == 0.0
    assert gains.max() == 1.0


@given(losses, grids)
def test_clipping_a_gain_only_removes_rounding(loss: Loss, grid: Array) -> None:
    exact = (loss.largest - loss.loss(grid, missed=False)) / loss.span
    assert np.abs(loss.gain(grid, missed=False) - exact).max() <= 1e-12


@given(losses, grids)
def test_pseudo_gain_of_a_lower_arm_is_no_less_than_the_gain_of_a_higher_miss(
    loss: Loss, grid: Array
) -> None:
    assert (np.diff(loss.gain(grid, missed=True)) <= 1e-12).all()


@given(alphas, horizons)
def test_span_is_the_formula_of_the_paper(alpha: float, horizon: int) -> None:
    loss = Loss(alpha=alpha, horizon=horizon, cost=40.0)
    v = 40.0 * alpha * horizon**-0.25
    expected = (1 - 2 * alpha) * (1 - alpha) + v * (
        1 + 1 / (1 - alpha) - 1 / (1 + alpha * (1 - 2 * alpha))
    )
    assert math.isclose(loss.span, expected, rel_tol=1e-9)


@given(
    rule=st.sampled_from(RULES),
    alpha=alphas,
    arms=st.integers(5, 40),
    stretch=st.floats(1.0, 1e4),
    draw=st.floats(0.0, 1.0, exclude_max=True),
    score=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=200)
def test_rate_times_estimate_is_at_most_one_under_the_conditions_of_the_theorem(
    *, rule: "Rule[...]", alpha: float, arms: int, stretch: float, draw: float, score: float, seed: int
) -> None:
    horizon = math.ceil(strategy.theorem_horizon(arms) * stretch)
    learner = rule(alpha=alpha, horizon=horizon, arms=arms)
    rates = strategy.Epoch(*learner.settings.epochs[0].tolist())
    assert bounds.conditions(rates, arms=arms).hold
    state = learner.start()
    state.gains[:] = np.random.default_rng(seed).normal(0.0, 3.0 / rates.rate, arms)
    before = state.gains.copy()
    threshold, memo = learner.choose(state, draw)
    learner.observe(state, memo, MISS if score < threshold else Answer(0.0, score))
    added = state.gains - before
    assert (added >= 0.0).all()
    assert rates.rate * added.max() <= 1.0 + 1e-9
