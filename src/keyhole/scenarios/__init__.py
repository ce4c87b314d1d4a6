"""Where simulated rounds come from: the scores of true labels, and the size of any set.

A scenario may also know something of each case: features, and the groups it belongs to.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.numeric import Array


class Scenario(Protocol):
    @property
    def scores(self) -> Array:
        """The score of each round's true label, in [0, 1]."""

    def sizes(self, thresholds: Array) -> Array:
        """Return the size of each round's set at that round's threshold."""


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of each round before its set is chosen: a column a feature, NaN where missing."""

    names: tuple[str, ...]
    values: Array

    def __post_init__(self) -> None:
        _check_columns("features", self.names, self.values.shape)


@dataclass(frozen=True, eq=False)
class Groups:
    """To which groups each round belongs: a column a group, and a round may be in several or none."""

    names: tuple[str, ...]
    members: NDArray[np.bool_]

    def __post_init__(self) -> None:
        _check_columns("groups", self.names, self.members.shape)


@runtime_checkable
class ContextualScenario(Scenario, Protocol):
    """A scenario that knows something of each case."""

    @property
    def features(self) -> Features | None:
        """What is known of each round."""

    @property
    def groups(self) -> Groups | None:
        """To which groups each round belongs."""


def _check_columns(kind: str, names: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[1] != len(names):
        raise InvalidError(f"{kind} of shape {shape} need a column for each of {', '.join(names)}")
