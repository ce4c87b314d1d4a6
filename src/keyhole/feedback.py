"""What the world answers, and what an answer tells about every other threshold."""

import math
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_real
from keyhole.errors import FeedbackError, InvalidError
from keyhole.grid import count_at_most
from keyhole.numeric import Array, kernel
from keyhole.scores.pictures import draw_dot

UNSEEN = -1
BESIDE = frozenset(("chance", "wrong"))  # what an answer may say besides what was right
Loss = TypeVar("Loss", float, Array)
_RECENT = 100.0  # answers over which the usual weight is averaged
_FASTEST = 10.0
_RAREST = 1e-4  # A rule that takes no weights hears an answer 1 / chance times.
LEAST_CHANCE = 0.01  # of a stream that does not say otherwise


class Answer(NamedTuple):
    """What is revealed about a round.

    Attributes
    ----------
    miss
        1 if the true label was outside the set, 0 if it was in it; between the two where answers are
        graded.
    score
        The true label's score, NaN where it is not revealed.
    age
        How many other answers were counted between the prediction and this answer.
    stale
        How much happened in between altogether: answers counted, and sets predicted that will be
        answered (see ``keyhole.predictor.rounds.measure_delay``). 0 for an answer that comes at once.
    cost
        For learners that weigh size: how much larger the round's set was than one at a second, higher
        threshold of theirs.
    weight
        For how many rounds it counts in what must add up: 1 / p for an answer of known chance p. Only
        rules that take graded answers are told; the others hear the answer that often.
    pace
        How far it moves a learner that would move by 1: the weight over that of recent answers.
    amends
        1 where it corrects an answer that was counted before, else 0. ``miss`` is then alpha plus the
        loss that is right less the one that was counted, so that miss - alpha is what to make up for;
        nothing that counts answers counts it.

    Examples
    --------
    >>> Answer(miss=1.0), Answer(miss=0.0, score=0.25)
    (<miss>, <hit, score 0.25>)
    """

    miss: float
    score: float = math.nan
    age: float = 0.0
    stale: float = 0.0
    cost: float = 0.0
    weight: float = 1.0
    pace: float = 1.0
    amends: float = 0.0

    def __repr__(self) -> str:
        kind = {0.0: "hit", 1.0: "miss"}.get(self.miss) or f"loss {self.miss}"
        known = "" if math.isnan(self.score) else f", score {self.score:g}"
        late = f", {self.age:g} answers late" if self.age else ""
        return f"<{kind}{known}{late}>"

    def _repr_html_(self) -> str:
        return f"{draw_dot(is_good=self.miss == 0.0)} {repr(self)[1:-1]}"

    def __reduce__(self) -> tuple[Any, ...]:
        # A NaN equals itself only as the same object: an unpickled HIT would not be HIT.
        return _make_answer, tuple(None if part != part else part for part in self)


def _make_answer(*parts: float | None) -> Answer:
    return Answer(*(math.nan if part is None else part for part in parts))


HIT = Answer(miss=0.0)
MISS = Answer(miss=1.0)


class Needs(StrEnum):
    """The least feedback a learner can work with."""

    HIT_OR_MISS = "hit or miss"
    LABEL_IF_HIT = "label if hit"
    LABEL_ALWAYS = "label always"


_NEVER, _IF_HIT = Needs.HIT_OR_MISS, Needs.LABEL_IF_HIT  # quicker to look at than members


class Feedback(StrEnum):
    """What the world can tell."""

    BANDIT = "bandit"
    SEMI_BANDIT = "semi-bandit"
    FULL = "full"

    @property
    def tells(self) -> Needs:
        return _TELLS[self]


_TELLS = dict(zip(Feedback, Needs, strict=True))
_ORDER = list(Needs)


def check_feedback(name: str) -> Feedback:
    try:
        return Feedback(name)
    except ValueError:
        raise FeedbackError(
            f"there is no feedback {name!r}; use one of {', '.join(Feedback)}"
        ) from None


def is_enough(needs: Needs, feedback: Feedback) -> bool:
    return _ORDER.index(feedback.tells) >= _ORDER.index(needs)


def check_enough(learner: str, needs: Needs, feedback: Feedback) -> None:
    if not is_enough(needs, feedback):
        raise FeedbackError(
            f"{learner} needs {needs.value!r}, but {feedback.value} feedback tells only "
            f"{feedback.tells.value!r}; use a learner that needs no more than that "
            "(see keyhole.LEARNERS), or feedback that tells more"
        )


def find_used(needs: Needs) -> tuple[bool, bool]:
    """Return whether a learner of these needs uses the true score of a hit, and that of a miss."""
    return needs != Needs.HIT_OR_MISS, needs == Needs.LABEL_ALWAYS


