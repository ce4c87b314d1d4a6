import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor, simulate
from keyhole.errors import InvalidError
from keyhole.feedback import Needs
from keyhole.learners.rules.mvp import MvpParameters, mvp
from keyhole.numeric import Array
from keyhole.predictor.draws import make_draws


def played_by_definition(
    scores: Array, draws: Array, members: Any, *, alpha: Fraction, buckets: int
) -> list[float]:
    """MVP as its authors state it, in widths q = 1 - threshold, every pull afresh.

    ``members`` says of every round to which groups it belongs; the first is that of all rounds.
    """
    cells = members.shape[1] * buckets
    resolution, rate = 800_000, math.sqrt(math.log(cells) / (2 * 1.628 * cells))
    surplus = [[Fraction(0)] * buckets for _ in members.T]
    visits, played = [[0] * buckets for _ in members.T], []
    for score, draw, own in zip(scores, draws, members, strict=True):
        pulls, active = [0.0] * buckets, np.flatnonzero(own).tolist()
        for group, i in itertools.product(active, range(buckets)):
            v, n = surplus[group][i], visits[group][i]
            scale = math.sqrt((n + 1) * math.log2(n + 2) ** 2)
            pulls[i] += (math.exp(rate * v / scale) - math.exp(-rate * v / scale)) / scale
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
        for group in active:
            surplus[group][bucket] += alpha - int(score < 1.0 - width)
            visits[group][bucket] += 1
    return played


@pytest.mark.parametrize("groups", [0, 2])
def test_thresholds_are_those_of_the_definition(groups: int) -> None:
    """Kills: a group that is not remembered, or told of rounds that are not its own."""
    rng = np.random.default_rng(2)
    scores, known = rng.beta(6, 2, 1_000), rng.random((1_000, groups)) < 0.4
    learner = mvp(alpha=0.1, buckets=12, groups=groups)
    run = simulate(learner, scores, seed=9, feedback="bandit", groups=known if groups else None)
    everyone = np.column_stack((np.ones(1_000, dtype=bool), known))
    draws = make_draws(9, 0, 1_000)
    expected = played_by_definition(scores, draws, everyone, alpha=Fraction(1, 10), buckets=12)
    assert run.thresholds[0] == pytest.approx(expected, abs=1e-9)


def test_miss_rate_meets_alpha_under_drift() -> None:
    rng = np.random.default_rng(3)
    scores = np.concatenate((rng.beta(8, 2, 25_000), rng.beta(3, 3, 25_000)))
    run = simulate(mvp(alpha=0.1, buckets=40), scores, feedback="bandit")
    assert run.misses.mean() == pytest.approx(0.1, abs=math.sqrt(40 / 50_000))


def test_hit_or_miss_is_all_it_needs() -> None:
    assert mvp.needs == Needs.HIT_OR_MISS
    predictor = Predictor(mvp(alpha=0.1), feedback="bandit", seed=1)
    predictor.learn(predictor.predict([1.0]), HIT)
    predictor.learn(predictor.predict([1.0]), MISS)
    assert predictor.rounds == 2


def test_nothing_but_misses_ends_at_every_label_and_nothing_but_hits_at_the_smallest_sets() -> None:
    learner = mvp(alpha=0.1, buckets=5)
    state = learner.start()
    for _ in range(200):
        _, memo = learner.choose(state, 0.5)
        learner.observe(state, memo, MISS)
    assert learner.distribution(state).thresholds.tolist() == [0.0]
    state = learner.start()
    for _ in range(2_000):
        _, memo = learner.choose(state, 0.5)
        learner.observe(state, memo, HIT)
    assert learner.distribution(state).thresholds.tolist() == [1.0]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"buckets": 1}, InvalidError),
        ({"resolution": 0.5}, InvalidError),
        ({"rate": 0.0}, InvalidError),
    ],
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
    return scores, np.column_stack((hard, other))


def test_every_group_misses_at_the_target_rate_and_without_groups_it_does_not() -> None:
    scores, groups = grouped(60_000)
    run = simulate(mvp(alpha=0.1, groups=2), scores, feedback="bandit", groups=groups)
    rates = [run.misses.mean(), *(run.misses[0, members].mean() for members in groups.T)]
    # The guarantee's order is sqrt(groups buckets / visits): .082 for the smallest group.
    assert rates == pytest.approx([0.1] * 3, abs=math.sqrt(3 * 40 / groups.sum(axis=0).min()))
    alone = simulate(mvp(alpha=0.1), scores, feedback="bandit")
    assert alone.misses[0, groups[:, 0]].mean() > 0.25


def test_groups_in_the_loop_and_in_the_predictor_agree() -> None:
    scores, groups = grouped(1_500)
    learner = mvp(alpha=0.1, groups=2, buckets=10)
    predictor: Predictor[Any] = Predictor(learner, feedback="bandit", seed=5)
    played = []
    for score, members in zip(scores, groups, strict=True):
        prediction = predictor.predict([score], groups=np.flatnonzero(members).tolist())
        played.append(prediction.threshold)
        predictor.learn(prediction, HIT if score >= prediction.threshold else MISS)
    run = simulate(learner, scores, seed=5, feedback="bandit", groups=groups)
    assert (run.thresholds[0] == played).all()


def test_a_group_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidError, match="no group 2; mvp tells 2 groups apart"):
        Predictor(mvp(alpha=0.1, groups=2), seed=1).predict([0.5], groups=[2])
    with pytest.raises(InvalidError, match="tracker tells 0 groups apart"):
        Predictor("tracker", alpha=0.1, seed=1).predict([0.5], groups=[0])
    with pytest.raises(InvalidError, match=r"groups have shape \(2, 1\).*give \(2, 2\)"):
        simulate(mvp(alpha=0.1, groups=2), [0.5, 0.5], groups=[[True], [True]])
    with pytest.raises(InvalidError, match="groups -1 is not a whole number from 0"):
        mvp(alpha=0.1, groups=-1)
