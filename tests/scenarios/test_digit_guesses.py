import numpy as np

from keyhole.scenarios.digit_guesses import digit_guesses, make_digit_guesses


def test_the_file_holds_what_the_classifier_says() -> None:
    kept, made = digit_guesses(), make_digit_guesses()
    np.testing.assert_allclose(kept.probabilities, made.probabilities, atol=2e-3)
    assert kept.digits.tolist() == made.digits.tolist()


def test_rounds_drawn_keep_the_order_of_the_collection() -> None:
    kept, drawn = digit_guesses(), digit_guesses(300, seed=4)
    places = [np.flatnonzero((kept.probabilities == row).all(axis=1))[0] for row in drawn.probabilities]
    assert places == sorted(places)
    assert digit_guesses(300, seed=4).digits.tolist() == drawn.digits.tolist()
