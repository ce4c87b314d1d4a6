"""Numbers from a model or a user, checked."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import is_real
from keyhole.errors import BoundError, ScoreError
from keyhole.grid import Array


def checked_scores(values: ArrayLike) -> Array:
    """Return scores in [0, 1] as an array of any shape, or raise with the first that is not."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ScoreError(f"scores {values!r} are not numbers; give numbers in [0, 1]") from None
    if scores.ndim == 0:
        raise ScoreError(f"{values!r} is not a list of scores; give one score for each label")
    if scores.size == 0:
        raise ScoreError("there are no scores; give at least one label with its score")
    wrong = ~((scores >= 0.0) & (scores <= 1.0))
    if wrong.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        where = place[0] if len(place) == 1 else place
        raise ScoreError(
            f"score {scores[place]} at place {where} is not a number in [0, 1]; "
            "rescale the model's output, e.g. by a softmax"
        )
    return scores


def checked_row(values: ArrayLike) -> Array:
    """Return a copy of the scores of one round, or raise."""
    scores = np.array(checked_scores(values))
    if scores.ndim != 1:
        raise ScoreError(
            f"scores have shape {scores.shape}; give one row, a score for each label of one round"
        )
    return scores


def checked_number(value: Any, what: str) -> float:
    """Return a finite number, or raise."""
    if not is_real(value):
        raise ScoreError(f"{what} {value!r} is not a finite number")
    return float(value)


def checked_positive(value: float, what: str) -> float:
    """Return a positive finite number, or raise."""
    if not (is_real(value) and value > 0.0):
        raise BoundError(f"{what} {value!r} is not a positive number; give it in the outcome's unit")
    return float(value)
