"""From a model's output to scores, and back: from a threshold to a set or an interval.

A score kind (``Probabilities``, ``BoundedResiduals``, ...) reads a model's output into a case; a
case gives the region of any threshold and the score of any label.
"""

from typing import Any

from keyhole.errors import ScoreError
from keyhole.scores.checks import checked_scores
from keyhole.scores.intervals import BoundedResiduals, CustomIntervals, ScaledResiduals
from keyhole.scores.labels import CustomScores, Probabilities, unpacked
from keyhole.scores.regions import Case, Interval, Label, LabelSet, Region, Score

__all__ = [
    "BoundedResiduals",
    "Case",
    "CustomIntervals",
    "CustomScores",
    "Interval",
    "Label",
    "LabelSet",
    "Probabilities",
    "Region",
    "ScaledResiduals",
    "Score",
    "checked_scores",
    "rebuild",
]


def rebuild(dumped: dict[str, Any]) -> Score[Region]:
    """Return the score kind that ``dump`` wrote, or raise if it holds a user's function."""
    match dumped["kind"]:
        case "probabilities":
            labels = dumped["labels"]
            return Probabilities(
                power=dumped["power"],
                labels=None if labels is None else [unpacked(label) for label in labels],
            )
        case "bounded residuals":
            return BoundedResiduals(bound=dumped["bound"])
        case "scaled residuals":
            return ScaledResiduals(scale=dumped["scale"])
        case kind:
            raise ScoreError(
                f"the file was saved with {kind}, and a function cannot be saved; "
                "give it again: Predictor.load(path, score=...)"
            )
