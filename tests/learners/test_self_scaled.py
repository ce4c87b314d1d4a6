import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import MISS, simulate
from keyhole.feedback import Answer
from keyhole.learners.rules.self_scaled import self_scaled

Lived = Callable[..., tuple[list[float], Any]]


def test_a_miss_and_a_hit_worked_out_by_hand(lived: Lived) -> None:
    played, state = lived(self_scaled(alpha=0.1), [0.0, 0.9])
    pull = 0.1**2 / 16 * 0.1
    first = -(0.9 + pull * 0.9)  # width 1, pace 1
    assert played == pytest.approx([0.5, 1.0 / (1.0 + math.exp(-first))])
    width = math.exp(0.1 * 1.1)
    pace = 1.0 / 1.1
    # 0.9 has logit 2.2, outside the band [z, z + width].
    assert state.position == pytest.approx([first - width * (pace * -0.1 + pull * 0.8)])
    assert state.log_width == pytest.approx([0.1 * 1.1 + 0.1 * 0.1])


def test_score_inside_the_band_narrows_it(lived: Lived) -> None:
    _, state = lived(self_scaled(alpha=0.1), [0.6])
    assert state.log_width == pytest.approx([0.1 * (0.1 - 2.0)])


@pytest.mark.parametrize(("logit", "change"), [(2.5, 0.1 * (0.1 - 2.0)), (3.5, 0.1 * 0.1)])
def test_the_band_lies_above_the_threshold_that_was_played(logit: float, change: float) -> None:
    """Kills: a round that does not remember its own, which others may have moved since."""
    learner = self_scaled(alpha=0.1)
    state = learner.start()
    state.position[0] = 2.0
    _, memo = learner.choose(state)
    state.position[0] = -5.0
    learner.observe(state, memo, Answer(0.0, 1.0 / (1.0 + math.exp(-logit))))
    assert state.log_width == pytest.approx([change])


def test_many_hits_in_a_row_lift_the_threshold_to_the_least_of_them(lived: Lived) -> None:
    run = 50  # 5 / alpha
    played, _ = lived(self_scaled(alpha=0.1), [*np.linspace(0.97, 0.98, run), 1.0])
    assert played[run] == pytest.approx(0.97)
    assert played[run - 1] < 0.97


@pytest.mark.parametrize(("excess", "threshold"), [(100.0, 0.0), (-100.0, 2.0)])
def test_guard_plays_all_or_nothing_once_the_budget_is_spent(excess: float, threshold: float) -> None:
    learner = self_scaled(alpha=0.1)
    state = learner.start()
    state.excess[0] = excess
    played, memo = learner.choose(state, 0.5)
    assert played == threshold
    learner.observe(state, memo, MISS if threshold > 1.0 else Answer(0.0, 0.5))
    assert state.position == 0.0


def test_scale_of_the_scores_hardly_matters() -> None:
    """Scores squeezed into [0, 1/1000] miss as often, and by thresholds squeezed alike."""
    scores = np.random.default_rng(2).beta(6, 2, 20_000)
    plain = simulate(self_scaled(alpha=0.1), scores)
    squeezed = simulate(self_scaled(alpha=0.1), scores / 1_000)
    ratio = squeezed.thresholds[0, 5_000:].mean() * 1_000 / plain.thresholds[0, 5_000:].mean()
    assert ratio == pytest.approx(1.0, abs=0.05)
    assert squeezed.misses.mean() == pytest.approx(0.1, abs=101 / 20_000)


@pytest.mark.parametrize(
    ("lateness", "excess", "threshold"),
    [(0, 9.9, 0.5), (0, 10.0, 0.0), (0, -9.9, 0.5), (0, -10.0, 2.0),
     (30, 79.9, 0.5), (30, 80.0, 0.0), (30, -79.9, 0.5), (30, -80.0, 2.0)],
)  # fmt: skip
def test_the_guard_stands_at_its_budget_stretched_and_two_for_every_answer_of_lateness(
    lateness: int, excess: float, threshold: float
) -> None:
    """Thirty late, a budget of 10 is twice that, and 60."""
    learner = self_scaled(alpha=0.1, budget=10.0)
    state = learner.start()
    state.lateness[0], state.excess[0] = lateness, excess
    played, memo = learner.choose(state)
    assert played == threshold
    assert memo[1] == (0.0 if threshold == 0.5 else 1.0)
