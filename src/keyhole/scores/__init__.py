"""From a model's output to scores, and back: from a threshold to a set or an interval.

A score kind (``Probabilities``, ``BoundedResiduals``, ...) reads a model's output into a case; a
case gives the region of any threshold and the score of any label.
"""

from typing import Any

from keyhole.errors import ScoreError
from keyhole.scores.best import BestScore, Decision
from keyhole.scores.checks import check_scores
from keyhole.scores.intervals import CustomIntervals, QuantileBands
from keyhole.scores.labels import CustomScores, Probabilities, unpack_label
from keyhole.scores.regions import Case, Interval, Label, LabelSet, Region, Score
from keyhole.scores.residuals import BoundedResiduals, ScaledResiduals

__all__ = [
    "BestScore",
    "BoundedResiduals",
    "Case",
    "CustomIntervals",
    "CustomScores",
    "Decision",
    "Interval",
    "Label",
    "LabelSet",
    "Probabilities",
    "QuantileBands",
    "Region",
    "ScaledResiduals",
    "Score",
    "check_scores",
    "rebuild",
]


def rebuild(dumped: dict[str, Any]) -> Score[Region]:
    """Return the score kind that ``dump`` wrote, or raise if it holds a user's function."""
    match dumped["kind"]:
        case "probabilities":
            labels = dumped["labels"]
            return Probabilities(
                power=dumped["power"],
                labels=None if labels is None else [unpack_label(label) for label in labels],
                at_least=dumped["at_least"],
                at_most=dumped["at_most"],
            )
        case "bounded residuals":
            return BoundedResiduals(bound=dumped["bound"])
        case "best score":
            return BestScore()  # type: ignore[return-value]
        case "scaled residuals":
            return ScaledResiduals(scale=dumped["scale"], side=dumped["side"])
        case "quantile bands":
            return QuantileBands()
        case kind:
            raise ScoreError(
                f"the file was saved with {kind}, and a function cannot be saved; "
                "give it again: Predictor.load(path, score=...)"
            )
