"""Scores of labels, and the set of labels of a threshold."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import is_real
from keyhole.errors import LabelError, ScoreError
from keyhole.grid import Array
from keyhole.scores.checks import checked_row
from keyhole.scores.regions import Label, LabelSet


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Labels with a score each."""

    labels: Sequence[Label]
    scores: Array

    def region(self, id: int, threshold: float) -> LabelSet:  # noqa: A002
        """Return the labels whose score reaches the threshold."""
        kept = np.flatnonzero(self.scores >= threshold)
        ranked = kept[np.argsort(-self.scores[kept], kind="stable")]
        return LabelSet(id, threshold, tuple(self.labels[k] for k in ranked))

    def score(self, label: Label) -> float:
        """Return the score of a label."""
        try:
            return float(self.scores[self.labels.index(label)])
        except ValueError:
            raise LabelError(
                f"label {label!r} was not among the {len(self.labels)} candidates of this round; "
                "if the truth is none of them, answer keyhole.MISS"
            ) from None

    def dump(self) -> dict[str, Any]:
        """Return labels and scores."""
        labels = None if isinstance(self.labels, range) else [packed(k) for k in self.labels]
        return {"labels": labels, "scores": self.scores.tolist()}

    @staticmethod
    def restore(dumped: dict[str, Any]) -> "Candidates":
        """Return the case that ``dump`` wrote."""
        scores = np.array(dumped["scores"])
        labels = dumped["labels"]
        return Candidates(
            range(scores.size) if labels is None else tuple(unpacked(k) for k in labels), scores
        )


@dataclass(frozen=True, kw_only=True)
class Probabilities:
    """Class probabilities, or any scores in [0, 1], raised to a power.

    Parameters
    ----------
    power
        The exponent: 1 takes the numbers as they are; the paper's ImageNet score has 1/3.
    labels
        The names of the places of an array; without them they are 0, 1, 2, ...

    Examples
    --------
    >>> case = Probabilities(power=0.5).read({"cat": 0.64, "lynx": 0.25, "dog": 0.04})
    >>> case.region(0, threshold=0.5).labels
    ('cat', 'lynx')
    """

    power: float = 1.0
    labels: Sequence[Label] | None = None

    def __post_init__(self) -> None:
        if not (is_real(self.power) and self.power > 0.0):
            raise ScoreError(f"power {self.power!r} is not a positive number; the paper uses 1/3")
        object.__setattr__(self, "power", float(self.power))
        if self.labels is not None:
            object.__setattr__(self, "labels", _distinct(self.labels))

    def read(self, output: Mapping[Any, float] | ArrayLike) -> Candidates:
        """Return the candidates of a label-to-score mapping, or of an array of scores."""
        if isinstance(output, Mapping):
            labels: Sequence[Label] = tuple(output)
            values = checked_row(list(output.values()))
        else:
            values = checked_row(output)
            labels = self._names(values.size)
        return Candidates(labels, values if self.power == 1.0 else values**self.power)

    def _names(self, count: int) -> Sequence[Label]:
        if self.labels is None:
            return range(count)
        if len(self.labels) != count:
            raise ScoreError(
                f"{count} scores came for {len(self.labels)} labels; give one score for each label"
            )
        return self.labels

    def restore(self, dumped: dict[str, Any]) -> Candidates:
        """Return the case that ``dump`` wrote."""
        return Candidates.restore(dumped)

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        labels = None if self.labels is None else [packed(label) for label in self.labels]
        return {"kind": "probabilities", "power": self.power, "labels": labels}


@dataclass(frozen=True)
class CustomScores:
    """A score function of one's own, over a fixed list of labels.

    Parameters
    ----------
    function
        Called with the model's output and a label; returns the label's score in [0, 1].
    labels
        The candidates; the set of a threshold is found by scoring each of them.

    Examples
    --------
    >>> closeness = CustomScores(lambda n, name: 1 / (1 + abs(n - len(name))), ["ox", "horse"])
    >>> closeness.read(5).region(0, threshold=0.9).labels
    ('horse',)
    """

    function: Callable[[Any, Any], float]
    labels: Sequence[Label]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _distinct(self.labels))

    def read(self, output: Any) -> Candidates:
        """Return every label with its score."""
        return Candidates(
            self.labels, checked_row([self.function(output, label) for label in self.labels])
        )

    def restore(self, dumped: dict[str, Any]) -> Candidates:
        """Return the case that ``dump`` wrote."""
        return Candidates.restore(dumped)

    def dump(self) -> dict[str, Any]:
        """Return the kind alone: a function cannot be written to a file."""
        return {"kind": "custom scores"}


def _distinct(labels: Sequence[Label]) -> tuple[Label, ...]:
    names = tuple(labels)
    seen: set[Label] = set()
    for name in names:
        if not isinstance(name, Hashable):
            raise LabelError(f"label {name!r} cannot be looked up; use text, numbers or tuples")
        if name in seen:
            raise LabelError(f"label {name!r} is there twice; every label must be its own")
        seen.add(name)
    if not names:
        raise LabelError("there are no labels; give at least one")
    return names


def packed(label: Label) -> Any:
    """Return a label as a JSON value; tuples become one-key objects."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, tuple):
        return {"tuple": [packed(part) for part in value]}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise LabelError(f"label {label!r} cannot be saved; use text, numbers, or tuples of them as labels")


def unpacked(value: Any) -> Label:
    """Return the label that ``packed`` made a JSON value of."""
    return tuple(unpacked(part) for part in value["tuple"]) if isinstance(value, dict) else value
