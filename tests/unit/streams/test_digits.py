import numpy as np
import pytest

from keyhole.streams.digits import SCORE, digits


def test_scores_and_sizes_are_those_of_the_predictors_score() -> None:
    stream = digits(50, seed=3)
    case = SCORE.read(stream.probabilities[9])
    assert stream.scores[9] == pytest.approx(case.score(int(stream.digits[9])))
    assert stream.sizes(np.full(50, 0.3))[9] == len(case.region(0, threshold=0.3))


def test_pictures_go_with_their_probabilities() -> None:
    stream = digits(2_000, seed=3)
    guessed = stream.probabilities.argmax(axis=1)
    assert stream.images.shape == (2_000, 8, 8)
    assert 0.8 < (guessed == stream.digits).mean() < 0.97
