"""What is shown: a set of labels or an interval; and what a score kind must do to make one."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Label = Hashable


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The labels whose score reaches the threshold, the most plausible first."""

    id: int
    threshold: float
    labels: tuple[Label, ...]

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    @property
    def size(self) -> float:
        """The number of labels."""
        return float(len(self.labels))


@dataclass(frozen=True, slots=True)
class Interval:
    """The values whose score reaches the threshold, both ends included."""

    id: int
    threshold: float
    lower: float
    upper: float

    def __contains__(self, value: object) -> bool:
        return self.lower <= value <= self.upper  # type: ignore[operator]

    @property
    def width(self) -> float:
        """The length of the interval; 0 if it is empty."""
        return max(0.0, self.upper - self.lower)

    @property
    def size(self) -> float:
        """The length of the interval."""
        return self.width


Region = LabelSet | Interval
R_co = TypeVar("R_co", bound=Region, covariant=True)


class Case(Protocol[R_co]):
    """One model output, read and checked."""

    def region(self, id: int, threshold: float) -> R_co:  # noqa: A002
        """Return the set or interval of this threshold."""

    def score(self, label: Any) -> float:
        """Return the label's score; below 0 if it is outside even the region of threshold 0."""

    def dump(self) -> dict[str, Any]:
        """Return the case as JSON values."""


class Score(Protocol[R_co]):
    """A way to turn model outputs into scores in [0, 1], higher for the more plausible."""

    def read(self, output: Any) -> Case[R_co]:
        """Return the case of a model output, or raise ``ScoreError``."""

    def restore(self, dumped: dict[str, Any]) -> Case[R_co]:
        """Return the case that ``dump`` wrote."""

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind, as JSON values."""
