"""Many keys at once: one compiled loop over the events of all of them.

It plays what is most common: the default learner, sets of labels from tables of scores or intervals,
and answers that are a label, a true value, a score, a hit or a miss. A key with anything else is left
to the fold, as a whole.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.feedback import Answer
from keyhole.keyed.columns import NO_NUMBER, EventColumns, OutputColumns, to_cells
from keyhole.keyed.event_table import (
    ASKED,
    AT,
    BANDS,
    BOTH,
    BOUNDED,
    ELAPSED,
    HIT,
    KIND,
    LABEL,
    LABELS,
    LOWER,
    MISS,
    PLACE,
    SCORE,
    SKIPPED,
    TOLD,
    UPPER,
    Batch,
    Flags,
    find_form,
    read_batch,
)
from keyhole.keyed.events import Kind
from keyhole.keyed.packed import (
    ANSWERED,
    BEGIN,
    CLOCK,
    DIGEST,
    DUE,
    EARLIEST,
    ENDLESS,
    ENDLESS_ROUNDS,
    EXPIRED_ROUNDS,
    FIRST,
    FIXED_PART,
    HELD,
    LENGTH,
    MADE,
    MEMO,
    MISSES,
    NUMBER,
    OUT_OF_REACH,
    PADDING,
    PREDICTED,
    RECALLED,
    REMEMBERED,
    ROW,
    SCALE_NOW,
    SECOND,
    SIZE,
    SIZES,
    THEN,
    THRESHOLD,
    Bytes,
    Form,
    Key,
    Names,
    Rounds,
    add_residual,
    digest,
    make_digests,
    make_form,
    make_key,
    make_rounds,
    read_key,
    start_key,
    write_key,
)
from keyhole.keyed.state import NEVER, ROUND_SIZE
from keyhole.learners import Ask
from keyhole.learners.rules.informed_tracker import choose, hear, informed_tracker, observe
from keyhole.numeric import Array, Counts, called, can_compile, compile_for, kernel, logit, sigmoid
from keyhole.predictor.rounds import LISTENS, MOST_HEARD, measure_delay
from keyhole.scores import find_labels
from keyhole.scores.labels import LEAST_SUM, MOST_SUM
from keyhole.scores.residuals import EDGE, list_shape

if TYPE_CHECKING:
    from keyhole.keyed.fold import Fold

NOTES = {
    "over": "its lifetime is over",
    "pushed": "too many rounds are open",
    "closed": "this round is closed",
    "late": "asked too late: its lifetime is over already",
    "unknown": "no round of this id is open, nor was one recently",
}
_SHOWN, _COUNTED, _LEFT, _OVER, _PUSHED, _OPEN, _CLOSED, _LATE, _UNKNOWN = range(9)
_KINDS = to_cells(
    [Kind.SHOWN, Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED, Kind.EXPIRED, Kind.REPEATED, Kind.REPEATED]
    + [Kind.REFUSED] * 2
)
_NOTED = to_cells([None, None, None, NOTES["over"], NOTES["pushed"], None, *list(NOTES.values())[2:]])
WORTH = 10_000  # events of a process, in one table or several, from which on the loop pays
_NOWHERE = -1
# The columns of what is said of a round.
_EVENT, _WHAT, _ABOUT, _NUMBER = range(4)
_THRESHOLD, _SIZE, _LOWER, _UPPER, _MISS = range(5)


class _Said(NamedTuple):
    """What is said of rounds, and room for all that may be; ``total`` is how much has been."""

    whole: Counts
    real: Array
    total: Counts


class _Board(NamedTuple):
    """The rounds of a key, and what is said of them."""

    counts: Counts
    closed: Counts
    rounds: Rounds
    names: Names
    said: _Said
    recall: int


class _World(NamedTuple):
    """All that is played with: the table, the states as they were and are, and one key of them."""

    form: Form
    key: Key
    fresh: Counts  # the memory of a new key
    board: _Board
    events: Counts
    told: Array
    outputs: Array
    output_bits: Counts
    recalled: Array  # the scores of rounds that were open before
    shares: Array
    shape: tuple[Array, Array]  # what is assumed of residuals
    digests: Counts
    out: Bytes
    lifetime: int
    open_limit: int


class _Spans(NamedTuple):
    """Of each key where its events begin in their order, its state as it was, and as it is."""

    key: Counts  # of each event
    order: Counts
    event: Counts
    before: Counts
    after: Counts
    left: Flags  # to the fold


@called
def _find_open(board: _Board, event: int) -> int:
    """Return the place among the open rounds of that with the id of an event."""
    ids, found = board.names.ids, _NOWHERE
    for place in range(board.counts[HELD]):
        row = board.rounds.whole[board.rounds.opens[place], ROW]
        if ids[row, DIGEST] == ids[event, DIGEST] and _is_same(board.names, event, row):
            found = place
            break
    return found


@called
def _is_same(names: Names, event: int, row: int) -> bool:
    """Return whether the id of an event is that of a row."""
    ids = names.ids
    if ids[event, LENGTH] != ids[row, LENGTH]:
        return False
    source = names.text if row < names.events else names.states
    begin, other = ids[event, BEGIN], ids[row, BEGIN]
    for place in range(ids[event, LENGTH]):
        if names.text[begin + place] != source[other + place]:
            return False
    return True


@called
def _is_closed(board: _Board, event: int) -> bool:
    """Return whether the round of an event is one of those closed last."""
    found = False
    for place in range(board.counts[REMEMBERED]):
        if board.closed[place] == board.names.ids[event, DIGEST]:
            found = True
    return found


@called
def _say(said: _Said, event: int, what: int, row: int, number: int) -> int:
    """Note an output about a round; return its place."""
    place = said.total[0]
    whole = said.whole[place]
    whole[_EVENT], whole[_WHAT], whole[_ABOUT], whole[_NUMBER] = event, what, row, number
    said.real[place, :] = np.nan
    said.total[0] = place + 1
    return place


@called
def _show(form: Form, board: _Board, event: int, what: int, which: int) -> None:
    """Note the set or interval of a round."""
    whole, real, said = board.rounds.whole[which], board.rounds.real[which], board.said
    own = said.real[_say(said, event, what, whole[ROW], whole[NUMBER])]
    own[_THRESHOLD], own[_SIZE] = real[THRESHOLD], real[SIZE]
    if form.score != LABELS:
        own[_LOWER], own[_UPPER] = _find_ends(form, real)


@called
def _close(board: _Board, place: int, event: int, what: int) -> int:
    """Take a round from the open ones, remember and report it; return the place of the output."""
    counts, rounds, opens = board.counts, board.rounds, board.rounds.opens
    held, which = counts[HELD], opens[place]
    for later in range(place + 1, held):
        opens[later - 1] = opens[later]
    counts[HELD] = held - 1
    row, number = rounds.whole[which, ROW], rounds.whole[which, NUMBER]
    if board.recall > 0:
        known = counts[REMEMBERED]
        over = max(known + 1 - board.recall, 0)
        for at in range(over, known):
            board.closed[at - over] = board.closed[at]
        board.closed[known - over] = board.names.ids[row, DIGEST]
        counts[REMEMBERED] = known - over + 1
    if rounds.whole[which, DUE] == counts[EARLIEST]:
        earliest = NEVER
        for at in range(held - 1):
            earliest = min(earliest, rounds.whole[opens[at], DUE])
        counts[EARLIEST] = earliest
    if what != _COUNTED:
        counts[EXPIRED_ROUNDS] += 1
    return _say(board.said, event, what, row, number)


@kernel
def _advance(board: _Board, event: int, at: int) -> None:
    """Move the key's time on; rounds whose lifetime is over expire."""
    counts, rounds, place = board.counts, board.rounds, 0
    counts[CLOCK] = max(counts[CLOCK], at)
    while counts[EARLIEST] <= counts[CLOCK]:
        if rounds.whole[rounds.opens[place], DUE] <= counts[CLOCK]:
            _close(board, place, event, _OVER)
        else:
            place += 1


