"""What happens to a key, and what the fold reports of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from keyhole.feedback import Answer
from keyhole.predictor.context import Features, Groups
from keyhole.predictor.rounds import MISSING
from keyhole.scores import Region


class Asked(NamedTuple):
    """A model's output that needs a set; ``id`` is the caller's own, new for every round of a key.

    Examples
    --------
    >>> Asked("order 1", {"keep": 0.7, "return": 0.3}, at=5_000).id
    'order 1'
    """

    id: str
    output: Any
    at: int = 0
    features: Features | None = None
    groups: Groups = ()


class Answered(NamedTuple):
    """What the world says of a round, as for ``Predictor.learn``: one answer, label, score or loss.

    Of a decision it says whether the answer was ``right``; a judge's word is ``HIT`` for right.

    Examples
    --------
    >>> from keyhole import MISS
    >>> Answered("order 1", label="keep").label, Answered("order 2", MISS).answer
    ('keep', <miss>)
    """

    id: str
    answer: Answer | None = None
    label: Any = MISSING
    score: float | None = None
    loss: float | None = None
    chance: float = 1.0
    wrong: float = 0.0
    at: int = 0
    judged: Answer | None = None
    right: bool | None = None


class Amended(NamedTuple):
    """An answer that was counted turned out otherwise.

    A key remembers no answered round: ``was`` is the miss that was reported of it as counted, ``miss``
    what it should have been, ``chance`` and ``groups`` are those of its answer and of its ask. Give
    each amendment a time ``at`` of its own: the same one at the same time is a replay.

    Examples
    --------
    >>> Amended("order 1", was=0.0, miss=1.0).miss
    1.0
    """

    id: str
    was: float
    miss: float
    chance: float = 1.0
    groups: Groups = ()
    at: int = 0


class Skipped(NamedTuple):
    """No answer to a round will come.

    Examples
    --------
    >>> Skipped("order 1", at=6_000)
    Skipped(id='order 1', at=6000)
    """

    id: str
    at: int = 0


class Elapsed(NamedTuple):
    """The time is at least this; rounds whose lifetime is over expire.

    Examples
    --------
    >>> Elapsed(3_600_000)
    Elapsed(at=3600000)
    """

    at: int


Event: TypeAlias = Asked | Answered | Amended | Skipped | Elapsed


class Kind(StrEnum):
    """What is reported of a round."""

    SHOWN = "shown"
    COUNTED = "counted"
    AMENDED = "amended"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    REPEATED = "repeated"
    REFUSED = "refused"


NOTES = {  # why something is reported, wherever it is said
    "over": "its lifetime is over",
    "pushed": "too many rounds are open",
    "closed": "this round is closed",
    "late": "asked too late: its lifetime is over already",
    "unknown": "no round of this id is open, nor was one recently",
}


class Output(NamedTuple):
    """An output about a round: the set that is shown, the miss that an answer or an amendment counts.

    Of several levels the ``region`` is a ``keyhole.Levels``, ``misses`` says of each alpha whether what
    was shown missed, and ``miss`` is that of the smallest alpha.

    A replay is ``repeated``, with the set if the round is still open. An event that cannot be used is
    ``refused``, with the reason as ``note``; nothing is raised, so one event cannot stop a job.

    Examples
    --------
    >>> from keyhole.keyed import make_fold
    >>> _, outputs = make_fold(alpha=0.1).step("anna", b"", Answered("r1", label=0))
    >>> outputs[0].kind.value, outputs[0].note
    ('refused', 'no round of this id is open, nor was one recently')
    """

    kind: Kind
    id: str
    number: int | None = None
    region: Region | Any | None = None
    miss: float | None = None
    note: str | None = None
    misses: Mapping[float, float] | None = None


Outputs: TypeAlias = list[Output]
