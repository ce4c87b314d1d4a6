"""Scores of labels, and the set of labels of a threshold."""

import json
import struct
from array import array
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import is_list, is_real, is_whole
from keyhole.errors import LabelError, ScoreError
from keyhole.numeric import Array
from keyhole.scores.numbers import check_callable, check_range, check_row, check_scores
from keyhole.scores.regions import Contents, Label
from keyhole.scores.score import Kind, pack_label, unpack_label, write_json

_PLAIN_KINDS = (dict, np.ndarray, list)
FEW = 64  # Up to so many scores Python's lists are faster than arrays.
LEAST_SUM, MOST_SUM = 0.9, 1.01  # between what the probabilities of most labels add up to
UNREACHABLE = -1.0  # the score of a label that is no candidate: no threshold reaches it
_SHOWN = 12  # labels in a repr


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LabelSet:
    """The labels whose score reaches the threshold, the most plausible first.

    ``labels`` lists them and ``size`` counts them; ``id`` is the round's number, counted from 0, and
    ``threshold`` what a score had to reach. ``places`` is how many scores there were, where the labels
    are their places because nobody named them; what is no place is then refused, not taken for a miss.
    So is what differs from a label by its type alone, such as "1" from 1.

    Examples
    --------
    >>> shown = LabelSet(0, 0.2, ("cat", "lynx"))
    >>> len(shown), "cat" in shown, list(shown)
    (2, True, ['cat', 'lynx'])
    """

    noun: ClassVar[str] = "set"

    id: int
    threshold: float
    labels: tuple[Label, ...]
    places: int = field(compare=False)
    size: float = field(compare=False)

    def __init__(
        self,
        id: int,
        threshold: float,
        labels: tuple[Label, ...],
        places: int = 0,
    ) -> None:
        put_id, put_threshold, put_labels, put_places, put_size = _PUT
        put_id(self, id)
        put_threshold(self, threshold)
        put_labels(self, labels)
        put_places(self, places)
        put_size(self, float(len(labels)))

    def __contains__(self, label: object) -> bool:
        try:
            if label in self.labels:
                return True
        except (ValueError, TypeError):
            pass  # What cannot be compared is refused below.
        check_unknown(label, range(self.places) if self.places else self.labels)
        return False

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    @property
    def is_empty(self) -> bool:
        """Whether it holds no label."""
        return not self.labels

    @property
    def contents(self) -> Contents:
        """The labels."""
        return Contents(labels=self.labels)

    def __repr__(self) -> str:
        names = ", ".join(repr(label) for label in self.labels[:_SHOWN])
        more = f", ... {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
        return f"LabelSet({{{names}{more}}}, id={self.id}, threshold={self.threshold:.4g})"

    def _repr_html_(self) -> str:
        import html

        chips = " ".join(
            f'<code style="border:1px solid;padding:0 4px">{html.escape(str(one))}</code>'
            for one in self.labels[:_SHOWN]
        )
        more = f" and {len(self.labels) - _SHOWN} more" if len(self.labels) > _SHOWN else ""
        return f"{chips or 'no label'}{more} <small>(round {self.id})</small>"


_PUT = [getattr(LabelSet, one).__set__ for one in LabelSet.__slots__]


def check_unknown(label: object, labels: Sequence[Label]) -> None:
    """Raise unless what is none of these labels is certainly another: none is guessed."""
    if not _is_label(label):
        raise LabelError(
            f"{label!r} is no label; leave the round open until the true one is known, skip it, or "
            "answer keyhole.MISS if it was not in the set"
        )
    if type(labels) is range:
        _check_place(label, len(labels))
        return
    kind = type(label)
    for known in labels:
        if type(known) is not kind and not _spell(label).isdisjoint(_spell(known)):
            raise LabelError(
                f"label {label!r} ({kind.__name__}) is not the label {known!r} "
                f"({type(known).__name__}), though it is spelt so; convert it to the labels' type"
            )