@called
def _listen(alpha: float, state: Any, scores: Array, shares: Array) -> None:
    """Let the learner hear the model's word, if the scores are a distribution."""
    total = 0.0
    for place in range(scores.size):
        total += scores[place]
    if scores.size > 1 and LEAST_SUM <= total <= MOST_SUM:
        for place in range(scores.size):
            shares[place] = scores[place] / total
        hear(alpha, state, scores, shares)


@called
def _rate_residual(score: int, residual: float, scale: float) -> float:
    """Return the score of a residual; 1 while there is no scale."""
    rated = 1.0
    if scale != ENDLESS:
        if score == BOTH:
            rated = 1.0 / (1.0 + abs(residual) / scale)
        else:
            sign = -1.0 if score == UPPER else 1.0
            rated = sigmoid(max(-EDGE, min(EDGE, sign * residual / scale)))
    return rated


@called
def _rate(form: Form, first: float, second: float, value: float) -> float:
    """Return the score of a true value: of a band from first to second, or by a centre and a scale."""
    if form.score == BANDS:
        middle, half = 0.5 * (first + second), 0.5 * (second - first)
        rated = 1.0 / (1.0 + abs(value - middle) / half)
    elif form.score == BOUNDED:
        rated = 1.0 - abs(value - first) / form.bound
    else:
        rated = _rate_residual(form.score, value - first, second)
    return rated


