"""Handwritten digits: a classifier trained on a few, asked about the rest.

``digits`` trains it, on pictures at random. ``digit_guesses`` are real outputs that come with the
package, to three places: those of a logistic regression (scikit-learn, C = 0.01) that has seen the
first 150 pictures only, asked about the 1,647 that follow. They stand in the order of the collection,
one writer after another, so that new hands keep coming.

Data: scikit-learn's copy of the UCI Optical Recognition of Handwritten Digits test set, by E. Alpaydin
and C. Kaynak, CC BY 4.0.
"""

from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import MissingExtraError
from keyhole.numeric import Array
from keyhole.scenarios import find_changes
from keyhole.scores import Probabilities

SCORE = Probabilities(power=1 / 3)
_TRAINED_ON = 150


@dataclass(frozen=True)
class DigitsScenario:
    """Class probabilities and true digits, round by round."""

    images: NDArray[np.float64]
    probabilities: Array
    digits: NDArray[np.int64]
    changes: tuple[int, ...] = (0,)

    @property
    def scores(self) -> Array:
        true = self.probabilities[np.arange(self.digits.size), self.digits]
        return true**SCORE.power

    def sizes(self, thresholds: Array) -> Array:
        return (self.probabilities**SCORE.power >= thresholds[:, None]).sum(axis=1).astype(float)


def digits(rounds: int, *, seed: int, by_label: bool = False) -> DigitsScenario:
    """Return pictures drawn with replacement from those the classifier was not trained on.

    It is trained on 150 pictures only, so that its sets have something to say. ``by_label`` shows
    first all zeros, then all ones, and so on.
    """
    try:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError(
            "the digits scenario needs scikit-learn; pip install 'keyhole-conformal[digits]'"
        ) from None
    data = load_digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(data.target.size)
    known, others = order[:_TRAINED_ON], order[_TRAINED_ON:]
    model = LogisticRegression(C=0.01, max_iter=1000).fit(data.data[known], data.target[known])
    chances = model.predict_proba(data.data[others])
    rows = rng.integers(others.size, size=rounds)
    changes: tuple[int, ...] = (0,)
    if by_label:
        rows = rows[np.argsort(data.target[others[rows]], kind="stable")]
        changes = find_changes(data.target[others[rows]])
    return DigitsScenario(
        images=data.images[others[rows]],
        probabilities=np.clip(chances[rows], 0.0, 1.0),
        digits=data.target[others[rows]].astype(np.int64),
        changes=changes,
    )


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
