"""Answers as they are: graded, wrong at a known rate, of known chance, never, or of no candidate."""

import math
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import HIT, MISS, Predictor
from keyhole.errors import FeedbackError, InvalidError, ScoreError, UnknownRoundError
from keyhole.feedback import Answer

ANIMALS = {"cat": 0.7, "lynx": 0.2, "dog": 0.1}


def test_a_label_that_was_no_candidate_is_a_miss_counted_apart() -> None:
    predictor = Predictor(alpha=0.1)
    predictor.learn(predictor.predict(ANIMALS), label="zebra")
    assert (predictor.miss_rate, predictor.unreachable) == (1.0, 1)


def test_a_graded_answer_counts_by_its_loss() -> None:
    graded, plain = Predictor("logit-tracker", alpha=0.1), Predictor(alpha=0.1)
    for _ in range(10):
        graded.learn(graded.predict(ANIMALS), loss=0.1)
    assert graded.distribution.thresholds[0] == pytest.approx(0.5)  # loss = alpha moves nothing
    assert graded.miss_rate == pytest.approx(0.1)
    plain.learn(plain.predict(ANIMALS), MISS)
    same = Predictor(alpha=0.1)
    same.learn(same.predict(ANIMALS), loss=1.0)
    assert same.distribution.thresholds[0] == plain.distribution.thresholds[0]


@pytest.mark.parametrize("given", [{"loss": 0.5}, {"answer": MISS, "wrong": 0.1}])
def test_a_learner_that_takes_hits_and_misses_only_refuses_grades(given: dict[str, Any]) -> None:
    predictor = Predictor("ocp-bandit", alpha=0.1, horizon=1000)
    shown = predictor.predict(ANIMALS)
    with pytest.raises(FeedbackError, match="ocp-bandit takes hits and misses only"):
        predictor.learn(shown, **given)
    assert predictor.open_rounds == 1


def test_answers_that_lie_at_a_known_rate_keep_the_true_miss_rate() -> None:
    rng, rounds, wrong = np.random.default_rng(5), 20_000, 0.2
    predictor = Predictor(alpha=0.1)
    truly = 0
    for _ in range(rounds):
        shown = predictor.predict((float(rng.beta(6, 2)),))
        missed = len(shown) == 0
        truly += missed
        told = missed != (rng.random() < wrong)
        predictor.learn(shown, MISS if told else HIT, wrong=wrong)
    # The corrected answers average the truth; their spread is that of the lies over 1 - 2 wrong.
    error = math.sqrt(wrong * (1 - wrong) / rounds) / (1 - 2 * wrong)
    assert abs(truly / rounds - predictor.miss_rate) < 5 * error
    assert abs(truly / rounds - 0.1) < 5 * error + 200 / rounds


def test_what_is_wrong_half_of_the_time_tells_nothing() -> None:
    predictor = Predictor(alpha=0.1)
    with pytest.raises(FeedbackError, match=r"wrong 0.5 is not a probability below 1/2"):
        predictor.learn(predictor.predict(ANIMALS), MISS, wrong=0.5)


def test_a_skipped_round_teaches_nothing_and_cannot_be_answered() -> None:
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict(ANIMALS)
    before = predictor.distribution.thresholds[0]
    predictor.skip(shown)
    assert (predictor.rounds, predictor.skipped_rounds, predictor.open_rounds) == (0, 1, 0)
    assert predictor.distribution.thresholds[0] == before
    with pytest.raises(LookupError):
        predictor.learn(shown, MISS)
    with pytest.raises(UnknownRoundError):
        predictor.skip(7)


def test_the_miss_rate_weighs_an_answer_as_the_learner_does() -> None:
    predictor = Predictor(alpha=0.1, seed=3)
    for n in range(4000):
        shown = predictor.predict(ANIMALS)
        # One round in five misses; a miss is told one time in two, a hit always.
        if n % 5 == 0:
            if n % 2 == 0:
                predictor.learn(shown, MISS, chance=0.5)
            else:
                predictor.skip(shown)
        else:
            predictor.learn(shown, HIT)
    assert predictor.miss_rate == pytest.approx(0.2, abs=1e-9)  # 1 / 0.5 is whole: no rounding


