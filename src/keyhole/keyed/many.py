"""Many keys at once: one compiled loop over the events of all of them.

It plays what is most common: the default learner, sets of labels from tables of scores, and answers
that are a label, a score, a hit or a miss. A key with anything else is left to the fold, as a whole.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_missing
from keyhole.feedback import Answer
from keyhole.keyed import state as states
from keyhole.keyed.columns import NO_NUMBER, Cells, EventColumns, OutputColumns, to_cells
from keyhole.keyed.events import Kind
from keyhole.keyed.state import LATEST, LONGEST_ID, NEVER, KeyTable
from keyhole.learners import Ask, Learner
from keyhole.learners.rules.informed_tracker import (
    InformedTrackerState,
    choose,
    hear,
    informed_tracker,
    observe,
)
from keyhole.numeric import Array, Counts, called, can_compile, compile_for, kernel
from keyhole.predictor.rounds import LISTENS, MOST_HEARD, measure_delay
from keyhole.scores import Probabilities, find_labels
from keyhole.scores.labels import LEAST_SUM, MOST_SUM

if TYPE_CHECKING:
    from keyhole.keyed.fold import Fold

Flags = NDArray[np.bool_]
Columns = TypeVar("Columns", bound=tuple[Any, ...])
NOTES = {
    "over": "its lifetime is over",
    "pushed": "too many rounds are open",
    "closed": "this round is closed",
    "late": "asked too late: its lifetime is over already",
    "unknown": "no round of this id is open, nor was one recently",
}
_TAKEN = {"key", "id", "at", "output", "label", "hit", "score", "skipped", "elapsed"}
_ASKED, _ANSWERED, _SKIPPED, _ELAPSED = range(4)
_UNTOLD, _LABEL, _SCORE, _HIT, _MISS = range(5)
_SHOWN, _COUNTED, _LEFT, _OVER, _PUSHED, _OPEN, _CLOSED, _LATE, _UNKNOWN = range(9)
_KINDS = to_cells(
    [Kind.SHOWN, Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED, Kind.EXPIRED, Kind.REPEATED, Kind.REPEATED]
    + [Kind.REFUSED] * 2
)
_NOTED = to_cells([None, None, None, NOTES["over"], NOTES["pushed"], None, *list(NOTES.values())[2:]])
_WIDE = 2**32  # a count that takes a wide state, which no key may come to in the loop
_AT_ONCE = 2**12  # keys, whose states fit into a processor's own memory
WORTH = 10_000  # events of a process, in one table or several, from which on the loop pays
_NOWHERE = -1
_EMPTY, _UNHEARD = -1, -2  # in the place of a label's place


class _Events(NamedTuple):
    """The events in the order of their keys: what each is, of which round by its id's number."""

    row: Counts
    kind: Counts
    id: Counts
    digest: Counts  # of the id
    at: Counts
    told: Counts
    place: Counts  # of the true label
    score: Array


class _Rounds(NamedTuple):
    """The rounds that are open, and room for those to come; ``row`` is where id and scores are."""

    id: Counts
    digest: Counts
    row: Counts
    number: Counts
    then: Counts
    due: Counts
    threshold: Array
    size: Array
    memo: Array


class _Said(NamedTuple):
    """What is said of a round, and room for all that may be."""

    row: Counts
    what: Counts
    id: Counts  # where it is
    number: Counts
    is_set: Counts
    threshold: Array
    size: Array
    miss: Array


class _Spans(NamedTuple):
    """Of each key where its events begin, and its rounds that were open before."""

    event: Counts
    round: Counts
    left: Flags  # to the fold
    open: Counts  # how many rounds are, in the end


class _World(NamedTuple):
    """All that is played with: ``opens`` are the open rounds of a key, ``now`` its own numbers."""

    keys: KeyTable
    events: _Events
    rounds: _Rounds
    said: _Said
    scores: Array
    shares: Array
    opens: Counts
    now: Counts
    lifetime: int
    recall: int
    open_limit: int


_CLOCK, _EARLIEST, _HELD, _PREDICTED, _MADE, _SAID, _KEPT = range(7)  # the places of ``now``


@kernel
def _find_open(world: _World, name: int) -> int:
    """Return the place among the open rounds of that with this id."""
    found = _NOWHERE
    for place in range(world.now[_HELD]):
        if world.rounds.id[world.opens[place]] == name:
            found = place
            break
    return found


