import numpy as np
import pytest

from keyhole.scenarios import airfoil as module
from keyhole.scenarios.airfoil import airfoil, measurements

ROUNDS = 30_000


def test_first_third_is_the_calm_scenario() -> None:
    calm, shifted = airfoil(ROUNDS, seed=5), airfoil(ROUNDS, seed=5, shift=True)
    third = ROUNDS // 3
    assert (calm.scores[:third] == shifted.scores[:third]).all()
    assert (calm.scores[third:] != shifted.scores[third:]).any()


def test_after_the_shift_the_regression_learns_no_more() -> None:
    scenario = airfoil(ROUNDS, seed=5, shift=True)
    data = measurements()
    third = ROUNDS // 3
    by_outcome: dict[float, set[float]] = {}
    for outcome, centre in zip(scenario.outcomes[third:], scenario.centres[third:], strict=True):
        by_outcome.setdefault(outcome, set()).add(centre)
    rows = {pressure: int((data.pressure == pressure).sum()) for pressure in by_outcome}
    assert all(len(centres) <= rows[outcome] for outcome, centres in by_outcome.items())


def test_rows_after_the_shift_are_drawn_by_the_tilt() -> None:
    data = measurements()
    chances = module._tilt(data.features)
    assert chances.sum() == pytest.approx(1.0)
    drawn = airfoil(ROUNDS, seed=5, shift=True).outcomes[ROUNDS // 3 :]
    expected = chances @ data.pressure
    spread = float(np.sqrt(chances @ (data.pressure - expected) ** 2 / drawn.size))
    assert drawn.mean() == pytest.approx(expected, abs=4 * spread)
    assert abs(expected - data.pressure.mean()) > 10 * spread
