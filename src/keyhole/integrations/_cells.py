"""Columns of a table by their distinct values, so that each value is looked at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyhole.errors import MissingExtraError
from keyhole.integrations._cases import is_missing
from keyhole.numeric import Array, Counts

try:
    import narwhals as nw
except ImportError:
    raise MissingExtraError(
        "this adapter needs narwhals; pip install 'keyhole-conformal[frames]'"
    ) from None


@dataclass(frozen=True)
class Cells:
    """A column by its distinct values: ``codes`` says which of them is that of each row."""

    values: Sequence[Any]
    codes: Counts

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]

    def __len__(self) -> int:
        return len(self.codes)

    def to_list(self) -> list[Any]:
        return [self.values[code] for code in self.codes.tolist()]

    def pick(self, rows: Any) -> "Cells":
        return Cells(self.values, self.codes[rows])

    def spread(self, values: Sequence[Any]) -> Any:
        """Return of every row what stands here for its value, as an array."""
        return np.array(values)[self.codes] if len(values) else self.codes


def read_cells(column: Any) -> Cells:
    """Return a column of a table by its distinct values, None in place of missing ones."""
    numbers = _number(column)
    if numbers is not None:
        _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
        return Cells(column[first.tolist()].to_list(), codes)
    known: dict[Any, int] = {}
    codes = np.array([known.setdefault(one, len(known)) for one in column.to_list()], dtype=np.int64)
    if any(map(is_missing, known)):
        values = [None, *(value for value in known if not is_missing(value))]
        places = {value: place for place, value in enumerate(values)}
        return Cells(values, np.array([places.get(value, 0) for value in known])[codes])
    return Cells(list(known), codes)


def _number(column: Any) -> Any:
    """Return an array that tells the values of a column apart; None if they must be looked at."""
    if not (column.dtype.is_temporal() or column.dtype.is_integer()) or column.is_null().any():
        return None
    if isinstance(column.dtype, nw.Datetime):
        unit = column.dtype.time_unit
        column = column.dt.timestamp(unit if unit != "s" else "ms")  # With a zone they are objects.
    numbers = column.to_numpy()
    return numbers if numbers.dtype.kind in "iuMm" else None


def join_cells(columns: Sequence[Cells]) -> Cells:
    """Return several columns as one, of tuples."""
    if len(columns) == 1:
        return columns[0]
    first, *rest = columns
    joined = first.codes
    for column in rest:
        joined = joined * len(column.values) + column.codes
    _, rows, codes = np.unique(joined, return_index=True, return_inverse=True)
    return Cells([tuple(column[row] for column in columns) for row in rows], codes)


def rank(values: Sequence[Any]) -> Any:
    """Return the place of each of these distinct values in their order."""
    places = np.zeros(len(values), dtype=np.int64)
    places[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return places


def read_numbers(column: Any) -> Array | None:
    """Return a column of numbers as an array, NaN where one is missing; None if it holds others."""
    if not column.dtype.is_numeric() or column.dtype.is_decimal():
        return None
    return np.array(column.cast(nw.Float64()).to_numpy(), dtype=np.float64)
