import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from keyhole.scenarios.digits import digit_guesses


def test_the_file_holds_what_the_classifier_says() -> None:
    kept, data = digit_guesses(), load_digits()
    model = LogisticRegression(C=0.01, max_iter=1000).fit(data.data[:150], data.target[:150])
    np.testing.assert_allclose(kept.probabilities, model.predict_proba(data.data[150:]), atol=2e-3)
    assert kept.digits.tolist() == data.target[150:].tolist()


def test_rounds_drawn_keep_the_order_of_the_collection() -> None:
    kept, drawn = digit_guesses(), digit_guesses(300, seed=4)
    places = [np.flatnonzero((kept.probabilities == row).all(axis=1))[0] for row in drawn.probabilities]
    assert places == sorted(places)
    assert digit_guesses(300, seed=4).digits.tolist() == drawn.digits.tolist()