@kernel
def _is_closed(world: _World, key: int, event: int) -> bool:
    """Return whether the round of an event is one of those closed last."""
    found = False
    for place in range(world.keys.remembered[key]):
        if world.keys.closed[key, place] == world.events.digest[event]:
            found = True
    return found


@kernel
def _say(world: _World, row: int, what: int, at: int, number: int) -> int:
    """Note an output about a round; return its place."""
    said, place = world.said, world.now[_SAID]
    said.row[place], said.what[place], said.id[place], said.number[place] = row, what, at, number
    said.is_set[place], said.threshold[place] = 0, np.nan
    said.size[place], said.miss[place] = np.nan, np.nan
    world.now[_SAID] = place + 1
    return place


@kernel
def _show(world: _World, row: int, what: int, which: int) -> None:
    """Note the set of a round."""
    rounds, said = world.rounds, world.said
    place = _say(world, row, what, rounds.row[which], rounds.number[which])
    said.is_set[place] = 1
    said.threshold[place], said.size[place] = rounds.threshold[which], rounds.size[which]


@kernel
def _close(world: _World, key: int, place: int, row: int, what: int) -> int:
    """Take a round from the open ones, remember and report it; return the place of the output."""
    keys, opens, held = world.keys, world.opens, world.now[_HELD]
    which = opens[place]
    for later in range(place + 1, held):
        opens[later - 1] = opens[later]
    world.now[_HELD] = held - 1
    if world.recall > 0:
        known = keys.remembered[key]
        over = max(known + 1 - world.recall, 0)
        for at in range(over, known):
            keys.closed[key, at - over] = keys.closed[key, at]
        keys.closed[key, known - over] = world.rounds.digest[which]
        keys.remembered[key] = known - over + 1
    if world.rounds.due[which] == world.now[_EARLIEST]:
        earliest = NEVER
        for at in range(held - 1):
            earliest = min(earliest, world.rounds.due[opens[at]])
        world.now[_EARLIEST] = earliest
    if what != _COUNTED:
        keys.expired[key] += 1
    return _say(world, row, what, world.rounds.row[which], world.rounds.number[which])


@called
def _advance(world: _World, key: int, row: int, at: int) -> None:
    """Move the key's time on; rounds whose lifetime is over expire."""
    world.now[_CLOCK] = max(world.now[_CLOCK], at)
    place = 0
    while world.now[_EARLIEST] <= world.now[_CLOCK]:
        if world.rounds.due[world.opens[place]] <= world.now[_CLOCK]:
            _close(world, key, place, row, _OVER)
        else:
            place += 1


@kernel
def _listen(alpha: float, state: Any, scores: Array, shares: Array) -> None:
    """Let the learner hear the model's word, if the scores are a distribution."""
    total = 0.0
    for place in range(scores.size):
        total += scores[place]
    if scores.size > 1 and LEAST_SUM <= total <= MOST_SUM:
        for place in range(scores.size):
            shares[place] = scores[place] / total
        hear(alpha, state, scores, shares)


@kernel
def _propose(settings: Any, state: Any, world: _World, key: int, event: int) -> int:
    """Open a round; return which it is."""
    rounds, predicted, which = world.rounds, world.now[_PREDICTED], world.now[_MADE]
    own = world.scores[event]
    if state.rounds[0] < LISTENS and predicted < MOST_HEARD:
        _listen(settings.alpha, state, own, world.shares)
    threshold = choose(settings, state, rounds.memo[which : which + 1], Ask(0.5, own[:0]))
    rounds.id[which], rounds.digest[which] = world.events.id[event], world.events.digest[event]
    rounds.row[which] = event
    rounds.number[which], rounds.then[which] = predicted, world.keys.answered[key]
    rounds.threshold[which], rounds.size[which] = threshold, 0.0
    for place in range(own.size):
        if own[place] >= threshold:
            rounds.size[which] += 1.0
    world.now[_PREDICTED], world.now[_MADE] = predicted + 1, which + 1
    return which


