"""What a small classifier makes of handwritten digits: real outputs that come with the package.

A logistic regression that has seen the first 150 pictures only, asked about the 1,647 that follow. The
pictures stand in the order of the collection, one writer after another, so that new hands keep coming.

Data: scikit-learn's copy of the UCI Optical Recognition of Handwritten Digits test set, by E. Alpaydin
and C. Kaynak, CC BY 4.0.
"""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import MissingExtraError
from keyhole.numeric import Array

_TRAINED_ON = 150
_STRENGTH = 0.01  # scikit-learn's C: strong enough that the classifier is rarely sure


class Guesses(NamedTuple):
    """The probability of each digit, a row a picture, and which digit it was."""

    probabilities: Array
    digits: NDArray[np.int64]


def digit_guesses(rounds: int | None = None, *, seed: int = 0) -> Guesses:
    """Return all 1,647 guesses, or as many as asked, drawn with replacement, in the same order.

    Examples
    --------
    >>> guesses = digit_guesses()
    >>> guesses.probabilities.shape, guesses.digits[:3].tolist()
    ((1647, 10), [0, 1, 2])
    """
    with (
        (resources.files("keyhole.scenarios") / "data" / "digit_guesses.npz").open("rb") as file,
        np.load(file) as kept,
    ):
        guesses = Guesses(kept["probabilities"].astype(np.float64), kept["digits"].astype(np.int64))
    if rounds is None:
        return guesses
    rows = np.sort(np.random.default_rng(seed).integers(guesses.digits.size, size=rounds))
    return Guesses(guesses.probabilities[rows], guesses.digits[rows])


def make_digit_guesses() -> Guesses:
    """Return the guesses from the pictures themselves; the file holds them to three places."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError(
            "the digits need scikit-learn; pip install 'keyhole-conformal[digits]'"
        ) from None
    data = load_digits()
    model = LogisticRegression(C=_STRENGTH, max_iter=1000)
    model.fit(data.data[:_TRAINED_ON], data.target[:_TRAINED_ON])
    return Guesses(model.predict_proba(data.data[_TRAINED_ON:]), data.target[_TRAINED_ON:])


def write_digit_guesses(path: Path) -> None:
    """Put the guesses into the file that comes with the package."""
    made = make_digit_guesses()
    np.savez_compressed(
        path, probabilities=made.probabilities.astype(np.float16), digits=made.digits.astype(np.uint8)
    )
