import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole.errors import InvalidError
from keyhole.grid import check_thresholds, count_at_most, geometric, pick_thresholds, uniform


def test_uniform_grid_includes_both_ends() -> None:
    assert (uniform(21) == np.linspace(0, 1, 21)).all()


def test_geometric_grid_starts_at_zero_and_grows_by_one_factor() -> None:
    grid = geometric(6, smallest=1e-4)
    assert grid[0] == 0.0
    assert grid[1] == pytest.approx(1e-4)
    assert grid[2:] / grid[1:-1] == pytest.approx([10.0] * 4)
    assert (check_thresholds(grid) == grid).all()


@given(st.integers(2, 60), st.floats(0.0, 1.0))
def test_count_is_of_thresholds_that_cover_the_score(arms: int, score: float) -> None:
    grid = uniform(arms)
    assert count_at_most(grid, score) == (grid <= score).sum()


@pytest.mark.parametrize(
    ("thresholds", "match"),
    [
        ([0.0], "1 arms are not a whole number"),
        ([0.1, 0.5], "run from 0.1"),
        ([0.0, 1.5], "to 1.5"),
        ([0.0, float("nan")], "nan"),
        ([0.0, 0.5, 0.5], "threshold 0.5 at place 2"),
        ([0.0, 0.7, 0.5], "threshold 0.5 at place 2 is not above 0.7"),
        ([[0.0, 0.5]], "shape"),
    ],
)
def test_bad_thresholds_are_named(thresholds: Any, match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        check_thresholds(thresholds)


@pytest.mark.parametrize("arms", [1, 0, -3, 2.0, True])
def test_bad_counts_are_named(arms: Any) -> None:
    with pytest.raises(InvalidError, match="not a whole number"):
        uniform(arms)


def test_smallest_threshold_must_be_between_zero_and_one() -> None:
    with pytest.raises(InvalidError, match="smallest threshold 0"):
        geometric(5, smallest=0.0)


def test_thresholds_and_their_number_must_agree() -> None:
    assert pick_thresholds(None, None, default=3).tolist() == [0.0, 0.5, 1.0]
    assert pick_thresholds(None, 2, default=3).tolist() == [0.0, 1.0]
    assert pick_thresholds([0.0, 0.3], 2, default=3).tolist() == [0.0, 0.3]
    with pytest.raises(InvalidError, match="4 arms were asked for, but 2 thresholds given; drop one"):
        pick_thresholds([0.0, 0.3], 4, default=3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_thresholds_are_finite(value: float) -> None:
    with pytest.raises(InvalidError, match="are not all finite"):
        check_thresholds([0.0, value, 1.0])
