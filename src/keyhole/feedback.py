"""What the world answers, and what an answer tells about every other threshold."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_real
from keyhole.errors import FeedbackError, ScoreError
from keyhole.grid import Array, count_at_most
from keyhole.kernel import kernel

UNSEEN = -1


@dataclass(frozen=True, slots=True)
class Revealed:
    """The true label is known, and with it its score."""

    score: float

    def __post_init__(self) -> None:
        if not (is_real(self.score) and 0.0 <= self.score <= 1.0):
            raise ScoreError(f"score {self.score!r} is not a number in [0, 1]; rescale it first")
        object.__setattr__(self, "score", float(self.score))


@dataclass(frozen=True, slots=True)
class Hit:
    """The set held the true label; which label that was is not known."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The true label was outside the set."""


Answer = Revealed | Hit | Missed
HIT = Hit()
MISS = Missed()


class Needs(StrEnum):
    """The least feedback a learner can work with."""

    HIT_OR_MISS = "hit or miss"
    LABEL_IF_HIT = "label if hit"
    LABEL_ALWAYS = "label always"


class Regime(StrEnum):
    """What the world can tell."""

    BANDIT = "bandit"
    SEMI_BANDIT = "semi-bandit"
    FULL = "full"

    @property
    def tells(self) -> Needs:
        """What an answer holds in this regime."""
        return _TELLS[self]


_TELLS = {
    Regime.BANDIT: Needs.HIT_OR_MISS,
    Regime.SEMI_BANDIT: Needs.LABEL_IF_HIT,
    Regime.FULL: Needs.LABEL_ALWAYS,
}
_ORDER = list(Needs)


def checked_regime(name: str) -> Regime:
    """Return the regime of that name, or raise."""
    try:
        return Regime(name)
    except ValueError:
        raise FeedbackError(f"there is no regime {name!r}; use one of {', '.join(Regime)}") from None


def is_enough(needs: Needs, regime: Regime) -> bool:
    """Return whether the regime tells at least what is needed."""
    return _ORDER.index(regime.tells) >= _ORDER.index(needs)


def check_enough(learner: str, needs: Needs, regime: Regime) -> None:
    """Raise if the regime tells less than the learner needs."""
    if not is_enough(needs, regime):
        raise FeedbackError(
            f"{learner} needs {needs.value!r}, but the {regime.value} regime tells only "
            f"{regime.tells.value!r}; use a learner that needs no more than that "
            "(see keyhole.LEARNERS), or a regime that tells more"
        )


def usable(learner: str, needs: Needs, *, missed: bool, score: float | None) -> float:
    """Return the score as far as the learner uses it, else NaN; raise if it needs an unknown one."""
    wants_score = needs == Needs.LABEL_ALWAYS or (needs == Needs.LABEL_IF_HIT and not missed)
    if not wants_score:
        return np.nan
    if score is not None:
        return score
    told = "a miss without the true label" if missed else "a hit without the true label"
    raise FeedbackError(
        f"{learner} needs {needs.value!r}, but the answer is {told}; give label= or score=, "
        "or use a learner that needs only 'hit or miss'"
    )


def is_miss(answer: Answer, threshold: float) -> bool:
    """Return whether the answer to a set of this threshold is a miss."""
    if isinstance(answer, Revealed):
        return bool(answer.score < threshold)
    return isinstance(answer, Missed)


@kernel
def unlocked(
    thresholds: Array,
    threshold: float,
    missed: bool,  # noqa: FBT001
    score: float,
) -> tuple[int, int]:
    """Return (covering, missing): arms below the first would hit, from the second on would miss.

    The arms between the two are those about which the answer tells nothing. ``score`` is the true
    label's, or NaN where it was not revealed.
    """
    if score == score:
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
    >>> outcomes(Revealed(0.6), threshold=0.5, thresholds=grid).tolist()
    [0, 0, 0, 1, 1]
    >>> outcomes(Missed(), threshold=0.5, thresholds=grid).tolist()
    [-1, -1, 1, 1, 1]
    """
    score = answer.score if isinstance(answer, Revealed) else np.nan
    covering, missing = unlocked(thresholds, threshold, is_miss(answer, threshold), score)
    told = np.full(thresholds.size, UNSEEN, dtype=np.int8)
    told[:covering] = 0
    told[missing:] = 1
    return told