def _is_label(label: object) -> bool:
    """Return whether something can be a label: nothing, NaN, NA and lists cannot."""
    try:
        return label is not None and isinstance(label, Hashable) and bool(label == label)
    except TypeError:  # pandas' NA is neither itself nor another
        return False


def _spell(label: Any) -> set[str]:
    """Return how a label is written; beside NaN a whole number may have become a float."""
    whole = isinstance(label, (float, np.floating)) and label.is_integer()
    return {str(label), str(int(label))} if whole else {str(label)}


def _check_place(label: object, places: int) -> None:
    """Raise if a label is no place among so many scores: whether it is a name is never guessed."""
    whole = isinstance(label, (int, np.integer))
    if 0 <= label < places if whole else label in range(places):  # type: ignore[operator]
        return
    start = "labels that start at 1" if whole and label == places else "labels of your own"
    raise LabelError(
        f"label {label!r} is not one of the {places} positions, 0 to {places - 1}; for "
        f"{start} name them: score=keyhole.Probabilities(labels=[...]), or predict from a dict"
    )


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

    def region(self, id: int, threshold: float) -> LabelSet:
        """Return the labels whose score reaches the threshold, the highest first."""
        labels, kind, kept = self.labels, self.kind, self._rank(threshold)
        if not self.is_unlimited:
            if kind.at_least > len(kept):
                kept = self._rank(-1.0)[: kind.at_least]
            kept = kept[: kind.at_most]
        if type(labels) is range:
            return LabelSet(id, threshold, tuple(kept), len(labels))
        return LabelSet(id, threshold, tuple(map(labels.__getitem__, kept)))

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

    @property
    def are_all_labels(self) -> bool:
        """Whether the labels are the places of an array, or all that the score knows."""
        return type(self.labels) is range or tuple(self.labels) == self.kind.labels

    def masses(self) -> tuple[list[float], list[float]]:
        """Return the scores and their labels' probabilities; none where scores are no distribution.

        If labels are named with their probabilities, and these leave something over, candidates were
        cut to some: the rest is the chance of a label that is not there, which no set can show.
        Lists and arrays give the same sums, so that a round that was stored says what it said.
        """
        scores, kind = self.scores, self.kind
        if len(scores) == 1 or isinstance(kind, CustomScores):
            return [], []
        if not isinstance(scores, list):
            scores = scores.tolist()
        power = kind.power
        shares = scores if power == 1.0 else [score ** (1.0 / power) for score in scores]
        total = reduce(add, shares, 0.0)  # in order: Python's own sum rounds otherwise from 3.12 on
        if not self.are_all_labels and 0.0 < total < LEAST_SUM:
            return [0.0, *scores], [1.0 - total, *shares]
        if not LEAST_SUM <= total <= MOST_SUM:
            return [], []
        return scores, [share / total for share in shares]

    def pack(self) -> tuple[bytes, str | None]:
        scores, labels = self.scores, self.labels
        content = array("d", scores).tobytes() if isinstance(scores, list) else scores.tobytes()
        if self.are_all_labels:
            return content, None
        is_text = set(map(type, labels)) == {str}
        return content, write_json(labels if is_text else [pack_label(k) for k in labels])


def unpack_candidates(
    kind: "Probabilities | CustomScores", content: bytes, labels: str | None
) -> Candidates:
    """Return the case that ``Candidates.pack`` wrote."""
    numbers = array("d")
    numbers.frombytes(content)
    count = len(numbers)
    scores = numbers.tolist() if count <= FEW else np.array(numbers)
    # Labels may have been added since, behind those that there were.
    names = range(count) if kind.labels is None else kind.labels[:count]
    if labels is not None:
        names = json.loads(labels)
        if dict in map(type, names):
            names = [unpack_label(name) for name in names]
    return Candidates(names, scores, kind)


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

    unpack = unpack_candidates


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

    def read(self, output: object) -> Candidates:
        """Return every label with its score."""
        scores = check_row([self.function(output, label) for label in self.labels])
        return Candidates(self.labels, scores, self)

    unpack = unpack_candidates


def _read_scores(values: Collection[Any]) -> list[float] | Array:
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
