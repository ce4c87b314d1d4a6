"""How far stale answers move a learner, and where guards stand, by hand."""

import numpy as np
import pytest

from keyhole.learners.lateness import (
    Excess,
    Lateness,
    bound_stretched,
    check_guards,
    guard_threshold,
    raise_level,
    shorten,
    slow,
    stretch,
)


def test_an_answer_60_rounds_stale_moves_half_as_far() -> None:
    assert [slow(0.0), slow(60.0), slow(120.0)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("step", "stale", "shorter"),
    [
        (0.1, 60.0, 0.05),  # the last step, halved
        (0.5, 60.0, 0.125),  # a first step: halved, and halved again
        (0.15, 60.0, 0.05),  # halved it is below the last step, which is halved
        (0.5, 0.0, 0.5),
    ],
)
def test_what_makes_first_steps_longer_shrinks_first(step: float, stale: float, shorter: float) -> None:
    """Kills: a first step that is as long as many, before the first consequence is heard."""
    assert shorten(step, 0.1, stale, 0.0) == shorter


@pytest.mark.parametrize(
    ("stale", "shorter"),
    [
        (600.0, 0.05),  # moves by 0.005 = 3 / 600
        (60.0, 0.1),  # 0.5 would move by 3 / 60, but no step is longer than that of a prompt answer
    ],
)
def test_until_the_first_miss_as_many_hits_as_are_stale_move_three_logits(
    stale: float, shorter: float
) -> None:
    assert shorten(0.1, 0.1, stale, 0.1) == pytest.approx(shorter, rel=1e-15)


def test_a_search_never_shortens_a_step() -> None:
    assert shorten(0.1, 0.1, 6_000.0, 0.1) == pytest.approx(0.005)  # 3 / 6,000 a hit
    assert shorten(0.1, 0.1, 6_000.0, 0.4) == pytest.approx(0.00125)
    assert shorten(0.1, 0.1, 6_000.0, 0.9) == 0.1 / 101.0  # more than 3 / 6,000 / 0.9


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
    ("threshold", "excess", "lateness", "played"),
    [
        (0.3, 10.0, 0, 0.3), (0.3, 10.1, 0, 0.0), (0.3, -8.0, 0, 0.3), (0.3, -8.1, 0, 2.0),
        (-0.1, 0.0, 0, 0.0), (1.2, -8.1, 0, 1.2),  # at its own end a rule is left alone
        (0.3, 80.0, 30, 0.3), (0.3, 80.1, 30, 0.0),  # 2 x 10 + 60
        (0.3, -76.0, 30, 0.3), (0.3, -76.1, 30, 2.0),  # 2 x 8 + 60
    ],
)  # fmt: skip
def test_late_guards_stretch(threshold: float, excess: float, lateness: int, played: float) -> None:
    assert guard_threshold(threshold, excess, lateness, 10.0, -8.0) == played


def test_the_bound_of_stretched_guards_by_hand() -> None:
    """31 open and 30 old: guards at 2 (10, -8), 60 of slack, and 31 rounds that pass them."""
    prompt = Excess(least=-8.0, most=10.0)
    bound = bound_stretched(prompt, alpha=0.1, rounds=10**6, lateness=Lateness(31, age=30))
    assert bound == pytest.approx((-76.0 - 31 * 0.1, 80.0 + 31 * 0.9))
