"""A learner at work: the only place where time, identity and randomness meet it."""

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, Self, cast, overload

from keyhole import bounds, learners, saved, snapshot
from keyhole.channel import counted
from keyhole.checks import is_whole
from keyhole.draws import checked_seed, draw_of
from keyhole.errors import (
    AlphaError,
    AnsweredError,
    BoundWarning,
    ExpiredError,
    FeedbackError,
    HorizonWarning,
    InvalidError,
    LearnerError,
    ScoreError,
    UnknownRoundError,
)
from keyhole.feedback import (
    Answer,
    Regime,
    check_enough,
    checked_regime,
)
from keyhole.learners import Distribution, Learner
from keyhole.rounds import MISSING, R, Round, Tally, propose, settle
from keyhole.saved import Contents
from keyhole.scores import LabelSet, Probabilities, Region, Score

DEFAULT_LEARNER = "logit-tracker"


class Predictor(Generic[R]):
    """Proposes a set for every round and learns from its answer, whenever that comes.

    Parameters
    ----------
    learner
        The name of a rule in ``keyhole.LEARNERS``, or a learner.
    alpha, horizon, arms
        As for ``keyhole.make``, if the learner is named.
    score
        How to read a model's output; by default label scores in [0, 1].
    regime
        What the world can tell: "bandit", "semi-bandit" or "full".
    seed
        Fixes every draw; without one nobody can guess them.
    open_limit
        How many rounds may wait for an answer; past that the oldest is dropped.

    Examples
    --------
    >>> from keyhole import MISS
    >>> predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=50_000, seed=7)
    >>> prediction = predictor.predict({"cat": 0.71, "lynx": 0.22, "dog": 0.04})
    >>> predictor.learn(prediction, MISS)
    >>> predictor.rounds, predictor.miss_rate
    (1, 1.0)
    """

    @overload
    def __init__(
        self: "Predictor[LabelSet]",
        learner: str | Learner = ...,
        *,
        alpha: float | None = ...,
        horizon: int | None = ...,
        arms: int | None = ...,
        score: None = ...,
        regime: str = ...,
        seed: int | None = ...,
        open_limit: int = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: "Predictor[R]",
        learner: str | Learner = ...,
        *,
        alpha: float | None = ...,
        horizon: int | None = ...,
        arms: int | None = ...,
        score: Score[R],
        regime: str = ...,
        seed: int | None = ...,
        open_limit: int = ...,
    ) -> None: ...

    def __init__(
        self,
        learner: str | Learner = DEFAULT_LEARNER,
        *,
        alpha: float | None = None,
        horizon: int | None = None,
        arms: int | None = None,
        score: Any = None,
        regime: str = Regime.SEMI_BANDIT,
        seed: int | None = None,
        open_limit: int = 10_000,
    ) -> None:
        self._learner = _given(learner, alpha=alpha, horizon=horizon, arms=arms)
        self._regime = checked_regime(regime)
        check_enough(self._learner.name, self._learner.needs, self._regime)
        if not is_whole(open_limit, least=1):
            raise InvalidError(f"open_limit {open_limit!r} is not a whole number of at least 1")
        if score is not None and not callable(getattr(score, "read", None)):
            raise ScoreError(f"score {score!r} is not a score kind; try keyhole.Probabilities()")
        self._score: Score[R] = cast("Score[R]", Probabilities() if score is None else score)
        self._seed = checked_seed(seed)
        self._open_limit = int(open_limit)
        self._state = self._learner.start()
        self._tally = Tally()
        self._credit = 0.0  # What answers of known chance stand for beyond what they counted.
        self._open: OrderedDict[int, Round[R]] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def learner(self) -> Learner:
        """The rule at work, with its parameters."""
        return self._learner

    @property
    def alpha(self) -> float:
        """The target miss rate."""
        return self._learner.alpha

    @property
    def seed(self) -> int:
        """What fixes every draw."""
        return self._seed

    @property
    def rounds(self) -> int:
        """How many rounds have been answered."""
        return self._tally.answered

    @property
    def open_rounds(self) -> int:
        """How many rounds wait for their answer."""
        return len(self._open)

    @property
    def expired_rounds(self) -> int:
        """How many rounds were dropped unanswered because too many were open."""
        return self._tally.expired

    @property
    def broken_bounds(self) -> int:
        """How many true values lay beyond the residual bound."""
        return self._tally.bound_broken

    @property
    def miss_rate(self) -> float:
        """The share of answered rounds that missed; NaN before the first answer."""
        with self._lock:
            return self._tally.miss_rate

    @property
    def mean_size(self) -> float:
        """The mean size of the answered sets or intervals; NaN before the first answer."""
        with self._lock:
            return self._tally.mean_size

    @property
    def distribution(self) -> Distribution:
        """The thresholds that may be played next and how likely each is."""
        with self._lock:
            return self._learner.distribution(self._state)

    def regret_bound(self) -> float:
        """Return the theorem's bound on the regret, or raise ``TheoremError`` where none holds.

        It speaks of the horizon; without one, of the rounds up to now. It holds if every answer
        comes before the next prediction.
        """
        past = self._learner.horizon is None or self.rounds > self._learner.horizon
        return bounds.regret(self._learner, rounds=max(1, self.rounds) if past else None)

    def predict(self, output: Any, *, groups: Iterable[int] = ()) -> R:
        """Return the set or interval to show; it stays open until it is answered.

        ``groups`` are those the round belongs to, for learners that tell groups apart.
        """
        case = self._score.read(output)
        with self._lock:
            number = self._tally.predicted
            draw = draw_of(self._seed, number)
            opened = propose(self._learner, self._state, case, number=number, draw=draw, groups=groups)
            self._tally.predicted += 1
            self._open[number] = opened
            self._drop_oldest()
        return opened.prediction

    def learn(
        self,
        prediction: R | int,
        answer: Answer | None = None,
        *,
        label: Any = MISSING,
        score: float | None = None,
        chance: float = 1.0,
    ) -> None:
        """Answer a round: with ``HIT``, ``MISS``, the true label, or the true label's score.

        Where answers may never come, and ``chance`` is the known probability that this one did, it
        counts for the 1 / ``chance`` rounds that it stands for.

        Raises
        ------
        AnsweredError, ExpiredError, UnknownRoundError
            If the round is not open. Nothing changes.
        FeedbackError, LabelError, ScoreError
            If the answer is not one, or tells too little for the learner. The round stays open.
        """
        with self._lock:
            waiting = self._waiting(prediction)
            times, credit = self._counted(chance)
            outcome = settle(
                self._learner, self._state, waiting, answer, label=label, score=score, times=times
            )
            self._credit = credit
            del self._open[waiting.prediction.id]
            self._tally.count(outcome)
            answered = self._tally.answered
        self._speak(answered, bound_broken=outcome.bound_broken)

    def _counted(self, chance: float) -> tuple[int, float]:
        """Return for how many rounds an answer counts, and what is left of a round."""
        if not 0.0 < chance <= 1.0:
            raise FeedbackError(f"chance {chance} is not a probability above 0; try 0.5")
        return counted(self._credit, float(chance))

    def _drop_oldest(self) -> None:
        if len(self._open) > self._open_limit:
            number, _ = self._open.popitem(last=False)
            self._tally.expired += 1
            self._tally.floor = number + 1

    def _waiting(self, prediction: R | int) -> Round[R]:
        number = prediction.id if isinstance(prediction, Region) else prediction
        if not is_whole(number, least=-(2**63)):
            raise UnknownRoundError(f"{prediction!r} is neither a prediction nor a round's number")
        if number in self._open:
            waiting = self._open[int(number)]
            if isinstance(prediction, Region) and prediction != waiting.prediction:
                raise UnknownRoundError(f"round {number} of this predictor was not {prediction}")
            return waiting
        if not 0 <= number < self._tally.predicted:
            raise UnknownRoundError(
                f"round {number} was never predicted; "
                f"{self._tally.predicted} rounds were, numbered from 0"
            )
        if number < self._tally.floor:
            raise ExpiredError(
                f"round {number} is closed: it expired, or was answered long ago; at most "
                f"{self._open_limit} rounds stay open (open_limit), the oldest is dropped"
            )
        raise AnsweredError(f"round {number} has its answer already; the second one was not counted")

    def _speak(self, answered: int, *, bound_broken: bool) -> None:
        horizon = self._learner.horizon
        if horizon is not None and answered == horizon + 1:
            warnings.warn(
                f"{self._learner.name} goes on past its horizon of {horizon} rounds; "
                "its rates and its guarantee were tuned for that many",
                HorizonWarning,
                stacklevel=3,
            )
        if bound_broken:
            warnings.warn(
                "the true value lies beyond the residual bound, where no threshold covers it; "
                "it counts as a miss: use a larger bound, or ScaledResiduals",
                BoundWarning,
                stacklevel=3,
            )

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all; open rounds and draws included."""
        snapshot.write(Path(path), self.dump())

    @classmethod
    def load(cls, path: str | Path, *, score: Score[R] | None = None) -> Self:
        """Return the predictor that was saved; it continues bit for bit.

        ``score`` is needed only if it was a function of the user's, which a file cannot hold.
        """
        return cls.restore(Path(path).read_bytes(), score=score)

    def dump(self) -> bytes:
        """Return what ``save`` writes."""
        with self._lock:
            return saved.packed(
                Contents(
                    learner=self._learner,
                    score=self._score,
                    regime=self._regime.value,
                    seed=self._seed,
                    open_limit=self._open_limit,
                    state=self._state,
                    tally=self._tally,
                    credit=self._credit,
                    open=self._open,
                )
            )

    @classmethod
    def restore(cls, content: bytes, *, score: Score[R] | None = None) -> Self:
        """Return the predictor that ``dump`` wrote, or raise ``SnapshotError``."""
        held = saved.unpacked(content, score=score)
        predictor = cls(
            held.learner,
            score=held.score,
            regime=held.regime,
            seed=held.seed,
            open_limit=held.open_limit,
        )
        predictor._state, predictor._tally = held.state, held.tally
        predictor._credit, predictor._open = held.credit, held.open
        return predictor


def _given(
    learner: str | Learner, *, alpha: float | None, horizon: int | None, arms: int | None
) -> Learner:
    if isinstance(learner, Learner):
        if not alpha is horizon is arms is None:
            raise LearnerError(
                f"{learner.name} comes with its parameters; give alpha, horizon and arms to it, "
                "not to the predictor"
            )
        return learner
    if alpha is None:
        raise AlphaError("alpha is missing; give the share of misses you can bear, such as 0.1")
    return learners.make(learner, alpha=alpha, horizon=horizon, arms=arms)
