import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole.studies.compare import contest as hindsight

SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.2, 0.5, 0.7, 1.0]), min_size=1, max_size=40)


@given(SCORES, st.floats(0.01, 0.49))
def test_best_threshold_misses_at_most_alpha_and_no_larger_one_does(
    scores: list[float], alpha: float
) -> None:
    values = np.array(scores)
    best = hindsight.best_threshold(values, alpha)
    assert (values < best).mean() <= alpha + 1e-12
    for larger in values[values > best]:
        assert (values < larger).mean() > alpha


def test_each_segment_has_its_own_best() -> None:
    scores = np.concatenate((np.linspace(0.5, 0.6, 10), np.linspace(0.1, 0.2, 10)))
    best = hindsight.best_per_segment(scores, 0.1, (0, 10))
    assert best[:10] == pytest.approx(scores[1])
    assert best[10:] == pytest.approx(scores[11])


def test_pinball_regret_is_against_the_best_of_all_thresholds() -> None:
    rng = np.random.default_rng(1)
    scores, played = rng.random(200), rng.random(200)
    least = min(hindsight.pinball(np.full(1, x), scores, 0.1) for x in np.linspace(0, 1, 2_001))
    expected = hindsight.pinball(played, scores, 0.1) - least
    assert hindsight.pinball_regret(played, scores, 0.1) == pytest.approx(expected, abs=0.05)


def test_worst_window_is_the_worst_of_all() -> None:
    misses = np.array([0, 1, 1, 0, 0, 1, 0, 0, 0, 1], dtype=bool)
    assert hindsight.worst_window(misses, 3) == pytest.approx(2 / 3)
    assert hindsight.worst_window(misses, 1_000) == pytest.approx(0.4)
