"""Rounds of the OCP rules worked out by hand, and expectations by enumeration of the chosen arm.

The worked rounds: thresholds 0, 1/2, 1; alpha 1/5; T = 10,000 and c = 40, so that v = 40/5/10 = 0.8.

    loss of a hit   .36 - .8 (1 + pi^2/.8):   -.44, -.69, -1.44
    loss of a miss  .84 - .8 / (1 + .12 pi):   .04, .0852830, .1257143    L = 1.5657143
    gain of a hit                               .3613139, .5209854, 1
    gain of a miss                              .0547445, .0258229, 0

Weights 1 : 2 : 1 and gamma = .4 give p = .6 (1/4, 1/2, 1/4) + .4/3 = .283333, .433333, .283333, so
F = .283333, .716667, 1; beta = .1. Draw .5 chooses the middle arm.
"""

import warnings

import numpy as np
import pytest

from keyhole import MISS
from keyhole.errors import TheoryWarning
from keyhole.feedback import Answer
from keyhole.learners import Learner, Rule, strategy
from keyhole.learners.rules.ocp_bandit import ocp_bandit
from keyhole.learners.rules.ocp_unlock import ocp_unlock
from keyhole.learners.rules.ocp_unlock_plus import ocp_unlock_plus
from keyhole.numeric import Array

RULES = [ocp_bandit, ocp_unlock, ocp_unlock_plus]
RATE = 0.01
HIT_GAIN = [0.3613138686, 0.5209854015, 1.0]
MISS_GAIN = [0.0547445255, 0.0258228894, 0.0]
CHANCES = [0.2833333333, 0.4333333333, 0.2833333333]


def worked(rule: "Rule[...]") -> Learner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheoryWarning)
        return rule(alpha=0.2, horizon=10_000, arms=3, bonus=0.1, exploration=0.4, rate=RATE)


def weighted(learner: Learner, weights: Array) -> strategy.State:
    """A state whose softmax is proportional to the weights."""
    state = learner.start()
    state.gains[:] = np.log(weights) / RATE
    return state


def estimate(learner: Learner, weights: Array, *, draw: float, score: float) -> Array:
    """What one round adds to each arm's gain, and nothing else."""
    state = weighted(learner, weights)
    before = state.gains.copy()
    threshold, memo = learner.choose(state, draw)
    learner.observe(state, memo, MISS if score < threshold else Answer(0.0, score))
    return state.gains - before


