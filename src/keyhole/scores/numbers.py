"""Numbers from a model or a user, checked."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import is_real
from keyhole.errors import InvalidError, ScoreError
from keyhole.numeric import Array

_BITS_OF_ONE = np.float64(1.0).view(np.uint64)
_BITS = np.dtype(np.uint64)
_DOUBLE = np.dtype(np.float64)
_NUMBERS = "fiub"  # kinds of arrays that hold real numbers and nothing else
_largest = np.maximum.reduce


def check_scores(values: ArrayLike) -> Array:
    """Return scores in [0, 1] as an array of any shape, or raise with the first that is not."""
    scores = _read_numbers(values)
    if scores.ndim == 0:
        raise ScoreError(f"{values!r} is not a list of scores; give one score for each label")
    if scores.size == 0:
        raise ScoreError("there are no scores; give at least one label with its score")
    wrong = ~((scores >= 0.0) & (scores <= 1.0))
    if wrong.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        where = place[0] if len(place) == 1 else place
        missing = "fill it, or leave its label out of a dict"
        rescale = "rescale the model's output, e.g. by a softmax"
        raise ScoreError(
            f"score {scores[place]} at place {where} is not a number in [0, 1]; "
            f"{missing if np.isnan(scores[place]) else rescale}"
        )
    return scores


def check_row(values: ArrayLike) -> Array:
    """Return a copy of the scores of one round, or raise."""
    if type(values) is np.ndarray and values.dtype is _DOUBLE:
        return check_range(values.copy())
    return check_range(np.array(_read_numbers(values)))


def _read_numbers(values: ArrayLike) -> Array:
    text = None
    try:
        given = np.asarray(values)
        if given.dtype.kind not in _NUMBERS:
            text = _find_text(values)
        if text is None and given.dtype.kind in _NUMBERS + "O":
            return given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass  # What is wrong is said below.
    if text is not None:
        raise ScoreError(f"scores are not numbers: {text!r} is text; convert it first, as by float")
    raise ScoreError(f"scores {values!r} are not numbers; give numbers in [0, 1]")


def _find_text(values: ArrayLike) -> str | bytes | None:
    """Return the first score that is text, if one is: numpy would read the number in it."""
    flat = np.asarray(values, dtype=object).flat
    return next((value for value in flat if isinstance(value, (str, bytes))), None)


def check_range(scores: Array) -> Array:
    # As bits, the numbers from 0 to 1 are those up to 1's: one look where two comparisons take three.
    if scores.ndim == 1 and scores.size and _largest(scores.view(_BITS)) <= _BITS_OF_ONE:
        return scores
    if scores.ndim == 0:
        raise ScoreError(
            f"{scores.item()} is one number, not a list of scores; if it is what a regression "
            "predicts, make the predictor with score=keyhole.ScaledResiduals()"
        )
    check_scores(scores)
    if scores.ndim != 1:
        raise ScoreError(
            f"scores have shape {scores.shape}; give one row, a score for each label of one round"
        )
    return scores


def check_number(value: Any, what: str) -> float:
    if type(value) is float and value - value == 0.0:  # finite: infinities and NaN give NaN
        return value
    if not is_real(value):
        one = "; give one of its numbers" if isinstance(value, np.ndarray) else ""
        raise ScoreError(f"{what} {value!r} is not a finite number{one}")
    return float(value)


def check_positive(value: float, *, field: str) -> float:
    """Return a positive finite number, or raise."""
    if not (is_real(value) and value > 0.0):
        fault = f"residual {field} {value!r} is not a positive number; give it in the outcome's unit"
        raise InvalidError(fault, field=field)
    return float(value)


def check_callable(given: object, name: str) -> None:
    """Raise unless this can be called, as a score of one's own is."""
    if not callable(given):
        raise ScoreError(f"{name} {given!r} cannot be called; give a function")
