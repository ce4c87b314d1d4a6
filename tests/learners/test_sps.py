import math

import numpy as np
import pytest

from keyhole import MISS, Predictor, make, simulate
from keyhole.errors import HorizonError, InvalidError
from keyhole.learners.rules.sps import SpsParameters, sps
from keyhole.numeric import Array


def played_by_definition(scores: Array, *, alpha: float, horizon: int) -> list[float]:
    """Algorithm 1 of the paper on SPS, by sorting all imputed scores in every round."""
    threshold, seen, played = 0.0, [], []
    for t, score in enumerate(scores, start=1):
        played.append(threshold)
        seen.append(max(score, threshold))
        band = math.sqrt(math.log(2 * horizon**2) / (2 * t))
        rank = math.floor(t * (alpha - band))
        if rank >= 0:
            threshold = max(threshold, sorted(seen)[rank])
    return played


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_thresholds_are_those_of_the_definition_on_scores_of_the_grid(alpha: float) -> None:
    scores = np.random.default_rng(1).integers(0, 101, size=3_000) / 100
    learner = sps(alpha=alpha, horizon=3_000, arms=101)
    grid = learner.settings.grid
    on_grid = grid[np.rint(scores * 100).astype(int)]
    run = simulate(learner, on_grid)
    assert run.thresholds[0].tolist() == played_by_definition(on_grid, alpha=alpha, horizon=3_000)
    assert run.thresholds[0, -1] > 0.0


def test_every_label_is_shown_until_the_band_is_below_alpha() -> None:
    horizon, alpha = 20_000, 0.1
    first = math.log(2 * horizon**2) / (2 * alpha**2)
    run = simulate(sps(alpha=alpha, horizon=horizon), np.ones(horizon))
    assert (run.thresholds[0, : math.floor(first)] == 0.0).all()
    assert run.thresholds[0, math.ceil(first)] == 1.0


def test_threshold_never_falls_even_when_scores_do() -> None:
    scores = np.concatenate((np.full(5_000, 0.8), np.full(5_000, 0.2)))
    run = simulate(sps(alpha=0.1, horizon=10_000), scores)
    assert (np.diff(run.thresholds[0]) >= 0.0).all()
    assert run.misses[0, 5_000:].all()


def test_miss_rate_stays_below_alpha_on_identically_distributed_scores() -> None:
    scores = np.random.default_rng(4).beta(6, 2, size=(5, 20_000))
    run = simulate(sps(alpha=0.1, horizon=20_000), scores)
    sample = np.random.default_rng(5).beta(6, 2, size=10**6)
    # The sample's share below a threshold is within 5 deviations, 0.0015, of the true share.
    assert (sample < run.thresholds.max()).mean() <= 0.1 + 0.0015
    assert 0.04 < run.misses.mean() < 0.1


def test_late_answers_are_ranked_where_they_belong() -> None:
    """A hit at an old, lower threshold counts as below the present one: the threshold must not move."""
    predictor = Predictor(sps(alpha=0.3, horizon=1_000, arms=11), seed=1)
    late = predictor.predict([0.1])
    while predictor.distribution.thresholds[0] == 0.0:
        predictor.learn(predictor.predict([0.9]), score=0.9)
    state = predictor._progress.state
    before = state.clock.copy()
    predictor.learn(late, score=0.1)
    assert state.clock[1] == before[1] + 1
    assert state.counts[1] == 0


def test_a_miss_lies_below_the_present_arm_whichever_it_is() -> None:
    learner = sps(alpha=0.3, horizon=1_000, arms=11)
    for arm in (1, 2, 10):
        state = learner.start()
        state.clock[2] = arm
        learner.observe(state, learner.new_memo(), MISS)
        assert state.clock.tolist() == [1, 1, arm]
        assert not state.counts.any()


def test_without_horizon_the_band_is_wider_and_the_threshold_still_rises() -> None:
    scores = np.random.default_rng(4).beta(6, 2, size=20_000)
    known = simulate(sps(alpha=0.1, horizon=20_000, delta=0.05), scores).thresholds[0]
    unknown = simulate(sps(alpha=0.1), scores).thresholds[0]
    assert 0.0 < unknown[-1] <= known[-1]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"alpha": 0.6}, InvalidError),
        ({"alpha": 0.1, "horizon": 0}, HorizonError),
        ({"alpha": 0.1, "arms": 1}, InvalidError),
        ({"alpha": 0.1, "delta": 1.0}, InvalidError),
    ],
)
def test_bad_parameters_are_refused(given: dict[str, float], error: type[Exception]) -> None:
    with pytest.raises(error):
        SpsParameters(**given)  # type: ignore[arg-type]


def test_make_passes_horizon_and_arms() -> None:
    learner = make("sps", alpha=0.1, horizon=500, arms=50)
    assert learner.horizon == 500
    assert learner.thresholds is not None
    assert learner.thresholds.size == 50
