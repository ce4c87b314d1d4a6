"""How the rounds of every key are played."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.feedback import Feedback
from keyhole.keyed.events import Event, Kind, Output, Outputs
from keyhole.keyed.steps import STEPS
from keyhole.learners import Learner
from keyhole.predictor import compact
from keyhole.predictor.compact import LATEST, MOST_MARKS, Standing
from keyhole.predictor.compact_rounds import LONGEST_ID, NEVER
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup, make_setup
from keyhole.scores import Score, check_storable

OPEN_LIMIT = 100  # a key's open rounds travel with its state, so that they are few
RECALL = 2
_SHORT, _KEPT = 4096, 256  # bytes of the states, and how many, that are kept as they were left


@dataclass(frozen=True, kw_only=True)
class Fold:
    """How the rounds of every key are played; ``make_fold`` is the short way to one.

    Parameters
    ----------
    setup
        What every key's predictor is made with; its seed and a key give the key's own seed.
    lifetime
        How long a round may stay open, in the unit of the events' times; None for ever.
    recall
        How many closed rounds a key remembers, to recognise replays; at most 31.

    Examples
    --------
    >>> from keyhole.keyed import Answered, Asked
    >>> fold = make_fold(alpha=0.1, seed=7)
    >>> state, said = fold.step("anna", b"", Asked("r1", [0.7, 0.2, 0.1]))
    >>> said[0].region.labels
    (0,)
    >>> state, said = fold.step("anna", state, Answered("r1", label=0))
    >>> said[0].kind.value, len(state) <= 64
    ('counted', True)
    """

    setup: Setup[Any]
    lifetime: int | None = None
    recall: int = RECALL
    _standings: dict[bytes, Standing] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_storable(self.setup.score)  # Workers make it again, and a key's open rounds are bytes.
        if self.lifetime is not None and not is_whole(self.lifetime, least=1, most=LATEST):
            raise InvalidError(f"lifetime {self.lifetime!r} is not a whole number from 1; or give None")
        if not is_whole(self.recall, least=0, most=MOST_MARKS):
            raise InvalidError(f"recall {self.recall!r} is not a whole number from 0 to {MOST_MARKS}")

    def seed_of(self, key: str) -> int:
        """Return the seed of a key's draws."""
        return _derive_seed(self.setup.seed, key)

    def step(self, key: str, state: bytes, event: Event) -> tuple[bytes, Outputs]:
        """Return the key's next state and the outputs; ``b""`` is the state of a new key."""
        return self.run(key, state, (event,))

    def run(self, key: str, state: bytes, events: Iterable[Event]) -> tuple[bytes, Outputs]:
        """Return the last state and all outputs, as the steps one by one would."""
        here = self._stand(state) if state else None
        said: Outputs = []
        for event in events:
            step = STEPS.get(type(event))
            if step is None:
                raise InvalidError(f"{event!r} is no event; give Asked, Answered, Skipped or Elapsed")
            if fault := _find_fault(event):
                said.append(Output(Kind.REFUSED, _name(event), note=fault))
                continue
            if type(event.at) is not int:  # NumPy's, which know no bytes of a number
                event = event._replace(at=int(event.at))
            if here is None:
                here = Standing(Progress.start(self.setup.learner, self.setup.score), event.at)
            step(self, key, here, event, said)
        return (state if here is None else self._leave(here)), said

    def _stand(self, state: bytes) -> Standing:
        """Return where a key stands, for one who will change it: as it was left, or read anew."""
        left = self._standings.pop(bytes(state), None)
        return compact.unpack(state, self.setup.learner) if left is None else left

    def _leave(self, here: Standing) -> bytes:
        """Return the state of a standing, which is kept for a while: its next event may come soon."""
        state = compact.pack(here, self.setup.learner)
        kept = self._standings
        if len(state) <= _SHORT:
            kept[state] = here
            if len(kept) > _KEPT:
                with suppress(RuntimeError, StopIteration):  # Another thread was at it.
                    kept.pop(next(iter(kept)), None)
        return state

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.setup, self.lifetime, self.recall)

    def read(self, state: bytes) -> Progress:
        """Return the progress of a key: its learner's state and the tally of its rounds."""
        learner = self.setup.learner
        return compact.unpack(state, learner).progress if state else Progress.start(learner)

    def next_due(self, state: bytes) -> int | None:
        """Return the earliest time at which an open round of the key expires, if any does."""
        left = self._standings.get(state)
        if left is None and state:
            left = compact.unpack(state, self.setup.learner)
        earliest = NEVER if left is None else left.earliest
        return None if earliest == NEVER else earliest


def make_fold(
    learner: str | Learner | None = None,
    *,
    alpha: float | None = None,
    horizon: int | None = None,
    arms: int | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str = Feedback.SEMI_BANDIT,
    seed: int = 0,
    open_limit: int = OPEN_LIMIT,
    lifetime: int | None = None,
    recall: int = RECALL,
) -> Fold:
    """Return a fold; the parameters are a predictor's, and those of ``Fold``.

    The seed is 0 by default, because every worker must make the same draws.

    Examples
    --------
    >>> make_fold(alpha=0.1, lifetime=3_600_000).setup.learner.name
    'logit-tracker'
    """
    setup = make_setup(
        learner,
        alpha=alpha,
        horizon=horizon,
        arms=arms,
        features=features,
        groups=groups,
        score=score,
        feedback=feedback,
        seed=seed,
        open_limit=open_limit,
    )
    return Fold(setup=setup, lifetime=lifetime, recall=recall)


def _name(event: Event) -> str:
    """Return by which id an event that is of no use can be found again: its own, if it can be sent."""
    name = getattr(event, "id", "")
    return name if isinstance(name, str) and name.isascii() else ascii(name)


def _find_fault(event: Event) -> str:
    """Return why an event is of no use to any key, or nothing if it may be."""
    name = getattr(event, "id", "")
    if not isinstance(name, str):
        return "its id is not text"
    if not name.isascii() or len(name) > LONGEST_ID:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            return "its id is not text that UTF-8 can write"
        if size > LONGEST_ID:
            return f"its id has {size:,} bytes; {LONGEST_ID:,} is the most"
    if not is_whole(event.at, least=-LATEST, most=LATEST):
        return f"its time {event.at!r} is not a whole number that fits in six bytes; count milliseconds"
    return ""


@lru_cache(maxsize=65_536)
def _derive_seed(seed: int, key: str) -> int:
    digest = blake2b(key.encode(), key=seed.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _rebuild(setup: Setup[Any], lifetime: int | None, recall: int) -> Fold:
    return Fold(setup=setup, lifetime=lifetime, recall=recall)
