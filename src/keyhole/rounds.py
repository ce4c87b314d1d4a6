"""One round: what is proposed, what an answer to it means, and what the answered rounds add up to.

The predictor keeps its rounds in memory and the store keeps them in a database; both play them here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from keyhole.errors import FeedbackError
from keyhole.feedback import Answer, Revealed, is_miss, usable
from keyhole.grid import Array
from keyhole.learners import Learner
from keyhole.scores import Case, Region

MISSING: Any = object()
R = TypeVar("R", bound=Region)


@dataclass(frozen=True, slots=True)
class Round(Generic[R]):
    """A round that waits for its answer."""

    prediction: R
    case: Case[R]
    memo: Array


class Outcome(NamedTuple):
    """What an answer came to: the true label's score is None where it was not told."""

    missed: bool
    score: float | None
    size: float
    bound_broken: bool


@dataclass(slots=True)
class Tally:
    """What the rounds add up to."""

    predicted: int = 0
    answered: int = 0
    misses: int = 0
    size: float = 0.0
    expired: int = 0
    bound_broken: int = 0
    floor: int = 0  # Every round before this one is closed.

    @property
    def miss_rate(self) -> float:
        """The share of answered rounds that missed; NaN before the first answer."""
        return self.misses / self.answered if self.answered else float("nan")

    @property
    def mean_size(self) -> float:
        """The mean size of the answered sets or intervals; NaN before the first answer."""
        return self.size / self.answered if self.answered else float("nan")

    def count(self, outcome: Outcome) -> None:
        """Add an answered round."""
        self.answered += 1
        self.misses += outcome.missed
        self.size += outcome.size
        self.bound_broken += outcome.bound_broken


def propose(
    learner: Learner,
    state: Any,
    case: Case[R],
    *,
    number: int,
    draw: float,
    groups: Iterable[int] = (),
) -> Round[R]:
    """Return the round of this number, open; the state is left as it is."""
    memo = learner.memo(groups)
    threshold = float(learner.choose(state, memo, draw))
    return Round(case.region(number, threshold), case, memo)


def settle(
    learner: Learner,
    state: Any,
    waiting: Round[R],
    answer: Answer | None = None,
    *,
    label: Any = MISSING,
    score: float | None = None,
    times: int = 1,
) -> Outcome:
    """Teach the state what the one answer tells, ``times`` over; return what it came to, or raise."""
    told = _told(waiting, answer, label, score)
    used = usable(learner.name, learner.needs, missed=told.missed, score=told.score)
    for _ in range(times):
        learner.observe(state, waiting.memo, missed=told.missed, score=used)
    return told


def _told(waiting: Round[R], answer: Answer | None, label: Any, score: float | None) -> Outcome:
    """Return what the one answer that was given says of the round."""
    if (answer is not None) + (label is not MISSING) + (score is not None) != 1:
        raise FeedbackError(
            "a round takes one answer: keyhole.MISS, keyhole.HIT, label=..., or score=..."
        )
    if label is not MISSING:
        return _judged(waiting, label)
    given = Revealed(score) if score is not None else _checked_answer(answer)
    known = given.score if isinstance(given, Revealed) else None
    prediction = waiting.prediction
    return Outcome(is_miss(given, prediction.threshold), known, prediction.size, bound_broken=False)


def _checked_answer(answer: Any) -> Answer:
    if isinstance(answer, Answer):
        return answer
    raise FeedbackError(
        f"{answer!r} is not an answer; use keyhole.MISS, keyhole.HIT, label=... or score=..."
    )


def _judged(waiting: Round[R], label: Any) -> Outcome:
    """Return what a label says. What was shown decides between hit and miss, not rounding."""
    prediction = waiting.prediction
    score = waiting.case.score(label)
    missed = label not in prediction
    if missed != (score < prediction.threshold):
        edge = prediction.threshold
        score = float(np.nextafter(edge, -np.inf)) if missed else edge
    known = min(1.0, max(0.0, score))
    return Outcome(missed, known, prediction.size, bound_broken=missed and score < 0.0)
