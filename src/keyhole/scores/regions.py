"""What is shown: what a region comes to, and an interval."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from keyhole.errors import ScoreError
from keyhole.scores.pictures import draw_span

Label = Hashable
Verdict = Literal["accepted", "referred"]


class Contents(NamedTuple):
    """What a set, an interval or a decision comes to, for those who write it down."""

    labels: tuple[Label, ...] | None = None
    ends: tuple[float, float] | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Interval:
    """The values whose score reaches the threshold, from ``lower`` to ``upper``, both included.

    ``size`` is its width; ``id`` is the round's number, counted from 0, and ``threshold`` what a score
    had to reach. An end may be infinite; where no value is in it, ``lower`` is above ``upper``.

    Examples
    --------
    >>> shown = Interval(0, 0.5, 48.0, 52.0)
    >>> shown.width, 51.0 in shown
    (4.0, True)
    """

    noun: ClassVar[str] = "interval"

    id: int
    threshold: float
    lower: float
    upper: float

    def __init__(self, id: int, threshold: float, lower: float, upper: float) -> None:
        put_id, put_threshold, put_lower, put_upper = _PUT
        put_id(self, id)
        put_threshold(self, threshold)
        put_lower(self, lower)
        put_upper(self, upper)

    @property
    def size(self) -> float:
        """The length of the interval; 0 if it is empty."""
        lower, upper = self.lower, self.upper
        return upper - lower if upper > lower else 0.0

    def __contains__(self, value: object) -> bool:
        try:
            if self.lower <= value <= self.upper:  # type: ignore[operator]
                return True
            known = bool(value == value)
        except (ValueError, TypeError):
            known = False
        if not known:
            raise ScoreError(f"true value {value!r} is not a number; it is neither inside nor outside")
        return False

    @property
    def is_empty(self) -> bool:
        """Whether no value is in it; one of no width holds its one value."""
        return self.lower > self.upper

    @property
    def contents(self) -> Contents:
        """Both ends."""
        return Contents(ends=(self.lower, self.upper))

    def __repr__(self) -> str:
        span = "empty" if self.is_empty else f"[{self.lower:.6g}, {self.upper:.6g}]"
        return f"Interval({span}, id={self.id}, threshold={self.threshold:.4g})"

    def _repr_html_(self) -> str:
        span = "empty" if self.is_empty else f"{self.lower:.6g} to {self.upper:.6g}"
        picture = "" if self.is_empty else f"{draw_span(self.lower, self.upper)}<br>"
        return f"{picture}<code>{span}</code> <small>(round {self.id})</small>"

    @property
    def width(self) -> float:
        """Its size."""
        return self.size


_PUT = [getattr(Interval, one).__set__ for one in Interval.__slots__]


def make_empty_interval(id: int, threshold: float) -> Interval:
    """Return the interval that holds nothing."""
    return Interval(id, threshold, math.inf, -math.inf)
