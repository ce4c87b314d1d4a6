"""What was answered or decided, round by round: as much of it as somebody asked to keep."""

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.numeric import Array

COLUMNS = ("round", "threshold", "size", "miss")
DECIDED = ("round", "threshold", "score", "accepted", "wrong")


class History:
    """The last answered rounds, in the order of their answers; about 150 bytes each."""

    def __init__(self, length: int, *, groups: Sequence[str | int] = ()) -> None:
        self._groups = tuple(groups)
        self._rounds: deque[tuple[float, ...]] = deque(maxlen=check_length(length))

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the columns that say whether a round was in a group."""
        return tuple(f"group {name}" for name in self._groups)

    def add(self, prediction: Any, miss: float, groups: Sequence[int] = ()) -> None:
        """Keep an answered round and its groups' places; the oldest goes where there is no room."""
        own = (float(place in groups) for place in range(len(self._groups)))
        self._rounds.append((prediction.id, prediction.threshold, prediction.size, miss, *own))

    def columns(self) -> dict[str, Array]:
        """Return an array a column."""
        return _cut((*COLUMNS, *self.groups), list(self._rounds))


class DecisionHistory:
    """The last decisions of a gate, in their order, each with its judgement once there is one."""

    def __init__(self, length: int) -> None:
        self._most = check_length(length)
        self._decisions: OrderedDict[int, tuple[float, ...]] = OrderedDict()

    def add(self, decision: Any, score: float) -> None:
        """Keep a decision; the oldest goes where there is no room."""
        number = decision.id
        self._decisions[number] = (number, decision.threshold, score, decision.size, math.nan)
        if len(self._decisions) > self._most:
            self._decisions.popitem(last=False)

    def judge(self, number: int, wrong: float) -> None:
        """Note whether an answer was wrong, if its decision is still kept."""
        if number in self._decisions:
            self._decisions[number] = (*self._decisions[number][:-1], wrong)

    def columns(self) -> dict[str, Array]:
        """Return an array a column; ``wrong`` is NaN where nobody has judged."""
        return _cut(DECIDED, list(self._decisions.values()))


def read_history(kept: History | DecisionHistory | None) -> dict[str, Array]:
    """Return an array a column of what was kept, or raise if nothing was to be."""
    if kept is None:
        raise InvalidError("no rounds were kept; make it with history=10_000")
    return kept.columns()


def check_length(length: Any) -> int:
    """Return how many rounds to keep, or raise."""
    if not is_whole(length, least=0):
        raise InvalidError(f"history {length!r} is not a whole number of rounds; try 10_000, or 0")
    return int(length)


def _cut(names: Sequence[str], rows: list[tuple[float, ...]]) -> dict[str, Array]:
    table = np.array(rows, dtype=np.float64).reshape(-1, len(names))
    return {name: table[:, place] for place, name in enumerate(names)}
