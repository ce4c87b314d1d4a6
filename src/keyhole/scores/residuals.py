"""Scores of a real outcome by its distance from a centre, and the interval of a threshold."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Protocol

from keyhole.errors import InvalidError
from keyhole.numeric import logit, sigmoid
from keyhole.scores.numbers import check_number, check_positive
from keyhole.scores.regions import Interval, make_empty_interval
from keyhole.scores.score import Kind, pack_numbers, unpack_numbers

_SIDES = ("both", "upper", "lower")
EDGE = 700.0  # logits beyond which a one-sided bound is infinite


@cache
def list_shape() -> tuple[list[float], list[float]]:
    """Return what is assumed of scores while few residuals are known: scores, and five answers' shares.

    The odds of the scores are Student's with one degree of freedom about a median of 1, in thirds of
    doublings, each by its middle: so a residual compares with a single one that is known.
    """
    steps = [(step - 0.5) / 3.0 for step in range(-39, 41)]
    below = [10.0 / math.pi * math.atan(2.0 ** (step + 1.0 / 6.0)) for step in steps]
    shares = [upper - lower for lower, upper in zip([0.0, *below], below, strict=False)]
    return [1.0 / (1.0 + 2.0**-step) for step in steps], shares


class Residuals(Protocol):
    """A score of the true value's distance from a centre: what its cases ask of it."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """What a case keeps beside its centre."""

    def score(self, residual: float) -> float:
        """Return the score of a residual."""

    def offsets(self, threshold: float) -> tuple[float, float]:
        """Return the residuals between which the score reaches the threshold."""


@dataclass(slots=True, eq=False)
class Centred:
    """A centre, and residuals between which the score reaches a threshold; not to be changed."""

    is_unlimited: ClassVar[bool] = False

    centre: float
    residuals: Residuals

    @property
    def output(self) -> float:
        return self.centre

    def region(self, id: int, threshold: float) -> Interval:
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return make_empty_interval(id, threshold)
        lower, upper = self.residuals.offsets(threshold if threshold > 0.0 else 0.0)
        return Interval(id, threshold, self.centre + lower, self.centre + upper)

    def score(self, label: object) -> float:
        return self.residuals.score(self.residual(label))

    def residual(self, label: object) -> float:
        """Return by how much the true value is above the centre."""
        return check_number(label, "true value") - self.centre

    def pack(self) -> tuple[bytes, None]:
        return pack_numbers(self.centre, *self.residuals.numbers), None


@dataclass(frozen=True, kw_only=True)
class BoundedResiduals:
    """The paper's regression score: 1 - |residual| / bound.

    A residual above the bound misses at every threshold, and the predictor then warns.

    Parameters
    ----------
    bound
        The largest possible residual, in the unit of the outcome.

    Examples
    --------
    >>> interval = BoundedResiduals(bound=10.0).read(50.0).region(0, threshold=0.75)
    >>> interval.lower, interval.upper, 51.0 in interval
    (47.5, 52.5, True)
    """

    name: ClassVar[str] = "bounded residuals"
    kind: ClassVar[Kind] = "interval"
    numbers: ClassVar[tuple[float, ...]] = ()
    out_of_reach: ClassVar[str] = (
        "the true value lies beyond the residual bound, where no threshold covers it; it counts as a "
        "miss: use a larger bound, or ScaledResiduals"
    )

    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", check_positive(self.bound, field="bound"))

    def score(self, residual: float) -> float:
        """Return the score of a residual; below 0 where it breaks the bound."""
        return 1.0 - abs(residual) / self.bound

    def offsets(self, threshold: float) -> tuple[float, float]:
        """Return the residuals between which the score reaches the threshold."""
        half = self.bound * (1.0 - threshold)
        return -half, half

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(check_number(output, "predicted centre"), self)

    def unpack(self, content: bytes, labels: str | None) -> Centred:  # noqa: ARG002
        """Return the case that ``pack`` wrote."""
        return Centred(unpack_numbers(content)[0], self)


@dataclass(frozen=True, kw_only=True)
class ScaledResiduals:
    """A regression score without a bound: 1 / (1 + |residual| / scale).

    Threshold 0 is the whole line, so it never misses. The scale is the median of the first residuals
    (see ``keyhole.predictor.scale``). Until a true value differs from its prediction,
    intervals without a first guess are the whole line, and a bare hit or miss is refused, because it
    would not determine a width. The bound on misses holds for any scale, because it uses only that
    threshold 0 cannot miss and that an empty interval must.

    Parameters
    ----------
    scale
        A first guess of the residual that scores 1/2, in the unit of the outcome; None for none. If
        no true value is ever given, it stays as it is.
    side
        "both" for intervals around the centre; "upper" for a bound that the outcome exceeds with
        probability alpha, "lower" for one that it falls short of. One-sided scores are
        1 / (1 + e^(residual / scale)).

    Examples
    --------
    >>> interval = ScaledResiduals(scale=2.0).read(50.0).region(0, threshold=0.5)
    >>> interval.lower, interval.upper
    (48.0, 52.0)
    >>> ScaledResiduals(scale=2.0, side="upper").read(50.0).region(0, threshold=0.5).upper
    50.0
    """

    name: ClassVar[str] = "scaled residuals"
    kind: ClassVar[Kind] = "interval"

    scale: float | None = None
    side: str = "both"

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", check_positive(self.scale, field="scale"))
        if self.side not in _SIDES:
            raise InvalidError(f"side {self.side!r} is none of {', '.join(_SIDES)}; choose one")

    @property
    def numbers(self) -> tuple[float, ...]:
        """The scale, which may move; infinite while there is none."""
        return (math.inf if self.scale is None else self.scale,)

    def at_scale(self, scale: float | None) -> "ScaledResiduals":
        """Return the score at another scale: the one that the first true values give."""
        return self if scale == self.scale else replace(self, scale=scale)

    def masses(self) -> tuple[list[float], list[float]]:
        """Return what the scale says of scores before residuals do."""
        return list_shape()

    def score(self, residual: float) -> float:
        """Return the score of a residual; 1 while there is no scale."""
        if self.scale is None:
            return 1.0
        if self.side == "both":
            return 1.0 / (1.0 + abs(residual) / self.scale)
        sign = 1.0 if self.side == "upper" else -1.0
        return sigmoid(max(-EDGE, min(EDGE, -sign * residual / self.scale)))

    def offsets(self, threshold: float) -> tuple[float, float]:
        """Return the residuals between which the score reaches the threshold."""
        if self.scale is None or threshold <= 0.0:
            return -math.inf, math.inf
        if self.side == "both":
            half = self.scale * (1.0 / threshold - 1.0)
            return -half, half
        reach = -self.scale * logit(threshold, EDGE)
        return (-math.inf, reach) if self.side == "upper" else (-reach, math.inf)

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(check_number(output, "predicted centre"), self)

    def unpack(self, content: bytes, labels: str | None) -> Centred:  # noqa: ARG002
        """Return the case that ``pack`` wrote."""
        centre, scale = unpack_numbers(content)
        return Centred(centre, self.at_scale(scale if math.isfinite(scale) else None))
