"""The rows that a model has seen, as columns: what was forecast, what was shown, and what came."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from math import inf
from typing import Any

import numpy as np

from keyhole.integrations._cells import Cells
from keyhole.integrations._table import Rows
from keyhole.numeric import Counts

# What tells a row from all others: the codes of its series, its time and its cutoff, and its place
# among the rows of a table that have all these the same.
Key = tuple[int, int, int, int]
At = tuple[int, int]  # the codes of a series and a time
WHOLE_LINE = (-inf, inf)  # what is shown before any outcome is known


class Codes:
    """A number for every value, by the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

    def add(self, value: object) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def add_cells(self, cells: Cells) -> Counts:
        """Return the code of every row of a column."""
        return np.array([self.add(value) for value in cells.values], dtype=np.int64)[cells.codes]

    def find(self, value: object) -> int:
        return self._codes.get(value, -1)


class Seen:
    """The rows, each of which has a slot in these columns; ``slots`` are those that are still kept.

    ``number`` is that of its round, -1 if it has none, as nothing was known when it was forecast. What
    was shown is, on each level, the ends of an interval, or the labels of a set.
    """

    def __init__(self, *, levels: int) -> None:
        self.series, self.times = Codes(), Codes()
        self.slots: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.predictors: list[int] = []
        self.outputs: list[Any] = []
        self.numbers: list[int] = []
        self.shown: list[list[Any]] = [[] for _ in range(levels)]
        self.truths: list[Any] = []
        self.open: dict[At, list[Key]] = {}

    def list_keys(self, rows: Rows) -> list[Key]:
        series = self.series.add_cells(rows.series).tolist()
        times, cutoffs = self.times.add_cells(rows.times), self.times.add_cells(rows.cutoffs)
        keys = list(zip(series, times.tolist(), cutoffs.tolist(), [0] * len(series), strict=True))
        if len(set(keys)) < len(keys):
            places: dict[Key, int] = {}
            for row, key in enumerate(keys):
                place = places[key] = places.get(key, -1) + 1
                keys[row] = (*key[:3], place)
        return keys

    def find_at(self, series: Hashable, time: object) -> At:
        return self.series.find(series), self.times.find(time)

    def add(self, keys: Sequence[Key], predictors: Iterable[int], outputs: Iterable[object]) -> int:
        """Add rows of which nothing is known, and return the slot of the first."""
        first, count = len(self.outputs), len(keys)
        self.slots.update(zip(keys, range(first, first + count), strict=True))
        self.keys += keys
        self.predictors += predictors
        self.outputs += outputs
        self.numbers += [-1] * count
        self.truths += [None] * count
        for level in self.shown:
            level += [WHOLE_LINE] * count
        return first

    def wait(self, keys: Iterable[Key]) -> None:
        """Take note of the rows among these whose outcome is to come."""
        for key in keys:
            if self.truths[self.slots[key]] is None:
                self.open.setdefault(key[:2], []).append(key)

    def close(self, slots: Iterable[int], truths: Iterable[object]) -> None:
        """Take note of outcomes, once they were accepted: those refused can be given again."""
        for slot, truth in zip(slots, truths, strict=True):
            self.truths[slot] = truth
            key = self.keys[slot]
            if self.open and (waiting := self.open.get(key[:2])) and key in waiting:
                waiting.remove(key)
                if not waiting:
                    del self.open[key[:2]]

    def list_keys_kept(self) -> tuple[list[Hashable], list[Any], list[Any]]:
        """Return the series, the times and the cutoffs of the rows that are kept."""
        series, times = self.series.values, self.times.values
        return (
            [series[key[0]] for key in self.slots],
            [times[key[1]] for key in self.slots],
            [times[key[2]] for key in self.slots],
        )

    def pick(self, column: list[Any]) -> list[Any]:
        """Return a column of the rows that are kept."""
        return [column[slot] for slot in self.slots.values()]

    def forget(self, count: int) -> None:
        """Let go of so many rows that have their outcome, the oldest first."""
        if count <= 0:
            return
        done = (key for key, slot in self.slots.items() if self.truths[slot] is not None)
        for key in list(islice(done, count)):
            del self.slots[key]
        if len(self.outputs) > 2 * len(self.slots):
            columns: Any = (
                self.keys,
                self.predictors,
                self.outputs,
                self.numbers,
                self.truths,
                *self.shown,
            )
            for column in columns:
                column[:] = self.pick(column)
            self.slots = dict(zip(self.slots, range(len(self.slots)), strict=True))
