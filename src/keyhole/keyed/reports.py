"""What is said of the rounds of many keys, as they open and close, and the columns that come of it."""

from typing import Any, NamedTuple

import numpy as np

from keyhole.keyed.columns import OutputColumns, to_cells
from keyhole.keyed.event_table import LABELS, Batch
from keyhole.keyed.events import Kind
from keyhole.keyed.judging import find_ends
from keyhole.keyed.packed import (
    BEGIN,
    CLOCK,
    CLOSED,
    DIGEST,
    DUE,
    EARLIEST,
    EXPIRED_ROUNDS,
    HELD,
    LENGTH,
    NUMBER,
    OPEN,
    OUTPUTS,
    REMEMBERED,
    ROW,
    SAID,
    SIZE,
    THRESHOLD,
    Form,
    Key,
    read_output,
)
from keyhole.keyed.state import NEVER
from keyhole.numeric import Array, Counts, called, compile_for, kernel

NOTES = {
    "over": "its lifetime is over",
    "pushed": "too many rounds are open",
    "closed": "this round is closed",
    "late": "asked too late: its lifetime is over already",
    "unknown": "no round of this id is open, nor was one recently",
}
SHOWN, COUNTED, LEFT, OVER, PUSHED, AGAIN, CLOSED_BEFORE, LATE, UNKNOWN = range(9)
_KINDS = to_cells(
    [Kind.SHOWN, Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED, Kind.EXPIRED, Kind.REPEATED, Kind.REPEATED]
    + [Kind.REFUSED] * 2
)
_NOTED = to_cells([None, None, None, NOTES["over"], NOTES["pushed"], None, *list(NOTES.values())[2:]])
NOWHERE = -1
# The columns of reports, whole numbers and real ones.
_EVENT, WHAT, _ABOUT, _NUMBER = range(4)
_THRESHOLD, _SIZE, _LOWER, _UPPER, MISSED = range(5)


class Reports(NamedTuple):
    """Room for all that may be said; ``SAID`` of a key is how much has been."""

    whole: Counts
    real: Array


def make_reports(room: int) -> Reports:
    return Reports(np.empty((room, _NUMBER + 1), np.int64), np.empty((room, MISSED + 1)))


@called
def find_open(key: Key, event: int) -> int:
    """Return the place among the open rounds of that with the id of an event."""
    found = NOWHERE
    for place in range(key.whole[HELD]):
        if found < 0 and _is_same(key, event, key.rounds[key.rounds[place, OPEN], ROW]):
            found = place
    return found


@kernel
def _is_same(key: Key, event: int, row: int) -> bool:
    ids, text = key.ids, key.text
    begin, other, length = ids[event, BEGIN], ids[row, BEGIN], ids[event, LENGTH]
    is_same = ids[event, DIGEST] == ids[row, DIGEST] and length == ids[row, LENGTH]
    if is_same:
        for place in range(length):
            is_same &= text[begin + place] == text[other + place]
    return is_same


@called
def is_closed(key: Key, event: int) -> bool:
    """Return whether the round of an event is one of those closed last."""
    found = False
    for place in range(CLOSED, CLOSED + key.whole[REMEMBERED]):
        found |= key.whole[place] == key.ids[event, DIGEST]
    return found


@called
def say(key: Key, reports: Reports, event: int, row: int, number: int) -> int:
    """Add a report of a round; return its place."""
    place = key.whole[SAID]
    key.whole[SAID] = place + 1
    reports.whole[place, _EVENT] = event
    reports.whole[place, _ABOUT], reports.whole[place, _NUMBER] = row, number
    reports.real[place, :] = np.nan
    return place


@called
def show(key: Key, form: Form, reports: Reports, event: int, which: int) -> int:
    """Report the set or interval of a round; return the place of the report."""
    real = key.rounds_real[which]
    place = say(key, reports, event, key.rounds[which, ROW], key.rounds[which, NUMBER])
    own = reports.real[place]
    own[_THRESHOLD], own[_SIZE] = real[THRESHOLD], real[SIZE]
    if form.score != LABELS:
        own[_LOWER], own[_UPPER] = find_ends(form, real)
    return place


@called
def close(key: Key, reports: Reports, recall: int, place: int, event: int) -> int:
    """Take a round from the open ones, remember and report it; return the place of the report."""
    whole, rounds = key.whole, key.rounds
    held, which = whole[HELD] - 1, rounds[place, OPEN]
    for later in range(place, held):
        rounds[later, OPEN] = rounds[later + 1, OPEN]
    whole[HELD] = held
    row, number = rounds[which, ROW], rounds[which, NUMBER]
    if recall > 0:
        last = CLOSED + whole[REMEMBERED]
        if whole[REMEMBERED] >= recall:
            over = whole[REMEMBERED] + 1 - recall
            for at in range(CLOSED + over, last):
                whole[at - over] = whole[at]
            last -= over
        whole[last] = key.ids[row, DIGEST]
        whole[REMEMBERED] = last + 1 - CLOSED
    if rounds[which, DUE] == whole[EARLIEST]:
        earliest = NEVER
        for at in range(held):
            earliest = min(earliest, rounds[rounds[at, OPEN], DUE])
        whole[EARLIEST] = earliest
    return say(key, reports, event, row, number)