def test_tables_hold_the_gains_worked_out_by_hand() -> None:
    settings = worked(ocp_unlock_plus).settings
    assert settings.hit_gains[0] == pytest.approx(HIT_GAIN, abs=1e-9)
    assert settings.miss_gains[0] == pytest.approx(MISS_GAIN, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_learner_that_outlives_its_horizon_forgets_nothing(rule: "Rule[...]") -> None:
    """Kills: a new epoch after the last."""
    learner = worked(rule)
    state = weighted(learner, np.array([1.0, 2.0, 1.0]))
    state.clock[0] = 9_998
    for _ in range(4):
        _, memo = learner.choose(state, 0.5)
        learner.observe(state, memo, MISS)
    assert state.clock.tolist() == [10_002, 0]
    assert (state.gains >= np.log([1.0, 2.0, 1.0]) / RATE).all()


def test_probabilities_mix_the_softmax_with_uniform_exploration() -> None:
    learner = worked(ocp_unlock_plus)
    state = weighted(learner, np.array([1.0, 2.0, 1.0]))
    assert learner.distribution(state).probabilities == pytest.approx(CHANCES, abs=1e-9)


@pytest.mark.parametrize(
    ("draw", "threshold"), [(0.0, 0.0), (0.2833, 0.0), (0.2834, 0.5), (0.7166, 0.5), (0.7167, 1.0)]
)
def test_draw_falls_into_the_arm_whose_share_it_hits(draw: float, threshold: float) -> None:
    learner = worked(ocp_bandit)
    state = weighted(learner, np.array([1.0, 2.0, 1.0]))
    assert learner.choose(state, draw)[0] == threshold


@pytest.mark.parametrize(
    ("rule", "score", "expected"),
    [
        # The bonus over p is .1/.283333 = .3529412; the chosen one gets (.5209854 + .1) / .433333.
        (ocp_bandit, 0.7, [0.3529411765, 1.4330432341, 0.3529411765]),
        # The chosen one gets (.0258229 + .1) / .433333.
        (ocp_bandit, 0.3, [0.3529411765, 0.2903605140, 0.3529411765]),
        # With P* = .716667: .3613139/.716667 + .1/.283333, .5209854/.716667 + .1/.433333, .1/.283333.
        (ocp_unlock, 0.7, [0.8571000629, 0.9577256049, 0.3529411765]),
        # The arms from the chosen one on have p = .716667: .0258229/.716667 + .1/.433333, .1/.283333.
        (ocp_unlock, 0.3, [0.3529411765, 0.2668011695, 0.3529411765]),
        # Covering: (.3613139 + .1)/.716667 + .1, (.5209854 + .1)/.716667 + .1; the rest: 0 + .1/1.
        (ocp_unlock_plus, 0.7, [0.7436937702, 0.9664912579, 0.1]),
        # Below: .0547445 + .1/.283333 + .1; from the chosen one on: .0258229 + .1/.716667, 0 + .1/1.
        (ocp_unlock_plus, 0.3, [0.5076857020, 0.1653577731, 0.1]),
    ],
)
def test_estimates_worked_out_by_hand(rule: "Rule[...]", score: float, expected: list[float]) -> None:
    added = estimate(worked(rule), np.array([1.0, 2.0, 1.0]), draw=0.5, score=score)
    assert added == pytest.approx(expected, abs=1e-8)


WEIGHTS = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
SCORE = 0.6  # covers thresholds 0, .25 and .5 of five


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            ocp_bandit,
            [0.1 / 0.2833333333 + MISS_GAIN[0] / 0.2833333333, 0.1 / 0.4333333333, 0.3529411765],
        ),
        (ocp_unlock, [0.1 / p + gain for p, gain in zip(CHANCES, MISS_GAIN, strict=True)]),
    ],
)
def test_a_miss_of_every_label_tells_of_all_arms(rule: "Rule[...]", expected: list[float]) -> None:
    """The truth was no candidate: every arm would have missed, and one of them is chosen."""
    learner = worked(rule)
    state = weighted(learner, np.array([1.0, 2.0, 1.0]))
    before = state.gains.copy()
    threshold, memo = learner.choose(state, 0.1)
    assert threshold == 0.0
    learner.observe(state, memo, MISS)
    assert state.gains - before == pytest.approx(expected, abs=1e-6)


def enumerated(rule: "Rule[...]") -> tuple[Learner, Array, Array]:
    """The learner, its probabilities, and the exact expectation of its estimates over the arm."""
    learner = rule(alpha=0.2, horizon=10_000, arms=5, bonus=0.1, exploration=0.4, rate=RATE)
    chances = learner.distribution(weighted(learner, WEIGHTS)).probabilities
    middles = np.cumsum(chances) - chances / 2
    added = np.array([estimate(learner, WEIGHTS, draw=float(draw), score=SCORE) for draw in middles])
    return learner, chances, chances @ added


def test_bandit_estimate_is_the_gain_plus_bonus_over_chance_in_expectation() -> None:
    learner, p, mean = enumerated(ocp_bandit)
    gain = np.where(
        learner.settings.grid <= SCORE,
        learner.settings.hit_gains[0],
        learner.settings.miss_gains[0],
    )
    assert mean == pytest.approx(gain + 0.1 / p, abs=1e-9)


def test_unlock_estimate_in_expectation_is_the_sum_over_what_each_arm_would_have_told() -> None:
    learner, p, mean = enumerated(ocp_unlock)
    hit, miss = learner.settings.hit_gains[0], learner.settings.miss_gains[0]
    expected = 0.1 / p
    expected[:3] += hit[:3]  # A covering arm is seen exactly when the round hits, with chance P*.
    expected[3] += p[3] * miss[3] / (p[3] + p[4])
    expected[4] += p[3] * miss[4] / (p[3] + p[4]) + p[4] * miss[4] / p[4]
    assert mean == pytest.approx(expected, abs=1e-9)


def test_unlock_plus_estimate_in_expectation_is_the_sum_over_the_cases_of_the_paper() -> None:
    learner, p, mean = enumerated(ocp_unlock_plus)
    hit, miss = learner.settings.hit_gains[0], learner.settings.miss_gains[0]
    covering = p[:3].sum()
    expected = np.empty(5)
    on_hit = (hit[:3] + 0.1) / covering + 0.1
    expected[:3] = covering * on_hit + (1 - covering) * (miss[:3] + 0.1 / p[:3] + 0.1)
    below_last = miss[3] + 0.1 / p[3] + 0.1  # The fourth arm, when the fifth was chosen and missed.
    expected[3] = (covering + p[3]) * (miss[3] + 0.1 / p[:4].sum()) + p[4] * below_last
    expected[4] = miss[4] + 0.1
    assert mean == pytest.approx(expected, abs=1e-9)


