"""The one answer of a model and its score, and what a gate decides about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyhole.checks import is_real
from keyhole.errors import ScoreError
from keyhole.pictures import draw_bar
from keyhole.scores.labels import pack_label, unpack_label
from keyhole.scores.regions import Label


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an answer is used as it is, or goes to a person.

    It is true where the answer is accepted, so that ``if gate.decide(score):`` does what it says.

    Parameters
    ----------
    id
        The round's number, counted from 0.
    threshold
        From which score on an answer was accepted; above 1 where none was.
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

    @property
    def accepted(self) -> bool:
        """Whether the answer is used without asking anyone."""
        return self.score >= self.threshold

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def size(self) -> float:
        """How many answers are used: one or none."""
        return float(self.accepted)

    def __repr__(self) -> str:
        what = "" if self.candidate is None else f"{self.candidate!r} "
        verdict = "accepted" if self.accepted else "referred"
        return f"<Decision {self.id}: {what}{verdict}, {self.score:.4g} at {self.threshold:.4g}>"

    def _repr_html_(self) -> str:
        import html

        what = "" if self.candidate is None else f"<code>{html.escape(str(self.candidate))}</code> "
        verdict = "accepted" if self.accepted else "referred"
        bar = draw_bar(
            self.score, min(1.0, self.threshold), is_good=self.accepted, called="score; the threshold"
        )
        told = f"score {self.score:.4g}, accepted from {self.threshold:.4g}"
        return (
            f"{what}<b>{verdict}</b> <small>(round {self.id})</small><br>{bar}<br><small>{told}</small>"
        )


@dataclass(frozen=True, slots=True)
class BestCase:
    """The answer with the highest score."""

    best: float
    candidate: Label = None

    def region(self, id: int, threshold: float) -> Decision:  # noqa: A002
        """Return the decision at this threshold."""
        return Decision(id, float(threshold), self.best, self.candidate)

    def score(self, label: Label) -> float:  # noqa: ARG002
        """Return the score of the one answer there is."""
        return self.best

    def dump(self) -> dict[str, Any]:
        """Return the case as JSON values."""
        name = None if self.candidate is None else pack_label(self.candidate)
        return {"best": self.best, "candidate": name}


@dataclass(frozen=True)
class BestScore:
    """Reads a score, or the highest of several candidates' scores.

    Examples
    --------
    >>> BestScore().read({"invoice": 0.93, "letter": 0.04}).candidate
    'invoice'
    """

    def read(self, output: Any) -> BestCase:
        """Return the case of a score, or of scores by candidate; the first of equal ones is best."""
        if not isinstance(output, Mapping):
            return BestCase(_check(output, "score"))
        if not output:
            raise ScoreError("there are no candidates; give at least one, with its score")
        scores = {name: _check(score, f"score of {name!r}") for name, score in output.items()}
        best = max(scores, key=scores.__getitem__)
        return BestCase(scores[best], best)

    def restore(self, dumped: dict[str, Any]) -> BestCase:
        """Return the case that ``dump`` wrote."""
        name = dumped["candidate"]
        return BestCase(float(dumped["best"]), None if name is None else unpack_label(name))

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        return {"kind": "best score"}


def _check(score: Any, name: str) -> float:
    if not (is_real(score) and 0.0 <= score <= 1.0):
        remedy = "rescale it first" if is_real(score) else "give one number, or a dict of candidates"
        raise ScoreError(f"{name} {score!r} is not a number in [0, 1]; {remedy}")
    return float(score)
