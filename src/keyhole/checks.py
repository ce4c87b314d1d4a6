"""What counts as a number; who asks says what was wrong."""

import math
from typing import Any

import numpy as np


def is_whole(value: Any, *, least: int, most: int = 2**63 - 1) -> bool:
    """Return whether the value is a whole number in this range, and no truth value."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and least <= value <= most


def is_real(value: Any) -> bool:
    """Return whether the value is a finite real number, and no truth value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return False
    try:
        return not isinstance(value, np.complexfloating) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
