"""From a model's output to scores, and back: from a threshold to a set or an interval.

A score kind (``Probabilities``, ``BoundedResiduals``, ...) reads a model's output into a case; a
case gives the region of any threshold and the score of any label.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from keyhole.errors import BoundError, LabelError, ScoreError
from keyhole.grid import Array

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
        labels = None if isinstance(self.labels, range) else [_pack(k) for k in self.labels]
        return {"labels": labels, "scores": self.scores.tolist()}

    @staticmethod
    def restore(dumped: dict[str, Any]) -> "Candidates":
        """Return the case that ``dump`` wrote."""
        scores = np.array(dumped["scores"])
        labels = dumped["labels"]
        return Candidates(
            range(scores.size) if labels is None else tuple(_unpack(k) for k in labels), scores
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
        if not 0.0 < self.power < math.inf:
            raise ScoreError(f"power {self.power} is not positive and finite; the paper uses 1/3")
        if self.labels is not None:
            object.__setattr__(self, "labels", _distinct(self.labels))

    def read(self, output: Mapping[Any, float] | ArrayLike) -> Candidates:
        """Return the candidates of a label-to-score mapping, or of an array of scores."""
        if isinstance(output, Mapping):
            labels: Sequence[Label] = tuple(output)
            values = _checked_scores(list(output.values()))
        else:
            values = _checked_scores(output)
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
        labels = None if self.labels is None else [_pack(label) for label in self.labels]
        return {"kind": "probabilities", "power": self.power, "labels": labels}


@dataclass(frozen=True, slots=True)
class Centred:
    """A centre with a half-width for every threshold."""

    centre: float
    residuals: "BoundedResiduals | ScaledResiduals"

    def region(self, id: int, threshold: float) -> Interval:  # noqa: A002
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return Interval(id, threshold, math.inf, -math.inf)
        half = self.residuals.half_width(max(threshold, 0.0))
        return Interval(id, threshold, self.centre - half, self.centre + half)

    def score(self, label: Any) -> float:
        """Return the score of the true value."""
        return self.residuals.score(abs(_checked_number(label, "true value") - self.centre))

    def dump(self) -> dict[str, Any]:
        """Return the centre."""
        return {"centre": self.centre}


@dataclass(frozen=True, kw_only=True)
class BoundedResiduals:
    """The paper's regression score: 1 - |residual| / bound.

    A residual above the bound misses at every threshold, which the predictor then says.

    Parameters
    ----------
    bound
        The largest residual there can be, in the unit of the outcome.

    Examples
    --------
    >>> interval = BoundedResiduals(bound=10.0).read(50.0).region(0, threshold=0.75)
    >>> interval.lower, interval.upper, 51.0 in interval
    (47.5, 52.5, True)
    """

    bound: float

    def __post_init__(self) -> None:
        _check_positive(self.bound, "residual bound")

    def score(self, residual: float) -> float:
        """Return the score of an absolute residual; below 0 where it breaks the bound."""
        return 1.0 - residual / self.bound

    def half_width(self, threshold: float) -> float:
        """Return the largest residual whose score reaches the threshold."""
        return self.bound * (1.0 - threshold)

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(_checked_number(output, "predicted centre"), self)

    def restore(self, dumped: dict[str, Any]) -> Centred:
        """Return the case that ``dump`` wrote."""
        return Centred(dumped["centre"], self)

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        return {"kind": "bounded residuals", "bound": self.bound}


@dataclass(frozen=True, kw_only=True)
class ScaledResiduals:
    """A regression score without a bound: 1 / (1 + |residual| / scale).

    Threshold 0 is the whole line, so that it never misses, and its width is infinite.

    Parameters
    ----------
    scale
        The residual that scores 1/2.

    Examples
    --------
    >>> interval = ScaledResiduals(scale=2.0).read(50.0).region(0, threshold=0.5)
    >>> interval.lower, interval.upper
    (48.0, 52.0)
    """

    scale: float

    def __post_init__(self) -> None:
        _check_positive(self.scale, "residual scale")

    def score(self, residual: float) -> float:
        """Return the score of an absolute residual."""
        return 1.0 / (1.0 + residual / self.scale)

    def half_width(self, threshold: float) -> float:
        """Return the largest residual whose score reaches the threshold."""
        return self.scale * (1.0 / threshold - 1.0) if threshold > 0.0 else math.inf

    def read(self, output: float) -> Centred:
        """Return the case of a predicted centre."""
        return Centred(_checked_number(output, "predicted centre"), self)

    def restore(self, dumped: dict[str, Any]) -> Centred:
        """Return the case that ``dump`` wrote."""
        return Centred(dumped["centre"], self)

    def dump(self) -> dict[str, Any]:
        """Return what rebuilds this score kind."""
        return {"kind": "scaled residuals", "scale": self.scale}


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
            self.labels, _checked_scores([self.function(output, label) for label in self.labels])
        )

    def restore(self, dumped: dict[str, Any]) -> Candidates:
        """Return the case that ``dump`` wrote."""
        return Candidates.restore(dumped)

    def dump(self) -> dict[str, Any]:
        """Return the kind alone: a function cannot be written to a file."""
        return {"kind": "custom scores"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A model's output with a score and an interval of one's own."""

    output: Any
    kind: "CustomIntervals"

    def region(self, id: int, threshold: float) -> Interval:  # noqa: A002
        """Return the interval of this threshold; above 1 it is empty."""
        if threshold > 1.0:
            return Interval(id, threshold, math.inf, -math.inf)
        lower, upper = self.kind.interval(self.output, max(threshold, 0.0))
        return Interval(id, threshold, float(lower), float(upper))

    def score(self, label: Any) -> float:
        """Return the score of the true value."""
        return float(self.kind.function(self.output, _checked_number(label, "true value")))

    def dump(self) -> dict[str, Any]:
        """Return the output."""
        return {"output": self.output}


