import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyhole.learners.weights import accumulate, first_above, largest
from keyhole.numeric import exp

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=41).map(np.array)


@given(st.floats(-44.0, 0.0))
def test_exp_is_the_exponential_to_2e_12(x: float) -> None:
    assert math.isclose(exp(x), math.exp(x), rel_tol=2e-12)


@given(st.floats(-1e308, -44.0))
def test_exp_stops_falling_where_a_sum_with_one_no_longer_feels_it(x: float) -> None:
    assert exp(x) == exp(-44.0)
    assert 1.0 + exp(x) == 1.0


def test_exp_of_zero_is_one() -> None:
    assert exp(0.0) == 1.0


@given(values)
def test_largest_is_the_maximum(numbers: np.ndarray) -> None:
    assert largest(numbers) == numbers.max()


@given(values)
def test_accumulate_leaves_running_sums(numbers: np.ndarray) -> None:
    expected = [math.fsum(numbers[: k + 1]) for k in range(numbers.size)]
    slack = 1e-12 * np.abs(numbers).sum() + 1e-300
    accumulate(numbers)
    assert (np.abs(numbers - expected) <= slack).all()


@given(st.lists(st.floats(0.01, 10.0), min_size=2, max_size=40), st.floats(0.0, 0.999999))
def test_first_above_is_the_first_arm_whose_running_share_exceeds_the_draw(
    weights: list[float], draw: float
) -> None:
    running = np.cumsum(weights)
    share, floor = 0.7 / running[-1], 0.3 / running.size
    shares = share * running + floor * np.arange(1, running.size + 1)
    above = np.flatnonzero(shares > draw)
    expected = above[0] if above.size else running.size - 1
    assert first_above(running, share, floor, draw) == expected


def test_an_arm_is_found_among_many_as_by_looking_at_each() -> None:
    rng = np.random.default_rng(3)
    weights = np.cumsum(rng.random(1_000))
    for draw in (*weights[[0, 1, 499, 500, 501, 998, 999]], *rng.uniform(0.0, weights[-1], 200)):
        above = [k for k in range(1_000) if weights[k] + 0.01 * (k + 1) > draw]
        assert first_above(weights, 1.0, 0.01, float(draw)) == (above or [999])[0]