@kernel
def _ask(settings: Any, state: Any, world: _World, key: int, event: int) -> None:
    events, now = world.events, world.now
    row, at = events.row[event], events.at[event]
    due = at + world.lifetime if world.lifetime > 0 else NEVER
    place = _find_open(world, events.id[event])
    if place >= 0:
        _show(world, row, _OPEN, world.opens[place])
    elif _is_closed(world, key, event):
        _say(world, row, _CLOSED, event, NO_NUMBER)
    elif due <= now[_CLOCK]:
        _say(world, row, _LATE, event, NO_NUMBER)
    else:
        _advance(world, key, row, at)
        which = _propose(settings, state, world, key, event)
        _show(world, row, _SHOWN, which)
        world.rounds.due[which] = due
        world.opens[now[_HELD]] = which
        now[_HELD] += 1
        now[_EARLIEST] = min(now[_EARLIEST], due)
        if now[_HELD] > world.open_limit:
            _close(world, key, 0, row, _PUSHED)


@kernel
def _settle(
    settings: Any, state: Any, world: _World, key: int, which: int, told: int, score: float
) -> float:
    """Teach the learner an answer, and count it; return the miss, NaN if it cannot be."""
    keys, rounds, predicted = world.keys, world.rounds, world.now[_PREDICTED]
    number, then, answered = rounds.number[which], rounds.then[which], keys.answered[key]
    miss = 1.0 if told == _MISS or score < rounds.threshold[which] else 0.0
    if told == _HIT and rounds.size[which] == 0.0:
        miss = np.nan
    else:
        age, stale = 0.0, 0.0
        if then != answered or number + 1 != predicted:
            age, stale = measure_delay(number, then, predicted, answered)
        answer = Answer(miss, score, age, stale, 0.0, 1.0, 1.0, 0.0)
        observe(settings, state, rounds.memo[which : which + 1], answer)
        keys.answered[key] += 1
        keys.misses[key] += miss
        keys.size[key] += rounds.size[which]
    return miss


@kernel
def _answer(settings: Any, state: Any, world: _World, key: int, event: int) -> bool:
    """Answer a round or skip it; return whether the fold must say what is wrong with it."""
    events, refused = world.events, False
    row, told = events.row[event], events.told[event]
    place = _find_open(world, events.id[event])
    if place < 0:
        what = _CLOSED if _is_closed(world, key, event) else _UNKNOWN
        _say(world, row, what, event, NO_NUMBER)
    elif events.kind[event] == _SKIPPED:
        _close(world, key, place, row, _LEFT)
    else:
        which, score = world.opens[place], events.score[event]
        if told == _LABEL:
            score = world.scores[world.rounds.row[which], events.place[event]]
        miss = _settle(settings, state, world, key, which, told, score)
        refused = miss != miss
        if not refused:
            world.said.miss[_close(world, key, place, row, _COUNTED)] = miss
    return refused


@kernel
def _take(parts: InformedTrackerState, key: int) -> InformedTrackerState:
    """Return the learner's state of one key."""
    offset, excess, scale, word, rounds, lateness, bare, told, place, below, total, bins = parts
    return InformedTrackerState(
        offset[key], excess[key], scale[key], word[key], rounds[key], lateness[key],
        bare[key], told[key], place[key], below[key], total[key], bins[key],
    )  # fmt: skip


@kernel
def _begin(world: _World, spans: _Spans, key: int) -> None:
    """Let ``now`` be that of a key, as it was left."""
    keys, now = world.keys, world.now
    now[_CLOCK], now[_EARLIEST], now[_HELD] = keys.clock[key], NEVER, 0
    for which in range(spans.round[key], spans.round[key + 1]):
        world.opens[now[_HELD]] = which
        now[_HELD] += 1
        now[_EARLIEST] = min(now[_EARLIEST], world.rounds.due[which])
    now[_PREDICTED] = keys.answered[key] + keys.expired[key] + now[_HELD]


@kernel
def _play(settings: Any, world: _World, spans: _Spans, left: Counts) -> None:
    """Play the events of all keys; ``left`` gets the rounds that stay open."""
    events, now = world.events, world.now
    for key in range(spans.open.size):
        if spans.left[key]:
            continue
        before, state = now[_SAID], _take(world.keys.parts, key)
        _begin(world, spans, key)
        for event in range(spans.event[key], spans.event[key + 1]):
            if events.kind[event] == _ASKED:
                _ask(settings, state, world, key, event)
                continue
            _advance(world, key, events.row[event], events.at[event])
            if events.kind[event] != _ELAPSED and _answer(settings, state, world, key, event):
                spans.left[key] = True
                break
        if spans.left[key]:
            now[_SAID] = before
            continue
        world.keys.clock[key], spans.open[key] = now[_CLOCK], now[_HELD]
        for place in range(now[_HELD]):
            left[now[_KEPT] + place] = world.opens[place]
        now[_KEPT] += now[_HELD]


