"""What is shown: a set of labels or an interval; and what a score kind must do to make one."""

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from keyhole.errors import LabelError, ScoreError
from keyhole.pictures import draw_span

Label = Hashable
_SHOWN = 12  # labels in a repr


def _refuse(self: Any, name: str, value: object = None) -> NoReturn:  # noqa: ARG001
    raise AttributeError(f"{type(self).__name__} cannot be changed; predict again instead")


class _LabelSetDraft:
    """A set while it is filled: what is shown cannot be changed, and to go round that costs twice."""

    __slots__ = ("id", "labels", "places", "size", "threshold")


class LabelSet:
    """The labels whose score reaches the threshold, the most plausible first.

    ``labels`` are they, ``size`` is how many; ``id`` is the round's number, counted from 0, and
    ``threshold`` what a score had to reach. ``places`` is how many scores there were, where the labels
    are their places because nobody named them; what is no place is then refused, not taken for a miss.
    So is what differs from a label by its type alone, such as "1" from 1.

    Examples
    --------
    >>> shown = LabelSet(0, 0.2, ("cat", "lynx"))
    >>> len(shown), "cat" in shown, list(shown)
    (2, True, ['cat', 'lynx'])
    """

    __slots__ = _LabelSetDraft.__slots__

    id: int
    threshold: float
    labels: tuple[Label, ...]
    places: int
    size: float

    def __new__(
        cls,
        id: int,  # noqa: A002
        threshold: float,
        labels: tuple[Label, ...],
        places: int = 0,
    ) -> "LabelSet":
        made: Any = _LabelSetDraft()
        made.id, made.threshold, made.labels, made.places = id, threshold, labels, places
        made.size = float(len(labels))
        made.__class__ = cls
        return made

    __setattr__ = _refuse
    __delattr__ = _refuse

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSet) and _told(self) == _told(other)

    def __hash__(self) -> int:
        return hash(_told(self))

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

    def __reduce__(self) -> tuple[Any, ...]:
        return LabelSet, (*_told(self), self.places)


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


def _is_label(label: Any) -> bool:
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
        f"label {label!r} is not a place of the {places} scores, which are 0 to {places - 1}; for "
        f"{start} name them: score=keyhole.Probabilities(labels=[...]), or predict from a dict"
    )


class _IntervalDraft:
    """An interval while it is filled."""

    __slots__ = ("id", "lower", "size", "threshold", "upper")


class Interval:
    """The values whose score reaches the threshold, from ``lower`` to ``upper``, both included.

    ``size`` is its width; ``id`` is the round's number, counted from 0, and ``threshold`` what a score
    had to reach. An end may be infinite; where no value is in it, ``lower`` is above ``upper``.

    Examples
    --------
    >>> shown = Interval(0, 0.5, 48.0, 52.0)
    >>> shown.width, 51.0 in shown
    (4.0, True)
    """

    __slots__ = _IntervalDraft.__slots__

    id: int
    threshold: float
    lower: float
    upper: float
    size: float

    def __new__(
        cls,
        id: int,  # noqa: A002
        threshold: float,
        lower: float,
        upper: float,
    ) -> "Interval":
        made: Any = _IntervalDraft()
        made.id, made.threshold, made.lower, made.upper = id, threshold, lower, upper
        made.size = upper - lower if upper > lower else 0.0
        made.__class__ = cls
        return made

    __setattr__ = _refuse
    __delattr__ = _refuse

    def __contains__(self, value: object) -> bool:
        try:
            if self.lower <= value <= self.upper:  # type: ignore[operator]
                return True
            known = bool(value == value)
        except (ValueError, TypeError):
            known = False
        if not known:
            raise ScoreError(f"true value {value!r} is not a number; it is neither inside nor outside")
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interval) and _ends(self) == _ends(other)

    def __hash__(self) -> int:
        return hash(_ends(self))

    def __repr__(self) -> str:
        span = "empty" if self.lower > self.upper else f"[{self.lower:.6g}, {self.upper:.6g}]"
        return f"Interval({span}, id={self.id}, threshold={self.threshold:.4g})"

    def _repr_html_(self) -> str:
        span = "empty" if self.lower > self.upper else f"{self.lower:.6g} to {self.upper:.6g}"
        picture = "" if self.lower > self.upper else f"{draw_span(self.lower, self.upper)}<br>"
        return f"{picture}<code>{span}</code> <small>(round {self.id})</small>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Interval, _ends(self)

    @property
    def width(self) -> float:
        """The length of the interval; 0 if it is empty."""
        return self.size


def _told(shown: LabelSet) -> tuple[int, float, tuple[Label, ...]]:
    return shown.id, shown.threshold, shown.labels


def _ends(shown: Interval) -> tuple[int, float, float, float]:
    return shown.id, shown.threshold, shown.lower, shown.upper


def make_empty_interval(id: int, threshold: float) -> Interval:  # noqa: A002
    """Return the interval that holds nothing."""
    return Interval(id, threshold, math.inf, -math.inf)


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