@kernel
def drop(key: Key, reports: Reports, recall: int, place: int, event: int, what: int) -> None:
    """Close a round without an answer."""
    key.whole[EXPIRED_ROUNDS] += 1
    reports.whole[close(key, reports, recall, place, event), WHAT] = what


@called
def advance(key: Key, reports: Reports, recall: int, event: int, at: int) -> None:
    """Move the key's time on; rounds whose lifetime is over expire."""
    whole, place = key.whole, 0
    whole[CLOCK] = max(whole[CLOCK], at)
    while whole[EARLIEST] <= whole[CLOCK]:
        if key.rounds[key.rounds[place, OPEN], DUE] <= whole[CLOCK]:
            drop(key, reports, recall, place, event, OVER)
        else:
            place += 1


@kernel
def sort(groups: Counts, count: int, starts: Counts, order: Counts) -> None:
    """Put so many places in the order of their groups, of which these are the starts."""
    for place in range(count):
        group = groups[place]
        order[starts[group]] = place
        starts[group] += 1
    for group in range(starts.size - 1, 0, -1):
        starts[group] = starts[group - 1]
    starts[0] = 0


@kernel
def arrange(reports: Reports, starts: Counts, order: Counts, whole: Counts, real: Array) -> None:
    """Put the reports into the order of their events, a row for each column."""
    sort(reports.whole[:, _EVENT], order.size, starts, order)
    for place in range(order.size):
        for column in range(_NUMBER + 1):
            whole[column, place] = reports.whole[order[place], column]
        for column in range(MISSED + 1):
            real[column, place] = reports.real[order[place], column]


@kernel
def find_score(key: Key, outputs: Array, row: int, place: int) -> float:
    return outputs[row, place] if row < key.events else read_output(key, row, place)


@kernel
def rank(
    key: Key, outputs: Array, about: Counts, thresholds: Array, offsets: Counts, places: Counts
) -> None:
    """Put the labels of all sets one behind the other, the highest scores of a set first."""
    for which in range(about.size):
        start, end, row = offsets[which], offsets[which], about[which]
        if offsets[which + 1] == start:
            continue
        for place in range(key.ids[row, OUTPUTS]):
            score = find_score(key, outputs, row, place)
            if score >= thresholds[which]:
                at = end
                while at > start and find_score(key, outputs, row, places[at - 1]) < score:
                    places[at] = places[at - 1]
                    at -= 1
                places[at] = place
                end += 1


_COMPILED: dict[Any, Any] = {}


def is_compiled(function: Any) -> bool:
    return function in _COMPILED


def call(function: Any, *arguments: Any) -> Any:
    """Call a kernel, compiled once in a process."""
    if function not in _COMPILED:
        _COMPILED[function] = compile_for(function, *arguments)
    return _COMPILED[function](*arguments)


def write_reports(key: Key, form: Form, reports: Reports, batch: Batch, labels: Any) -> OutputColumns:
    """Return what was said, in the order of the events."""
    rows, count = len(batch.ids), int(key.whole[SAID])
    counts = np.bincount(reports.whole[:count, _EVENT], minlength=rows)
    starts, order = np.concatenate(([0], np.cumsum(counts))), np.empty(count, np.int64)
    whole, real = np.empty((_NUMBER + 1, count), np.int64), np.empty((MISSED + 1, count))
    call(arrange, reports, starts, order, whole, real)
    (event, what, row, number), (threshold, size, lower, upper, miss) = whole, real
    offsets, places = np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    if form.score == LABELS:
        offsets[1:] = np.cumsum(np.nan_to_num(size).astype(np.int64))
        places = np.zeros(offsets[-1], np.int64)
        call(rank, key, batch.outputs, row, threshold, offsets, places)
    return OutputColumns(
        row=event,
        id=_find_ids(key, batch, row),
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


def _find_ids(key: Key, batch: Batch, rows: Counts) -> Any:
    """Return the ids of rows; those of rounds that were open before are in the states."""
    ids, is_event = to_cells(batch.ids), rows < key.events
    if is_event.all():
        return ids[rows]
    found = ids[np.where(is_event, rows, 0)]
    for place in np.flatnonzero(~is_event).tolist():
        begin, length = key.ids[rows[place], : LENGTH + 1]
        found[place] = key.text[begin : begin + length].tobytes().decode()
    return found
