"""Small sorted samples of features: the rank of a value among those of the last few thousand rounds.

Ranks make units, outliers and infinities harmless. The sample is a reservoir whose draws are a function
of the round's number, so that a learner that keeps one stays deterministic.
"""

from typing import Any, NamedTuple

import numpy as np

from keyhole.learners.layout import COUNT
from keyhole.numeric import Array, Counts, kernel

_LARGEST = np.finfo(np.float64).max  # Infinities are kept as this, so that a state stays finite.
_TURN = 2.0**32


class Ranks(NamedTuple):
    """Of each feature a row of kept values, sorted; how many there are; and how many were ever seen."""

    kept: Array
    held: Counts
    seen: Counts


def start_ranks(features: int, room: int) -> Ranks:
    """Return room for so many values of each feature."""
    counts = np.zeros(features, dtype=np.int64)
    return Ranks(np.zeros((features, room)), counts, counts.copy())


def limit_ranks(room: int) -> dict[str, Any]:
    """Return what the counts of a state may be that has these parts."""
    return {"held": room, "seen": COUNT}


@kernel
def rank(ranks: Ranks, feature: int, value: float) -> float:
    """Return which share of the kept values lies below the value, those equal to it counting half."""
    held = ranks.held[feature]
    row = ranks.kept[feature, :held]
    below = np.searchsorted(row, value)
    up_to = np.searchsorted(row, value, side="right")
    return (below + up_to + 1) / (2 * (held + 1))


@kernel
def make_finite(value: float) -> float:
    """Return the value, or the largest number of its sign."""
    return min(max(value, -_LARGEST), _LARGEST)


@kernel
def keep(ranks: Ranks, feature: int, value: float, number: int, window: int) -> None:
    """Keep the value of round ``number``, perhaps: any of the last ``window`` is as likely kept."""
    row, held = ranks.kept[feature], ranks.held[feature]
    ranks.seen[feature] += 1
    if held < row.size:
        ranks.held[feature] += 1
        _put(row[: held + 1], held, value)
        return
    chance = row.size / min(ranks.seen[feature], window)
    # Multiples of an odd number modulo 2^32, which spread evenly (the golden ratio's, by Knuth).
    draw = ((number % 2**31) * 2654435769 + feature * 1640531527 + 12345) % 2**32 / _TURN
    if draw < chance:
        _put(row, int(draw / chance * row.size), value)


@kernel
def _put(row: Array, place: int, value: float) -> None:
    """Put the value where it belongs in the sorted row; what is at this place falls out."""
    while place > 0 and row[place - 1] > value:
        row[place] = row[place - 1]
        place -= 1
    while place + 1 < row.size and row[place + 1] < value:
        row[place] = row[place + 1]
        place += 1
    row[place] = value
