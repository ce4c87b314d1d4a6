import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole.errors import InvalidError
from keyhole.predictor.draws import Draws, check_seed, draw_rounding, make_draws


@given(st.integers(0, 2**64 - 1), st.integers(0, 5_000), st.integers(1, 50))
def test_draw_of_a_round_is_a_function_of_seed_and_number(seed: int, start: int, count: int) -> None:
    whole = make_draws(seed, 0, start + count)
    assert (make_draws(seed, start, count) == whole[start:]).all()


def test_draws_are_those_of_numpys_philox() -> None:
    expected = np.random.Generator(np.random.Philox(key=7)).random(10)
    assert (make_draws(7, 0, 10) == expected).all()


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 500), min_size=1, max_size=30))
def test_draws_by_number_are_those_of_the_whole_in_any_order(seed: int, numbers: list[int]) -> None:
    whole, kept = make_draws(seed, 0, 501), Draws(seed)
    assert [kept.of(number) for number in numbers] == whole[numbers].tolist()


def test_draws_that_round_have_two_for_the_second_word_of_their_key() -> None:
    """Kills: another key, with which a stream that exists would count its answers otherwise."""
    expected = np.random.Generator(np.random.Philox(key=[7, 2])).random(10).tolist()
    assert [draw_rounding(7, number) for number in range(10)] == expected


def test_draws_that_round_are_not_those_that_choose() -> None:
    chosen, rounded = make_draws(7, 0, 4_000), [draw_rounding(7, number) for number in range(4_000)]
    assert abs(np.corrcoef(chosen, rounded)[0, 1]) < 5 / np.sqrt(4_000)


@pytest.mark.parametrize("seed", [2**53, 2**63, 2**64 - 2])
def test_seeds_of_every_size_round_by_draws_of_their_own(seed: int) -> None:
    assert draw_rounding(seed, 0) != draw_rounding(seed + 1, 0)


def test_neighbouring_seeds_are_uncorrelated() -> None:
    pairs = np.array([make_draws(seed, 0, 20_000) for seed in range(6)])
    correlations = np.corrcoef(pairs)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)  # five standard errors


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_a_seed_is_a_whole_number_of_64_bits(seed: int) -> None:
    assert check_seed(seed) == seed


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "7"])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(InvalidError, match=r"is not a whole number from 0 to 2\*\*64 - 1"):
        check_seed(seed)  # type: ignore[arg-type]


def test_a_seed_that_nobody_gave_has_63_bits_and_is_another_each_time() -> None:
    """Of 64 such seeds none has its 63rd bit once in 2**64 times."""
    seeds = [check_seed(None) for _ in range(64)]
    assert 2**62 <= max(seeds) < 2**63
    assert len(set(seeds)) == 64
