"""How old and how stale an answer is, and what is kept of a round, by hand."""

import pytest

from keyhole import HIT, Predictor, Probabilities
from keyhole.errors import FeedbackError
from keyhole.predictor.kinds import Recalled
from keyhole.predictor.rounds import measure_delay
from keyhole.scores.labels import Candidates


@pytest.mark.parametrize(
    ("number", "then", "predicted", "answered", "age", "stale"),
    [
        (9, 9, 10, 9, 0.0, 0.0),  # at once
        (9, 9, 10, 12, 3.0, 3.0),  # three were counted since
        (9, 9, 30, 9, 0.0, 20.0),  # twenty were asked since, and every round gets its answer
        (9, 4, 30, 4, 0.0, 10.0),  # but here one in two: (4 + 1) / (9 + 1)
        (9, 9, 30, 14, 5.0, 25.0),  # a share above 1, of answers that came since, is 1
    ],
)
def test_age_counts_answers_and_staleness_the_sets_that_will_be_answered_too(
    number: int, then: int, predicted: int, answered: int, age: float, stale: float
) -> None:
    assert measure_delay(number, then, predicted, answered) == (age, stale)


def test_a_label_whose_score_is_the_threshold_is_in_the_set() -> None:
    case = Candidates(["cat", "dog"], [0.5, 0.25], Probabilities())
    shown = Recalled(0, 0.5, 1.0, case)
    assert "cat" in shown
    assert "dog" not in shown


def test_an_answer_is_not_wrong_less_often_than_never() -> None:
    predictor = Predictor("tracker", alpha=0.1, seed=1)
    with pytest.raises(FeedbackError, match=r"wrong -0\.5 is not a probability below 1/2"):
        predictor.learn(predictor.predict([0.5]), HIT, wrong=-0.5)
