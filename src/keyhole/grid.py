"""The thresholds a learner chooses from: its arms."""

from collections.abc import Sequence

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.numeric import Array, kernel

# Which half of a grid holds a number cannot be predicted; so few are counted sooner, many at a time.
SCAN = 64


def uniform(arms: int) -> Array:
    """Return thresholds evenly spaced on [0, 1], both ends included.

    Examples
    --------
    >>> uniform(5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    _check_count(arms)
    return np.linspace(0.0, 1.0, arms)


def geometric(arms: int, *, smallest: float = 1e-5) -> Array:
    """Return 0 and then thresholds evenly spaced in ratio from ``smallest`` to 1.

    Softmax scores crowd near 0, where a uniform grid is too coarse to tell them apart.

    Examples
    --------
    >>> geometric(4, smallest=0.01).round(6).tolist()
    [0.0, 0.01, 0.1, 1.0]
    """
    _check_count(arms)
    if not 0.0 < smallest < 1.0:
        raise InvalidError(f"smallest threshold {smallest} is not between 0 and 1; try 1e-5")
    return np.concatenate(([0.0], np.geomspace(smallest, 1.0, arms - 1)))


def check_thresholds(thresholds: Sequence[float] | Array) -> Array:
    """Return the thresholds as an array if they increase from 0 within [0, 1], else raise."""
    try:
        grid = np.array(thresholds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidError(f"thresholds {thresholds!r} are not numbers; try grid.uniform(20)") from None
    if grid.ndim != 1:
        raise InvalidError(f"thresholds have shape {grid.shape}; give one list of numbers")
    _check_count(grid.size)
    if not np.isfinite(grid).all():
        raise InvalidError(f"thresholds {thresholds!r} are not all finite; try grid.uniform(20)")
    if grid[0] != 0.0 or grid[-1] > 1.0:
        raise InvalidError(
            f"thresholds run from {grid[0]} to {grid[-1]}; they must start at 0 and end by 1",
        )
    if (np.diff(grid) <= 0.0).any():
        place = int(np.argmax(np.diff(grid) <= 0.0)) + 1
        raise InvalidError(
            f"threshold {grid[place]} at place {place} is not above {grid[place - 1]} before it; "
            "sort them and drop repeats",
        )
    return grid


def pick_thresholds(thresholds: Sequence[float] | None, arms: int | None, *, default: int) -> Array:
    """Return these thresholds, or so many evenly spaced ones, or raise if both are given and differ."""
    if thresholds is None:
        return uniform(default if arms is None else arms)
    values = check_thresholds(thresholds)
    if arms is not None and arms != values.size:
        raise InvalidError(
            f"{arms} arms were asked for, but {values.size} thresholds given; drop one", field="arms"
        )
    return values


def _check_count(arms: int) -> None:
    if not is_whole(arms, least=2):
        raise InvalidError(
            f"{arms!r} arms are not a whole number of at least 2; the theorems want at least 5",
            field="arms",
        )


@kernel
def count_at_most(thresholds: Array, score: float) -> int:
    """Return how many thresholds are at most the score, that is, would have covered it."""
    low, size = 0, thresholds.size
    while size > SCAN:
        half = size // 2
        low = low + half if thresholds[low + half - 1] <= score else low
        size -= half
    covering = low
    near = thresholds[low : low + size]
    for k in range(near.size):
        covering += 1 if near[k] <= score else 0
    return covering