@kernel
def _rank(said: _Said, count: int, scores: Array, offsets: Counts, places: Counts) -> None:
    """Put the labels of all sets one behind the other, the highest scores of a set first."""
    for which in range(count):
        start, end = offsets[which], offsets[which]
        if said.is_set[which] == 0:
            continue
        own = scores[said.id[which]]
        for place in range(own.size):
            if own[place] >= said.threshold[which]:
                at = end
                while at > start and own[places[at - 1]] < own[place]:
                    places[at] = places[at - 1]
                    at -= 1
                places[at] = place
                end += 1


_COMPILED: dict[Any, Any] = {}


def _call(function: Any, *arguments: Any) -> Any:
    if function not in _COMPILED:
        _COMPILED[function] = compile_for(function, *arguments)
    return _COMPILED[function](*arguments)


class _Batch(NamedTuple):
    """The events of a table, sorted by key; ``starts`` is where those of each key begin."""

    keys: list[str]
    starts: Counts
    events: _Events
    left: Flags
    ids: Cells
    numbers: Mapping[str, int]  # of the ids
    scores: Array


_met = 0  # events of this process that the loop could have played


def _is_worth_while(events: int) -> bool:
    global _met
    _met += events
    return _met >= WORTH or _play in _COMPILED


def play_many(
    fold: "Fold", before: Mapping[str, bytes], table: EventColumns
) -> tuple[dict[str, bytes], list[OutputColumns]]:
    """Return the states of the keys that could be played together, and their outputs, in parts."""
    score = fold.setup.score
    is_common = (
        fold.setup.learner.rule is informed_tracker
        and type(score) is Probabilities
        and score.is_unlimited
        and score.power == 1.0
        and table.names <= _TAKEN
        and can_compile()
        and _is_worth_while(len(table.keys))
    )
    batch = _read_batch(table, find_labels(score)) if is_common else None
    after: dict[str, bytes] = {}
    if batch is None:
        return after, []
    starts = range(0, len(batch.keys), _AT_ONCE)
    slices = [slice(start, start + _AT_ONCE) for start in starts]
    return after, [_play_part(fold, before, batch, part, after) for part in slices]


def _play_part(
    fold: "Fold", before: Mapping[str, bytes], batch: _Batch, part: slice, after: dict[str, bytes]
) -> OutputColumns:
    """Play some of the keys; note their states, and return their outputs."""
    learner, names = fold.setup.learner, batch.keys[part]
    starts = batch.starts[part.start : part.start + len(names) + 1]
    events = _cut(batch.events, slice(starts[0], starts[-1]))
    starts = starts - starts[0]
    contents = [before.get(name, b"") for name in names]
    keys, waiting, rare = states.unpack_many(contents, learner, fold.start_progress().state)
    rare |= keys.parts.rounds[:, 0] + np.diff(starts) >= _WIDE
    is_new = np.array([not content for content in contents])
    keys.clock[is_new] = events.at[starts[:-1][is_new]]
    spans = _Spans(starts, np.zeros_like(starts), batch.left[part] | rare, np.zeros_like(starts[1:]))
    asks = int((events.kind == _ASKED).sum())
    rounds, ids, scores = _read_waiting(batch, waiting, spans, events.row, room=asks)
    most = len(events.row) + len(rounds.id)
    world = _World(
        keys=keys,
        events=events,
        rounds=rounds,
        said=_Said(*np.empty((5, most), np.int64), *np.empty((3, most))),
        scores=scores,
        shares=np.zeros(scores.shape[1]),
        opens=np.zeros(np.diff(spans.event).max() + np.diff(spans.round).max(), np.int64),
        now=np.zeros(_KEPT + 1, np.int64),
        lifetime=fold.lifetime or 0,
        recall=fold.recall,
        open_limit=fold.setup.open_limit,
    )
    world.now[_MADE] = spans.round[-1]
    left = np.zeros(len(rounds.id), np.int64)
    _call(_play, learner.settings, world, spans, left)
    _pack(learner, names, world, spans, _cut(rounds, left[: world.now[_KEPT]]), ids, after)
    said = _cut(world.said, slice(world.now[_SAID]))
    return _write(said, ids, scores, find_labels(fold.setup.score))


