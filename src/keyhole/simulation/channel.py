"""How answers travel from the world to the learner: at once, late, never, or wrong."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_real, is_whole
from keyhole.errors import InvalidError
from keyhole.numeric import Array, kernel
from keyhole.predictor.draws import ROUNDING, make_draws

_LATEST = 10**15  # rounds of delay, as of a horizon
_CHANNEL = 1  # Philox takes two words as its key; the learner's draws have 0 for the second.


@dataclass(frozen=True, kw_only=True)
class Channel:
    """What may happen to an answer before it arrives.

    Parameters
    ----------
    delay
        By how many rounds an answer is late; with ``geometric`` the average.
    batch
        How many sets are predicted at a time: the answers of a batch come when it is full, before the
        next one is predicted, or ``delay`` rounds after that.
    geometric
        Whether delays are random, with a geometric distribution.
    lost
        The probability that an answer never comes.
    lost_if_missed
        The same for a miss, if it differs: people who found nothing may answer less often.
    known
        Whether these probabilities are known; an answer that comes with probability p
        then counts for 1 / p rounds on average.
    wrong
        The probability that an answer is the opposite: a hit reported as a miss, or a miss as a hit
        of some label in the set.
    corrected
        Whether the learner knows how often answers are wrong and corrects them, as
        ``predictor.learn(..., wrong=...)`` does.

    Examples
    --------
    >>> Channel(delay=100, lost=0.2).is_clear
    False
    """

    delay: float = 0.0
    batch: int = 1
    geometric: bool = False
    lost: float = 0.0
    lost_if_missed: float | None = None
    known: bool = False
    wrong: float = 0.0
    corrected: bool = False

    def __post_init__(self) -> None:
        late = self.delay
        if not (is_real(late) and 0 <= late <= _LATEST and (self.geometric or late == int(late))):
            raise InvalidError(
                f"delay {late!r} is not a whole number of rounds from 0 to {_LATEST:,}; try 10"
            )
        if not is_whole(self.batch, least=1):
            raise InvalidError(f"batch {self.batch!r} is not a whole number of sets, 1 or more")
        chances = {"lost": self.lost, "lost_if_missed": self.lost_on_miss, "wrong": self.wrong}
        for name, chance in chances.items():
            if not (is_real(chance) and 0.0 <= chance < 1.0):
                raise InvalidError(f"{name} {chance!r} is not a probability below 1; try 0.1")
        if self.corrected and self.wrong >= 0.5:
            raise InvalidError(
                f"wrong {self.wrong} cannot be corrected: from 1/2 on answers say nothing; try 0.1"
            )

    @property
    def lost_on_miss(self) -> float:
        """The share of answers to missed rounds that never come."""
        return self.lost if self.lost_if_missed is None else self.lost_if_missed

    @property
    def is_clear(self) -> bool:
        """Whether every answer comes, at once and right."""
        return self.batch == 1 and self.delay == self.lost == self.lost_on_miss == self.wrong == 0.0

    def deliver(self, rounds: int, *, seed: int) -> "Deliveries":
        """Return after which round each answer comes, and which answers are wrong."""
        rng = np.random.Generator(np.random.Philox(key=np.array([seed, _CHANNEL], dtype=np.uint64)))
        numbers = np.arange(rounds)
        delays = np.full(rounds, int(self.delay))
        if self.geometric:
            delays = rng.geometric(1.0 / (1.0 + self.delay), rounds) - 1
        full = numbers + self.batch - 1 - numbers % self.batch  # when each round's batch is complete
        arrivals = full + delays
        return Deliveries(
            arrivals=arrivals,
            order=np.lexsort((numbers, arrivals)),
            report=rng.random(rounds),
            lie=rng.random(rounds),
            made_up=rng.random(rounds),
            rounding=make_draws(seed, 0, rounds, kind=ROUNDING),  # the predictor's own
            told_if_hit=1.0 - self.lost,
            told_if_missed=1.0 - self.lost_on_miss,
            wrong=self.wrong,
            known=self.known,
            corrected=self.corrected,
            usual=np.ones(1),
            heard=np.zeros(1, dtype=np.int64),
        )


class Deliveries(NamedTuple):
    """When each answer comes, in which order, and the draws that decide what it says.

    ``made_up`` is where in the set a wrong label is, and ``rounding`` what rounds how often an answer
    counts.
    """

    arrivals: NDArray[np.int64]
    order: NDArray[np.int64]
    report: Array
    lie: Array
    made_up: Array
    rounding: Array
    told_if_hit: float
    told_if_missed: float
    wrong: float
    known: bool
    corrected: bool
    usual: Array  # the usual weight of an answer by now,
    heard: NDArray[np.int64]  # and how many there were


def most_open(arrivals: NDArray[np.int64]) -> int:
    """Return how many rounds are open at most, the one just played included."""
    rounds = arrivals.size
    closed = np.cumsum(np.bincount(np.minimum(arrivals, rounds), minlength=rounds + 1))[:rounds]
    before = np.concatenate(([0], closed[:-1]))
    return int((np.arange(1, rounds + 1) - before).max())


@kernel
def hear(
    deliveries: Deliveries,
    number: int,
    threshold: float,
    missed: bool,  # noqa: FBT001
    score: float,
) -> tuple[bool, float]:
    """Return the miss or hit, and the score, that the answer of a round speaks of, true or not.

    An empty set cannot be said to have held the label, so that its miss is never told wrong.
    """
    if deliveries.lie[number] >= deliveries.wrong or (missed and threshold > 1.0):
        return missed, score
    edge = min(1.0, max(0.0, threshold))
    if missed:
        return False, edge + (1.0 - edge) * deliveries.made_up[number]
    return True, edge * deliveries.made_up[number]
