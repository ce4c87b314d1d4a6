"""The calculators against the formulas worked out by hand, and against runs."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import bounds, make, metrics, simulate
from keyhole.errors import InvalidError, TheoremError
from keyhole.learners.strategy import Rates, tuned
from keyhole.simulate import complexity

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
    first = int(bounds.regret_speaks_from(learner))
    for horizon, speaks in ((first - 1, False), (first, True)):
        one = make("ocp-unlock+", alpha=0.1, horizon=horizon, arms=20)
        assert (bounds.regret(one) / horizon < bounds.loss_of(one).span) == speaks
    first = int(bounds.miss_rate_speaks_from(learner, below=0.5))
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


def test_epochs_cost_at_most_five_times_a_known_horizon() -> None:
    """At the worst time, the first round of an epoch, for every epoch up to 10^9 rounds."""
    unknown = make("ocp-bandit", alpha=0.1, arms=20)
    starts = unknown.settings.lengths.cumsum()
    for start in starts[starts < 10**9].tolist():
        known = make("ocp-bandit", alpha=0.1, horizon=start + 1, arms=20)
        assert bounds.regret(unknown, rounds=start + 1) < 5.0 * bounds.regret(known)


def test_smaller_delta_costs_its_logarithm() -> None:
    parts = [
        make("ocp-bandit", alpha=0.1, horizon=50_000, arms=200, options={"delta": delta})
        for delta in (0.05, 0.005)
    ]
    spent = bounds.regret(parts[1]) - bounds.regret(parts[0])
    per_nat = bounds.loss_of(parts[0]).span * math.sqrt(50_000 * 200 / 5.298317)
    assert spent == pytest.approx(per_nat * math.log(10), rel=1e-6)


def test_miss_rate_bound_by_hand() -> None:
    """At alpha .2, T = 10^8 and c = 40: v = 8/100 = .08, u = .1, w = .8 * .6 = .48."""
    learner = make("ocp-bandit", alpha=0.2, horizon=10**8, arms=20)
    per_round = bounds.regret(learner) / 10**8
    assert bounds.miss_rate(learner) == pytest.approx((per_round + 0.1) / 0.58, rel=1e-9)


def test_miss_rate_bound_is_attained_by_the_worst_losses() -> None:
    """Hits at threshold 1 and misses at threshold 0 make both inequalities of its proof equations."""
    loss = make("ocp-bandit", alpha=0.2, horizon=10**8, arms=20).parameters.loss(10**8)  # type: ignore[attr-defined]
    hits, misses = 700, 300
    costs = hits * loss.loss(np.ones(1), missed=False) + misses * loss.loss(np.zeros(1), missed=True)
    regret = costs[0] - 1_000 * loss.loss(np.zeros(1), missed=False)[0]
    assert bounds._miss_rate(loss, regret / 1_000) == pytest.approx(0.3, rel=1e-9)


def test_coverage_bound_adds_the_slack_of_the_run() -> None:
    learner = make("ocp-bandit", alpha=0.1, horizon=50_000, arms=20)
    assert bounds.coverage(learner, slack=0.25) == bounds.regret(learner) / 50_000 + 0.25


@pytest.mark.parametrize(
    ("arguments", "rounds", "match"),
    [
        ({"horizon": 50_000}, 60_000, "horizon of 50000 rounds, not of 60000"),
        ({"horizon": 50_000, "options": {"rate": 5.0}}, None, "tuned rates"),
        ({"horizon": 150}, None, "conditions do not hold"),
        ({}, 10**14, "beyond the theorem"),
    ],
)
def test_where_the_theorem_is_silent_so_is_the_calculator(
    arguments: dict[str, Any], rounds: int | None, match: str
) -> None:
    learner = make("ocp-unlock+", alpha=0.1, arms=20, **arguments)
    with pytest.raises(TheoremError, match=match):
        bounds.regret(learner, rounds=rounds)


def test_complexity_of_a_run_by_hand() -> None:
    """The first round is uniform over five arms, and score .6 covers three: C = 1 + x + 2/3."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=1_000, arms=5)
    expected = {0.0: 1, 0.25: 1, 0.5: 1, 0.75: 3, 1.0: 4}  # 1 on a hit, the arms below on a miss
    seen = set()
    for seed in range(12):
        played = simulate(learner, [0.6], seed=seed).thresholds[0, 0]
        seen.add(played)
        assert complexity(learner, [0.6], seed=seed) == pytest.approx(1 + expected[played] + 2 / 3)
    assert len(seen) == 5


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
    for missed, true_regret in zip(metrics.miss_rate(run.misses), regret, strict=True):
        known = bounds._miss_rate(loss, true_regret / 20_000)
        assert missed <= known < 1.0