@called
def _find_ends(form: Form, real: Array) -> tuple[float, float]:
    """Return the ends of a round's interval."""
    threshold, first, second = real[THRESHOLD], real[FIRST], real[SECOND]
    lower, upper = -np.inf, np.inf
    if threshold > 1.0:
        lower, upper = np.inf, -np.inf
    elif form.score == BOUNDED:
        half = form.bound * (1.0 - max(threshold, 0.0))
        lower, upper = first - half, first + half
    elif threshold > 0.0 and form.score == BANDS:
        middle = 0.5 * (first + second)
        half = 0.5 * (second - first) * (1.0 / threshold - 1.0)
        lower, upper = middle - half, middle + half
    elif threshold > 0.0 and second != ENDLESS:
        if form.score == BOTH:
            half = second * (1.0 / threshold - 1.0)
            lower, upper = first - half, first + half
        else:
            reach = -second * logit(threshold, EDGE)
            if form.score == UPPER:
                upper = first + reach
            else:
                lower = first - reach
    return lower, upper


@kernel
def _propose(settings: Any, world: _World, event: int) -> int:
    """Open a round; return which it is."""
    form, key, own = world.form, world.key, world.outputs[event]
    predicted, which = key.counts[PREDICTED], key.counts[MADE]
    whole, real = world.board.rounds.whole[which], world.board.rounds.real[which]
    is_set = form.score == LABELS
    if is_set and key.state.rounds[0] < LISTENS and predicted < MOST_HEARD:
        _listen(settings.alpha, key.state, own, world.shares)
    threshold = choose(settings, key.state, real[MEMO : MEMO + 1], Ask(0.5, own[:0]))
    whole[ROW], whole[NUMBER], whole[THEN] = event, predicted, key.counts[ANSWERED]
    real[THRESHOLD], real[SIZE], real[FIRST], real[SECOND] = threshold, 0.0, 0.0, 0.0
    if is_set:
        for place in range(own.size):
            if own[place] >= threshold:
                real[SIZE] += 1.0
    else:
        _centre(form, key, own, real)
    key.counts[PREDICTED], key.counts[MADE] = predicted + 1, which + 1
    return which


@called
def _centre(form: Form, key: Key, own: Array, real: Array) -> None:
    """Note the output of an interval's round, and how wide it is."""
    real[FIRST] = own[0]
    if form.score == BANDS:
        real[SECOND] = own[1]
    elif form.score != BOUNDED:
        scale = key.sums[SCALE_NOW]
        real[SECOND] = scale if scale != 0.0 else ENDLESS
    lower, upper = _find_ends(form, real)
    if upper > lower:
        real[SIZE] = upper - lower


@kernel
def _ask(settings: Any, world: _World, event: int) -> None:
    board, counts, at = world.board, world.key.counts, world.events[event, AT]
    rounds = board.rounds
    due = at + world.lifetime if world.lifetime > 0 else NEVER
    place = _find_open(board, event)
    if place >= 0:
        _show(world.form, board, event, _OPEN, rounds.opens[place])
    elif _is_closed(board, event) or due <= counts[CLOCK]:
        _say(board.said, event, _CLOSED if _is_closed(board, event) else _LATE, event, NO_NUMBER)
    else:
        _advance(board, event, at)
        which = _propose(settings, world, event)
        _show(world.form, board, event, _SHOWN, which)
        rounds.whole[which, DUE] = due
        rounds.opens[counts[HELD]] = which
        counts[HELD] += 1
        counts[EARLIEST] = min(counts[EARLIEST], due)
        if counts[HELD] > world.open_limit:
            _close(board, 0, event, _PUSHED)