@dataclass(frozen=True)
class CustomIntervals:
    """A score function of one's own for a real outcome, with its inverse.

    Parameters
    ----------
    function
        Called with the model's output and a value; returns the value's score in [0, 1].
    interval
        Called with the model's output and a threshold; returns (lower, upper): the values that
        score at least the threshold.

    Examples
    --------
    >>> above = CustomIntervals(
    ...     lambda floor, y: min(1.0, max(0.0, 1 - (y - floor) / 10)),
    ...     lambda floor, threshold: (floor, floor + 10 * (1 - threshold)),
    ... )
    >>> above.read(3.0).region(0, threshold=0.5).upper
    8.0
    """

    function: Callable[[Any, float], float]
    interval: Callable[[Any, float], tuple[float, float]]

    def read(self, output: Any) -> Measured:
        """Return the case of a model output."""
        return Measured(output, self)

    def restore(self, dumped: dict[str, Any]) -> Measured:
        """Return the case that ``dump`` wrote."""
        return Measured(dumped["output"], self)

    def dump(self) -> dict[str, Any]:
        """Return the kind alone: functions cannot be written to a file."""
        return {"kind": "custom intervals"}


def rebuild(dumped: dict[str, Any]) -> Score[Region]:
    """Return the score kind that ``dump`` wrote, or raise if it holds a user's function."""
    match dumped["kind"]:
        case "probabilities":
            labels = dumped["labels"]
            return Probabilities(
                power=dumped["power"],
                labels=None if labels is None else [_unpack(label) for label in labels],
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


def checked_scores(values: ArrayLike) -> Array:
    """Return scores in [0, 1] as an array of any shape, or raise with the first that is not."""
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ScoreError(f"scores {values!r} are not numbers; give numbers in [0, 1]") from None
    if scores.ndim == 0:
        raise ScoreError(f"{values!r} is not a list of scores; give one score for each label")
    if scores.size == 0:
        raise ScoreError("there are no scores; give at least one label with its score")
    wrong = ~((scores >= 0.0) & (scores <= 1.0))
    if wrong.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        where = place[0] if len(place) == 1 else place
        raise ScoreError(
            f"score {scores[place]} at place {where} is not a number in [0, 1]; "
            "rescale the model's output, e.g. by a softmax"
        )
    return scores


def _checked_scores(values: ArrayLike) -> Array:
    scores = np.array(checked_scores(values))
    if scores.ndim != 1:
        raise ScoreError(
            f"scores have shape {scores.shape}; give one row, a score for each label of one round"
        )
    return scores


def _checked_number(value: Any, what: str) -> float:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ScoreError(f"{what} {value!r} is not a finite number")
    return float(value)


def _check_positive(value: float, what: str) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0.0 < value < math.inf:
        raise BoundError(f"{what} {value!r} is not a positive number; give it in the outcome's unit")


def _distinct(labels: Sequence[Label]) -> tuple[Label, ...]:
    names = tuple(labels)
    seen: set[Label] = set()
    for name in names:
        if name in seen:
            raise LabelError(f"label {name!r} is there twice; every label must be its own")
        seen.add(name)
    if not names:
        raise LabelError("there are no labels; give at least one")
    return names


def _pack(label: Label) -> Any:
    """Return a label as a JSON value; tuples become one-key objects."""
    if isinstance(label, np.generic):
        return label.item()
    if isinstance(label, tuple):
        return {"tuple": [_pack(part) for part in label]}
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise LabelError(f"label {label!r} cannot be saved; use text, numbers, or tuples of them as labels")


def _unpack(packed: Any) -> Label:
    return tuple(_unpack(part) for part in packed["tuple"]) if isinstance(packed, dict) else packed
