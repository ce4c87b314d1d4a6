"""Many keys at once: one compiled loop over the events of all of them.

It plays what is most common: the default learner, sets of labels from tables of scores or intervals,
and answers that are a label, a true value, a score, a hit or a miss. A key with anything else is left
to the fold, as a whole.
"""

from collections.abc import Mapping
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.feedback import Answer
from keyhole.keyed.columns import NO_NUMBER, EventColumns, OutputColumns
from keyhole.keyed.event_table import (
    ASKED,
    AT,
    BOTH,
    ELAPSED,
    KIND,
    LABEL,
    LABELS,
    LOWER,
    SKIPPED,
    TOLD,
    Batch,
    Flags,
    find_asks,
    find_form,
    read_batch,
)
from keyhole.keyed.judging import judge, measure, rate_residual
from keyhole.keyed.packed import (
    ANSWERED,
    BEGIN,
    CLOCK,
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
    OPEN,
    OUT_OF_REACH,
    OUTPUTS,
    PREDICTED,
    RECALLED,
    ROW,
    SAID,
    SCALE_NOW,
    SECOND,
    SIZE,
    SIZES,
    THEN,
    THRESHOLD,
    Bytes,
    Form,
    Key,
    add_residual,
    digest,
    make_digests,
    make_form,
    make_numbers,
    read_key,
    start_key,
    write_key,
)
from keyhole.keyed.reports import (
    AGAIN,
    CLOSED_BEFORE,
    COUNTED,
    LATE,
    LEFT,
    MISSED,
    PUSHED,
    SHOWN,
    UNKNOWN,
    WHAT,
    Reports,
    advance,
    call,
    close,
    drop,
    find_open,
    is_closed,
    is_compiled,
    make_reports,
    say,
    show,
    sort,
    write_reports,
)
from keyhole.keyed.state import NEVER, ROUND_SIZE
from keyhole.learners import Ask
from keyhole.learners.rules.informed_tracker import choose, hear, informed_tracker, observe
from keyhole.numeric import Array, Counts, called, can_compile, kernel, merged
from keyhole.predictor.rounds import LISTENS, MOST_HEARD, measure_delay
from keyhole.scores import find_labels
from keyhole.scores.labels import LEAST_SUM, MOST_SUM
from keyhole.scores.residuals import list_shape

if TYPE_CHECKING:
    from keyhole.keyed.fold import Fold

WORTH = 10_000  # events of a process, in one table or several, from which on the loop pays


class _World(NamedTuple):
    """All that is played with: the table, and one key."""

    settings: Any
    form: Form
    key: Key
    state: Any  # of the learner, in the key's numbers
    reports: Reports
    events: Counts
    told: Array
    outputs: Array
    shares: Array
    shape: Array  # what is assumed of residuals
    lifetime: int
    open_limit: int
    recall: int


class _Spans(NamedTuple):
    """Of each key where its events begin in their order, its state as it was, and as it is."""

    key: Counts  # of each event
    order: Counts
    event: Counts
    before: Counts
    after: Counts
    left: Flags  # to the fold
    fresh: Counts  # the numbers of a new key
    digests: Counts
    out: Bytes


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


@kernel
def _propose(world: _World, event: int) -> int:
    """Open a round; return which it is."""
    key, own = world.key, world.outputs[event]
    predicted, which = key.whole[PREDICTED], key.whole[MADE]
    whole, real = key.rounds[which], key.rounds_real[which]
    if world.form.score == LABELS and world.state.rounds[0] < LISTENS and predicted < MOST_HEARD:
        _listen(world.settings.alpha, world.state, own, world.shares)
    real[THRESHOLD] = choose(world.settings, world.state, real[MEMO : MEMO + 1], Ask(0.5, own[:0]))
    whole[ROW], whole[NUMBER], whole[THEN] = event, predicted, key.whole[ANSWERED]
    real[FIRST], real[SECOND] = 0.0, 0.0
    measure(key, world.form, own, real)
    key.whole[PREDICTED], key.whole[MADE] = predicted + 1, which + 1
    return which


