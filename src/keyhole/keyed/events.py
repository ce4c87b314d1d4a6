"""What happens to a key, and what is then said."""

from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from keyhole.feedback import Answer
from keyhole.predictor.context import Features, Groups
from keyhole.predictor.rounds import MISSING
from keyhole.scores import Region


class Asked(NamedTuple):
    """A model's output that wants a set; ``id`` is the asker's own, new for every round of a key."""

    id: str
    output: Any
    at: int = 0
    features: Features | None = None
    groups: Groups = ()


class Answered(NamedTuple):
    """What the world says of a round, as for ``Predictor.learn``: one answer, label, score or loss."""

    id: str
    answer: Answer | None = None
    label: Any = MISSING
    score: float | None = None
    loss: float | None = None
    chance: float = 1.0
    wrong: float = 0.0
    at: int = 0


class Skipped(NamedTuple):
    """No answer to a round will come."""

    id: str
    at: int = 0


class Elapsed(NamedTuple):
    """The time is at least this, whatever else happens."""

    at: int


Event: TypeAlias = Asked | Answered | Skipped | Elapsed


class Kind(StrEnum):
    """What is said of a round."""

    SHOWN = "shown"
    COUNTED = "counted"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    REPEATED = "repeated"
    REFUSED = "refused"


class Output(NamedTuple):
    """What is said of a round: the set where it is shown, the miss where an answer was counted.

    A replay is ``repeated``, with the set if the round is still open. What cannot be used is
    ``refused``, with the reason as ``note``; nothing is raised, so that one event cannot stop a job.
    """

    kind: Kind
    id: str
    number: int | None = None
    region: Region | None = None
    miss: float | None = None
    note: str | None = None


Outputs: TypeAlias = list[Output]
