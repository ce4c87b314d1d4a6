"""ACI and DtACI: quantiles of past scores at a level that misses steer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole import MISS, simulate
from keyhole.learners import window as held_scores
from keyhole.learners.rules.aci import aci
from keyhole.learners.rules.dtaci import STEPS, DtaciParameters, dtaci

Lived = Callable[..., tuple[list[float], Any]]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.25000001, 0.5, 0.9, 1.0]), max_size=60))
def test_window_holds_the_last_scores_in_order(scores: list[float]) -> None:
    window = held_scores.start_window(7)
    for score in scores:
        held_scores.add(window, score)
    assert window.ranked[: held_scores.count_held(window)].tolist() == sorted(scores[-7:])


def test_the_oldest_score_leaves_the_window_each_time_round() -> None:
    window = held_scores.start_window(3)
    scores = [0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.4, 0.6, 0.05]
    for count, score in enumerate(scores, start=1):
        held_scores.add(window, score)
        last = sorted(scores[max(0, count - 3) : count])
        assert window.ranked[: held_scores.count_held(window)].tolist() == last


def test_quantile_is_every_label_below_the_first_rank_and_none_above_the_last() -> None:
    window = held_scores.start_window(10)
    for score in (0.4, 0.2, 0.8):
        held_scores.add(window, score)
    levels = [0.0, 0.24, 0.25, 0.5, 0.75, 0.99, 1.0]
    played = [held_scores.quantile(window, level) for level in levels]
    assert played == [0.0, 0.0, 0.2, 0.4, 0.8, 0.8, 2.0]


def test_largest_level_is_where_the_quantile_passes_the_score() -> None:
    window = held_scores.start_window(10)
    for score in (0.4, 0.2, 0.8):
        held_scores.add(window, score)
    for score in (0.1, 0.2, 0.3, 0.5, 0.9):
        limit = held_scores.largest_level(window, score)
        assert held_scores.quantile(window, limit - 1e-9) <= score
        assert held_scores.quantile(window, limit + 1e-9) > score


def test_aci_keeps_the_threshold_in_place_of_a_missed_score(lived: Lived) -> None:
    learner = aci(alpha=0.4, step=0.1, window=5)
    played, state = lived(learner, [0.5, 0.9, 0.1, 0.3])
    # level .4 of none; .44 of {.5}; .48 of {.5, .9}: rank 1; a miss keeps .5; then level .42.
    assert played == [0.0, 0.0, 0.5, 0.5]
    assert state.ranked[:4].tolist() == [0.5, 0.5, 0.5, 0.9]
    assert state.level == pytest.approx([0.4 + 2 * 0.04 - 2 * 0.06])


def test_aci_keeps_no_score_above_1_when_a_set_was_empty() -> None:
    """Kills: the threshold of an empty set, 2, kept among the scores, of which quantiles are taken."""
    learner = aci(alpha=0.4, step=0.1, window=5)
    state = learner.start()
    memo = np.array([2.0])
    learner.observe(state, memo, MISS)
    assert state.ranked[0] == 1.0


def test_aci_level_tells_the_excess_of_misses() -> None:
    scores = np.random.default_rng(1).beta(4, 2, 3_000)
    run = simulate(aci(alpha=0.1), scores)
    level = 0.1 - 0.005 * (run.misses[0] - 0.1).sum()
    assert 0.0 < level < 0.2


def test_dtaci_has_the_published_rates() -> None:
    parameters = DtaciParameters(alpha=0.1)
    assert parameters.rate == pytest.approx(2.7199, abs=1e-4)
    assert parameters.sharing == 0.001
    assert STEPS[0] == 0.001
    assert STEPS[-1] == 0.128


def test_dtaci_weighs_levels_by_their_pinball_loss(lived: Lived) -> None:
    learner = dtaci(alpha=0.1)
    _, state = lived(learner, [0.5, 0.2])
    # Round 1: no scores, limit 1: equal losses, every level up by a tenth of its step.
    levels = 0.1 + np.array(STEPS) * 0.1
    # Round 2: 0.2 is below the one score, 0.5, so that the limit is 1 / 2.
    losses = 0.1 * (0.5 - levels)
    weights = np.exp(-learner.parameters.rate * losses)
    expected = 0.999 * weights / weights.sum() + 0.001 / 8
    assert state.weights == pytest.approx(expected)
    assert state.levels == pytest.approx(levels + np.array(STEPS) * 0.1)


def test_dtaci_plays_the_quantile_at_the_mean_of_its_levels() -> None:
    learner = dtaci(alpha=0.3)
    state = learner.start()
    scores = held_scores.Window(state.ranked, state.aged, state.added)
    for score in range(1, 10):
        held_scores.add(scores, score / 10)
    state.weights[:] = 0.0
    state.weights[:2], state.levels[:2] = (0.5, 0.5), (0.25, 0.75)
    assert learner.choose(state)[0] == 0.5  # level 1/8 + 3/8 of nine scores: the fifth


def test_dtaci_follows_a_drift_faster_than_its_slowest_level() -> None:
    rng = np.random.default_rng(5)
    scores = np.concatenate((rng.beta(8, 2, 4_000), rng.beta(2, 4, 1_000)))
    run = simulate(dtaci(alpha=0.1), scores, feedback="full")
    # Within 1,000 rounds of the drift; the standard error of the share is .0095.
    assert abs(run.misses[0, 4_000:].mean() - 0.1) < 4 * 0.0095
