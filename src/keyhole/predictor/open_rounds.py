"""The rounds of a predictor or a gate that wait for their answer, under one lock."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeGuard, cast

from keyhole.checks import is_whole
from keyhole.errors import AnsweredError, ExpiredError, UnknownRoundError
from keyhole.predictor.batch import LabelSets
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.scores import Decision, Interval, LabelSet

_SHOWN = {LabelSet, Interval, Decision}


class OpenRounds:
    """Rounds by their numbers, in the order in which they were opened; the oldest of too many goes.

    ``waiting`` has them by number, or their batch, until somebody looks for one of them. ``lock``
    is held by whoever opens a round, answers one, or reads what belongs together.
    """

    __slots__ = ("_oldest", "_progress", "limit", "lock", "waiting")

    def __init__(
        self, limit: int, progress: Progress[Any], waiting: dict[int, Round[Any]] | None = None
    ) -> None:
        self.limit, self._progress = limit, progress
        self.waiting: dict[int, Any] = {} if waiting is None else waiting
        self._oldest = next(iter(self.waiting), 0)  # No round before this one is open.
        self.lock = threading.RLock()

    def __getstate__(self) -> tuple[Any, ...]:
        with self.lock:
            return self.limit, self._progress, dict(self.waiting)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[Round[Any]]:
        return iter([self.find(number) for number in self.waiting])

    def add(self, opened: Round[Any]) -> None:
        """Keep a round until its answer comes."""
        waiting = self.waiting
        waiting[opened.prediction.id] = opened
        if len(waiting) > self.limit:
            self._drop_oldest()

    def add_batch(self, batch: LabelSets) -> None:
        """Keep the rounds of a batch; each is made when somebody looks for it."""
        self.waiting.update(dict.fromkeys(batch.numbers, batch))
        while len(self.waiting) > self.limit:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        waiting = self.waiting
        while self._oldest not in waiting:
            self._oldest += 1
        del waiting[self._oldest]
        self._progress.tally.expired += 1
        self._progress.tally.floor = self._oldest + 1

    def find(self, given: Any) -> Round[Any]:
        """Return the round of what was shown, or of its number; or raise, if it is not open."""
        is_shown = type(given) in _SHOWN
        number = given.id if is_shown else given
        known = is_shown or type(number) is int or is_whole(number, least=0)
        waiting = self.waiting.get(number) if known else None
        if waiting is None:
            self._refuse(given, number)
        if type(waiting) is LabelSets:
            waiting = self.waiting[number] = waiting.open(int(number))
        if is_shown and given is not waiting.prediction and given != waiting.prediction:
            raise UnknownRoundError(f"round {number} here was not {given}")
        return cast("Round[Any]", waiting)

    def find_all(self, given: Sequence[Any]) -> list[Round[Any]]:
        """Return the rounds of what was shown, or raise if one is not open, or there twice."""
        found = [self.find(one) for one in given]
        if len({one.prediction.id for one in found}) < len(found):
            raise AnsweredError("a round is there twice; give each round one answer")
        return found

    def has_batch(self, shown: Sequence[Any]) -> TypeGuard[LabelSets]:
        """Return whether what was shown is a batch of which every round waits."""
        if not isinstance(shown, LabelSets):
            return False
        return all(row is shown for row in map(self.waiting.get, shown.numbers))

    def close_batch(self, batch: LabelSets) -> None:
        """Keep the rounds of a batch no longer."""
        for number in batch.numbers:
            del self.waiting[number]

    def skip(self, given: Any) -> None:
        """Close a round that nobody will answer."""
        with self.lock:
            del self.waiting[self.find(given).prediction.id]
            self._progress.tally.skipped += 1

    def _refuse(self, given: Any, number: Any) -> NoReturn:
        """Raise what is wrong with a round that is not open."""
        tally = self._progress.tally
        if not is_whole(number, least=-(2**63)):
            raise UnknownRoundError(f"{given!r} is neither a prediction nor a round's number")
        if not 0 <= number < tally.predicted:
            raise UnknownRoundError(
                f"round {number} was never predicted; {tally.predicted} rounds were, numbered from 0"
            )
        if number < tally.floor:
            raise ExpiredError(
                f"round {number} is closed: it expired, or was answered long ago; at most "
                f"{self.limit} rounds stay open (open_limit), the oldest is dropped"
            )
        raise AnsweredError(
            f"round {number} waits no more: it has its answer, or was closed without one; this one "
            "was not counted"
        )
