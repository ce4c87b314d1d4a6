import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyhole.draws import draws


@given(st.integers(0, 2**64 - 1), st.integers(0, 5_000), st.integers(1, 50))
def test_draw_of_a_round_is_a_function_of_seed_and_number(seed: int, start: int, count: int) -> None:
    whole = draws(seed, 0, start + count)
    assert (draws(seed, start, count) == whole[start:]).all()


def test_draws_are_those_of_numpys_philox() -> None:
    expected = np.random.Generator(np.random.Philox(key=7)).random(10)
    assert (draws(7, 0, 10) == expected).all()


def test_neighbouring_seeds_are_uncorrelated() -> None:
    pairs = np.array([draws(seed, 0, 20_000) for seed in range(6)])
    correlations = np.corrcoef(pairs)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)  # five standard errors
