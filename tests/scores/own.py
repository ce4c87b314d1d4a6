"""A score of one's own, as a user would write it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from keyhole.scores.residuals import Centred
from keyhole.scores.score import unpack_numbers


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
