"""A score of one's own, as a user would write it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from keyhole.scores import Interval, LabelSet
from keyhole.scores.residuals import Centred, list_shape
from keyhole.scores.score import pack_numbers, unpack_numbers


@dataclass(frozen=True)
class Excess:
    """What lies above the centre, against a room: what lies below it costs nothing."""

    name: ClassVar[str] = "excess"
    kind: ClassVar[Any] = "interval"
    numbers: ClassVar[tuple[float, ...]] = ()

    room: float = 10.0

    def score(self, residual: float) -> float:
        return 1.0 - max(0.0, residual) / self.room

    def offsets(self, threshold: float) -> tuple[float, float]:
        return float("-inf"), self.room * (1.0 - threshold)

    def read(self, output: Any) -> Centred:
        return Centred(float(output), self)

    def unpack(self, content: bytes, labels: str | None) -> Centred:  # noqa: ARG002
        return Centred(unpack_numbers(content)[0], self)


@dataclass(frozen=True)
class Spread:
    """The distance from a centre in units of a scale that is found from the first residuals."""

    name: ClassVar[str] = "spread"
    kind: ClassVar[Any] = "interval"

    scale: float | None = None

    def at_scale(self, scale: float | None) -> "Spread":
        return replace(self, scale=scale)

    def masses(self) -> tuple[list[float], list[float]]:
        return list_shape()

    def score(self, residual: float) -> float:
        return 1.0 if self.scale is None else 1.0 / (1.0 + abs(residual) / self.scale)

    def read(self, output: Any) -> "SpreadCase":
        return SpreadCase(float(output), self)

    def unpack(self, content: bytes, labels: str | None) -> "SpreadCase":  # noqa: ARG002
        centre, scale = unpack_numbers(content)
        return SpreadCase(centre, self.at_scale(scale or None))


@dataclass(frozen=True)
class SpreadCase:
    """A centre and the score at its scale; until there is one, the whole line."""

    output: float
    residuals: Spread

    def region(self, id: int, threshold: float) -> Interval:
        scale = self.residuals.scale
        half = math.inf if scale is None or threshold <= 0.0 else scale * (1.0 / threshold - 1.0)
        return Interval(id, threshold, self.output - half, self.output + half)

    def score(self, label: Any) -> float:
        return self.residuals.score(self.residual(label))

    def residual(self, label: Any) -> float:
        return float(label) - self.output

    def pack(self) -> tuple[bytes, None]:
        return pack_numbers(self.output, self.residuals.scale or 0.0), None


@dataclass(frozen=True)
class Halves:
    """Scores by label, halved."""

    name: ClassVar[str] = "halves"
    kind: ClassVar[Any] = "labels"

    labels: Sequence[str] = ("a", "b")

    def read(self, output: Any) -> "HalvesCase":
        return HalvesCase(tuple(float(output[label]) for label in self.labels), tuple(self.labels))

    def unpack(self, content: bytes, labels: str | None) -> "HalvesCase":  # noqa: ARG002
        numbers = unpack_numbers(content)
        return HalvesCase(tuple(numbers), tuple(self.labels[: len(numbers)]))


@dataclass(frozen=True)
class HalvesCase:
    """A score for each label."""

    scores: tuple[float, ...]
    labels: tuple[str, ...]

    @property
    def output(self) -> dict[str, float]:
        return dict(zip(self.labels, self.scores, strict=True))

    @property
    def candidates(self) -> tuple[tuple[str, ...], list[float]]:
        return self.labels, [score / 2 for score in self.scores]

    def region(self, id: int, threshold: float) -> LabelSet:
        return LabelSet(id, threshold, tuple(k for k in self.labels if self.score(k) >= threshold))

    def score(self, label: Any) -> float:
        return self.output[label] / 2

    def pack(self) -> tuple[bytes, None]:
        return pack_numbers(*self.scores), None
