"""A learner at work in memory: what every kind of it shares."""

import copy
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NoReturn, Self, cast

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import AnsweredError, ExpiredError, InvalidError, UnknownRoundError
from keyhole.learners import Learner
from keyhole.numeric import Array
from keyhole.predictor import file
from keyhole.predictor.batch import LabelSets
from keyhole.predictor.context import Group
from keyhole.predictor.draws import Draws
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.report import judge_groups, list_notes
from keyhole.predictor.rounds import R, Round
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Outcome
from keyhole.scores import Decision, Interval, LabelSet, Score

_SHOWN = {LabelSet, Interval, Decision}


class History:
    """The last rounds, about 150 bytes each: sets as they are answered, decisions as they are made."""

    def __init__(self, length: int, setup: Setup) -> None:
        if not is_whole(length, least=0):
            fault = f"history {length!r} is not a whole number of rounds; try 10_000, or 0"
            raise InvalidError(fault)
        self._length, self._decides = int(length), setup.kind.decides
        groups = setup.names.groups or range(setup.groups)
        self._columns = (
            ["round", "threshold", "score", "accepted", "wrong"]
            if self._decides
            else ["round", "threshold", "size", "miss", *(f"group {name}" for name in groups)]
        )
        self._rows: dict[int, tuple[float, ...]] = {}

    def note_opened(self, opened: Round[Any]) -> None:
        if self._decides:
            shown: Any = opened.prediction
            case: Any = opened.case
            self._add(shown.id, (shown.id, shown.threshold, case.best, shown.size, math.nan))

    def note_answered(self, answered: Round[Any], miss: float) -> None:
        shown, rows = answered.prediction, self._rows
        if not self._decides:
            own = (float(group in answered.groups) for group in range(len(self._columns) - 4))
            self._add(shown.id, (shown.id, shown.threshold, shown.size, miss, *own))
        elif shown.id in rows:
            rows[shown.id] = (*rows[shown.id][:-1], miss)

    def note_amended(self, number: int, miss: float) -> None:
        if number in self._rows:
            place = self._columns.index("wrong" if self._decides else "miss")
            row = self._rows[number]
            self._rows[number] = (*row[:place], miss, *row[place + 1 :])

    def _add(self, number: int, row: tuple[float, ...]) -> None:
        self._rows[number] = row
        if len(self._rows) > self._length:
            del self._rows[next(iter(self._rows))]

    def read(self) -> dict[str, Array]:
        width = len(self._columns)
        table = np.array(list(self._rows.values()), dtype=np.float64).reshape(-1, width)
        return {name: table[:, place].copy() for place, name in enumerate(self._columns)}


class AnsweredRounds(Generic[R]):
    """The rounds that were answered last, and what their answers came to; as many as are to be kept."""

    def __init__(self, limit: int = 0) -> None:
        if not is_whole(limit, least=0):
            raise InvalidError(
                f"amend_limit {limit!r} is not a whole number of rounds; try 1_000, or 0"
            )
        self.limit = int(limit)
        self.rounds: dict[int, tuple[Round[R], Outcome]] = {}

    def keep(self, answered: Round[R], outcome: Outcome) -> None:
        self.rounds[answered.prediction.id] = answered._replace(memo=None), outcome
        if len(self.rounds) > self.limit:
            del self.rounds[next(iter(self.rounds))]

    def find(self, number: object) -> tuple[Round[R], Outcome]:
        if number in self.rounds:
            return self.rounds[number]
        if not self.limit:
            raise AnsweredError(
                f"round {number!r} cannot be amended: no answered rounds are kept for that; make it "
                "with amend_limit=1_000"
            )
        raise AnsweredError(
            f"round {number!r} cannot be amended: it has no answer (learn gives it one), or is not one "
            f"of the last {self.limit:,} that have; keep more of them with amend_limit=..."
        )


_State = tuple[Setup, Progress, dict[int, Round[R] | LabelSets], History | None, AnsweredRounds[R]]


