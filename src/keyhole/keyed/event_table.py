"""A table of the events of many keys as numbers, for a loop that plays all of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_missing
from keyhole.keyed.columns import EventColumns
from keyhole.keyed.state import LATEST, LONGEST_ID
from keyhole.numeric import Array, Counts, called
from keyhole.scores import BoundedResiduals, Probabilities, QuantileBands, ScaledResiduals, find_labels

Flags = NDArray[np.bool_]
LABELS, BOTH, UPPER, LOWER, BOUNDED, BANDS = range(6)  # the forms of scores
ASKED, ANSWERED, SKIPPED, ELAPSED = range(4)
UNTOLD, LABEL, SCORE, HIT, MISS = range(5)
KIND, AT, TOLD, PLACE = range(4)  # the columns of events; the last is the place of the label
_TAKEN = {"key", "id", "at", "output", "label", "hit", "score", "skipped", "elapsed"}
_SIDES = {"both": BOTH, "upper": UPPER, "lower": LOWER}
_EMPTY, _UNHEARD = -1, -2  # in the place of a label's place
_WIDEST = 2**16  # labels by their places that answers alone may name
_EXACT = 2.0**53  # up to which a float tells whole numbers apart


class Batch(NamedTuple):
    """The events of a table, a row each; ``text`` are their ids one behind the other.

    Each event has its kind, its time, by what it answers and the place of its label.
    ``key`` is which of the ``keys`` a row is of; those that are ``left`` the loop cannot play.
    """

    keys: list[str]
    key: Counts
    left: Flags
    ids: list[str]
    text: bytes
    lengths: Counts  # of the ids
    events: Counts
    told: Array  # the true values, or the scores
    outputs: Array


def find_form(score: object) -> int | None:
    """Return the form of a score, or None if the loop does not know it."""
    if type(score) is Probabilities:
        return LABELS if score.is_unlimited and score.power == 1.0 else None
    if type(score) is ScaledResiduals:
        return _SIDES[score.side]
    return {BoundedResiduals: BOUNDED, QuantileBands: BANDS}.get(type(score))


def read_batch(table: EventColumns, score: Any, form: int) -> Batch | None:
    """Return the events as numbers, and which keys must be left to the fold; None if all must."""
    if not table.keys or not table.names <= _TAKEN:
        return None
    outputs, times, text = _read_outputs(table, form), _read_times(table), _read_ids(table)
    labels = find_labels(score) if form == LABELS else None
    if outputs is None or times is None or text is None:
        return None
    if labels is not None and outputs.shape[1] not in (0, len(labels)):
        return None
    told = _read_told(table, labels or range(outputs.shape[1] or _WIDEST), form)
    if told is None:
        return None
    ids, kind = table.cells("id"), np.full(len(table.keys), ANSWERED)
    for name, meant in (("skipped", SKIPPED), ("elapsed", ELAPSED)):
        if name in table.names:
            kind[_read_flags(table, name) == 1] = meant
    left = np.zeros(len(table.distinct), dtype=np.bool_)
    left[table.number[abs(times) > LATEST]] = True
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    if lengths.max() > LONGEST_ID:
        return None
    by, place, number = told
    events = np.stack((kind, times, by, place), axis=1)
    return Batch(list(table.distinct), table.number, left, ids, text, lengths, events, number, outputs)


@called
def find_asks(form: int, outputs: Array, key: Counts, events: Counts, left: Flags) -> None:
    """Let rows with an output ask; keys that ask or answer what the fold must refuse are left to it."""
    for event in range(events.shape[0]):
        kind, is_asked, is_usable = events[event, KIND], False, True
        for place in range(outputs.shape[1]):
            cell = outputs[event, place]
            is_asked |= cell == cell
            is_usable &= 0.0 <= cell <= 1.0 if form == LABELS else abs(cell) < np.inf
        if form == BANDS:
            is_usable &= outputs[event, 1] - outputs[event, 0] > 0.0
        if kind == ANSWERED and is_asked:
            events[event, KIND] = ASKED
            left[key[event]] |= not is_usable
        elif kind == ANSWERED:
            left[key[event]] |= events[event, TOLD] == UNTOLD


def _read_ids(table: EventColumns) -> bytes | None:
    try:
        text = "".join(table.cells("id"))
    except TypeError:  # One is not text.
        return None
    return text.encode() if text.isascii() else None


def _read_outputs(table: EventColumns, form: int) -> Array | None:
    """Return the outputs as a table, NaN in rows without one; None if they are of another form."""
    width = {LABELS: None, BANDS: 2}.get(form, 1)
    if "output" not in table.names:  # Nobody asks.
        return np.full((len(table.keys), width or 0), np.nan)
    given = table["output"]
    if width == 1:
        column = _read_numbers(table, "output")
        return None if column is None else column[:, np.newaxis]
    if not (isinstance(given, np.ndarray) and given.ndim == 2):
        cells = table.cells("output")
        is_asked = np.array([not is_missing(cell) for cell in cells], dtype=np.bool_)
        if not is_asked.any():
            return np.full((len(cells), width or 0), np.nan)
        try:
            rows = np.array([cell for cell in cells if not is_missing(cell)])
        except ValueError:  # They are not all of one length.
            return None
        if rows.ndim != 2 or rows.dtype.kind not in "fiu":
            return None
        given = np.full((len(cells), rows.shape[1]), np.nan)
        given[is_asked] = rows
    if given.dtype.kind not in "fiu" or given.shape[1] != (width or max(1, given.shape[1])):
        return None
    return np.ascontiguousarray(given, dtype=np.float64)


def _read_numbers(table: EventColumns, name: str) -> Array | None:
    """Return a column of numbers, NaN where there is none; None if it holds something else."""
    column = table[name]
    if not (isinstance(column, np.ndarray) and column.dtype.kind in "fiu" and column.ndim == 1):
        column = table.cells(name)
        if not set(map(type, column)) <= {float, int, type(None)}:
            return None
    try:
        numbers = np.array(column, dtype=np.float64)
    except OverflowError:
        return None
    is_whole = isinstance(column, list) or column.dtype.kind != "f"
    return None if is_whole and (abs(numbers) > _EXACT).any() else numbers


def _read_times(table: EventColumns) -> Counts | None:
    if "at" not in table.names:
        return np.zeros(len(table.keys), dtype=np.int64)
    cells = table["at"]
    if not isinstance(cells, np.ndarray):
        cells = table.cells("at")
        if set(map(type, cells)) != {int} or max(cells) > LATEST or min(cells) < -LATEST:
            return None
    times = np.asarray(cells)
    return times.astype(np.int64) if times.dtype.kind == "i" else None


def _read_flags(table: EventColumns, name: str) -> Counts:
    """Return 1 for true, 0 for false, -1 for empty cells."""
    column = table[name]
    if isinstance(column, np.ndarray) and column.dtype.kind == "b":
        return column.astype(np.int64)
    cells = table.cells(name)
    return np.array([-1 if is_missing(cell) else int(bool(cell)) for cell in cells])


def _read_told(
    table: EventColumns, labels: Sequence[object], form: int
) -> tuple[Counts, Counts, Array] | None:
    """Return how each row answers: by what, the place of its label, the true value or the score."""
    count = len(table.keys)
    told, place, number = (
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.full(count, np.nan),
    )
    given = np.zeros(count, np.int64)
    if "label" in table.names and form == LABELS:
        place = _read_places(table, labels)
        told[place >= 0] = LABEL
        given += place != _EMPTY
    elif "label" in table.names:
        values = _read_numbers(table, "label")
        if values is None:
            return None
        number = values
        told[np.isfinite(values)] = LABEL
        given += ~np.isnan(values)
    if "hit" in table.names:
        flags = _read_flags(table, "hit")
        told[flags >= 0] = np.where(flags[flags >= 0] == 1, HIT, MISS)
        given += flags >= 0
    if "score" in table.names:
        cells = table.cells("score")
        if not set(map(type, cells)) <= {float, type(None)}:
            return None
        score = np.array(cells, dtype=np.float64)
        is_told = (score >= 0.0) & (score <= 1.0)
        told[is_told] = SCORE
        number = np.where(is_told, score, number)
        given += ~np.isnan(score)
    told[given != 1] = UNTOLD
    return told, place, number


def _read_places(table: EventColumns, labels: Sequence[object]) -> Counts:
    """Return the places of the true labels among all; one for empty cells, another for the unknown."""
    column, count = table["label"], len(labels)
    if type(labels) is range and isinstance(column, np.ndarray) and column.dtype.kind == "i":
        places: Counts = np.where((column >= 0) & (column < count), column, _UNHEARD).astype(np.int64)
        return places
    known = {None: _EMPTY, **dict(zip(labels, range(count), strict=True))}
    cells = table.cells("label")
    try:
        found = list(map(known.get, cells))
    except TypeError:  # One cannot be a label.
        return np.full(len(table.keys), _UNHEARD)
    if None in found:
        found = [
            (_EMPTY if is_missing(cell) else _UNHEARD) if place is None else place
            for cell, place in zip(cells, found, strict=True)
        ]
    return np.array(found)