def test_a_calibrated_predictor_starts_where_history_ends() -> None:
    rng = np.random.default_rng(2)
    history = rng.beta(6, 2, 3000)
    calibrated = Predictor(alpha=0.1)
    calibrated.calibrate([(s,) for s in history], [0] * history.size)
    played = Predictor(alpha=0.1)
    for s in history:
        played.learn(played.predict((s,)), label=0)
    assert calibrated.distribution.thresholds[0] == played.distribution.thresholds[0]
    assert (calibrated.rounds, calibrated.open_rounds, math.isnan(calibrated.miss_rate)) == (0, 0, True)
    excess = played.miss_rate * history.size - 0.1 * history.size
    whole = keyhole.bounds.excess(calibrated.learner, rounds=3000 + 500)
    assert calibrated.bound(rounds=500).most == pytest.approx(whole.most - excess)
    assert Predictor.restore(calibrated.dump()).dump() == calibrated.dump()


def test_history_comes_before_the_first_round() -> None:
    predictor = Predictor(alpha=0.1)
    predictor.predict(ANIMALS)
    with pytest.raises(InvalidError, match="history comes before the first round"):
        predictor.calibrate([ANIMALS], ["cat"])


@pytest.mark.parametrize(
    ("score", "outputs", "truths", "fault"),
    [
        (None, [ANIMALS, {"cat": 2.0}], ["cat", "cat"], "round 1 of the history: score 2.0 at place 0"),
        (
            None,
            [ANIMALS] * 3,
            ["cat", "cat", math.nan],
            "round 2 of the history: nan does not say what",
        ),
        (keyhole.ScaledResiduals(), [1.0, 2.0], [1.5, None], "round 1 of the history: None does not"),
        (
            keyhole.ScaledResiduals(),
            [1.0, math.inf],
            [1.5, 2.0],
            "round 1 of the history: predicted ce",
        ),
        (None, [ANIMALS] * 3, [0, 1, 0], "held any of the 3 truths of the history, such as 0 of type"),
        (keyhole.Probabilities(labels=["a", "b"]), [[0.6, 0.4]], [0], "any of the 1 truths"),
    ],
)
def test_history_that_cannot_be_used_is_refused_by_its_round_and_teaches_nothing(
    score: Any, outputs: Any, truths: Any, fault: str
) -> None:
    predictor: Any = Predictor(alpha=0.1, score=score, seed=7)
    before = predictor.dump()
    with pytest.raises(InvalidError, match=fault) as raised:
        predictor.calibrate(outputs, truths)
    assert predictor.dump() == before
    if "centre" not in str(raised.value):
        assert "; " in str(raised.value)  # the remedy


def test_some_truths_of_a_history_may_be_out_of_reach() -> None:
    predictor = Predictor(alpha=0.1)
    predictor.calibrate([ANIMALS] * 3, ["cat", "unicorn", "cat"])
    assert predictor.progress.tally.calibrated == 3


@pytest.mark.parametrize("name", ["logit-tracker", "aci", "saocp"])
@pytest.mark.parametrize("score", [7.0, -0.5, math.inf, "x"])
def test_the_score_of_an_answer_is_a_score(name: str, score: Any) -> None:
    """Kills: a score beyond [0, 1] that reaches the state, where no file can hold it any more."""
    predictor = Predictor(name, alpha=0.1, feedback="full")
    shown = predictor.predict([0.7, 0.2])
    with pytest.raises(ScoreError, match="is not a number in"):
        predictor.learn(shown, Answer(0.0, score))
    assert (predictor.rounds, predictor.open_rounds) == (0, 1)


def test_an_answer_whose_score_and_outcome_disagree_is_refused() -> None:
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict([0.7, 0.2])  # at threshold 0.5
    for answer in (Answer(1.0, 0.7), Answer(0.0, 0.2)):
        with pytest.raises(FeedbackError, match=r"contradicts itself at threshold 0\.5"):
            predictor.learn(shown, answer)
    predictor.learn(shown, Answer(1.0, 0.2))
    assert predictor.miss_rate == 1.0