@kernel
def _judge(world: _World, event: int, which: int) -> tuple[float, float, bool]:
    """Return whether a round missed, its score as far as it is told, and whether it is out of reach.

    The miss is NaN where the fold must say what is wrong.
    """
    by, real = world.events[event, TOLD], world.board.rounds.real[which]
    threshold, score, miss, is_beyond = real[THRESHOLD], np.nan, 0.0, False
    if by == LABEL and world.form.score == LABELS:
        row, place = world.board.rounds.whole[which, ROW], world.events[event, PLACE]
        before = row - world.board.names.events
        score = world.outputs[row, place] if before < 0 else world.recalled[before, place]
        miss = 1.0 if score < threshold else 0.0
    elif by == LABEL:
        miss, score, is_beyond = _judge_value(world.form, real, world.told[event])
    else:
        if by == SCORE:
            score = world.told[event]
            miss = 1.0 if score < threshold else 0.0
        elif by == MISS:
            miss = 1.0
        is_unscaled = BOTH <= world.form.score <= LOWER and real[SECOND] == ENDLESS
        if (by == HIT and real[SIZE] == 0.0) or (is_unscaled and real[SIZE] == ENDLESS):
            miss = np.nan
    return miss, score, is_beyond


@called
def _judge_value(form: Form, real: Array, value: float) -> tuple[float, float, bool]:
    """Return what a true value says; what was shown decides between hit and miss, not rounding."""
    lower, upper = _find_ends(form, real)
    score = _rate(form, real[FIRST], real[SECOND], value)
    miss, threshold = 0.0 if lower <= value <= upper else 1.0, real[THRESHOLD]
    if (miss == 1.0) != (score < threshold):
        score = np.nextafter(threshold, -np.inf) if miss == 1.0 else threshold
    is_beyond = miss == 1.0 and score < 0.0
    return miss, 0.0 if score < 0.0 else score if score < 1.0 else 1.0, is_beyond


@called
def _learn_scale(alpha: float, world: _World, residual: float, scale: float, score: float) -> float:
    """Learn the residual of a true value; return its score at the scale of now."""
    key = world.key
    was_unknown = key.sums[SCALE_NOW] == 0.0
    add_residual(key, residual)
    found = key.sums[SCALE_NOW]
    if was_unknown and found != 0.0:
        hear(alpha, key.state, world.shape[0], world.shape[1])
    if scale != found:
        score = _rate_residual(world.form.score, residual, found if found != 0.0 else ENDLESS)
    return score


@kernel
def _settle(settings: Any, world: _World, event: int, which: int) -> float:
    """Teach the learner an answer, and count it; return the miss, NaN if it cannot be."""
    key, rounds = world.key, world.board.rounds
    counts, whole, real = key.counts, rounds.whole[which], rounds.real[which]
    miss, score, is_beyond = _judge(world, event, which)
    if miss == miss:
        number, then, age, stale, heard = whole[NUMBER], whole[THEN], 0.0, 0.0, miss
        if then != counts[ANSWERED] or number + 1 != counts[PREDICTED]:
            age, stale = measure_delay(number, then, counts[PREDICTED], counts[ANSWERED])
        if BOTH <= world.form.score <= LOWER and world.events[event, TOLD] == LABEL:
            residual = world.told[event] - real[FIRST]
            score = _learn_scale(settings.alpha, world, residual, real[SECOND], score)
            if real[SECOND] == ENDLESS:  # The whole line says nothing of any threshold.
                heard = settings.alpha
        answer = Answer(heard, score, age, stale, 0.0, 1.0, 1.0, 0.0)
        observe(settings, key.state, real[MEMO : MEMO + 1], answer)
        counts[ANSWERED] += 1
        counts[OUT_OF_REACH] += 1 if is_beyond else 0
        key.sums[MISSES] += miss
        if real[SIZE] == ENDLESS:
            counts[ENDLESS_ROUNDS] += 1
        else:
            key.sums[SIZES] += real[SIZE]
    return miss


