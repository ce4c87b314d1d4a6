"""The last scores, kept in order of size, so that a quantile costs nothing."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.learners.layout import COUNT
from keyhole.learners.rule import EVERY, NONE
from keyhole.numeric import Array, kernel

LIMITS = {"added": COUNT}  # of the states that have these parts


class Window(NamedTuple):
    """Scores by size and by age, and how many were ever added."""

    ranked: Array
    aged: Array
    added: NDArray[np.int64]


def start_window(length: int) -> Window:
    return Window(np.full(length, NONE), np.zeros(length), np.zeros(1, dtype=np.int64))


@kernel
def count_held(window: Window) -> int:
    return min(window.added[0], window.ranked.size)


@kernel
def add(window: Window, score: float) -> None:
    """Put a score in its place; it takes that of the oldest if there is no room."""
    ranked = window.ranked
    oldest = window.added[0] % ranked.size  # ``aged`` is a ring
    place = count_held(window)
    if window.added[0] >= ranked.size:
        # A score is found where it was put; one that a damaged file made larger than all is not.
        place = min(np.searchsorted(ranked, window.aged[oldest]), ranked.size - 1)
    # Places that are still free hold NONE, above every score, so that no score moves past them.
    window.aged[oldest] = score
    window.added[0] += 1
    put(ranked, place, score)


@kernel
def put(row: Array, place: int, value: float) -> None:
    """Put the value where it belongs in the sorted row; what is at this place falls out."""
    while place > 0 and row[place - 1] > value:
        row[place] = row[place - 1]
        place -= 1
    while place + 1 < row.size and row[place + 1] < value:
        row[place] = row[place + 1]
        place += 1
    row[place] = value


@kernel
def quantile(window: Window, level: float) -> float:
    """Return the floor(level (n + 1))-th smallest of the n scores; every label below the first."""
    count = count_held(window)
    rank = np.floor(level * (count + 1))
    if rank > count:
        return NONE
    if rank >= 1.0:
        return max(EVERY, window.ranked[int(rank) - 1])
    return EVERY  # also where the level is no number, as one of a damaged file can become


@kernel
def largest_level(window: Window, score: float) -> float:
    """Return the level from which on the quantile is above the score."""
    count = count_held(window)
    at_most = np.searchsorted(window.ranked[:count], score, side="right")
    return (at_most + 1.0) / (count + 1.0)
