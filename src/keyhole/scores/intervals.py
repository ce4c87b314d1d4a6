"""Scores of a real outcome, and the interval of a threshold."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyhole.errors import ScoreError
from keyhole.scores.checks import checked_number, checked_positive
from keyhole.scores.regions import Interval


@dataclass(frozen=True, slots=True)
class Centred:
    """A centre with a half-width for every threshold."""

    centre: float
    residuals: "BoundedResiduals | ScaledResiduals"

    def region(self, id: int, threshold: float) -> Interval:  # noqa: A002
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return Interval(id, threshold, math.inf, -math.inf)
        half = self.residuals.half_width(max(threshold, 0.0))
        return Interval(id, threshold, self.centre - half, self.centre + half)

    def score(self, label: Any) -> float:
        """Return the score of the true value."""
        return self.residuals.score(abs(checked_number(label, "true value") - self.centre))

    def dump(self) -> dict[str, Any]:
        """Return the centre."""
        return {"centre": self.centre}


@dataclass(frozen=True, kw_only=True)
class BoundedResiduals:
    """The paper's regression score: 1 - |residual| / bound.

    A residual above the bound misses at every threshold, which the predictor then says.

    Parameters
    ----------
    bound
        The largest residual there can be, in the unit of the outcome.

    Examples
    --------
    >>> interval = BoundedResiduals(bound=10.0).read(50.0).region(0, threshold=0.75)
    >>> interval.lower, interval.upper, 51.0 in interval
    (47.5, 52.5, True)
    """

    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", checked_positive(self.bound, "residual bound"))

    def score(self, residual: float) -> float:
        """Return the score of an absolute residual; below 0 where it breaks the bound."""
        return 1.0 - residual / self.bound

    def half_width(self, threshold: float) -> float:
        """Return the largest residual whose score reaches the threshold."""
        return self.bound * (1.0 - threshold)

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(checked_number(output, "predicted centre"), self)

    def restore(self, dumped: dict[str, Any]) -> Centred:
        """Return the case that ``dump`` wrote."""
        return Centred(dumped["centre"], self)

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        return {"kind": "bounded residuals", "bound": self.bound}


@dataclass(frozen=True, kw_only=True)
class ScaledResiduals:
    """A regression score without a bound: 1 / (1 + |residual| / scale).

    Threshold 0 is the whole line, so that it never misses, and its width is infinite. Learners that
    explore play it now and then, after which the mean size of their intervals is infinite too.

    Parameters
    ----------
    scale
        The residual that scores 1/2.

    Examples
    --------
    >>> interval = ScaledResiduals(scale=2.0).read(50.0).region(0, threshold=0.5)
    >>> interval.lower, interval.upper
    (48.0, 52.0)
    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_positive(self.scale, "residual scale"))

    def score(self, residual: float) -> float:
        """Return the score of an absolute residual."""
        return 1.0 / (1.0 + residual / self.scale)

    def half_width(self, threshold: float) -> float:
        """Return the largest residual whose score reaches the threshold."""
        return self.scale * (1.0 / threshold - 1.0) if threshold > 0.0 else math.inf

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(checked_number(output, "predicted centre"), self)

    def restore(self, dumped: dict[str, Any]) -> Centred:
        """Return the case that ``dump`` wrote."""
        return Centred(dumped["centre"], self)

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        return {"kind": "scaled residuals", "scale": self.scale}


@dataclass(frozen=True, slots=True)
class Measured:
    """A model's output with a score and an interval of one's own."""

    output: Any
    kind: "CustomIntervals"

    def region(self, id: int, threshold: float) -> Interval:  # noqa: A002
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return Interval(id, threshold, math.inf, -math.inf)
        lower, upper = self.kind.interval(self.output, max(threshold, 0.0))
        return Interval(id, threshold, float(lower), float(upper))

    def score(self, label: Any) -> float:
        """Return the score of the true value."""
        score = self.kind.function(self.output, checked_number(label, "true value"))
        if not 0.0 <= score <= 1.0:
            raise ScoreError(f"score {score!r} of {label!r} is outside [0, 1]; mend the function")
        return float(score)

    def dump(self) -> dict[str, Any]:
        """Return the output."""
        return {"output": self.output}


@dataclass(frozen=True)
class CustomIntervals:
    """A score function of one's own for a real outcome, with its inverse.

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

    function: Callable[[Any, float], float]
    interval: Callable[[Any, float], tuple[float, float]]

    def read(self, output: Any) -> Measured:
        """Return the case of a model output."""
        return Measured(output, self)

    def restore(self, dumped: dict[str, Any]) -> Measured:
        """Return the case that ``dump`` wrote."""
        return Measured(dumped["output"], self)

    def dump(self) -> dict[str, Any]:
        """Return the kind alone: functions cannot be written to a file."""
        return {"kind": "custom intervals"}
