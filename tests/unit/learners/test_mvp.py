import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Needs, Predictor, simulate
from keyhole.errors import GridError, InvalidError, LearnerError, RateError
from keyhole.grid import Array
from keyhole.learners.mvp import MvpParameters, mvp


def played_by_definition(scores: Array, draws: Array, *, alpha: Fraction, buckets: int) -> list[float]:
    """MVP with one group as its authors state it, in widths q = 1 - threshold, every pull afresh."""
    resolution, rate = 800_000, math.sqrt(math.log(buckets) / (2 * 1.628 * buckets))
    surplus, visits, played = [Fraction(0)] * buckets, [0] * buckets, []
    for score, draw in zip(scores, draws, strict=True):
        pulls = []
        for v, n in zip(surplus, visits, strict=True):
            scale = math.sqrt((n + 1) * math.log2(n + 2) ** 2)
            pulls.append((math.exp(rate * v / scale) - math.exp(-rate * v / scale)) / scale)
        width, bucket = (0.0, 0) if any(c > 0 for c in pulls) else (1.0, buckets - 1)
        for i in range(1, buckets):
            if pulls[i - 1] * pulls[i] <= 0:
                total = abs(pulls[i - 1]) + abs(pulls[i])
                below = abs(pulls[i]) / total if total else 1.0
                if 1 - draw <= below:  # A higher draw is to give a higher threshold.
                    width, bucket = i / buckets - 1 / (resolution * buckets), i - 1
                else:
                    width, bucket = i / buckets, i
                break
        played.append(1.0 - width)
        surplus[bucket] += alpha - int(score < 1.0 - width)
        visits[bucket] += 1
    return played


def test_thresholds_are_those_of_the_definition() -> None:
    from keyhole.draws import draws

    scores = np.random.default_rng(2).beta(6, 2, 4_000)
    run = simulate(mvp(alpha=0.1, buckets=20), scores, seed=9, regime="bandit")
    expected = played_by_definition(scores, draws(9, 0, 4_000), alpha=Fraction(1, 10), buckets=20)
    assert run.thresholds[0] == pytest.approx(expected, abs=1e-9)


def test_miss_rate_meets_alpha_under_drift() -> None:
    rng = np.random.default_rng(3)
    scores = np.concatenate((rng.beta(8, 2, 25_000), rng.beta(3, 3, 25_000)))
    run = simulate(mvp(alpha=0.1, buckets=40), scores, regime="bandit")
    assert run.misses.mean() == pytest.approx(0.1, abs=math.sqrt(40 / 50_000))


def test_hit_or_miss_is_all_it_needs() -> None:
    assert mvp.needs == Needs.HIT_OR_MISS
    predictor = Predictor(mvp(alpha=0.1), regime="bandit", seed=1)
    predictor.learn(predictor.predict([0.5]), HIT)
    predictor.learn(predictor.predict([0.5]), MISS)
    assert predictor.rounds == 2


def test_nothing_but_misses_ends_at_every_label_and_nothing_but_hits_at_the_smallest_sets() -> None:
    learner = mvp(alpha=0.1, buckets=5)
    state, memo = learner.start(), learner.memo()
    for _ in range(200):
        learner.choose(state, memo, 0.5)
        learner.observe(state, memo, missed=True, score=np.nan)
    assert learner.distribution(state).thresholds.tolist() == [0.0]
    state = learner.start()
    for _ in range(2_000):
        learner.choose(state, memo, 0.5)
        learner.observe(state, memo, missed=False, score=np.nan)
    assert learner.distribution(state).thresholds.tolist() == [1.0]


@pytest.mark.parametrize(
    ("given", "error"),
    [({"buckets": 1}, GridError), ({"resolution": 0.5}, RateError), ({"rate": 0.0}, RateError)],
)
def test_bad_parameters_are_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        MvpParameters(alpha=0.1, **given)


def grouped(rounds: int) -> tuple[Array, Any]:
    """Scores of two groups beside that of all: one with low scores, and one that overlaps it."""
    rng = np.random.default_rng(12)
    hard = rng.random(rounds) < 0.3
    other = rng.random(rounds) < 0.5
    scores = np.where(hard, rng.beta(2, 4, rounds), rng.beta(8, 2, rounds))
    scores = np.where(other & hard, scores * 0.5, scores)
    return scores, np.column_stack((np.ones(rounds, dtype=bool), hard, other))


def test_every_group_misses_at_the_target_rate_and_without_groups_it_does_not() -> None:
    scores, groups = grouped(60_000)
    run = simulate(mvp(alpha=0.1, groups=3), scores, regime="bandit", groups=groups)
    rates = [run.misses[0, members].mean() for members in groups.T]
    # The guarantee's order is sqrt(groups buckets / visits): .082 for the smallest group.
    assert rates == pytest.approx([0.1] * 3, abs=math.sqrt(3 * 40 / groups.sum(axis=0).min()))
    alone = simulate(mvp(alpha=0.1), scores, regime="bandit")
    assert alone.misses[0, groups[:, 1]].mean() > 0.25


def test_groups_in_the_loop_and_in_the_predictor_agree() -> None:
    scores, groups = grouped(1_500)
    learner = mvp(alpha=0.1, groups=3, buckets=10)
    predictor: Predictor[Any] = Predictor(learner, regime="bandit", seed=5)
    played = []
    for score, members in zip(scores, groups, strict=True):
        prediction = predictor.predict([score], groups=np.flatnonzero(members).tolist())
        played.append(prediction.threshold)
        predictor.learn(prediction, HIT if score >= prediction.threshold else MISS)
    run = simulate(learner, scores, seed=5, regime="bandit", groups=groups)
    assert (run.thresholds[0] == played).all()


def test_a_group_that_there_is_not_is_named() -> None:
    with pytest.raises(LearnerError, match="no group 3: mvp tells 3 groups apart"):
        Predictor(mvp(alpha=0.1, groups=3), seed=1).predict([0.5], groups=[3])
    with pytest.raises(LearnerError, match="tracker tells 0 groups apart"):
        Predictor("tracker", alpha=0.1, seed=1).predict([0.5], groups=[0])
    with pytest.raises(InvalidError, match=r"groups have shape \(2, 2\)"):
        simulate(mvp(alpha=0.1, groups=3), [0.5, 0.5], groups=[[True, True], [True, False]])
    with pytest.raises(RateError, match="number of groups 0"):
        mvp(alpha=0.1, groups=0)
