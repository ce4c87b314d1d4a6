"""What is shown: a set of labels, or an interval."""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from keyhole.errors import LabelError, ScoreError
from keyhole.pictures import draw_span

Label = Hashable
Verdict = Literal["accepted", "referred"]
_SHOWN = 12  # labels in a repr


class Contents(NamedTuple):
    """What a set, an interval or a decision comes to, for those who write it down."""

    labels: tuple[Label, ...] | None = None
    ends: tuple[float, float] | None = None
    verdict: Verdict | None = None


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
    places: int = field(default=0, compare=False)

    def __init__(
        self,
        id: int,  # noqa: A002
        threshold: float,
        labels: tuple[Label, ...],
        places: int = 0,
    ) -> None:
        put_id, put_threshold, put_labels, put_places = _PUT_LABEL_SET
        put_id(self, id)
        put_threshold(self, threshold)
        put_labels(self, labels)
        put_places(self, places)

    @property
    def size(self) -> float:
        """How many labels it holds."""
        return float(len(self.labels))

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
        f"label {label!r} is not one of the {places} positions, 0 to {places - 1}; for "
        f"{start} name them: score=keyhole.Probabilities(labels=[...]), or predict from a dict"
    )


@dataclass(frozen=True, slots=True, init=False, repr=False)
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

    noun: ClassVar[str] = "interval"

    id: int
    threshold: float
    lower: float
    upper: float

    def __init__(
        self,
        id: int,  # noqa: A002
        threshold: float,
        lower: float,
        upper: float,
    ) -> None:
        put_id, put_threshold, put_lower, put_upper = _PUT_INTERVAL
        put_id(self, id)
        put_threshold(self, threshold)
        put_lower(self, lower)
        put_upper(self, upper)

    @property
    def size(self) -> float:
        """The length of the interval; 0 if it is empty."""
        lower, upper = self.lower, self.upper
        return upper - lower if upper > lower else 0.0

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

    @property
    def is_empty(self) -> bool:
        """Whether no value is in it; one of no width holds its one value."""
        return self.lower > self.upper

    @property
    def contents(self) -> Contents:
        """Both ends."""
        return Contents(ends=(self.lower, self.upper))

    def __repr__(self) -> str:
        span = "empty" if self.is_empty else f"[{self.lower:.6g}, {self.upper:.6g}]"
        return f"Interval({span}, id={self.id}, threshold={self.threshold:.4g})"

    def _repr_html_(self) -> str:
        span = "empty" if self.is_empty else f"{self.lower:.6g} to {self.upper:.6g}"
        picture = "" if self.is_empty else f"{draw_span(self.lower, self.upper)}<br>"
        return f"{picture}<code>{span}</code> <small>(round {self.id})</small>"

    @property
    def width(self) -> float:
        """Its size."""
        return self.size


def make_empty_interval(id: int, threshold: float) -> Interval:  # noqa: A002
    """Return the interval that holds nothing."""
    return Interval(id, threshold, math.inf, -math.inf)


# These fill the slots of what is frozen, in half the time that object.__setattr__ takes.
_PUT_LABEL_SET = [getattr(LabelSet, one).__set__ for one in LabelSet.__slots__]
_PUT_INTERVAL = [getattr(Interval, one).__set__ for one in Interval.__slots__]

Region = LabelSet | Interval
