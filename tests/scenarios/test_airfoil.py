import numpy as np
import pytest

from keyhole.scenarios.airfoil import BOUND, SCORE, airfoil, measurements


def test_data_set_is_whole() -> None:
    data = measurements()
    assert data.features.shape == (1503, 5)
    assert data.pressure[[0, -1]].tolist() == [126.201, 104.204]


def test_seed_fixes_the_scenario() -> None:
    assert (airfoil(300, seed=4).scores == airfoil(300, seed=4).scores).all()
    assert not (airfoil(300, seed=4).scores == airfoil(300, seed=5).scores).all()


def test_regression_is_least_squares_on_what_it_has_seen() -> None:
    """After n rows the recursive weights are those of ridge regression with penalty 1/1000."""
    data = measurements()
    rows = np.random.default_rng(4).integers(1503, size=50 + 200)
    inputs = (data.features - data.features.mean(axis=0)) / data.features.std(axis=0)
    inputs = np.column_stack((np.ones(1503), inputs))[rows]
    centres = airfoil(200, seed=4).centres
    for n in (0, 17, 199):
        seen = slice(0, 50 + n)
        gram = inputs[seen].T @ inputs[seen] + np.eye(6) / 1000.0
        weights = np.linalg.solve(gram, inputs[seen].T @ data.pressure[rows[seen]])
        assert centres[n] == pytest.approx(inputs[50 + n] @ weights, abs=1e-6)


def test_scores_and_sizes_are_those_of_the_predictors_score() -> None:
    scenario = airfoil(100, seed=1)
    case = SCORE.read(scenario.centres[7])
    assert scenario.scores[7] == pytest.approx(case.score(scenario.outcomes[7]))
    sizes = scenario.sizes(np.full(100, 0.75))
    assert sizes[7] == pytest.approx(case.region(0, threshold=0.75).width)
    assert scenario.sizes(np.array([-0.5, 0.0, 1.0, 1.5])).tolist() == [2 * BOUND, 2 * BOUND, 0.0, 0.0]


def test_shift_begins_after_a_third_and_moves_the_inputs() -> None:
    calm, shifted = airfoil(3_000, seed=2), airfoil(3_000, seed=2, shift=True)
    assert (calm.centres[:1_000] == shifted.centres[:1_000]).all()
    before, after = (np.abs(one.outcomes - one.centres)[1_000:] for one in (calm, shifted))
    error = np.sqrt(before.var() / 2_000 + after.var() / 2_000)
    assert after.mean() - before.mean() > 5 * error


def test_model_learns_no_more_after_the_shift() -> None:
    """A frozen linear model gives equal rows equal predictions."""
    scenario = airfoil(3_000, seed=2, shift=True)
    late = np.column_stack((scenario.outcomes, scenario.centres))[1_000:]
    distinct = np.unique(late.round(9), axis=0)
    assert distinct.shape[0] <= 1503