@kernel
def _ask(world: _World, event: int) -> None:
    key, reports, at = world.key, world.reports, world.events[event, AT]
    whole, rounds = key.whole, key.rounds
    due = at + world.lifetime if world.lifetime > 0 else NEVER
    place, was_closed = find_open(key, event), is_closed(key, event)
    if place >= 0:
        reports.whole[show(key, world.form, reports, event, rounds[place, OPEN]), WHAT] = AGAIN
    elif was_closed or due <= whole[CLOCK]:
        said = say(key, reports, event, event, NO_NUMBER)
        reports.whole[said, WHAT] = CLOSED_BEFORE if was_closed else LATE
    else:
        advance(key, reports, world.recall, event, at)
        which = _propose(world, event)
        reports.whole[show(key, world.form, reports, event, which), WHAT] = SHOWN
        rounds[which, DUE] = due
        rounds[whole[HELD], OPEN] = which
        whole[HELD] += 1
        whole[EARLIEST] = min(whole[EARLIEST], due)
        if whole[HELD] > world.open_limit:
            drop(key, reports, world.recall, 0, event, PUSHED)


@called
def _learn_scale(alpha: float, world: _World, residual: float, scale: float, score: float) -> float:
    """Learn the residual of a true value; return its score at the scale of now."""
    key = world.key
    was_unknown = key.real[SCALE_NOW] == 0.0
    add_residual(key, residual)
    found = key.real[SCALE_NOW]
    if was_unknown and found != 0.0:
        hear(alpha, world.state, world.shape[0], world.shape[1])
    if scale != found:
        score = rate_residual(world.form.score, residual, found if found != 0.0 else ENDLESS)
    return score


@kernel
def _settle(world: _World, event: int, which: int) -> float:
    """Teach the learner an answer, and count it; return the miss, NaN if it cannot be."""
    key, form, settings, told = world.key, world.form, world.settings, world.told[event]
    counts, whole, real = key.whole, key.rounds[which], key.rounds_real[which]
    miss, score, is_beyond = judge(key, form, world.events, told, world.outputs, event, which)
    if miss == miss:
        number, then, age, stale, heard = whole[NUMBER], whole[THEN], 0.0, 0.0, miss
        if then != counts[ANSWERED] or number + 1 != counts[PREDICTED]:
            age, stale = measure_delay(number, then, counts[PREDICTED], counts[ANSWERED])
        if BOTH <= form.score <= LOWER and world.events[event, TOLD] == LABEL:
            score = _learn_scale(settings.alpha, world, told - real[FIRST], real[SECOND], score)
            if real[SECOND] == ENDLESS:  # The whole line says nothing of any threshold.
                heard = settings.alpha
        answer = Answer(heard, score, age, stale, 0.0, 1.0, 1.0, 0.0)
        observe(settings, world.state, real[MEMO : MEMO + 1], answer)
        counts[ANSWERED] += 1
        counts[OUT_OF_REACH] += 1 if is_beyond else 0
        key.real[MISSES] += miss
        if real[SIZE] == ENDLESS:
            counts[ENDLESS_ROUNDS] += 1
        else:
            key.real[SIZES] += real[SIZE]
    return miss


@kernel
def _answer(world: _World, event: int) -> bool:
    """Answer a round or skip it; return whether it could be, or the fold must say what is wrong."""
    key, reports, miss = world.key, world.reports, 0.0
    place = find_open(key, event)
    if place < 0:
        said = say(key, reports, event, event, NO_NUMBER)
        reports.whole[said, WHAT] = CLOSED_BEFORE if is_closed(key, event) else UNKNOWN
    elif world.events[event, KIND] == SKIPPED:
        drop(key, reports, world.recall, place, event, LEFT)
    else:
        miss = _settle(world, event, key.rounds[place, OPEN])
        if miss == miss:
            said = close(key, reports, world.recall, place, event)
            reports.whole[said, WHAT], reports.real[said, MISSED] = COUNTED, miss
    return miss == miss


