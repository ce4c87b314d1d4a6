"""Many keys at once: a table of events as numbers for one compiled loop, and what it reports.

The loop plays what is most common: the default learner, sets of labels from tables of scores or
intervals, and answers that are a label, a true value, a score, a hit or a miss. A key with anything
else is left to the fold, as a whole.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.checks import is_missing
from keyhole.keyed.columns import Cells, EventColumns, OutputColumns, to_cells
from keyhole.keyed.events import NOTES, Kind
from keyhole.keyed.loop import (
    ANSWER,
    ELAPSE,
    EVENT,
    HIT,
    LABEL,
    MISS,
    SCORE,
    SKIP,
    UNTOLD,
    Flags,
    Spans,
    World,
    arrange,
    make_reports,
    play,
    rank,
)
from keyhole.keyed.packed import (
    BANDS,
    BOTH,
    BOUNDED,
    FIXED_PART,
    LABELS,
    LENGTH,
    LOWER,
    SAID,
    UPPER,
    Key,
    make_digests,
    make_form,
    make_key,
    make_numbers,
)
from keyhole.keyed.state import LATEST, LONGEST_ID, ROUND_SIZE
from keyhole.learners.rules.informed_tracker import informed_tracker
from keyhole.numeric import Array, Counts, can_compile, compile_for
from keyhole.scores import BoundedResiduals, Probabilities, QuantileBands, ScaledResiduals, find_labels
from keyhole.scores.residuals import list_shape

if TYPE_CHECKING:
    from keyhole.keyed.fold import Fold

WORTH = 10_000  # events of a process, in one table or several, from which on the loop pays
_TAKEN = {"key", "id", "at", "output", "label", "hit", "score", "skipped", "elapsed"}
_SIDES = {"both": BOTH, "upper": UPPER, "lower": LOWER}
_EMPTY, _UNHEARD = -1, -2  # in the place of a label's place
_WIDEST = 2**16  # labels by their places that answers alone may name
_EXACT = 2.0**53  # up to which a float tells whole numbers apart
_KINDS = to_cells(
    [Kind.SHOWN, Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED, Kind.EXPIRED, Kind.REPEATED, Kind.REPEATED]
    + [Kind.REFUSED] * 2
)
_NOTED = to_cells([None, None, None, NOTES["over"], NOTES["pushed"], None, *list(NOTES.values())[2:]])


_met = 0  # events of this process that the loop could have played


def _is_worth_while(events: int) -> bool:
    global _met
    _met += events
    return _met >= WORTH or play in _COMPILED


def play_many(
    fold: "Fold", before: Mapping[str, bytes], table: EventColumns
) -> tuple[dict[str, bytes], list[OutputColumns]]:
    """Return the states of the keys that could be played together, and their outputs, if any were."""
    setup, batch = fold.setup, None
    form = find_form(setup.score) if setup.learner.rule is informed_tracker else None
    if form is not None and can_compile() and _is_worth_while(len(table.keys)):
        batch = read_batch(table, setup.score, form)
    if form is None or batch is None:
        return {}, []
    keys = list(table.distinct)
    contents = list(map(before.get, keys, repeat(b"")))
    world, spans = _set_up(fold, table.number, batch, form, contents)
    call(play, world, spans)
    content, ends = spans.out[: spans.after[-1]].tobytes(), pairwise(spans.after.tolist())
    states = {key: content[start:end] for key, (start, end) in zip(keys, ends, strict=True)}
    for place in np.flatnonzero(spans.left).tolist():
        del states[keys[place]]
    return states, [_write_reports(world, table.cells("id"), find_labels(setup.score))]


class Batch(NamedTuple):
    """The events of a table, a row each; ``text`` are their ids one behind the other.

    Each event has its kind, its time, by what it answers and the place of its label. Keys that are
    ``left`` the loop cannot play.
    """

    left: Flags
    text: bytes
    lengths: Counts  # of the ids
    events: Counts
    told: Array  # the true values, or the scores
    outputs: Array


def find_form(score: object) -> int | None:
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
    ids, kind = table.cells("id"), np.full(len(table.keys), ANSWER)
    for name, meant in (("skipped", SKIP), ("elapsed", ELAPSE)):
        if name in table.names:
            kind[_read_flags(table, name) == 1] = meant
    left = np.zeros(len(table.distinct), dtype=np.bool_)
    left[table.number[abs(times) > LATEST]] = True
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    if lengths.max() > LONGEST_ID:
        return None
    by, place, number = told
    events = np.stack((kind, times, by, place), axis=1)
    return Batch(left, text, lengths, events, number, outputs)


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
    told, place, given = np.zeros((3, count), np.int64)  # the last: by how many columns it answers
    number = np.full(count, np.nan)
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


def _set_up(
    fold: "Fold", key: Counts, batch: Batch, form: int, contents: list[bytes]
) -> tuple[World, Spans]:
    learner, (rows, width) = fold.setup.learner, batch.outputs.shape
    sizes = np.fromiter(map(len, contents), np.int64, len(contents))
    events = np.bincount(key, minlength=len(contents))
    written = make_form(learner, fold.setup.score, form, width)
    least = ROUND_SIZE + 8  # bytes of an open round
    held = sizes // least  # rounds that a state may have open
    text = b"".join([batch.text, *contents, bytes(4 * written.raw.size)])  # read beyond a state's end
    numbers, state = make_numbers(learner, fold.start_progress())
    room = len(contents) * (FIXED_PART + written.raw.size) + rows * (least + 8 * written.outputs)
    world = World(
        settings=learner.settings,
        form=written,
        key=make_key(
            numbers,
            text,
            batch.lengths,
            rounds=(held + events).max(),
            recalled=held.sum(),
            width=width,
        ),
        state=state,
        reports=make_reports(2 * rows + int(held.sum())),
        events=batch.events,
        told=batch.told,
        outputs=batch.outputs,
        shares=np.zeros(width),
        shape=np.array(list_shape()),
        lifetime=fold.lifetime or 0,
        open_limit=fold.setup.open_limit,
        recall=fold.recall,
    )
    spans = Spans(
        key=key,
        order=np.empty(rows, np.int64),
        event=np.concatenate(([0], np.cumsum(events))),
        before=len(batch.text) + np.concatenate(([0], np.cumsum(sizes))),
        after=np.zeros(len(contents) + 1, np.int64),
        left=batch.left,
        fresh=numbers.copy(),
        digests=make_digests(),
        out=np.empty(room + len(text), np.uint8),
    )
    return world, spans


_COMPILED: dict[Any, Any] = {}


def call(function: Any, *arguments: Any) -> Any:
    if function not in _COMPILED:
        _COMPILED[function] = compile_for(function, *arguments)
    return _COMPILED[function](*arguments)


def _write_reports(world: World, ids: list[str], labels: Any) -> OutputColumns:
    key, count = world.key, int(world.key.whole[SAID])
    given_whole, given_real = world.reports.whole[:count], world.reports.real[:count]
    counts = np.bincount(given_whole[:, EVENT], minlength=key.events)
    starts, order = np.concatenate(([0], np.cumsum(counts))), np.empty(count, np.int64)
    whole, real = np.empty(given_whole.shape[::-1], np.int64), np.empty(given_real.shape[::-1])
    call(arrange, given_whole, given_real, starts, order, whole, real)
    (what, event, row, number), (threshold, size, lower, upper, miss) = whole, real
    offsets, places = np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    if world.form.score == LABELS:
        offsets[1:] = np.cumsum(np.nan_to_num(size).astype(np.int64))
        places = np.zeros(offsets[-1], np.int64)
        call(rank, key, world.outputs, row, threshold, offsets, places)
    return OutputColumns(
        row=event,
        id=_find_ids(key, to_cells(ids), row),
        kind=_KINDS[what],
        number=number,
        threshold=threshold,
        size=size,
        offsets=offsets,
        labels=places if labels is None else to_cells(labels)[places],
        lower=lower,
        upper=upper,
        miss=miss,
        note=_NOTED[what],
    )


def _find_ids(key: Key, ids: Cells, rows: Counts) -> Cells:
    """Return the ids of rows; those of rounds that were open before are in the states."""
    is_event = rows < key.events
    if is_event.all():
        return ids[rows]
    found = ids[np.where(is_event, rows, 0)]
    for place in np.flatnonzero(~is_event).tolist():
        begin, length = key.ids[rows[place], : LENGTH + 1]
        found[place] = key.text[begin : begin + length].tobytes().decode()
    return found
