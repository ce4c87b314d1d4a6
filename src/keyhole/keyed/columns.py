"""Events of many keys as columns of a table, and what is reported of them as columns."""

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import find_near, is_missing
from keyhole.errors import InvalidError
from keyhole.feedback import HIT, MISS
from keyhole.keyed.events import Answered, Asked, Elapsed, Event, Output, Skipped
from keyhole.numeric import Array, Counts
from keyhole.scores import LabelSet

KNOWN = ("features", "groups")
ANSWERS = ("label", "score", "loss", "right", "chance", "wrong")
NAMES = ("key", "id", "at", "output", *KNOWN, "hit", *ANSWERS, "judged", "skipped", "elapsed")
Cells = NDArray[np.object_]
NO_NUMBER = -1


@dataclass(frozen=True, eq=False, repr=False)
class OutputColumns:
    """What a fold reports of many events, a place in each column for every output.

    ``row`` is which event it is about, and outputs are in the order of their events. ``number`` is -1,
    ``threshold``, ``size``, ``lower``, ``upper`` and ``miss`` are NaN and ``note`` is None where
    there is none. Of a set the labels are ``labels[offsets[place] : offsets[place + 1]]``, which is how
    Arrow keeps lists: ``pyarrow.ListArray.from_arrays(offsets, labels)``.
    """

    row: Counts
    id: Cells
    kind: Cells
    number: Counts
    threshold: Array
    size: Array
    offsets: Counts
    labels: NDArray[Any]
    lower: Array
    upper: Array
    miss: Array
    note: Cells

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"<{len(self):,} outputs>"


class EventColumns:
    """The columns of a table of events, by name; each is read as it is needed."""

    def __init__(self, given: Any) -> None:
        names = list(given.keys())
        for name in names:
            if name not in NAMES:
                near = find_near(name, NAMES)
                hint = f"did you mean {near!r}?" if near else f"known are {', '.join(NAMES)}"
                raise InvalidError(f"events have no column {name!r}; {hint}")
        for name in ("key", "id"):
            if name not in names:
                raise InvalidError(f"events lack the column {name!r}; give it, a text for each row")
        self._given = {name: given[name] for name in names}
        self._cells: dict[str, list[Any]] = {}
        self.keys: list[str] = self.cells("key")
        for name, column in self._given.items():
            if len(column) != len(self.keys):
                raise InvalidError(
                    f"the column {name!r} has {len(column):,} rows and 'key' has {len(self.keys):,}; "
                    "give as many"
                )
        self.distinct, self.number = _tell_apart(self.keys)

    @property
    def names(self) -> Set[str]:
        return self._given.keys()

    def __getitem__(self, name: str) -> Any:
        return self._given[name]

    def cells(self, name: str) -> list[Any]:
        if name not in self._cells:
            self._cells[name] = _list_cells(self._given[name])
        return self._cells[name]

    def group(self, but: Container[str] = ()) -> dict[str, list[int]]:
        """Return the rows of every key but these, in their order."""
        rows: dict[str, list[int]] = {key: [] for key in self.distinct if key not in but}
        if rows:
            for row, key in enumerate(self.keys):
                if key in rows:
                    rows[key].append(row)
        return rows

    def events(self, rows: Sequence[int]) -> Iterator[Event]:
        ids, columns = self.cells("id"), [(name, self.cells(name)) for name in self._given]
        for row in rows:
            given = {name: cells[row] for name, cells in columns if not _is_nothing(cells[row])}
            at = given.get("at") if "at" in self._given else 0
            yield _make_event(ids[row], at, given)


def _tell_apart(keys: Sequence[str]) -> tuple[dict[str, int], Counts]:
    """Return the different keys, in the order of their first rows, and which of them each row is of."""
    distinct: dict[str, int] = {}  # by the first row of each
    firsts = np.fromiter(map(distinct.setdefault, keys, count()), np.int64, len(keys))
    for kind in set(map(type, distinct)):
        if not issubclass(kind, str):
            wrong = next(key for key in distinct if type(key) is kind)
            raise InvalidError(f"key {wrong!r} is not text; convert it, as by str")
    is_first = firsts == np.arange(len(keys))
    return distinct, (np.cumsum(is_first) - 1)[firsts]


def _list_cells(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return list(column)
    for method in ("to_pylist", "tolist"):  # Arrow's, NumPy's and pandas'
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def _is_nothing(cell: Any) -> bool:
    """Return whether a cell is empty; of a table of numbers, whether a row is."""
    if isinstance(cell, np.ndarray) and cell.dtype.kind == "f":
        return bool(np.isnan(cell).all())
    return is_missing(cell)


def _make_event(id: str, at: Any, given: dict[str, Any]) -> Event:
    if given.get("elapsed"):
        return Elapsed(at)
    if given.get("skipped"):
        return Skipped(id, at)
    if "output" in given:
        known = {name: given[name] for name in KNOWN if name in given}
        return Asked(id, given["output"], at, **known)
    answer = {name: given[name] for name in ANSWERS if name in given}
    for name, called in (("answer", "hit"), ("judged", "judged")):
        if called in given:
            answer[name] = HIT if given[called] else MISS
    return Answered(id, at=at, **answer)


def write_columns(rows: Sequence[int], outputs: Sequence[Output]) -> OutputColumns:
    numbers, sizes = np.full((5, len(outputs)), np.nan), np.zeros(len(outputs) + 1, dtype=np.int64)
    labels: list[Any] = []
    for place, one in enumerate(outputs):
        region: Any = one.region
        if one.miss is not None:
            numbers[4, place] = one.miss
        if region is None:
            continue
        numbers[:2, place] = region.threshold, region.size
        if isinstance(region, LabelSet):
            labels += region.labels
            sizes[place + 1] = len(region.labels)
        elif hasattr(region, "lower"):
            numbers[2:4, place] = region.lower, region.upper
    threshold, size, lower, upper, miss = numbers
    return OutputColumns(
        row=np.array(rows, dtype=np.int64),
        id=to_cells([one.id for one in outputs]),
        kind=to_cells([one.kind for one in outputs]),
        number=np.array([NO_NUMBER if one.number is None else one.number for one in outputs], np.int64),
        threshold=threshold,
        size=size,
        offsets=np.cumsum(sizes),
        labels=to_labels(labels),
        lower=lower,
        upper=upper,
        miss=miss,
        note=to_cells([one.note for one in outputs]),
    )


def join_columns(parts: Sequence[OutputColumns]) -> OutputColumns:
    """Return the outputs of several parts in the order of their events."""
    if len(parts) == 1:
        (one,) = parts
        if (one.row[1:] >= one.row[:-1]).all():
            return one
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in OutputColumns.__dataclass_fields__
        if name != "offsets"
    }
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    order = np.argsort(joined["row"], kind="stable")
    starts, offsets = np.cumsum(counts) - counts, np.concatenate(([0], np.cumsum(counts[order])))
    labels = joined.pop("labels")
    shift = np.repeat(starts[order] - offsets[:-1], counts[order])
    sorted_columns = {name: column[order] for name, column in joined.items()}
    return OutputColumns(
        **sorted_columns, offsets=offsets, labels=labels[np.arange(offsets[-1]) + shift]
    )


def to_cells(values: Sequence[object]) -> Cells:
    """Return any values as a column; NumPy would make a table of tuples."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


def to_labels(labels: Sequence[object]) -> NDArray[Any]:
    """Return labels as a column of whole numbers if all are, and as they are otherwise."""
    if all(type(label) is int for label in labels):
        return np.array(labels, dtype=np.int64)
    return to_cells(labels)