class Session(Generic[R]):
    """A setup, its progress, and the rounds that wait for an answer: by number, as they were opened.

    The only place where time, identity and randomness meet a learner. Whoever opens a round, answers
    one, or reads what belongs together holds the lock. A round of a batch is kept as its batch until
    somebody looks for it.
    """

    _HOLDER: ClassVar[str]
    _progress: Progress

    def __init__(self, setup: Setup, *, history: int, watch: bool, amend_limit: int) -> None:
        kept = History(history, setup) if history else None
        progress = setup.kind.start(setup, watch=watch)
        self.__setstate__((setup, progress, {}, kept, AnsweredRounds(amend_limit)))

    def __getstate__(self) -> "_State[R]":
        with self._lock:
            waiting = dict(self._waiting)
            return self._setup, self._progress, waiting, self._history, self._answered

    def __setstate__(self, state: "_State[R]") -> None:
        self._setup, self._progress, self._waiting, self._history, self._answered = state
        self._oldest = next(iter(self._waiting), 0)  # No round before this one is open.
        self._lock = threading.RLock()
        self._keeps = self._answered.limit > 0 or self._history is not None
        self._draws = Draws(self._setup.seed) if self._setup.learner.rule.draws else None

    def _describe(self, rounds: str, figures: str) -> str:
        count = f", {self.open_rounds:,} open" if self.open_rounds else ""
        name = type(self).__name__
        return f"<{name} {self.learner.name}, alpha {self.alpha:g}: {rounds}{figures}{count}>"

    @property
    def setup(self) -> Setup:
        """What it is made with."""
        return self._setup

    @property
    def progress(self) -> Progress:
        """A copy of what it has learnt and counted, for ``keyhole.keyed.make_fold(start=...)``."""
        with self._lock:
            return copy.deepcopy(self._progress)

    @property
    def learner(self) -> Learner:
        """The rule at work, with its parameters."""
        return self._setup.learner

    @property
    def alpha(self) -> float:
        """The target: the share of sets that miss, or of accepted answers that are wrong."""
        return self._setup.learner.alpha

    @property
    def seed(self) -> int:
        """What fixes every draw."""
        return self._setup.seed

    @property
    def rounds(self) -> int:
        """How many rounds have been answered."""
        return self._progress.tally.answered

    @property
    def predicted_rounds(self) -> int:
        """How many rounds have been predicted or decided, answered or not."""
        return self._progress.tally.predicted

    @property
    def open_rounds(self) -> int:
        """How many rounds are waiting for their answer."""
        return len(self._waiting)

    @property
    def expired_rounds(self) -> int:
        """How many rounds were dropped unanswered because too many were open."""
        return self._progress.tally.expired

    @property
    def skipped_rounds(self) -> int:
        """How many rounds were closed because nobody would answer them."""
        return self._progress.tally.skipped

    @property
    def groups(self) -> dict[str | int, Group]:
        """The statistics of each group: rounds, misses, their excess over alpha, and its bound.

        Those of decisions are of the accepted answers that were judged.
        """
        with self._lock:
            return judge_groups(self._setup, self._progress)

    @property
    def notes(self) -> list[str]:
        """What a user should know about the current state, in sentences; usually empty."""
        with self._lock:
            return list_notes(self._setup, self._progress)

    @property
    def watch(self) -> Watch:
        """Whether the recent share of misses, or of wrong answers, is alpha; if not, since when.

        If rounds miss with probability alpha, it raises on average at most one false alarm in 10^6
        rounds, however often it is checked. Until there are enough answers for the promise
        to be judged, ``starting`` is true, and there is no alarm.

        Examples
        --------
        >>> from keyhole import MISS, Predictor
        >>> predictor = Predictor(alpha=0.1, watch=True)
        >>> predictor.calibrate([[0.7, 0.3]] * 1000, ([0] * 9 + [1]) * 100)
        >>> for _ in range(12):
        ...     predictor.learn(predictor.predict([0.7, 0.3]), MISS)
        >>> predictor.watch.alarm.name, predictor.watch.since, predictor.watch.raised
        ('TOO_MANY', 1, 12)
        >>> Predictor(alpha=0.1, watch=True).watch.starting
        True
        """
        with self._lock:
            if self._progress.watch is None:
                raise InvalidError("the rounds are not watched; make it with watch=True")
            return copy.deepcopy(self._progress.watch)

    def history(self) -> dict[str, Array]:
        """Return the rounds that were kept, an array for each column.

        Of a predictor those that were answered: round, threshold, size, miss, and "group NAME", 1
        where the round was in that group, else 0. Of decisions all: round, threshold, score,
        accepted, and wrong, NaN where there is no judgement.

        Examples
        --------
        >>> from keyhole import Predictor
        >>> predictor = Predictor(alpha=0.1, history=1_000)
        >>> predictor.learn(predictor.predict({"cat": 0.7, "dog": 0.3}), label="cat")
        >>> {name: column.round(2).tolist() for name, column in predictor.history().items()}
        {'round': [0.0], 'threshold': [0.3], 'size': [1.0], 'miss': [0.0]}
        """
        with self._lock:
            if self._history is None:
                raise InvalidError("no rounds were kept; make it with history=10_000")
            return self._history.read()

    def skip(self, shown: R | int) -> None:
        """Close a round that nobody will answer; it teaches nothing and counts as skipped."""
        self._setup.kind.check_awaited(self._setup, shown)
        with self._lock:
            del self._waiting[self._find(shown).prediction.id]
            self._progress.tally.skipped += 1

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all; open rounds and draws included."""
        file.write(Path(path), self.dump())

    @classmethod
    def load(cls, path: str | Path, *, score: Score[R] | None = None) -> Self:
        """Return what was saved; it continues bit for bit.

        ``score`` is needed only if it was a user's function, which a file cannot hold.
        """
        return cls.restore(Path(path).read_bytes(), score=score)

    def dump(self) -> bytes:
        """Return what ``save`` writes."""
        with self._lock:
            waiting = [self._find(number) for number in self._waiting]
            return file.dump(self._setup, self._progress, waiting)

    @classmethod
    def restore(cls, content: bytes, *, score: Score[R] | None = None) -> Self:
        """Return the object that ``dump`` wrote, or raise ``SnapshotError``."""
        made = cls.__new__(cls)
        setup, progress, waiting = file.restore(content, holder=cls._HOLDER, score=score)
        made.__setstate__((setup, progress, {**waiting}, None, AnsweredRounds()))
        return made

    def _drop_oldest(self) -> None:
        waiting = self._waiting
        while self._oldest not in waiting:
            self._oldest += 1
        del waiting[self._oldest]
        self._progress.tally.expired += 1
        self._progress.tally.floor = self._oldest + 1

    def _find(self, given: object) -> Round[R]:
        """Return the round of what was shown, or of its number; or raise, if it is not open."""
        is_shown = type(given) in _SHOWN
        if is_shown:
            open_round: Any = self._waiting.get(given.id)  # type: ignore[attr-defined]
            if type(open_round) is Round and open_round.prediction is given:
                return open_round
        number: Any = given.id if is_shown else given  # type: ignore[attr-defined]
        known = is_shown or type(number) is int or is_whole(number, least=0)
        waiting: Any = self._waiting.get(number) if known else None
        if waiting is None:
            self._refuse(given, number)
        if type(waiting) is LabelSets:
            waiting = self._waiting[number] = cast("Round[R]", waiting.open(int(number)))
        found: Round[R] = waiting
        if is_shown and given is not found.prediction and given != found.prediction:
            raise UnknownRoundError(f"{given} is not round {number} here; answer it where it was made")
        return found

    def _find_all(self, given: Sequence[object]) -> list[Round[R]]:
        """Return the rounds of what was shown, or raise if one is not open, or there twice."""
        found = [self._find(one) for one in given]
        if len({one.prediction.id for one in found}) < len(found):
            raise AnsweredError("the batch answers a round twice; give each round one answer")
        return found

    def _refuse(self, given: object, number: Any) -> NoReturn:
        """Raise what is wrong with a round that is not open."""
        tally = self._progress.tally
        if not is_whole(number, least=-(2**63)):
            raise UnknownRoundError(
                f"{given!r} is neither a prediction nor a round's number; keep the prediction's id "
                "with your case"
            )
        if not 0 <= number < tally.predicted:
            raise UnknownRoundError(
                f"round {number} was never predicted; {tally.predicted} rounds were, numbered from 0"
            )
        if number < tally.floor:
            raise ExpiredError(
                f"round {number} is closed: it expired, or was answered long ago; at most "
                f"{self._setup.open_limit} rounds stay open (open_limit), the oldest is dropped"
            )
        raise AnsweredError(
            f"round {number} is not open any more: it was {self._setup.kind.closed}; this one was not "
            "counted"
        )

    def _close(self, answered: Round[R], outcome: Outcome) -> None:
        del self._waiting[answered.prediction.id]
        if self._keeps:
            self._keep(answered, outcome)

    def _keep(self, answered: Round[R], outcome: Outcome) -> None:
        if self._answered.limit:
            self._answered.keep(answered, outcome)
        if self._history is not None:
            self._history.note_answered(answered, outcome.miss)

    def _amend(self, shown: object, read: Callable[[Round[R]], Outcome]) -> None:
        """Let the accounts be those of another answer than the one that a round was given."""
        number = shown.id if type(shown) in _SHOWN else shown  # type: ignore[attr-defined]
        with self._lock:
            answered, before = self._answered.find(number)
            if type(shown) in _SHOWN and shown != answered.prediction:
                raise UnknownRoundError(
                    f"{shown} is not round {number} here; answer it where it was made"
                )
            setup, outcome = self._setup, read(answered)
            outcome = setup.kind.amend(setup, self._progress, answered, before, outcome)
            self._answered.rounds[answered.prediction.id] = answered, outcome
            if self._history is not None:
                self._history.note_amended(answered.prediction.id, outcome.miss)