def usable_scores(needs: Needs, missed: NDArray[np.bool_], scores: Array) -> Array:
    """Return known scores as far as a learner of these needs uses them, the others as NaN."""
    if_hit, if_miss = find_used(needs)
    return np.where(np.where(missed, if_miss, if_hit), scores, np.nan)


def usable_score(learner: str, needs: Needs, miss: float, score: float) -> float:
    """Return the score as far as the learner uses it, else NaN; raise if it needs an unknown one."""
    if needs is _NEVER or (needs is _IF_HIT and miss != 0.0):
        return math.nan
    if score == score:  # not NaN: known
        return score
    given = "a hit without the true label" if miss == 0.0 else "a miss without the true label"
    raise FeedbackError(
        f"{learner} needs {needs.value!r}, but the answer is {given}; give label= or score=, "
        "or use a learner that needs only 'hit or miss'"
    )


def is_miss(miss: float | None) -> bool | None:
    """Return whether a loss is nearer to a miss than to a hit; None if there was no answer."""
    return None if miss is None else miss >= 0.5


def check_chance(chance: Any, *, least: float = LEAST_CHANCE) -> float:
    """Return the chance, or raise if it is none, or the answer would count for too much."""
    if not (is_real(chance) and 0.0 < chance <= 1.0):
        raise FeedbackError(f"chance {chance!r} is not a probability above 0; try 0.5")
    if chance < least:
        raise FeedbackError(
            f"chance {chance!r} is below the least chance, {least:g}: one answer would count for "
            f"{1.0 / chance:,.0f} rounds; ask for answers more often, or set a smaller least_chance"
        )
    return float(chance)


def check_least_chance(least: Any) -> float:
    if not (is_real(least) and _RAREST <= least <= 1.0):
        raise InvalidError(
            f"least_chance {least!r} is not a probability from {_RAREST:g} to 1; try {LEAST_CHANCE:g}",
            field="least_chance",
        )
    return float(least)


def check_wrong(wrong: Any) -> float:
    if not (is_real(wrong) and 0.0 <= wrong < 0.5):
        raise FeedbackError(f"wrong {wrong!r} is not a probability below 1/2; try 0.1")
    return float(wrong)


@kernel
def correct_wrong(miss: Loss, wrong: float) -> Loss:
    """Return the loss of an answer that is wrong with this chance, so that on average it is true."""
    return (miss - wrong) / (1.0 - 2.0 * wrong)


@kernel
def find_pace(weight: float, usual: float, answered: int) -> tuple[float, float]:
    """Return how far an answer of this weight moves a learner, and what weight is usual after it.

    ``usual`` is the mean of the last hundred weights or so, this one not among them: what an answer
    says must not choose its own step. The cap is for one that is far rarer than those before it.
    """
    if weight == usual:
        return 1.0, usual
    if answered == 0:
        return 1.0, weight
    return min(weight / usual, _FASTEST), usual + (weight - usual) / min(answered + 1.0, _RECENT)


@kernel
def count_times(chance: float, draw: float) -> int:
    """Return for how many rounds an answer of this known probability counts: 1 / chance on average."""
    share = 1.0 / chance
    whole = int(share)
    return whole + 1 if draw < share - whole else whole


@kernel
def find_unlocked(
    thresholds: Array,
    threshold: float,
    missed: bool,  # noqa: FBT001
    score: float,
) -> tuple[int, int]:
    """Return (covering, missing): arms below the first would hit, from the second on would miss.

    The arms between the two are those about which the answer tells nothing. ``score`` is the true
    label's, or NaN where it was not revealed.
    """
    if score == score:  # not NaN
        covering = count_at_most(thresholds, score)
        return covering, covering
    at_most = count_at_most(thresholds, threshold)
    if missed:
        on_grid = at_most > 0 and thresholds[at_most - 1] == threshold
        return 0, at_most - 1 if on_grid else at_most
    return at_most, thresholds.size


def outcomes(answer: Answer, *, threshold: float, thresholds: Array) -> NDArray[np.int8]:
    """Return what the answer tells of every threshold: 0 it hits, 1 it misses, -1 not seen.

    Examples
    --------
    >>> grid = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    >>> outcomes(Answer(miss=0.0, score=0.6), threshold=0.5, thresholds=grid).tolist()
    [0, 0, 0, 1, 1]
    >>> outcomes(MISS, threshold=0.5, thresholds=grid).tolist()
    [-1, -1, 1, 1, 1]
    """
    covering, missing = find_unlocked(thresholds, threshold, answer.miss > 0.0, answer.score)
    found = np.full(thresholds.size, UNSEEN, dtype=np.int8)
    found[:covering] = 0
    found[missing:] = 1
    return found
