"""What a score and a case of it must do, and the bytes and JSON values that they are made of.

A score of one's own is a frozen dataclass that follows ``Score``: its fields are its settings, which
are saved, and its cases follow ``Case``. ``keyhole.register`` makes it known wherever Keyhole saves,
loads or serves something.
"""

import json
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from keyhole.errors import LabelError
from keyhole.numeric import Array
from keyhole.scores.regions import Interval, Label

if TYPE_CHECKING:
    from keyhole.scores.decision import Decision
    from keyhole.scores.labels import LabelSet

Kind = Literal["labels", "interval", "band", "gate"]  # what is proposed, and from what
R_co = TypeVar("R_co", bound="LabelSet | Interval | Decision", covariant=True)


class Case(Protocol[R_co]):
    """One model output, read and checked.

    It may have more: for a score whose scale is found, ``residual(label)``, by how much a true value is
    above the centre, and ``residuals``, the score at the scale of this case; ``candidates``, all labels
    (None where they are places) and their scores, for the log that is exported; ``masses()``, the
    scores of the labels and the probability of each, where the model gives one; ``is_unlimited``,
    whether its set holds just the labels whose score reaches the threshold, so that an answer can be
    judged without it.
    """

    @property
    def output(self) -> Any:
        """The model's output, as ``Score.read`` takes it."""

    def region(self, id: int, threshold: float) -> R_co:
        """Return the set, interval or decision of this threshold."""

    def score(self, label: Any) -> float:
        """Return the label's score; below 0 if it is outside even the region of threshold 0."""

    def pack(self) -> tuple[bytes, str | None]:
        """Return the case as bytes, and as JSON the labels that its score does not fix."""


class Score(Protocol[R_co]):
    """A way to turn model outputs into scores in [0, 1], higher for the more plausible.

    ``name`` is its own among all scores. ``kind`` is "labels" if it reads a score for each label,
    "interval" if it reads a centre, "band" if it reads a pair (lower, upper), and "gate" if it decides
    about one answer.

    It may have more: ``labels``, if it fixes them; ``out_of_reach``, what to warn of where a true value
    scores below 0; and what ``ScaledScore`` and ``TableScore`` have.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]

    def read(self, output: Any) -> Case[R_co]:
        """Return the case of a model output, or raise ``ScoreError``."""

    def unpack(self, content: bytes, labels: str | None) -> Case[R_co]:
        """Return the case that ``Case.pack`` wrote."""


class ScaledScore(Protocol):
    """What a score has beside, if its scale is to be found from the first residuals.

    ``scale`` is a first guess, or None: then a region is the whole line. Its cases have a method
    ``residual(label)``, and ``residuals``, the score at their scale.
    """

    @property
    def scale(self) -> float | None: ...

    def at_scale(self, scale: float | None) -> "ScaledScore":
        """Return the score at another scale."""

    def score(self, residual: float) -> float:
        """Return the score of a residual."""

    def read(self, output: Any) -> Case[Interval]: ...


class TableScore(Protocol):
    """What a score of labels has beside, if it reads a table of many rounds at once."""

    @property
    def labels(self) -> Sequence[Label] | None: ...

    @property
    def is_unlimited(self) -> bool:
        """Whether a set holds just the labels whose score reaches the threshold."""

    def read_table(self, outputs: Array) -> Array:
        """Return the scores of a table of outputs, a row for each round, or raise."""

    def read_row(self, scores: Array) -> "Case[LabelSet]":
        """Return the case of a row that ``read_table`` returned."""


def pack_numbers(*numbers: float) -> bytes:
    """Return numbers as bytes that keep every bit."""
    return array("d", numbers).tobytes()


def unpack_numbers(content: bytes) -> list[float]:
    numbers = array("d")
    numbers.frombytes(content)
    return numbers.tolist()


def write_json(value: Any, **options: Any) -> str:
    """Return a value as JSON in which letters stay what they are, unless no encoding has them."""
    text = json.dumps(value, ensure_ascii=False, **options)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return json.dumps(value, **options)
    return text


def pack_label(label: Label) -> Any:
    """Return a label as a JSON value; tuples become one-key objects."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, tuple):
        return {"tuple": [pack_label(part) for part in value]}
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise LabelError(f"label {label!r} cannot be saved; use text, numbers, or tuples of them as labels")


def unpack_label(value: object) -> Label:
    return tuple(unpack_label(part) for part in value["tuple"]) if isinstance(value, dict) else value
