"""What the rules share that play one threshold for certain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from keyhole.checks import is_real, is_whole
from keyhole.errors import RateError
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._rule import Distribution, checked_alpha

EVERY = 0.0  # the threshold that every label reaches
NONE = 2.0  # a threshold that no label reaches


class AlphaSettings(NamedTuple):
    """The one number that the kernels of a rule without parameters read."""

    alpha: float


@dataclass(frozen=True, kw_only=True)
class AlphaParameters:
    """The one parameter of a rule that tunes itself.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    """

    alpha: float
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))


def prepare_alpha(parameters: AlphaParameters) -> AlphaSettings:
    """Return the number the kernels read."""
    return AlphaSettings(parameters.alpha)


Choose = Callable[[Any, Any, Array, float], float]


def one_number(settings: Any) -> int:  # noqa: ARG001
    """Return that a round remembers one number: the threshold it played."""
    return 1


@kernel
def held_threshold(settings: Any, state: Any, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the threshold that the state holds; at 0, or below, it is every label, above 1 none."""
    memo[0] = max(EVERY, state.threshold[0])
    return memo[0]


def certain(choose: Choose, memory: Callable[[Any], int]) -> Callable[[Any, Any], Distribution]:
    """Return the distribution of a rule that does not heed its draw."""

    def distribution(settings: Any, state: Any) -> Distribution:
        threshold = choose(settings, state, np.zeros(memory(settings)), 0.5)
        return Distribution(np.array([threshold]), np.ones(1))

    return distribution


def checked_positive(value: float, what: str, remedy: str) -> float:
    """Return the value if it is positive and finite, else raise."""
    return checked_between(value, what, remedy, low=0.0, high=np.inf)


def checked_between(value: float, what: str, remedy: str, *, low: float, high: float) -> float:
    """Return the value if it is a number between the two, else raise."""
    if not is_real(value) or not low < value < high:
        bounds = "positive and finite" if (low, high) == (0.0, np.inf) else f"between {low} and {high}"
        raise RateError(f"{what} {value!r} is not {bounds}; {remedy}")
    return float(value)


def checked_count(value: int, what: str, remedy: str) -> int:
    """Return the value if it is a whole number of at least 1, else raise."""
    if not is_whole(value, least=1):
        raise RateError(f"{what} {value!r} is not a whole number of at least 1; {remedy}")
    return int(value)


def checked_start(start: float) -> float:
    """Return the first threshold if it lies in [0, 1], else raise."""
    if not is_real(start) or not 0.0 <= start <= 1.0:
        raise RateError(f"first threshold {start!r} is not in [0, 1]; try 0.5")
    return float(start)
