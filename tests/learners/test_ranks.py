"""Ranks among kept values, and which value a new one takes the place of, by hand."""

import numpy as np
import pytest

from keyhole.learners.rules.contextual_tracker import Ranks, keep, make_finite, rank, start_ranks

STRIDE, STEP, SHIFT = 2654435769, 1640531527, 12345  # modulo 2^32
QUARTER = 2**30


def find_round(draw: int, feature: int) -> int:
    """Return the round whose draw, times 2^32, is the first from here on; rounds are below 2^31."""
    numbers = (
        (draw + extra - SHIFT - feature * STEP) * pow(STRIDE, -1, 2**32) % 2**32 for extra in range(99)
    )
    return next(number for number in numbers if number < 2**31)


def fill(values: list[float], *, features: int = 1) -> Ranks:
    ranks = start_ranks(features, len(values))
    for feature in range(features):
        for number, value in enumerate(values):
            keep(ranks, feature, value, number, 100)
    return ranks


def test_a_rank_counts_those_below_and_half_of_those_equal() -> None:
    """(below + up to + 1) / 2 of one more than there are."""
    ranks = fill([3.0, 1.0, 2.0, 2.0])
    assert [rank(ranks, 0, x) for x in (0.0, 1.0, 1.5, 2.0, 3.0, 9.0)] == [0.1, 0.2, 0.3, 0.5, 0.8, 0.9]
    assert rank(start_ranks(1, 5), 0, 7.0) == 0.5


def test_kept_values_stay_in_order_while_there_is_room() -> None:
    ranks = fill([3.0, 1.0, 2.0, 4.0])
    assert ranks.kept.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert (ranks.held.tolist(), ranks.seen.tolist()) == ([4], [4])


@pytest.mark.parametrize("value", [0.5, 2.5, 9.0])
@pytest.mark.parametrize("feature", [0, 3])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_value_takes_the_place_that_the_round_draws(place: int, feature: int, value: float) -> None:
    """Kills: any other multiple or shift. The round draws a quarter, a half, ... or hardly more."""
    number = find_round(place * QUARTER, feature)
    ranks = fill([1.0, 2.0, 3.0, 4.0], features=4)
    keep(ranks, feature, value, number, 4)  # of a window of four all four are kept
    left = [one for k, one in enumerate((1.0, 2.0, 3.0, 4.0)) if k != place]
    assert ranks.kept[feature].tolist() == sorted([*left, value])
    assert ranks.seen[feature] == 5


def test_of_a_longer_window_a_value_is_kept_as_often_as_there_is_room() -> None:
    """Four of a window of eight: a draw below a half is kept, at draw x 2 of the places."""
    kept = {}
    for eighth in range(8):
        number = find_round(eighth * QUARTER // 2 + 2**28, 0)
        ranks = fill([1.0, 2.0, 3.0, 4.0])
        ranks.seen[0] = 20
        keep(ranks, 0, 9.0, number, 8)
        kept[eighth] = ranks.kept[0].tolist()
    full = [1.0, 2.0, 3.0, 4.0]
    for eighth, row in kept.items():
        assert row == ([*np.delete(full, eighth), 9.0] if eighth < 4 else full)


def test_a_draw_of_just_the_chance_keeps_nothing() -> None:
    """Four of sixteen are kept: a draw of an eighth is, at the third place; one of a quarter is not."""
    for draw, row in ((QUARTER // 2, [1.0, 2.0, 4.0, 9.0]), (QUARTER, [1.0, 2.0, 3.0, 4.0])):
        number = find_round(draw, 0)
        assert (number * STRIDE + SHIFT) % 2**32 == draw
        ranks = fill([1.0, 2.0, 3.0, 4.0])
        ranks.seen[0] = 20
        keep(ranks, 0, 9.0, number, 16)
        assert ranks.kept[0].tolist() == row


def test_infinities_are_kept_as_the_largest_numbers() -> None:
    largest = float(np.finfo(np.float64).max)
    assert [make_finite(x) for x in (np.inf, -np.inf, 3.0)] == [largest, -largest, 3.0]
