"""How far stale answers move a learner, and where guards stand, by hand."""

import numpy as np
import pytest

from keyhole.learners.lateness import Lateness
from keyhole.learners.patience import (
    bound_stretched,
    check_guards,
    check_late_guards,
    raise_level,
    slow,
    stretch,
)
from keyhole.learners.rule import Excess


def test_an_answer_60_rounds_stale_moves_half_as_far() -> None:
    assert [slow(0.0), slow(60.0), slow(120.0)] == [1.0, 2.0, 3.0]


def test_guards_stand_twice_as_far_where_answers_are_30_late() -> None:
    assert [stretch(0), stretch(30), stretch(60)] == [1.0, 2.0, 3.0]


def test_only_an_answer_older_than_the_level_raises_it_and_by_one() -> None:
    level = np.zeros(1, dtype=np.int64)
    for age, expected in ((0.0, 0), (1.0, 1), (1.0, 1), (500.0, 2), (2.0, 2), (3.0, 3)):
        raise_level(level, age)
        assert level[0] == expected


@pytest.mark.parametrize(
    ("excess", "lateness", "closed"),
    [
        (10.0, 0, 0), (10.1, 0, 1), (-8.0, 0, 0), (-8.1, 0, -1),
        (16.0, 3, 0), (16.1, 3, 1), (-14.0, 3, 0), (-14.1, 3, -1),
    ],
)  # fmt: skip
def test_a_guard_closes_beyond_its_bound_and_two_for_every_answer_of_lateness(
    excess: float, lateness: int, closed: int
) -> None:
    assert check_guards(excess, lateness, 10.0, -8.0) == closed


@pytest.mark.parametrize(
    ("excess", "lateness", "closed"),
    [
        (1e9, 0, 0), (-1e9, 0, 0),  # answers that come at once need no guard
        (80.0, 30, 0), (80.1, 30, 1), (-76.0, 30, 0), (-76.1, 30, -1),  # 2 x 10 + 60, 2 x 8 + 60
    ],
)  # fmt: skip
def test_late_guards_stretch(excess: float, lateness: int, closed: int) -> None:
    assert check_late_guards(excess, lateness, 10.0, -8.0) == closed


def test_the_bound_of_stretched_guards_by_hand() -> None:
    """31 open and 30 old: guards at 2 (10, -8), 60 of slack, and 31 rounds that pass them."""
    prompt = Excess(least=-8.0, most=10.0)
    bound = bound_stretched(prompt, alpha=0.1, rounds=10**6, lateness=Lateness(31, age=30))
    assert bound == pytest.approx((-76.0 - 31 * 0.1, 80.0 + 31 * 0.9))
