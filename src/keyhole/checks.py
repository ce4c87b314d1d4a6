"""What counts as a number, and as nearly a name; who asks says what was wrong."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

_NEAR = 0.75  # of difflib's ratio; below it, hints were guesses ("cat" for "kt")


def is_whole(value: Any, *, least: int, most: int = 2**63 - 1) -> bool:
    """Return whether the value is a whole number in this range, and no truth value."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and least <= value <= most


def is_real(value: object) -> bool:
    """Return whether the value is a finite real number, and no truth value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return False
    try:
        return not isinstance(value, np.complexfloating) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def is_missing(value: object) -> bool:
    """Return whether a cell of a table holds nothing: None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA is neither itself nor another; of an array nothing is asked
        return type(value).__name__ == "NAType"


def is_list(value: Any) -> bool:
    """Return whether the value holds one thing after another."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def find_near(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that this one is a slip of, if there is one: a letter or two apart."""
    import difflib

    by_letters = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(str(name).casefold(), by_letters, n=1, cutoff=_NEAR)
    return by_letters[near[0]] if near else None
