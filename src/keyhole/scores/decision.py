"""A gate's decision, and the one answer of a model and its score that it is about."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from keyhole.checks import is_real
from keyhole.errors import ScoreError
from keyhole.scores.pictures import draw_bar
from keyhole.scores.regions import Contents, Label
from keyhole.scores.score import (
    Kind,
    pack_label,
    pack_numbers,
    unpack_label,
    unpack_numbers,
    write_json,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an answer is used as it is, or goes to a person.

    It is true if the answer is ``accepted``, so ``if gate.decide(score):`` works as it reads; ``size``
    is how many answers are used, one or none.

    Parameters
    ----------
    id
        The round's number, counted from 0.
    threshold
        The score from which on an answer was accepted; above 1 if none was.
    score
        The answer's score.
    candidate
        The answer, where several were offered.

    Examples
    --------
    >>> Decision(0, 0.85, 0.93, "invoice").accepted
    True
    """

    id: int
    threshold: float
    score: float
    candidate: Label = None
    accepted: bool = field(init=False, compare=False)
    size: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        accepted = self.score >= self.threshold
        object.__setattr__(self, "accepted", accepted)
        object.__setattr__(self, "size", float(accepted))

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def contents(self) -> Contents:
        """The candidate, and what becomes of it."""
        labels = None if self.candidate is None else (self.candidate,)
        return Contents(labels, verdict="accepted" if self.accepted else "referred")

    def __repr__(self) -> str:
        what = "" if self.candidate is None else f"{self.candidate!r} "
        verdict = self.contents.verdict
        return f"<Decision {self.id}: {what}{verdict}, {self.score:.4g} at {self.threshold:.4g}>"

    def _repr_html_(self) -> str:
        import html

        what = "" if self.candidate is None else f"<code>{html.escape(str(self.candidate))}</code> "
        bar = draw_bar(
            self.score, min(1.0, self.threshold), is_good=self.accepted, called="score; the threshold"
        )
        line = f"score {self.score:.4g}, accepted from {self.threshold:.4g}"
        head = f"{what}<b>{self.contents.verdict}</b> <small>(round {self.id})</small>"
        return f"{head}<br>{bar}<br><small>{line}</small>"


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

    def region(self, id: int, threshold: float) -> Decision:
        return Decision(id, float(threshold), self.best, self.candidate)

    def score(self, label: Label) -> float:  # noqa: ARG002
        return self.best

    def pack(self) -> tuple[bytes, str | None]:
        named = None if self.candidate is None else write_json([pack_label(self.candidate)])
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

    def read(self, output: object) -> BestCase:
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
    if type(score) is float and 0.0 <= score <= 1.0:
        return score
    if not (is_real(score) and 0.0 <= score <= 1.0):
        remedy = "rescale it first" if is_real(score) else "give one number, or a dict of candidates"
        raise ScoreError(f"{name} {score!r} is not a number in [0, 1]; {remedy}")
    return float(score)
