"""Intervals that a model gives itself, or a function of the user's, and their scores."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from keyhole.errors import ScoreError
from keyhole.scores.numbers import check_callable, check_number
from keyhole.scores.regions import Interval, make_empty_interval
from keyhole.scores.score import Kind, pack_numbers, unpack_numbers


@dataclass(slots=True, eq=False)
class Band:
    """A lower and an upper quantile that a model gave; not to be changed."""

    lower: float
    upper: float

    @property
    def output(self) -> tuple[float, float]:
        return self.lower, self.upper

    def region(self, id: int, threshold: float) -> Interval:
        """Return the band, stretched or shrunk about its middle; above 1 it is empty."""
        if threshold > 1.0:
            return make_empty_interval(id, threshold)
        if threshold <= 0.0:
            return Interval(id, threshold, -math.inf, math.inf)
        middle, half = 0.5 * (self.lower + self.upper), 0.5 * (self.upper - self.lower)
        reach = half * (1.0 / threshold - 1.0)
        return Interval(id, threshold, middle - reach, middle + reach)

    def score(self, label: object) -> float:
        """Return 1 / (1 + distance from the middle in half-widths): 1/2 at the ends of the band."""
        middle, half = 0.5 * (self.lower + self.upper), 0.5 * (self.upper - self.lower)
        return 1.0 / (1.0 + abs(check_number(label, "true value") - middle) / half)

    def pack(self) -> tuple[bytes, None]:
        return pack_numbers(self.lower, self.upper), None


@dataclass(frozen=True)
class QuantileBands:
    """A band between a model's lower and upper quantile, corrected by feedback.

    Conformalised quantile regression, relative to the band's width: threshold 1/2 is the model's own
    band, lower thresholds stretch it about its middle, higher ones shrink it. No scale is needed.

    Examples
    --------
    >>> interval = QuantileBands().read((46.0, 54.0)).region(0, threshold=0.5)
    >>> interval.lower, interval.upper
    (46.0, 54.0)
    """

    name: ClassVar[str] = "quantile bands"
    kind: ClassVar[Kind] = "band"

    def read(self, output: Any) -> Band:
        """Return the case of a pair (lower, upper)."""
        try:
            lower, upper = output
        except (TypeError, ValueError):
            raise ScoreError(
                f"{output!r} is not a pair; give (lower quantile, upper quantile)"
            ) from None
        low, high = check_number(lower, "lower quantile"), check_number(upper, "upper quantile")
        if not low < high:
            raise ScoreError(
                f"the lower quantile {low:g} is not below the upper one, {high:g}; sort them, and "
                "widen a band that has no width"
            )
        return Band(low, high)

    def unpack(self, content: bytes, labels: str | None) -> Band:  # noqa: ARG002
        """Return the case that ``pack`` wrote."""
        lower, upper = unpack_numbers(content)
        return Band(lower, upper)


@dataclass(frozen=True, slots=True)
class Measured:
    """A model's output with a score and an interval of one's own."""

    output: Any
    kind: "CustomIntervals"

    def region(self, id: int, threshold: float) -> Interval:
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return make_empty_interval(id, threshold)
        lower, upper = self.kind.interval(self.output, max(threshold, 0.0))
        return Interval(id, threshold, float(lower), float(upper))

    def score(self, label: object) -> float:
        score = self.kind.function(self.output, check_number(label, "true value"))
        if not 0.0 <= score <= 1.0:
            raise ScoreError(f"score {score!r} of {label!r} is outside [0, 1]; mend the function")
        return float(score)

    def pack(self) -> tuple[bytes, None]:
        try:
            return json.dumps(self.output).encode(), None
        except (TypeError, ValueError):
            raise ScoreError(
                f"output {self.output!r} cannot be saved; give text, numbers, or lists of them"
            ) from None


@dataclass(frozen=True)
class CustomIntervals:
    """Your own score function for a real outcome, with its inverse.

    Parameters
    ----------
    function
        Called with the model's output and a value; returns the value's score in [0, 1].
    interval
        Called with the model's output and a threshold; returns (lower, upper): the values that
        score at least the threshold.

    Examples
    --------
    >>> above = CustomIntervals(
    ...     lambda floor, y: min(1.0, max(0.0, 1 - (y - floor) / 10)),
    ...     lambda floor, threshold: (floor, floor + 10 * (1 - threshold)),
    ... )
    >>> above.read(3.0).region(0, threshold=0.5).upper
    8.0
    """

    name: ClassVar[str] = "custom intervals"
    kind: ClassVar[Kind] = "interval"

    function: Callable[[Any, float], float]
    interval: Callable[[Any, float], tuple[float, float]]

    def __post_init__(self) -> None:
        check_callable(self.function, "function")
        check_callable(self.interval, "interval")

    def read(self, output: object) -> Measured:
        """Return the case of a model output."""
        return Measured(output, self)

    def unpack(self, content: bytes, labels: str | None) -> Measured:  # noqa: ARG002
        """Return the case that ``pack`` wrote."""
        return Measured(json.loads(content), self)
