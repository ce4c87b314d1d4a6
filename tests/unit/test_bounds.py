"""The calculators against the formulas worked out by hand, and against runs."""

import math

import numpy as np
import pytest

from keyhole import bounds, make, metrics, simulate
from keyhole.errors import InvalidError
from keyhole.learners.strategy import Rates, tuned

# K = 200, T = 50,000, delta = .05:  ln K = 5.298317
R1 = math.sqrt(50_000 * 200 / 5.298317) * math.log(20)  # 4,115.6
R2 = math.sqrt(50_000 * 200 * 5.298317)  # 7,279.0
ST = 50_000**0.75  # s T = 3,343.7


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("ocp-bandit", R1 + 5.15 * R2),
        ("ocp-unlock", R1 + 5.15 * R2 + ST),
        ("ocp-unlock+", R1 + 4.15 * R2 + R2 + 2 * ST),  # C at its largest is K, and sqrt(T K ln K) R2
    ],
)
def test_regret_bounds_are_those_of_the_theorems(name: str, normalised: float) -> None:
    learner = make(name, alpha=0.1, horizon=50_000, arms=200)
    span = bounds.loss_of(learner).span
    assert bounds.regret(learner) == pytest.approx(span * normalised, rel=1e-6)


def test_known_complexity_tightens_the_bound_of_unlock_plus() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=200)
    span = bounds.loss_of(learner).span
    saved = bounds.regret(learner) - bounds.regret(learner, complexity=4.0)
    assert saved == pytest.approx(span * (R2 - math.sqrt(50_000 * 4 * 5.298317)), rel=1e-6)


def test_exp3p_bound_is_that_of_ocp_bandit_without_the_span() -> None:
    assert bounds.exp3p_regret(arms=200, horizon=50_000) == pytest.approx(R1 + 5.15 * R2, rel=1e-6)


def test_rates_of_the_paper() -> None:
    rates = tuned(200, 50_000)
    assert rates.bonus == pytest.approx(7.279e-4, rel=1e-3)
    assert rates.exploration == pytest.approx(0.15286, rel=1e-3)
    assert rates.rate == pytest.approx(6.915e-4, rel=1e-3)


def test_conditions_of_the_theorem() -> None:
    assert bounds.conditions(tuned(200, 50_000), arms=200).hold
    assert not bounds.conditions(tuned(200, 2_000), arms=200).moderate_exploration
    assert not bounds.conditions(tuned(4, 50_000), arms=4).enough_arms
    assert not bounds.conditions(Rates(0.1, 0.1, 0.1), arms=20).slow_enough


def test_horizon_from_which_a_bound_speaks_is_the_first_one() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)
    first = bounds.regret_speaks_from(learner)
    for horizon, speaks in ((first - 1, False), (first, True)):
        one = make("ocp-unlock+", alpha=0.1, horizon=horizon, arms=20)
        assert (bounds.regret(one) / horizon < bounds.loss_of(one).span) == speaks
    first = bounds.miss_rate_speaks_from(learner, below=0.5)
    for horizon, speaks in ((first - 1, False), (first, True)):
        one = make("ocp-unlock+", alpha=0.1, horizon=horizon, arms=20)
        assert (bounds.miss_rate(one) < 0.5) == speaks


def test_epochs_add_up_and_share_delta() -> None:
    learner = make("ocp-bandit", alpha=0.1, arms=20)
    first, second = (int(length) for length in learner.settings.lengths[:2])
    parts = [
        bounds.regret(
            make("ocp-bandit", alpha=0.1, horizon=T, arms=20, options={"delta": 0.05 / share})
        )
        for T, share in ((first, 2), (second, 6))
    ]
    assert bounds.regret(learner, rounds=first) == pytest.approx(parts[0])
    assert bounds.regret(learner, rounds=first + 1) == pytest.approx(sum(parts))


def test_epochs_cost_at_most_a_constant_factor() -> None:
    """The root terms add up to sqrt(2) / (sqrt(2) - 1) = 3.42 times those of a known horizon."""
    unknown = make("ocp-bandit", alpha=0.1, arms=20)
    rounds = int(unknown.settings.lengths[:12].sum())
    known = make("ocp-bandit", alpha=0.1, horizon=rounds, arms=20)
    ratio = bounds.regret(unknown, rounds=rounds) / bounds.regret(known)
    assert 1.0 < ratio < 3.42 * 2  # Twice, because the later epochs must be the more confident.


def test_without_horizon_the_rounds_must_be_said() -> None:
    with pytest.raises(InvalidError, match="how many rounds"):
        bounds.regret(make("ocp-bandit", alpha=0.1, arms=20))
    with pytest.raises(InvalidError, match="give a horizon"):
        bounds.loss_of(make("ocp-bandit", alpha=0.1, arms=20))


@pytest.mark.parametrize("name", ["ocp-bandit", "ocp-unlock", "ocp-unlock+"])
def test_runs_stay_below_the_bounds(name: str) -> None:
    """Regret, the coverage inequality and the bound known beforehand, on a stream that drifts."""
    rng = np.random.default_rng(2)
    scores = np.concatenate((rng.beta(6, 2, 10_000), rng.beta(2, 4, 10_000)))
    learner = make(name, alpha=0.2, horizon=20_000, arms=10)
    loss = bounds.loss_of(learner)
    assert learner.thresholds is not None
    run = simulate(learner, scores, runs=4, seed=9)
    regret = metrics.regret(
        run.thresholds,
        np.broadcast_to(scores, run.thresholds.shape),
        loss=loss,
        grid=learner.thresholds,
    )
    slack = metrics.coverage_slack(run.thresholds, run.misses, loss=loss)
    excess = metrics.miss_rate(run.misses) - 0.2
    assert (regret <= bounds.regret(learner)).all()
    assert (excess <= regret / 20_000 + slack + 1e-12).all()
    assert (metrics.miss_rate(run.misses) <= bounds.miss_rate(learner)).all()
    weight = 0.8 * 0.6  # (1 - alpha)(1 - 2 alpha): the bound known beforehand, with the true regret
    known = (regret / 20_000 + loss.scale / 0.8) / weight
    assert (metrics.miss_rate(run.misses) <= known).all()
