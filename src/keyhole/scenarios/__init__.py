"""Where simulated rounds come from: the scores of true labels, and the size of any set.

A scenario may also know something of each case before its set is chosen: ``features``, a column each,
NaN where one is missing, and ``groups``, a column for each that a round may belong to.
"""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from keyhole.numeric import Array

_PIECES = 10


class Scenario(Protocol):
    @property
    def scores(self) -> Array:
        """The score of each round's true label, in [0, 1]."""

    @property
    def changes(self) -> tuple[int, ...]:
        """The rounds at which its segments begin, the first included."""

    def sizes(self, thresholds: Array) -> Array:
        """Return the size of each round's set at that round's threshold."""


def find_changes(values: ArrayLike) -> tuple[int, ...]:
    """Return the rounds, the first included, at which values that are not negative change."""
    return tuple(np.flatnonzero(np.diff(values, prepend=-1)).tolist())


def spread_evenly(rounds: int) -> tuple[int, ...]:
    """Return the beginnings of the tenths of so many rounds, for what changes all the time."""
    return tuple(sorted({rounds * piece // _PIECES for piece in range(_PIECES)}))
