"""ExAUL and the split gate, round for round as worked out anew here."""

import math

import numpy as np
import pytest

from keyhole import make
from keyhole.feedback import Answer
from keyhole.learners import Learner
from keyhole.learners.gates import ACCEPTED, CHANCE


class ExaulByHand:
    """ExAUL: to refer costs 1 + w alpha, to accept what is wrong w, over 1 + w; losses add up."""

    def __init__(self, alpha: float, grid: list[float]) -> None:
        self.alpha, self.grid, self.rounds = alpha, grid, 0
        self.losses = [0.0] * len(grid)

    @property
    def rate(self) -> float:
        return math.sqrt(math.log(len(self.grid)) / (self.rounds + 1))

    def chances(self) -> list[float]:
        weights = [math.exp(-self.rate * (loss - min(self.losses))) for loss in self.losses]
        return [weight / sum(weights) for weight in weights]

    def charge(self, arms: list[int], loss: float, seen: float) -> None:
        for arm in arms:
            self.losses[arm] += loss / (1.0 + 1.0 / self.alpha) / (seen + 0.5 * self.rate)


@pytest.mark.parametrize(("audit", "both"), [(1.0, False), (0.5, True)])
def test_exaul_plays_the_distribution_worked_out_by_hand(audit: float, *, both: bool) -> None:
    """Kills: a loss charged to the wrong thresholds, or divided by another chance."""
    alpha, grid, rng = 0.1, [0.0, 0.2, 0.5, 0.6, 0.9], np.random.default_rng(3)
    learner = make("exaul", alpha=alpha, options={"thresholds": grid})
    state, by_hand = learner.start(), ExaulByHand(alpha, grid)
    for score in rng.choice([0.0, 0.1, 0.2, 0.55, 0.7, 0.95], 150).tolist():
        draw, chances = float(rng.random()), by_hand.chances()
        assert learner.distribution(state).probabilities == pytest.approx(chances, abs=1e-9)
        threshold, memo = learner.choose(state, draw)
        assert threshold == grid[int(np.searchsorted(np.cumsum(chances), draw, side="right"))]
        accepting = [k for k, one in enumerate(grid) if one <= score]
        memo[ACCEPTED], memo[CHANCE] = float(score >= threshold), audit
        learner.observe(state, memo, Answer(math.nan, score))
        referring = [k for k, one in enumerate(grid) if one > score]
        by_hand.charge(referring, 1.0 + 1.0, 1.0)  # weight alpha = 1
        by_hand.rounds += 1
        seen = sum(chances[k] for k in accepting)
        if score >= threshold and rng.random() < audit:
            learner.observe(state, memo, Answer(wrong := float(rng.random() < 0.3), score))
            by_hand.charge(accepting, wrong / alpha, seen * audit)
        elif score < threshold and both:
            learner.observe(state, memo, Answer(wrong := float(rng.random() < 0.3), score))
            by_hand.charge(accepting, wrong / alpha, 1.0 - seen)


def settle_split(learner: Learner, told: list[tuple[float, float]]) -> float:
    state = learner.start()
    for score, wrong in told:
        assert learner.choose(state)[0] == 0.0
        memo = np.array([1.0, 1.0])
        learner.observe(state, memo, Answer(math.nan, score))
        learner.observe(state, memo, Answer(wrong, score))
    return learner.choose(state)[0]


@pytest.mark.parametrize(
    ("right", "at_half", "lower", "expected"),
    [
        (15, 3, 2, 0.5),  # down to .5: 4 <= 19 / 4; to .4: 6 > 21 / 4
        (15, 4, 1, 0.5),  # 5 <= 20 / 4, just
        (14, 4, 2, 0.8),  # 5 > 19 / 4, just
        (14, 6, 0, 0.8),  # 4 <= 18 / 4 of those at .5 would do, but not all: 7 > 21 / 4
        (16, 2, 2, 0.4),  # 5 <= 21 / 4 of all
        (0, 20, 0, 2.0),
    ],
)
def test_a_split_threshold_counts_one_wrong_more_and_does_not_part_equal_scores(
    right: int, at_half: int, lower: int, expected: float
) -> None:
    """At alpha 1/4: wrong + 1 <= (accepted + 1) / 4."""
    learner = make("gate-split", alpha=0.25, options={"calibration": 20})
    told = [(0.4, 1.0)] * lower + [(0.8, 0.0)] * right + [(0.5, 1.0)] * at_half
    assert settle_split(learner, told) == expected
    assert settle_split(learner, told[::-1]) == expected


def test_a_split_threshold_learns_nothing_from_the_referred_or_after_it_is_fixed() -> None:
    learner = make("gate-split", alpha=0.1, options={"calibration": 20})
    state = learner.start()
    for accepted in (0.0, 1.0):
        for _ in range(19):
            learner.observe(state, np.array([accepted, 1.0]), Answer(0.0, 0.7))
    assert learner.choose(state)[0] == 0.0
    learner.observe(state, np.array([1.0, 1.0]), Answer(0.0, 0.6))
    assert learner.choose(state)[0] == 0.6
    learner.observe(state, np.array([1.0, 1.0]), Answer(1.0, 0.6))
    assert learner.choose(state)[0] == 0.6


def test_exaul_weighs_a_wrong_answer_by_one_over_alpha_unless_told() -> None:
    assert make("exaul", alpha=0.2).settings.weight == 5.0
    assert make("exaul", alpha=0.2, options={"weight": 3.0}).settings.weight == 3.0
    assert make("exaul", alpha=0.2).settings.grid.size == 50
