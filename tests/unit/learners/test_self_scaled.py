import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import simulate
from keyhole.learners.self_scaled import self_scaled

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


def test_many_hits_in_a_row_lift_the_threshold_to_the_least_of_them(lived: Lived) -> None:
    run = 50  # 5 / alpha
    played, _ = lived(self_scaled(alpha=0.1), [*np.linspace(0.97, 0.98, run), 1.0])
    assert played[run] == pytest.approx(0.97)
    assert played[run - 1] < 0.97


@pytest.mark.parametrize(("excess", "threshold"), [(100.0, 0.0), (-100.0, 2.0)])
def test_guard_plays_all_or_nothing_once_the_budget_is_spent(excess: float, threshold: float) -> None:
    learner = self_scaled(alpha=0.1)
    state, memo = learner.start(), learner.memo()
    state.excess[0] = excess
    assert learner.choose(state, memo, 0.5) == threshold
    learner.observe(state, memo, missed=threshold > 1.0, score=0.5)
    assert state.position == 0.0


def test_scale_of_the_scores_hardly_matters() -> None:
    """Scores squeezed into [0, 1/1000] miss as often, and by thresholds squeezed alike."""
    scores = np.random.default_rng(2).beta(6, 2, 20_000)
    plain = simulate(self_scaled(alpha=0.1), scores)
    squeezed = simulate(self_scaled(alpha=0.1), scores / 1_000)
    ratio = squeezed.thresholds[0, 5_000:].mean() * 1_000 / plain.thresholds[0, 5_000:].mean()
    assert ratio == pytest.approx(1.0, abs=0.05)
    assert squeezed.misses.mean() == pytest.approx(0.1, abs=101 / 20_000)
