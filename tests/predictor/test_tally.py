"""What answered rounds add up to, by hand."""

import math

import pytest

from keyhole.predictor.tally import Tally


def test_nothing_answered_has_no_rate_and_no_size() -> None:
    tally = Tally.start(2)
    assert math.isnan(tally.miss_rate)
    assert math.isnan(tally.mean_size)
    assert tally.members == [[0.0, 0.0], [0.0, 0.0]]


def test_an_answer_counts_as_often_as_the_learner_heard_it_also_in_its_groups() -> None:
    tally = Tally.start(2)
    tally.count(1.0, 3.0, times=2, groups=(0,))
    tally.count(0.0, 5.0, times=3, groups=(0, 1))
    tally.count(0.25, 4.0, groups=(1,))
    assert (tally.answered, tally.weight, tally.misses) == (3, 6, 2.25)
    assert tally.members == [[5.0, 2.0], [4.0, 0.25]]
    assert tally.miss_rate == 2.25 / 6
    assert tally.mean_size == 12.0 / 3


def test_an_unbounded_interval_is_counted_apart_from_the_sizes() -> None:
    tally = Tally()
    tally.count(0.0, math.inf)
    assert math.isnan(tally.mean_size)
    tally.count(0.0, 3.0)
    tally.count(0.0, 5.0)
    assert (tally.unbounded, tally.answered, tally.size, tally.mean_size) == (1, 3, 8.0, 4.0)


def test_the_median_starts_at_the_first_size_and_moves_by_a_fiftieth_and_a_thousandth() -> None:
    tally = Tally()
    tally.count(0.0, math.inf)
    tally.count(0.0, 10.0)
    assert tally.median == 10.0
    tally.count(0.0, 10.1)
    assert tally.median == pytest.approx(10.1)  # nearer than its pace
    tally.count(0.0, 90.0)
    assert tally.median == pytest.approx(10.1 + 0.202 + 0.001)
    tally.count(0.0, tally.median)
    assert tally.median == pytest.approx(10.303)
    tally.count(0.0, 1.0)
    assert tally.median == pytest.approx(10.303 - 0.20606 - 0.001)


def test_staleness_is_the_mean_of_all_answers_and_then_of_the_last_thousand_or_so() -> None:
    tally = Tally()
    for stale in (0.0, 30.0, 60.0):
        tally.count(0.0, 1.0, stale=stale)
    assert tally.stale == pytest.approx(30.0)
    tally.count(0.0, 1.0)
    assert tally.stale == pytest.approx(22.5)
    tally.answered = 5_000
    tally.count(0.0, 1.0, stale=1022.5)
    assert tally.stale == pytest.approx(23.5)


def test_a_loss_below_nothing_in_a_set_of_everything_is_no_loss() -> None:
    """What a judge says may be corrected to below 0; it takes nothing off the losses of others."""
    tally = Tally()
    tally.note_conditions(0.5, 2.0, threshold=0.0, alpha=0.1)
    tally.note_conditions(-0.25, 4.0, threshold=0.0, alpha=0.1)
    assert tally.lost_in_full == 1.0
    assert (tally.lowest, tally.heaviest) == (-0.25, 4.0)
