"""One compiled loop over the events of many keys: how rounds open, are judged, close and are reported.

It does what the steps of ``keyed.fold`` do, choice for choice.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.feedback import Answer
from keyhole.keyed.columns import NO_NUMBER
from keyhole.keyed.packed import (
    ANSWERED,
    BANDS,
    BEGIN,
    BOTH,
    BOUNDED,
    CLOCK,
    CLOSED,
    DIGEST,
    DUE,
    EARLIEST,
    ENDLESS,
    ENDLESS_ROUNDS,
    EXPIRED_ROUNDS,
    FIRST,
    HELD,
    LABELS,
    LENGTH,
    LOWER,
    MADE,
    MEMO,
    MISSES,
    NUMBER,
    OPEN,
    OUT_OF_REACH,
    OUTPUTS,
    PREDICTED,
    RECALLED,
    REMEMBERED,
    ROW,
    SAID,
    SCALE_NOW,
    SECOND,
    SIZE,
    SIZES,
    THEN,
    THRESHOLD,
    UPPER,
    Bytes,
    Form,
    Key,
    add_residual,
    digest,
    read_key,
    read_output,
    start_key,
    write_key,
)
from keyhole.keyed.state import NEVER
from keyhole.learners import Ask
from keyhole.learners.rules.informed_tracker import choose, hear, observe
from keyhole.numeric import Array, Counts, called, kernel, logit, merged, sigmoid
from keyhole.predictor.rounds import LISTENS, MOST_HEARD, measure_delay
from keyhole.scores.labels import LEAST_SUM, MOST_SUM
from keyhole.scores.residuals import EDGE

Flags = NDArray[np.bool_]
KIND, AT, TOLD, PLACE = range(4)  # the columns of events; the last is the place of the label
ASK, ANSWER, SKIP, ELAPSE = range(4)  # the kinds of events
UNTOLD, LABEL, SCORE, HIT, MISS = range(5)  # by what an answer tells
SHOWN, COUNTED, LEFT, OVER, PUSHED, AGAIN, CLOSED_BEFORE, LATE, UNKNOWN = range(9)
# The columns of reports, whole numbers and real ones; the first is what of the above is reported.
_WHAT, EVENT, _ABOUT, _NUMBER = range(4)
_THRESHOLD, _SIZE, _LOWER, _UPPER, _MISS = range(5)
_NOWHERE = -1


class Reports(NamedTuple):
    """Room for all that may be said; ``SAID`` of a key is how much has been."""

    whole: Counts
    real: Array


def make_reports(room: int) -> Reports:
    return Reports(np.empty((room, _NUMBER + 1), np.int64), np.empty((room, _MISS + 1)))


class World(NamedTuple):
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


class Spans(NamedTuple):
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
        if kind == ANSWER and is_asked:
            events[event, KIND] = ASK
            left[key[event]] |= not is_usable
        elif kind == ANSWER:
            left[key[event]] |= events[event, TOLD] == UNTOLD


@called
def rate_residual(score: int, residual: float, scale: float) -> float:
    """Return the score of a residual; 1 while there is no scale."""
    rated = 1.0
    if scale != ENDLESS:
        if score == BOTH:
            rated = 1.0 / (1.0 + abs(residual) / scale)
        else:
            sign = -1.0 if score == UPPER else 1.0
            rated = sigmoid(max(-EDGE, min(EDGE, sign * residual / scale)))
    return rated


@kernel
def _rate(form: Form, first: float, second: float, value: float) -> float:
    """Return the score of a true value: of a band from first to second, or by a centre and a scale."""
    if form.score == BANDS:
        middle, half = 0.5 * (first + second), 0.5 * (second - first)
        rated = 1.0 / (1.0 + abs(value - middle) / half)
    elif form.score == BOUNDED:
        rated = 1.0 - abs(value - first) / form.bound
    else:
        rated = rate_residual(form.score, value - first, second)
    return rated


@called
def find_ends(form: Form, real: Array) -> tuple[float, float]:
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


@called
def measure(key: Key, form: Form, own: Array, real: Array) -> None:
    """Note the output of a round whose threshold is chosen, and how large its set or interval is."""
    size = 0.0
    if form.score == LABELS:
        for place in range(own.size):
            size += own[place] >= real[THRESHOLD]
    else:
        real[FIRST] = own[0]
        if form.score == BANDS:
            real[SECOND] = own[1]
        elif form.score != BOUNDED:
            scale = key.real[SCALE_NOW]
            real[SECOND] = scale if scale != 0.0 else ENDLESS
        lower, upper = find_ends(form, real)
        if upper > lower:
            size = upper - lower
    real[SIZE] = size


@called
def judge(
    key: Key, form: Form, events: Counts, told: float, outputs: Array, event: int, which: int
) -> tuple[float, float, bool]:
    """Return whether a round missed, its score as far as it is told, and whether it is out of reach.

    The miss is NaN where the fold must say what is wrong.
    """
    by, real = events[event, TOLD], key.rounds_real[which]
    threshold, score, miss, is_beyond = real[THRESHOLD], np.nan, 0.0, False
    if by == LABEL and form.score != LABELS:
        miss, score, is_beyond = _judge_value(form, real, told)
    elif by == LABEL:
        row, place = key.rounds[which, ROW], events[event, PLACE]
        if row < key.events:
            score = outputs[row, place]
        elif place < key.ids[row, OUTPUTS]:
            score = read_output(key, row, place)
        miss = 1.0 if score < threshold else 0.0 if score >= threshold else np.nan
    else:
        if by == SCORE:
            score = told
            miss = 1.0 if score < threshold else 0.0
        elif by == MISS:
            miss = 1.0
        is_unscaled = BOTH <= form.score <= LOWER and real[SECOND] == ENDLESS
        if (by == HIT and real[SIZE] == 0.0) or (is_unscaled and real[SIZE] == ENDLESS):
            miss = np.nan
    return miss, score, is_beyond


@called
def _judge_value(form: Form, real: Array, value: float) -> tuple[float, float, bool]:
    """Return what a true value says; what was shown decides between hit and miss, not rounding."""
    lower, upper = find_ends(form, real)
    score = _rate(form, real[FIRST], real[SECOND], value)
    miss, threshold = 0.0 if lower <= value <= upper else 1.0, real[THRESHOLD]
    if (miss == 1.0) != (score < threshold):
        score = np.nextafter(threshold, -np.inf) if miss == 1.0 else threshold
    is_beyond = miss == 1.0 and score < 0.0
    return miss, 0.0 if score < 0.0 else score if score < 1.0 else 1.0, is_beyond


@called
def find_open(key: Key, event: int) -> int:
    found = _NOWHERE
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
    found = False
    for place in range(CLOSED, CLOSED + key.whole[REMEMBERED]):
        found |= key.whole[place] == key.ids[event, DIGEST]
    return found


@called
def report(key: Key, reports: Reports, what: int, event: int, row: int, number: int) -> int:
    """Add a report of the round that a row asked for; return its place."""
    place = key.whole[SAID]
    key.whole[SAID] = place + 1
    reports.whole[place, _WHAT], reports.whole[place, EVENT] = what, event
    reports.whole[place, _ABOUT], reports.whole[place, _NUMBER] = row, number
    reports.real[place, :] = np.nan
    return place


@called
def show(key: Key, form: Form, reports: Reports, what: int, event: int, which: int) -> None:
    real = key.rounds_real[which]
    place = report(key, reports, what, event, key.rounds[which, ROW], key.rounds[which, NUMBER])
    own = reports.real[place]
    own[_THRESHOLD], own[_SIZE] = real[THRESHOLD], real[SIZE]
    if form.score != LABELS:
        own[_LOWER], own[_UPPER] = find_ends(form, real)


@called
def close(key: Key, reports: Reports, what: int, event: int, place: int, recall: int) -> int:
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
    return report(key, reports, what, event, row, number)


@kernel
def drop(key: Key, reports: Reports, what: int, event: int, place: int, recall: int) -> None:
    key.whole[EXPIRED_ROUNDS] += 1
    close(key, reports, what, event, place, recall)


@called
def advance(key: Key, reports: Reports, event: int, at: int, recall: int) -> None:
    """Move the key's time on; rounds whose lifetime is over expire."""
    whole, place = key.whole, 0
    whole[CLOCK] = max(whole[CLOCK], at)
    while whole[EARLIEST] <= whole[CLOCK]:
        if key.rounds[key.rounds[place, OPEN], DUE] <= whole[CLOCK]:
            drop(key, reports, OVER, event, place, recall)
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
def _propose(world: World, event: int) -> int:
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
def _ask(world: World, event: int) -> None:
    key, reports, at = world.key, world.reports, world.events[event, AT]
    whole, rounds = key.whole, key.rounds
    due = at + world.lifetime if world.lifetime > 0 else NEVER
    place, was_closed = find_open(key, event), is_closed(key, event)
    if place >= 0:
        show(key, world.form, reports, AGAIN, event, rounds[place, OPEN])
    elif was_closed or due <= whole[CLOCK]:
        report(key, reports, CLOSED_BEFORE if was_closed else LATE, event, event, NO_NUMBER)
    else:
        advance(key, reports, event, at, world.recall)
        which = _propose(world, event)
        show(key, world.form, reports, SHOWN, event, which)
        rounds[which, DUE] = due
        rounds[whole[HELD], OPEN] = which
        whole[HELD] += 1
        whole[EARLIEST] = min(whole[EARLIEST], due)
        if whole[HELD] > world.open_limit:
            drop(key, reports, PUSHED, event, 0, world.recall)