@kernel
def _answer(settings: Any, world: _World, event: int) -> bool:
    """Answer a round or skip it; return whether the fold must say what is wrong with it."""
    board, refused = world.board, False
    place = _find_open(board, event)
    if place < 0:
        what = _CLOSED if _is_closed(board, event) else _UNKNOWN
        _say(board.said, event, what, event, NO_NUMBER)
    elif world.events[event, KIND] == SKIPPED:
        _close(board, place, event, _LEFT)
    else:
        miss = _settle(settings, world, event, board.rounds.opens[place])
        refused = miss != miss
        if not refused:
            board.said.real[_close(board, place, event, _COUNTED), _MISS] = miss
    return refused


@kernel
def _play_key(settings: Any, world: _World, spans: _Spans, key: int) -> bool:
    """Play the events of a key; return whether the fold must play them instead."""
    counts, board, names, events = world.key.counts, world.board, world.board.names, world.events
    begin, end = spans.before[key], spans.before[key + 1]
    is_left, recalled = False, counts[RECALLED]
    if begin == end:
        start_key(world.key, world.fresh, events[spans.order[spans.event[key]], AT])
    else:
        is_left = not read_key(world.key, world.form, board.rounds, names, world.recalled, begin, end)
    counts[MADE] = counts[HELD]
    counts[PREDICTED] = counts[ANSWERED] + counts[EXPIRED_ROUNDS] + counts[HELD]
    for row in range(names.events + recalled, names.events + counts[RECALLED]):
        digest(names.states, names.ids[row], world.digests)
    for place in range(spans.event[key], spans.event[key + 1]):
        if is_left:
            break
        event = spans.order[place]
        if events[event, KIND] == ASKED:
            _ask(settings, world, event)
        else:
            _advance(board, event, events[event, AT])
            is_left = events[event, KIND] != ELAPSED and _answer(settings, world, event)
    return is_left


@kernel
def _play(settings: Any, world: _World, spans: _Spans) -> None:
    """Play the events of all keys."""
    board, after = world.board, spans.after
    names, said = board.names, board.said
    for event in range(names.events):
        digest(names.text, names.ids[event], world.digests)
    _sort(spans.key, names.events, spans.event, spans.order)
    for key in range(spans.left.size):
        before, end = said.total[0], -1
        if not spans.left[key] and not _play_key(settings, world, spans, key):
            end = write_key(
                world.key, world.form, board.rounds, names, world.output_bits, world.out, after[key]
            )
        if end < 0:
            spans.left[key], said.total[0], end = True, before, after[key]
        after[key + 1] = end


@kernel
def _sort(groups: Counts, count: int, starts: Counts, order: Counts) -> None:
    """Put so many places in the order of their groups, of which these are the starts."""
    for place in range(count):
        group = groups[place]
        order[starts[group]] = place
        starts[group] += 1
    for group in range(starts.size - 1, 0, -1):
        starts[group] = starts[group - 1]
    starts[0] = 0


@kernel
def _rank(
    said: _Said, outputs: Array, recalled: Array, offsets: Counts, order: Counts, places: Counts
) -> None:
    """Put the labels of all sets one behind the other, the highest scores of a set first."""
    events = outputs.shape[0]
    for which in range(order.size):
        start, end, one = offsets[which], offsets[which], order[which]
        row, threshold = said.whole[one, _ABOUT], said.real[one, _THRESHOLD]
        if offsets[which + 1] == start:
            continue
        own = outputs[row] if row < events else recalled[row - events]
        for place in range(own.size):
            if own[place] >= threshold:
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


_met = 0  # events of this process that the loop could have played


def _is_worth_while(events: int) -> bool:
    global _met
    _met += events
    return _met >= WORTH or _play in _COMPILED


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
    contents = [before.get(key, b"") for key in batch.keys]
    world, spans = _set_up(fold, batch, form, contents)
    _call(_play, setup.learner.settings, world, spans)
    content, ends = world.out[: spans.after[-1]].tobytes(), pairwise(spans.after.tolist())
    states = {key: content[start:end] for key, (start, end) in zip(batch.keys, ends, strict=True)}
    for place in np.flatnonzero(spans.left).tolist():
        del states[batch.keys[place]]
    return states, [_write(world, batch, find_labels(setup.score))]