def _cut(columns: Columns, part: Any) -> Columns:
    """Return a part of all columns."""
    return type(columns)(*(column[part] for column in columns))


def _read_waiting(
    batch: _Batch, waiting: Sequence[bytes], spans: _Spans, rows: Counts, *, room: int
) -> tuple[_Rounds, Cells, Array]:
    """Return the rounds that are open already, with room for more, and ids and scores of all."""
    size, old = batch.scores.shape[1], []
    for key, content in enumerate(waiting):
        spans.round[key + 1] = spans.round[key]
        if not content or spans.left[key]:
            continue
        found = states.unpack_waiting(content, memory=1)
        if found is None or any(len(one.output) != 8 * size or one.labels for one in found):
            spans.left[key] = True
            continue
        spans.round[key + 1] += len(found)
        old += found
    many = len(old)
    whole, real = np.zeros((6, many + room), np.int64), np.zeros((3, many + room))
    ids, scores = batch.ids[rows], batch.scores[rows]
    if many:
        names, numbers, then, due, threshold, sizes, memos, outputs, _, _, _ = zip(*old, strict=True)
        whole[0, :many] = [batch.numbers.get(name, _NOWHERE) for name in names]
        whole[1, :many] = _digest(names)
        whole[2, :many] = np.arange(many) + len(rows)
        whole[3:, :many] = numbers, then, due
        real[0, :many], real[1, :many] = threshold, sizes
        real[2, :many] = np.frombuffer(b"".join(memos))
        ids = np.concatenate((ids, to_cells(names)))
        scores = np.concatenate((scores, np.frombuffer(b"".join(outputs)).reshape(many, size)))
    return _Rounds(*whole, *real), ids, scores


def _digest(ids: Collection[str]) -> Counts:
    return np.fromiter(map(crc32, map(str.encode, ids)), np.int64, len(ids))


def _pack(
    learner: Learner,
    names: Sequence[str],
    world: _World,
    spans: _Spans,
    rounds: _Rounds,
    ids: Cells,
    after: dict[str, bytes],
) -> None:
    """Note the states of the keys that were played, the rounds that stay open behind them."""
    contents = states.pack_many(world.keys, learner)
    packed = states.pack_rounds(ids[rounds.row].tolist(), rounds, world.scores[rounds.row])
    due, first = rounds.due.tolist(), 0
    facts = zip(names, contents, spans.open.tolist(), spans.left.tolist(), strict=True)
    for name, content, held, is_left in facts:
        end = first + held
        if not is_left:
            waiting = states.pack_waiting(packed[first:end], min(due[first:end])) if held else b""
            after[name] = content + waiting
        first = end


def _write(said: _Said, ids: Cells, scores: Array, labels: Any) -> OutputColumns:
    count = len(said.row)
    sizes = np.where(said.is_set == 1, said.size, 0.0).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    places = np.zeros(offsets[-1], np.int64)
    _call(_rank, said, count, scores, offsets, places)
    nothing = np.full(count, np.nan)
    return OutputColumns(
        row=said.row,
        id=ids[said.id],
        kind=_KINDS[said.what],
        number=said.number,
        threshold=said.threshold,
        size=said.size,
        offsets=offsets,
        labels=places if labels is None else to_cells(labels)[places],
        lower=nothing,
        upper=nothing.copy(),
        miss=said.miss,
        note=_NOTED[said.what],
    )