@kernel
def _begin(world: _World, spans: _Spans, number: int) -> bool:
    """Take up a key, as it was or new; return whether the loop can play it."""
    key, whole, begin, end = world.key, world.key.whole, spans.before[number], spans.before[number + 1]
    is_played, recalled = True, key.events + whole[RECALLED]
    if begin == end:
        start_key(key, spans.fresh, world.events[spans.order[spans.event[number]], AT])
    else:
        is_played = read_key(key, world.form, begin, end)
    whole[MADE] = whole[HELD]
    whole[PREDICTED] = whole[ANSWERED] + whole[EXPIRED_ROUNDS] + whole[HELD]
    for row in range(recalled, key.events + whole[RECALLED]):
        digest(key.text, key.ids[row], spans.digests)
    return is_played


@merged
def _play(world: _World, spans: _Spans) -> None:
    """Play the events of all keys."""
    key, events, after = world.key, world.events, spans.after
    find_asks(world.form.score, world.outputs, spans.key, events, spans.left)
    for event in range(key.events):
        digest(key.text, key.ids[event], spans.digests)
    sort(spans.key, key.events, spans.event, spans.order)
    for number in range(spans.left.size):
        before, end = key.whole[SAID], after[number]
        is_played = not spans.left[number] and _begin(world, spans, number)
        for place in range(spans.event[number], spans.event[number + 1]):
            event = spans.order[place]
            if is_played and events[event, KIND] == ASKED:
                _ask(world, event)
            elif is_played:
                advance(key, world.reports, world.recall, event, events[event, AT])
                is_played = events[event, KIND] == ELAPSED or _answer(world, event)
        if is_played:
            end = write_key(key, world.form, world.outputs.view(np.int64), spans.out, end)
        if not is_played or end < 0:  # The fold must play it instead.
            spans.left[number], key.whole[SAID], end = True, before, after[number]
        after[number + 1] = end


_met = 0  # events of this process that the loop could have played


def _is_worth_while(events: int) -> bool:
    global _met
    _met += events
    return _met >= WORTH or is_compiled(_play)


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
    world, spans = _set_up(fold, batch, form, list(map(before.get, batch.keys, repeat(b""))))
    call(_play, world, spans)
    content, ends = spans.out[: spans.after[-1]].tobytes(), pairwise(spans.after.tolist())
    states = {key: content[start:end] for key, (start, end) in zip(batch.keys, ends, strict=True)}
    for place in np.flatnonzero(spans.left).tolist():
        del states[batch.keys[place]]
    return states, [
        write_reports(world.key, world.form, world.reports, batch, find_labels(setup.score))
    ]


def _set_up(fold: "Fold", batch: Batch, form: int, contents: list[bytes]) -> tuple[_World, _Spans]:
    """Return what the loop plays with, and where each key's part of it is."""
    learner, (rows, width) = fold.setup.learner, batch.outputs.shape
    sizes = np.fromiter(map(len, contents), np.int64, len(contents))
    events = np.bincount(batch.key, minlength=len(contents))
    written = make_form(learner, fold.setup.score, form, width)
    least = ROUND_SIZE + 8  # bytes of an open round
    held = sizes // least  # rounds that a state may have open
    text = b"".join([batch.text, *contents, bytes(4 * written.raw.size)])  # read beyond a state's end
    numbers, state = make_numbers(learner, fold.start_progress())
    room = len(contents) * (FIXED_PART + written.raw.size) + rows * (least + 8 * written.outputs)
    world = _World(
        settings=learner.settings,
        form=written,
        key=_make_key(batch, numbers, text, rounds=(held + events).max(), recalled=held.sum()),
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
    spans = _Spans(
        key=batch.key,
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


def _make_key(batch: Batch, numbers: Counts, text: bytes, *, rounds: int, recalled: int) -> Key:
    """Return room for one key: so many rounds, and ids of so many that were open before."""
    (count, width), whole = batch.outputs.shape, np.empty((rounds, OPEN + 1), np.int64)
    ids = np.empty((count + recalled, OUTPUTS + 1), np.int64)
    own = ids[:count]
    own[:, BEGIN], own[:, LENGTH] = np.cumsum(batch.lengths) - batch.lengths, batch.lengths
    own[:, OUTPUTS] = width
    return Key(
        whole=numbers,
        real=numbers.view(np.float64),
        rounds=whole,
        rounds_real=whole.view(np.float64),
        ids=ids,
        text=np.frombuffer(text, np.uint8),
        events=count,
    )