def _set_up(fold: "Fold", batch: Batch, form: int, contents: list[bytes]) -> tuple[_World, _Spans]:
    """Return what the loop plays with, and where each key's part of it is."""
    setup, progress = fold.setup, fold.start_progress()
    learner, (rows, width) = setup.learner, batch.outputs.shape
    sizes = np.fromiter(map(len, contents), np.int64, len(contents))
    events = np.bincount(batch.key, minlength=len(contents))
    written = make_form(learner, setup.score, form, width)
    least = ROUND_SIZE + 8 + 8 * written.outputs  # bytes of an open round
    room, most = int((sizes // least + events).max()), int((sizes // least).sum())
    said = 2 * rows + most
    ids = np.empty((rows + most, DIGEST + 1), np.int64)
    ids[:rows, BEGIN], ids[:rows, LENGTH] = np.cumsum(batch.lengths) - batch.lengths, batch.lengths
    free = len(contents) * (FIXED_PART + written.bytes) + sizes.sum() + batch.text.size + rows * least
    key, shape = make_key(learner, progress), list_shape()
    board = _Board(
        counts=key.counts,
        closed=key.closed,
        rounds=make_rounds(room),
        names=Names(ids, batch.text, np.frombuffer(_join(contents), np.uint8), rows),
        said=_Said(
            np.empty((said, _NUMBER + 1), np.int64), np.empty((said, _MISS + 1)), np.zeros(1, np.int64)
        ),
        recall=fold.recall,
    )
    world = _World(
        form=written,
        key=key,
        fresh=key.memory.copy(),
        board=board,
        events=batch.events,
        told=batch.told,
        outputs=batch.outputs,
        output_bits=batch.outputs.view(np.int64),
        recalled=np.empty((most, width)),
        shares=np.zeros(width),
        shape=(np.array(shape[0]), np.array(shape[1])),
        digests=make_digests(),
        out=np.empty(free, np.uint8),
        lifetime=fold.lifetime or 0,
        open_limit=setup.open_limit,
    )
    spans = _Spans(
        key=batch.key,
        order=np.empty(rows, np.int64),
        event=np.concatenate(([0], np.cumsum(events))),
        before=np.concatenate(([0], np.cumsum(sizes))),
        after=np.zeros(len(contents) + 1, np.int64),
        left=batch.left,
    )
    return world, spans


def _join(contents: list[bytes]) -> bytes:
    return b"".join([*contents, bytes(PADDING)])


def _write(world: _World, batch: Batch, labels: Any) -> OutputColumns:
    """Return what was said, in the order of the events."""
    said, rows, count = world.board.said, len(batch.ids), int(world.board.said.total[0])
    events, order = said.whole[:count, _EVENT].copy(), np.empty(count, np.int64)
    starts = np.concatenate(([0], np.cumsum(np.bincount(events, minlength=rows))))
    _call(_sort, events, count, starts, order)
    event, what, row, number = said.whole[order].T
    threshold, size, lower, upper, miss = np.ascontiguousarray(said.real[order].T)
    offsets, places = np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    if world.form.score == LABELS:
        offsets[1:] = np.cumsum(np.nan_to_num(size).astype(np.int64))
        places = np.zeros(offsets[-1], np.int64)
        _call(_rank, said, world.outputs, world.recalled, offsets, order, places)
    return OutputColumns(
        row=event,
        id=_find_ids(world.board.names, batch, row),
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


def _find_ids(names: Names, batch: Batch, rows: Counts) -> Any:
    """Return the ids of rows; those of rounds that were open before are in the states."""
    ids, is_event = to_cells(batch.ids), rows < names.events
    if is_event.all():
        return ids[rows]
    found = ids[np.where(is_event, rows, 0)]
    for place in np.flatnonzero(~is_event).tolist():
        begin, length, _ = names.ids[rows[place]]
        found[place] = names.states[begin : begin + length].tobytes().decode()
    return found
