"""Guards of all rounds and of groups, by hand: who wants what, who wins, what is counted."""

import math

import numpy as np
import pytest

from keyhole.learners.lateness import Lateness
from keyhole.learners.rules.contextual_tracker import ask_guards, contextual_tracker, count_miss
from keyhole.numeric import Array


@pytest.mark.parametrize(
    ("held", "members", "expected"),
    [
        ([0.0, 0.0, 0.0], [1, 1], 0.0),
        ([10.0, 0.0, 0.0], [1, 1], 1.0),  # at its bound already
        ([9.9, 0.0, 0.0], [1, 1], 0.0),
        ([-10.0, 0.0, 0.0], [1, 1], -1.0),
        ([-9.9, 0.0, 0.0], [1, 1], 0.0),
        ([0.0, 10.0, 0.0], [1, 0], 1.0),
        ([0.0, 10.0, 0.0], [0, 1], 0.0),  # not a group of this round
        ([0.0, 0.0, -10.0], [0, 1], -1.0),
        ([10.0, 10.0, 0.0], [1, 0], 1.0),  # two that agree are no conflict
        # at odds: the one farther beyond its bound and one more wins, and every label where none is
        ([0.0, 10.5, -10.5], [1, 1], 2.0),
        ([0.0, 10.5, -11.5], [1, 1], -2.0),
        ([0.0, 11.6, -11.5], [1, 1], 2.0),
        ([0.0, 11.5, -11.5], [1, 1], 2.0),
        ([11.3, 11.3, -11.5], [1, 1], 3.0),  # those on one side add up
        ([-11.3, 11.5, -11.3], [1, 1], -3.0),
    ],
)
def test_what_guards_want(held: list[float], members: list[int], expected: float) -> None:
    """The number is how many guards are at odds, or 1."""
    assert ask_guards(np.array(held), np.array(members, dtype=float), 10.0, 1.0) == expected


def test_beyond_its_bound_is_an_account_that_one_answer_cannot_have_carried_there() -> None:
    held, members = np.array([0.0, 11.6, -12.5]), np.ones(2)
    assert ask_guards(held, members, 10.0, 1.0) == -2.0
    assert ask_guards(held, members, 10.0, 3.0) == 2.0  # neither is


def count(
    held: Array, members: Array, error: float, guard: float, conflicts: Array, age: float = 0.0
) -> int:
    """Count an answer of this age where the level of lateness is 2."""
    return count_miss(held, members, error, guard, conflicts, age, 2)


def test_a_miss_counts_for_all_rounds_and_for_the_groups_of_its_own() -> None:
    held, conflicts = np.zeros(4), np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    assert count(held, np.array([1.0, 0.0, 1.0]), 0.9, 0.0, conflicts, age=2.0) == 2
    assert held.tolist() == [0.9, 0.9, 0.0, 0.9]
    assert conflicts.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert count(held, np.array([0.0, 1.0, 1.0]), -0.1, 2.0, conflicts) == 2
    assert held == pytest.approx([0.8, 0.9, -0.1, 0.8])
    # Three accounts moved, two were at odds.
    assert conflicts == pytest.approx([0.3, 0.02, 1.0, 0.0, 0.0])
    assert count(held, np.zeros(3), 4.5, 0.0, conflicts) == 0
    assert conflicts == pytest.approx([0.3, 0.02, 4.5, 0.0, 0.0])  # the longest, too


def test_a_conflict_counts_by_its_age_or_as_one_older_than_any_before() -> None:
    held, conflicts = np.zeros(2), np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    count(held, np.ones(1), -0.1, 2.0, conflicts, age=2.0)
    assert conflicts == pytest.approx([0.2, 0.02, 1.0, 0.4, 0.0])
    count(held, np.ones(1), -0.1, 2.0, conflicts, age=3.0)
    assert conflicts == pytest.approx([0.4, 0.04, 1.0, 0.4, 1.0])


def test_a_miss_that_every_label_did_not_prevent_is_left_out_of_the_accounts() -> None:
    held, conflicts = np.array([3.0, 12.0, -12.0]), np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    count(held, np.ones(2), 0.9, 2.0, conflicts)
    assert held.tolist() == [3.0, 12.0, -12.0]
    assert conflicts.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_accounts_begin_anew_after_no_label_did_not_miss() -> None:
    held, conflicts = np.array([-12.0, 3.0, -12.0]), np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    count(held, np.array([1.0, 0.0]), -0.1, -1.0, conflicts)
    assert held.tolist() == [0.0, 3.0, -12.0]  # the last is of a group that the round was not in


def test_late_bound_without_groups_is_that_of_a_guarded_tracker() -> None:
    """Three open, two old: the guard and 4 of slack, and three rounds that pass it."""
    parameters = contextual_tracker(alpha=0.1).parameters
    bound = parameters.late_excess(10_000, Lateness(3, age=2))
    assert bound == pytest.approx((-154.0 - 3 * 0.1, 154.0 + 3 * 0.9))


def test_bound_with_groups_bears_a_conflict_of_all_in_every_round() -> None:
    """guard + 1 + (1 - alpha) sqrt(K t), with K = 3 for two groups and all rounds."""
    parameters = contextual_tracker(alpha=0.1, groups=2).parameters
    most = 151.0 + 0.9 * math.sqrt(3 * 10_000)
    assert parameters.excess(10_000) == pytest.approx((-most, most))
