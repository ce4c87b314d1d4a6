"""Where rounds come from: the scores of true labels, and the size of every set not yet played."""

from typing import Protocol

from keyhole.grid import Array


class Stream(Protocol):
    """A sequence of rounds."""

    @property
    def scores(self) -> Array:
        """The score of each round's true label, in [0, 1]."""

    def sizes(self, thresholds: Array) -> Array:
        """Return the size of each round's set at that round's threshold."""
