import numpy as np
import pytest

from keyhole.scenarios.digits import SCORE, digits


def test_scores_and_sizes_are_those_of_the_predictors_score() -> None:
    scenario = digits(50, seed=3)
    case = SCORE.read(scenario.probabilities[9])
    assert scenario.scores[9] == pytest.approx(case.score(int(scenario.digits[9])))
    assert scenario.sizes(np.full(50, 0.3))[9] == len(case.region(0, threshold=0.3))


def test_pictures_go_with_their_probabilities() -> None:
    scenario = digits(2_000, seed=3)
    guessed = scenario.probabilities.argmax(axis=1)
    assert scenario.images.shape == (2_000, 8, 8)
    assert 0.8 < (guessed == scenario.digits).mean() < 0.97
