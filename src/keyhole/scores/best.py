"""The one answer of a model and its score, for a gate to decide about."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from keyhole.checks import is_real
from keyhole.errors import ScoreError
from keyhole.scores.regions import Decision, Label
from keyhole.scores.score import Kind, pack_label, pack_numbers, unpack_label, unpack_numbers


@dataclass(frozen=True, slots=True)
class BestCase:
    """The answer with the highest score."""

    best: float
    candidate: Label = None

    @property
    def output(self) -> float | dict[Label, float]:
        return self.best if self.candidate is None else {self.candidate: self.best}

    @property
    def candidates(self) -> tuple[None, list[float]]:
        return None, [self.best]

    def region(self, id: int, threshold: float) -> Decision:  # noqa: A002
        return Decision(id, float(threshold), self.best, self.candidate)

    def score(self, label: Label) -> float:  # noqa: ARG002
        """Return the score of the one answer there is."""
        return self.best

    def pack(self) -> tuple[bytes, str | None]:
        named = None if self.candidate is None else json.dumps([pack_label(self.candidate)])
        return pack_numbers(self.best), named


@dataclass(frozen=True)
class BestScore:
    """Reads a score, or the highest of several candidates' scores.

    Examples
    --------
    >>> BestScore().read({"invoice": 0.93, "letter": 0.04}).candidate
    'invoice'
    """

    name: ClassVar[str] = "best score"
    kind: ClassVar[Kind] = "gate"

    def read(self, output: Any) -> BestCase:
        """Return the case of a score, or of scores by candidate; the first of equal ones is best."""
        if not isinstance(output, Mapping):
            return BestCase(_check(output, "score"))
        if not output:
            raise ScoreError("there are no candidates; give at least one, with its score")
        scores = {name: _check(score, f"score of {name!r}") for name, score in output.items()}
        best = max(scores, key=scores.__getitem__)
        return BestCase(scores[best], best)

    def unpack(self, content: bytes, labels: str | None) -> BestCase:
        (best,) = unpack_numbers(content)
        return BestCase(best, None if labels is None else unpack_label(json.loads(labels)[0]))


def _check(score: Any, name: str) -> float:
    if not (is_real(score) and 0.0 <= score <= 1.0):
        remedy = "rescale it first" if is_real(score) else "give one number, or a dict of candidates"
        raise ScoreError(f"{name} {score!r} is not a number in [0, 1]; {remedy}")
    return float(score)
