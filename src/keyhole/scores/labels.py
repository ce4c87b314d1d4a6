"""Scores of labels, and the set of labels of a threshold."""

import json
import struct
from array import array
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import is_list, is_real, is_whole
from keyhole.errors import LabelError, ScoreError
from keyhole.numeric import Array, add_up
from keyhole.scores.numbers import check_callable, check_range, check_row, check_scores
from keyhole.scores.regions import Label, LabelSet, check_unknown
from keyhole.scores.score import Kind, pack_label, unpack_label, write_json

_PLAIN_KINDS = (dict, np.ndarray, list)
FEW = 64  # Up to so many scores Python's lists are faster than arrays.
LEAST_SUM, MOST_SUM = 0.9, 1.01  # between what the probabilities of most labels add up to
UNREACHABLE = -1.0  # the score of a label that is no candidate: no threshold reaches it


class Candidates:
    """Labels with a score each; not to be changed. Few scores are a list, many an array."""

    __slots__ = ("is_unlimited", "kind", "labels", "scores")
    residual: ClassVar[None] = None

    def __init__(
        self,
        labels: Sequence[Label],
        scores: list[float] | Array,
        kind: "Probabilities | CustomScores",
    ) -> None:
        self.labels, self.scores, self.kind = labels, scores, kind
        self.is_unlimited = kind.is_unlimited

    def region(self, id: int, threshold: float) -> LabelSet:  # noqa: A002
        """Return the labels whose score reaches the threshold, the highest first."""
        labels, kind, kept = self.labels, self.kind, self._rank(threshold)
        if not self.is_unlimited:
            if kind.at_least > len(kept):
                kept = self._rank(-1.0)[: kind.at_least]
            kept = kept[: kind.at_most]
        if type(labels) is range:
            return LabelSet(id, threshold, tuple(kept), len(labels))
        return LabelSet(id, threshold, tuple([labels[place] for place in kept]))

    def _rank(self, threshold: float) -> list[int]:
        """Return the places of the scores that reach the threshold, the highest first."""
        scores = self.scores
        if isinstance(scores, list):
            kept = [place for place, score in enumerate(scores) if score >= threshold]
            if len(kept) > 1:
                kept.sort(key=scores.__getitem__, reverse=True)
            return kept
        places = (scores >= threshold).nonzero()[0]
        if places.size > 1:
            places = places[(-scores[places]).argsort(kind="stable")]
        return places.tolist()

    def score(self, label: Label) -> float:
        """Return the score of a label; below 0 if no set, however large, would show it."""
        labels, scores = self.labels, self.scores
        try:
            place = labels.index(label)
        except (ValueError, TypeError):  # not there, or something that cannot be compared
            check_unknown(label, labels)
            return UNREACHABLE
        if not self.is_unlimited and place not in self._rank(-1.0)[: self.kind.at_most]:
            return UNREACHABLE
        return scores[place] if isinstance(scores, list) else scores.item(place)

    @property
    def candidates(self) -> tuple[Sequence[Label] | None, list[float]]:
        labels = None if type(self.labels) is range else self.labels
        return labels, [float(score) for score in self.scores]

    @property
    def output(self) -> list[float] | dict[Label, float]:
        scores = [float(score) ** (1.0 / self.kind.power) for score in self.scores]
        labels = self.labels
        return scores if type(labels) is range else dict(zip(labels, scores, strict=True))

    def masses(self) -> tuple[list[float], list[float]]:
        """Return the scores and their labels' probabilities; none where scores are no distribution.

        Lists and arrays give the same sums, so that a round that was stored says what it said.
        """
        scores, kind = self.scores, self.kind
        if len(scores) == 1 or isinstance(kind, CustomScores):
            return [], []
        if not isinstance(scores, list):
            scores = scores.tolist()
        power = kind.power
        shares = scores if power == 1.0 else [score ** (1.0 / power) for score in scores]
        total = add_up(shares)
        if not LEAST_SUM <= total <= MOST_SUM:
            return [], []
        return scores, [share / total for share in shares]

    def pack(self) -> tuple[bytes, str | None]:
        scores, labels = self.scores, self.labels
        content = array("d", scores).tobytes() if isinstance(scores, list) else scores.tobytes()
        if type(labels) is range or tuple(labels) == self.kind.labels:
            return content, None
        return content, write_json([k if type(k) is str else pack_label(k) for k in labels])


def _unpack(kind: "Probabilities | CustomScores", content: bytes, labels: str | None) -> Candidates:
    numbers = array("d")
    numbers.frombytes(content)
    count = len(numbers)
    scores = numbers.tolist() if count <= FEW else np.array(numbers)
    if labels is not None:
        return Candidates(
            [unpack_label(k) if type(k) is dict else k for k in json.loads(labels)], scores, kind
        )
    # Labels may have been added since, behind those that there were.
    return Candidates(range(count) if kind.labels is None else kind.labels[:count], scores, kind)