def _read_batch(table: EventColumns, labels: Sequence[Any] | None) -> _Batch | None:
    """Return the events sorted by key, and which keys must be left to the fold; None if all must."""
    ids, asked, times = table.cells("id"), _read_outputs(table), _read_times(table)
    if asked is None or times is None or (labels is not None and len(labels) != asked.shape[1]):
        return None
    told = _read_told(table, range(asked.shape[1]) if labels is None else labels)
    if told is None or not ids:
        return None
    kind = np.where(np.isnan(asked).all(axis=1), _ANSWERED, _ASKED)
    for name, meant in (("skipped", _SKIPPED), ("elapsed", _ELAPSED)):
        if name in table.names:
            kind[_read_flags(table.cells(name)) == 1] = meant
    wrong = (kind == _ASKED) & ~((asked >= 0.0) & (asked <= 1.0)).all(axis=1)
    wrong |= (kind == _ANSWERED) & (told[0] == _UNTOLD) | (abs(times) > LATEST)
    try:
        if not "".join(ids).isascii() or max(map(len, ids)) > LONGEST_ID:
            return None
    except TypeError:  # One is not text.
        return None
    numbers = dict(zip(dict.fromkeys(ids), count(), strict=False))
    keys = table.distinct
    key = np.fromiter(map(keys.__getitem__, table.keys), np.int64, len(ids))
    number = np.fromiter(map(numbers.__getitem__, ids), np.int64, len(ids))
    order = np.argsort(key, kind="stable")
    columns = (kind, number, _digest(numbers)[number], times, *told)
    left = np.zeros(len(keys), dtype=np.bool_)
    left[key[wrong]] = True
    starts = np.searchsorted(key[order], np.arange(len(keys) + 1))
    events = _cut(_Events(np.arange(len(ids)), *columns), order)
    return _Batch(list(keys), starts, events, left, to_cells(ids), numbers, asked)


def _read_outputs(table: EventColumns) -> Array | None:
    """Return the outputs as a table, NaN in rows without one; None if they are of another form."""
    given = table["output"] if "output" in table.names else None
    if not (isinstance(given, np.ndarray) and given.ndim == 2):
        cells = [] if given is None else table.cells("output")
        is_asked = np.array([not is_missing(cell) for cell in cells], dtype=np.bool_)
        try:
            rows = np.array([cell for cell in cells if not is_missing(cell)])
        except ValueError:  # They are not all of one length.
            return None
        if rows.ndim != 2 or rows.dtype.kind not in "fiu":
            return None
        given = np.full((len(cells), rows.shape[1]), np.nan)
        given[is_asked] = rows
    if given.dtype.kind not in "fiu" or given.shape[1] == 0:
        return None
    return np.ascontiguousarray(given, dtype=np.float64)


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


def _read_flags(cells: Sequence[Any]) -> Counts:
    """Return 1 for true, 0 for false, -1 for empty cells."""
    return np.array([-1 if is_missing(cell) else int(bool(cell)) for cell in cells])


def _read_told(table: EventColumns, labels: Sequence[Any]) -> tuple[Counts, Counts, Array] | None:
    """Return how each row answers: by what, the place of its label, its score."""
    count = len(table.keys)
    told, place, score = np.zeros(count, np.int64), np.zeros(count, np.int64), np.full(count, np.nan)
    given = np.zeros(count, np.int64)
    if "label" in table.names:
        place = _read_places(table, labels)
        told[place >= 0] = _LABEL
        given += place != _EMPTY
    if "hit" in table.names:
        flags = _read_flags(table.cells("hit"))
        told[flags >= 0] = np.where(flags[flags >= 0] == 1, _HIT, _MISS)
        given += flags >= 0
    if "score" in table.names:
        cells = table.cells("score")
        if not set(map(type, cells)) <= {float, type(None)}:
            return None
        score = np.array(cells, dtype=np.float64)
        told[(score >= 0.0) & (score <= 1.0)] = _SCORE
        given += ~np.isnan(score)
    told[given != 1] = _UNTOLD
    return told, place, score


def _read_places(table: EventColumns, labels: Sequence[Any]) -> Counts:
    """Return the places of the true labels among all; one for empty cells, another for the unknown."""
    column, count = table["label"], len(labels)
    if type(labels) is range and isinstance(column, np.ndarray) and column.dtype.kind == "i":
        places: Counts = np.where((column >= 0) & (column < count), column, _UNHEARD).astype(np.int64)
        return places
    known: dict[Any, int] = dict(zip(labels, range(count), strict=True))
    try:
        found = [
            known.get(cell, _UNHEARD) if not is_missing(cell) else _EMPTY
            for cell in table.cells("label")
        ]
    except TypeError:  # One cannot be a label.
        return np.full(len(table.keys), _UNHEARD)
    return np.array(found)