@called
def _learn_scale(alpha: float, world: World, residual: float, scale: float, score: float) -> float:
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
def _settle(world: World, event: int, which: int) -> float:
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
def _answer(world: World, event: int) -> bool:
    """Answer a round or skip it; return whether it could be, or the fold must say what is wrong."""
    key, reports, miss = world.key, world.reports, 0.0
    place = find_open(key, event)
    if place < 0:
        what = CLOSED_BEFORE if is_closed(key, event) else UNKNOWN
        report(key, reports, what, event, event, NO_NUMBER)
    elif world.events[event, KIND] == SKIP:
        drop(key, reports, LEFT, event, place, world.recall)
    else:
        miss = _settle(world, event, key.rounds[place, OPEN])
        if miss == miss:
            said = close(key, reports, COUNTED, event, place, world.recall)
            reports.real[said, _MISS] = miss
    return miss == miss


@kernel
def _begin(world: World, spans: Spans, number: int) -> bool:
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
def play(world: World, spans: Spans) -> None:
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
            if is_played and events[event, KIND] == ASK:
                _ask(world, event)
            elif is_played:
                advance(key, world.reports, event, events[event, AT], world.recall)
                is_played = events[event, KIND] == ELAPSE or _answer(world, event)
        if is_played:
            end = write_key(key, world.form, world.outputs.view(np.int64), spans.out, end)
        if not is_played or end < 0:  # The fold must play it instead.
            spans.left[number], key.whole[SAID], end = True, before, after[number]
        after[number + 1] = end


@kernel
def arrange(
    given_whole: Counts, given_real: Array, starts: Counts, order: Counts, whole: Counts, real: Array
) -> None:
    """Put the reports into the order of their events, a row for each column."""
    sort(given_whole[:, EVENT], order.size, starts, order)
    for place in range(order.size):
        for column in range(_NUMBER + 1):
            whole[column, place] = given_whole[order[place], column]
        for column in range(_MISS + 1):
            real[column, place] = given_real[order[place], column]


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


@kernel
def find_score(key: Key, outputs: Array, row: int, place: int) -> float:
    return outputs[row, place] if row < key.events else read_output(key, row, place)