def overestimates(rule: "Rule[...]", *, seed: int) -> tuple[Array, float]:
    """ln E exp(beta (g - estimate)) / beta of every arm, and the largest gain of one that misses.

    The paper's lemma, that an arm's gains exceed its estimates by ln(1 / delta) / beta with chance
    delta at most, is Markov's inequality on the product of these means: none may be above 0.
    """
    rng = np.random.default_rng(seed)
    learner = rule(alpha=0.3, horizon=100_000, arms=8, rate=RATE)
    weights, score = rng.dirichlet(np.full(8, 0.2)) + 1e-9, float(rng.random())
    bonus = learner.settings.epochs[0, 0]
    chances = learner.distribution(weighted(learner, weights)).probabilities
    middles = np.cumsum(chances) - chances / 2
    added = np.array([estimate(learner, weights, draw=float(draw), score=score) for draw in middles])
    covers = learner.settings.grid <= score
    lost = learner.settings.miss_gains[0]
    gains = np.where(covers, learner.settings.hit_gains[0], lost)
    means = chances @ np.exp(bonus * (gains - added))
    return np.log(means) / bonus, float(lost[~covers].max(initial=0.0))


@pytest.mark.parametrize("rule", [ocp_bandit, ocp_unlock_plus])
def test_no_arm_is_worth_more_than_its_estimates_say(rule: "Rule[...]") -> None:
    assert all((overestimates(rule, seed=seed)[0] <= 1e-12).all() for seed in range(100))


def test_unlock_withholds_at_most_the_gain_of_a_miss_and_sometimes_that() -> None:
    """The paper's lemma speaks of it too, and is false by up to the gain of a miss."""
    found = [overestimates(ocp_unlock, seed=seed) for seed in range(100)]
    assert all((excess <= most + 1e-12).all() for excess, most in found)
    assert any(excess.max() > 0.5 * most > 0.0 for excess, most in found)


@pytest.mark.parametrize("rule", RULES)
def test_late_answer_uses_the_probabilities_of_its_own_time(rule: "Rule[...]") -> None:
    learner = worked(rule)
    state = weighted(learner, np.array([1.0, 2.0, 1.0]))
    _, memo = learner.choose(state, 0.5)
    fresh = estimate(learner, np.array([1.0, 2.0, 1.0]), draw=0.5, score=0.7)
    state.gains[:] += np.array([300.0, -200.0, 50.0])  # Other rounds were answered in between.
    before = state.gains.copy()
    learner.observe(state, memo, Answer(0.0, 0.7))
    assert state.gains - before == pytest.approx(fresh, abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_epochs_double_and_start_afresh(rule: "Rule[...]") -> None:
    learner = rule(alpha=0.1, horizon=None, arms=5)
    lengths = learner.settings.epochs[:, -1]
    assert lengths[0] == 117  # max(4 * 1.05^2 * 5 ln 5, 19^2 ln 5 / 5) = max(35.5, 116.2)
    assert (lengths[1:] == 2 * lengths[:-1]).all()
    state = learner.start()
    for _ in range(117):
        _, memo = learner.choose(state, 0.0)
        learner.observe(state, memo, Answer(0.0, 0.9))
    assert (state.gains == 0.0).all()
    assert state.clock.tolist() == [0, 1]
    _, memo = learner.choose(state, 0.0)
    learner.observe(state, memo, Answer(0.0, 0.9))
    assert (state.gains > 0.0).all()


@pytest.mark.parametrize("rule", RULES)
def test_answer_to_a_round_of_an_earlier_epoch_teaches_nothing(rule: "Rule[...]") -> None:
    learner = rule(alpha=0.1, horizon=None, arms=5)
    state = learner.start()
    _, late = learner.choose(state, 0.5)
    for _ in range(117):
        _, memo = learner.choose(state, 0.0)
        learner.observe(state, memo, Answer(0.0, 0.9))
    learner.observe(state, late, MISS)
    assert (state.gains == 0.0).all()
    assert state.clock.tolist() == [0, 1]
