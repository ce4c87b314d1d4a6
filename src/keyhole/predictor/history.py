"""What was answered or decided, round by round: as much of it as somebody asked to keep."""

import math
from typing import Any

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.numeric import Array
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup


class History:
    """The last rounds, about 150 bytes each: sets as they are answered, decisions as they are made."""

    def __init__(self, length: int, setup: Setup[Any]) -> None:
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
