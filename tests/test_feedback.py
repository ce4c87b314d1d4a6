import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole import HIT, MISS, Predictor
from keyhole.errors import FeedbackError, ScoreError
from keyhole.feedback import (
    UNSEEN,
    Answer,
    Feedback,
    Needs,
    check_feedback,
    is_enough,
    is_miss,
    outcomes,
    usable_score,
)
from keyhole.grid import uniform

GRID = uniform(5)
unit = st.floats(0.0, 1.0)


@pytest.mark.parametrize("answer", [HIT, MISS, Answer(0.0, 0.5), Answer(0.25, age=2.0)])
def test_an_unpickled_answer_is_the_same(answer: Answer) -> None:
    assert pickle.loads(pickle.dumps(answer)) == answer  # noqa: S301
    assert isinstance(pickle.loads(pickle.dumps(answer)), Answer)  # noqa: S301


def test_hit_with_label_tells_of_every_threshold() -> None:
    told = outcomes(Answer(0.0, 0.5), threshold=0.25, thresholds=GRID)
    assert told.tolist() == [0, 0, 0, 1, 1]


def test_miss_tells_of_the_thresholds_at_or_above() -> None:
    assert outcomes(MISS, threshold=0.5, thresholds=GRID).tolist() == [-1, -1, 1, 1, 1]
    assert outcomes(MISS, threshold=0.6, thresholds=GRID).tolist() == [-1, -1, -1, 1, 1]


def test_bare_hit_tells_of_the_thresholds_at_or_below() -> None:
    assert outcomes(HIT, threshold=0.5, thresholds=GRID).tolist() == [0, 0, 0, -1, -1]


@given(unit, unit, st.integers(2, 40))
def test_nothing_told_is_ever_wrong(score: float, threshold: float, arms: int) -> None:
    grid = uniform(arms)
    truth = (score < grid).astype(int)
    missed = score < threshold
    for answer in (Answer(0.0, score), MISS if missed else HIT):
        told = outcomes(answer, threshold=threshold, thresholds=grid)
        seen = told != UNSEEN
        assert (told[seen] == truth[seen]).all()
    assert (outcomes(Answer(0.0, score), threshold=threshold, thresholds=grid) == truth).all()


@given(unit, unit)
def test_bare_answer_tells_all_that_monotonicity_allows(score: float, threshold: float) -> None:
    answer = MISS if score < threshold else HIT
    seen = outcomes(answer, threshold=threshold, thresholds=GRID) != UNSEEN
    allowed = threshold <= GRID if score < threshold else threshold >= GRID
    assert (seen == allowed).all()


def test_feedbacks_tell_ever_more() -> None:
    assert [feedback.tells for feedback in Feedback] == list(Needs)
    assert [is_enough(Needs.LABEL_IF_HIT, feedback) for feedback in Feedback] == [False, True, True]


def test_learner_gets_no_more_than_it_needs() -> None:
    assert np.isnan(usable_score("x", Needs.HIT_OR_MISS, 0.0, 0.7))
    assert usable_score("x", Needs.LABEL_IF_HIT, 0.0, 0.7) == 0.7
    assert np.isnan(usable_score("x", Needs.LABEL_IF_HIT, 1.0, 0.3))
    assert usable_score("x", Needs.LABEL_ALWAYS, 1.0, 0.3) == 0.3


@pytest.mark.parametrize(("answer", "told"), [(HIT, "a hit"), (MISS, "a miss")])
def test_less_than_needed_is_refused(answer: Answer, told: str) -> None:
    with pytest.raises(FeedbackError, match=f"{told} without the true label; give label="):
        usable_score("dtaci", Needs.LABEL_ALWAYS, answer.miss, answer.score)


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), True, "0.5"])
def test_score_of_an_answer_must_be_in_the_unit_interval(score: Any) -> None:
    predictor = Predictor("logit-tracker", alpha=0.1)
    prediction = predictor.predict([0.5])
    with pytest.raises(ScoreError, match=rf"score {score!r} is not a number in \[0, 1\]; rescale"):
        predictor.learn(prediction, score=score)
    assert predictor.open_rounds == 1


def test_answers_say_what_they_are() -> None:
    answers = (HIT, MISS, Answer(0.0, 0.25), Answer(0.3), Answer(1.0, age=4.0))
    assert [repr(answer) for answer in answers] == [
        "<hit>",
        "<miss>",
        "<hit, score 0.25>",
        "<loss 0.3>",
        "<miss, 4 answers late>",
    ]


def test_unknown_feedback_is_named() -> None:
    with pytest.raises(FeedbackError, match="no feedback 'some'"):
        check_feedback("some")


def test_answers_show_themselves_in_colour() -> None:
    told = [answer._repr_html_() for answer in (HIT, MISS, Answer(0.0, 0.25))]
    assert [text.rpartition("> ")[2] for text in told] == ["hit", "miss", "hit, score 0.25"]
    assert ("#2a7" in told[0], "#2a7" in told[1], "#2a7" in told[2]) == (True, False, True)


@pytest.mark.parametrize(("miss", "missed"), [(0.0, False), (0.49, False), (0.5, True), (None, None)])
def test_a_graded_answer_is_a_miss_from_a_half_on(miss: float | None, *, missed: bool | None) -> None:
    assert is_miss(miss) is missed