@dataclass(frozen=True, kw_only=True)
class Probabilities:
    """Class probabilities, or any scores in [0, 1], raised to a power.

    Parameters
    ----------
    power
        The exponent: 1 leaves the numbers unchanged; the paper's ImageNet score uses 1/3.
    labels
        The labels of the entries of an array; by default 0, 1, 2, ...
    at_least
        The minimum number of labels in a set; 1 means never an empty set. Misses may then stay
        below the target: the lower bound is lost.
    at_most
        The maximum number of labels in a set. Labels ranked lower are out of reach, so misses may
        exceed the target: the upper bound is lost.

    Examples
    --------
    >>> case = Probabilities(power=0.5).read({"cat": 0.64, "lynx": 0.25, "dog": 0.04})
    >>> case.region(0, threshold=0.5).labels
    ('cat', 'lynx')
    """

    name: ClassVar[str] = "probabilities"
    kind: ClassVar[Kind] = "labels"

    power: float = 1.0
    labels: Sequence[Label] | None = None
    at_least: int = 0
    at_most: int | None = None

    def __post_init__(self) -> None:
        if not (is_real(self.power) and self.power > 0.0):
            raise ScoreError(f"power {self.power!r} is not a positive number; the paper uses 1/3")
        object.__setattr__(self, "power", float(self.power))
        if not is_whole(self.at_least, least=0):
            raise ScoreError(f"at_least {self.at_least!r} is not a whole number from 0; try 1")
        if self.at_most is not None and not is_whole(self.at_most, least=max(1, self.at_least)):
            raise ScoreError(
                f"at_most {self.at_most!r} is not a whole number from {max(1, self.at_least)}, "
                "or None for no limit"
            )
        if self.labels is not None:
            object.__setattr__(self, "labels", _distinct(self.labels))

    @cached_property
    def is_unlimited(self) -> bool:
        """Whether a set holds just the labels whose score reaches the threshold."""
        return self.at_least == 0 and self.at_most is None

    def read_table(self, outputs: Array) -> Array:
        """Return the scores of a table of outputs, a row for each round, or raise."""
        scores = check_scores(outputs)
        self._names(scores.shape[1])
        return scores if self.power == 1.0 else scores**self.power

    def read_row(self, scores: Array) -> Candidates:
        """Return the case of a row that ``read_table`` returned."""
        return Candidates(self._names(scores.size), scores, self)

    def read(self, output: Mapping[Any, float] | ArrayLike) -> Candidates:
        """Return the candidates of a label-to-score mapping, or of an array of scores."""
        kind = type(output)
        if self.power != 1.0 or kind not in _PLAIN_KINDS:
            return self._read_other(output)
        if kind is dict:
            labels: Any = list(output)  # type: ignore[arg-type]
            scores = _read_scores(output.values())  # type: ignore[union-attr]
        else:
            scores = check_row(output) if kind is np.ndarray else _read_scores(output)  # type: ignore[arg-type]
            labels = range(len(scores)) if self.labels is None else self._names(len(scores))
        return Candidates(labels, scores, self)

    def _read_other(self, output: Any) -> Candidates:
        """Return the candidates of what is not simply a dict, an array or a list to take as it is."""
        if not isinstance(output, np.ndarray) and isinstance(output, Mapping):
            labels: Sequence[Label] = list(output)
            values = check_row(list(output.values()))
        else:
            values = check_row(output)
            labels = self._names(values.size)
        return Candidates(labels, values if self.power == 1.0 else values**self.power, self)

    def _names(self, count: int) -> Sequence[Label]:
        if self.labels is None:
            return range(count)
        if len(self.labels) != count:
            raise ScoreError(
                f"{count} scores came for {len(self.labels)} labels; give one score for each label"
            )
        return self.labels

    def unpack(self, content: bytes, labels: str | None) -> Candidates:
        """Return the case that ``pack`` wrote."""
        return _unpack(self, content, labels)


@dataclass(frozen=True)
class CustomScores:
    """Your own score function, over a fixed list of labels.

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

    name: ClassVar[str] = "custom scores"
    kind: ClassVar[Kind] = "labels"
    power: ClassVar[float] = 1.0
    at_least: ClassVar[int] = 0
    at_most: ClassVar[int | None] = None
    is_unlimited: ClassVar[bool] = True

    function: Callable[[Any, Any], float]
    labels: Sequence[Label]

    def __post_init__(self) -> None:
        check_callable(self.function, "function")
        object.__setattr__(self, "labels", _distinct(self.labels))

    def read(self, output: Any) -> Candidates:
        """Return every label with its score."""
        scores = check_row([self.function(output, label) for label in self.labels])
        return Candidates(self.labels, scores, self)

    def unpack(self, content: bytes, labels: str | None) -> Candidates:
        """Return the case that ``pack`` wrote."""
        return _unpack(self, content, labels)


def _read_scores(values: Collection[Any]) -> list[float] | Array:
    """Return the scores of one round, a list if they are few; or raise."""
    count = len(values)
    try:
        if count > FEW:
            # Quicker than numpy, and it takes no text for a number.
            return check_range(np.frombuffer(struct.pack(f"{count}d", *values)))
        scores = list(values)
        for score in scores:
            # A float32 would be compared with thresholds as one now, and as a float once it was saved.
            if score.__class__ is not float or not 0.0 <= score <= 1.0:
                break
        else:
            if count:
                return scores
    except (TypeError, ValueError, OverflowError, struct.error):
        pass  # What is wrong is said below.
    return check_row(list(values))


def _distinct(labels: Sequence[Label]) -> tuple[Label, ...]:
    if not is_list(labels):
        raise LabelError(f"labels {labels!r} are not a list; give each by its name: ['cat', 'dog']")
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
