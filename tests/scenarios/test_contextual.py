"""Each scenario holds the relation between context and error that it is there for."""

import numpy as np
import pytest

from keyhole.errors import InvalidError
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.contextual import BOUND, CONTEXTUAL

ROUNDS = 40_000
CHANCE = 5.0  # standard errors; a spread estimated from n normal errors is off by 1 / sqrt(2 n) of it


def near(errors: np.ndarray, spread: float) -> bool:
    return abs(errors.std() / spread - 1.0) < CHANCE / np.sqrt(2.0 * errors.size)


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_context_has_a_row_for_every_round_and_the_seed_fixes_it(name: str) -> None:
    first, again, other = (CONTEXTUAL[name](500, seed=seed) for seed in (1, 1, 2))
    assert first.features.shape[0] == 500
    if first.groups is not None:
        assert first.groups.shape[0] == 500
    assert (first.scores == again.scores).all()
    assert np.array_equal(first.features, again.features, equal_nan=True)
    assert (first.scores != other.scores).any()
    assert first.changes[0] == 0


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_an_interval_holds_the_outcome_just_when_its_score_reaches_the_threshold(name: str) -> None:
    scenario = CONTEXTUAL[name](2_000, seed=3)
    thresholds = np.random.default_rng(4).random(2_000)
    held = 2.0 * np.abs(scenario.errors) <= scenario.sizes(thresholds)
    assert (held == (scenario.scores >= thresholds)).all()
    assert (np.abs(scenario.errors) < BOUND).mean() > 0.999


def test_spread_grows_with_the_first_feature_alone() -> None:
    scenario = CONTEXTUAL["heteroscedastic"](ROUNDS, seed=5)
    scaled = scenario.errors / (0.2 + 2.0 * scenario.features[:, 0] ** 2)
    for column in range(3):
        for half in (
            scenario.features[:, column] < 0.5,
            scenario.features[:, column] >= 0.5,
        ):
            assert near(scaled[half], 1.0)


def test_high_season_errs_more_and_nights_less() -> None:
    scenario = CONTEXTUAL["hourly"](8_760, seed=5)
    assert scenario.groups is not None
    night, weekend, high = scenario.groups.T
    errors = np.abs(scenario.errors)
    assert errors[high].mean() > 2.0 * errors[~high].mean()
    assert errors[night & high].mean() < 0.7 * errors[~night & high].mean()
    assert errors[weekend & high].mean() > 1.2 * errors[~weekend & high].mean()
    hour, weekday, month, _ = scenario.features.T
    assert (set(hour), set(weekday), set(month)) == (set(range(24)), set(range(7)), set(range(12)))
    assert (night == (hour < 6)).all()


def test_groups_overlap_and_each_has_its_factor() -> None:
    scenario = CONTEXTUAL["overlapping-groups"](ROUNDS, seed=5)
    assert scenario.groups is not None
    members = scenario.groups
    assert (members.sum(axis=1) >= 3).any()
    assert (members.sum(axis=1) == 0).any()
    outside = ~members.any(axis=1)
    assert near(scenario.errors[outside], 0.5)
    urban_only = members[:, 0] & ~members[:, 1:].any(axis=1)
    assert near(scenario.errors[urban_only], 0.75)


def test_useless_features_are_useless_and_some_are_missing() -> None:
    scenario = CONTEXTUAL["useless-features"](ROUNDS, seed=5)
    missing = np.isnan(scenario.features)
    assert missing.mean() == pytest.approx(0.1, abs=CHANCE * np.sqrt(0.09 / missing.size))
    for column in range(3):
        values = scenario.features[:, column]
        assert near(scenario.errors[values > 0.5], 1.0)
        assert near(scenario.errors[np.isnan(values)], 1.0)


def test_relation_reverses_halfway() -> None:
    scenario = CONTEXTUAL["reversal"](ROUNDS, seed=5)
    strain, half = scenario.features[:, 0], ROUNDS // 2
    assert scenario.changes == (0, half)
    errors = np.abs(scenario.errors)
    before = errors[:half][strain[:half] > 0.8].mean() / errors[:half][strain[:half] < 0.2].mean()
    after = errors[half:][strain[half:] > 0.8].mean() / errors[half:][strain[half:] < 0.2].mean()
    assert before > 3.0 > 1 / 3.0 > after


def test_airfoil_tells_the_measurements_its_regression_had() -> None:
    scenario = airfoil(300, seed=1)
    assert scenario.features.shape == (300, 6)
    assert (scenario.features[:, 5] == scenario.centres).all()
    assert (scenario.groups[:, 0] == (scenario.features[:, 0] > 4000.0)).all()
    assert scenario.groups.mean(axis=0).min() > 0.05


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(InvalidError, match="1 rounds are too few"):
        CONTEXTUAL["reversal"](1, seed=0)
