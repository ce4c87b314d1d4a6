"""The state of a key as a compiled loop reads and writes it: in the bytes of ``keyed.state``.

The loop has one key in its hands at a time, in arrays that serve all keys.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.keyed.event_table import BOTH, LABELS, LOWER
from keyhole.keyed.state import (
    COUNTS_AT,
    EXPIRED,
    HEAD_SIZE,
    MOST_DIGESTS,
    NEVER,
    OPEN_SIZE,
    REAL_MISSES,
    REAL_SIZE,
    ROUND_SIZE,
    SCALE,
    SQUEEZED,
    UNBOUNDED,
    UNREACHABLE,
    VERSION,
    VERSION_AT,
    WEIGHT,
    WIDE_STATE,
    number_rule,
)
from keyhole.learners import Learner
from keyhole.numeric import Array, Counts, called, kernel
from keyhole.predictor.progress import Progress
from keyhole.predictor.scale import FIXED, HALF, MOST
from keyhole.scores import BoundedResiduals

Bytes = NDArray[np.uint8]
Columns = TypeVar("Columns", bound=tuple[Any, ...])
ENDLESS = float("inf")  # the scale of a round before there was one
PADDING = 64  # bytes behind the last state, which a reader may look at before it knows the end
FIXED_PART = 700  # bytes that a state takes at most beside its open rounds and the learner's state
# The columns of a key's counts and times, and of its sums.
CLOCK, ANSWERED, EXPIRED_ROUNDS, OUT_OF_REACH, ENDLESS_ROUNDS, REMEMBERED, RESIDUALS = range(7)
HELD, EARLIEST, PREDICTED, MADE, RECALLED = range(7, 12)
MISSES, SIZES, SCALE_NOW, LARGEST = range(4)
# The columns of rounds; an output that is no row of scores is one number or two.
ROW, NUMBER, THEN, DUE, THRESHOLD, SIZE, MEMO, FIRST, SECOND = range(9)
BEGIN, LENGTH, DIGEST = range(3)  # the columns of ids
_RARE = ((EXPIRED_ROUNDS, EXPIRED), (OUT_OF_REACH, UNREACHABLE), (ENDLESS_ROUNDS, UNBOUNDED))
_SUMS = ((MISSES, REAL_MISSES), (SIZES, REAL_SIZE))
_LAYOUT_SIZE = HEAD_SIZE - 6


class Form(NamedTuple):
    """How the states of a fold are written: ``sizes`` of a learner's numbers, the most they may be."""

    score: int
    bound: float  # of bounded residuals
    rule: int
    sizes: Counts
    most: Counts  # -1 where a number may be any float
    bytes: int  # of the learner's state
    outputs: int  # numbers of a round's output


class Key(NamedTuple):
    """One key. All its numbers are in ``memory``, floats as their bits; the others are views of it."""

    memory: Counts
    state: Any  # of the learner
    counts: Counts
    sums: Array
    middle: Array  # the residuals that its scale may still become
    closed: Counts
    sums_at: int
    middle_at: int
    raw: Bytes  # room for the bytes of the learner's state


class Rounds(NamedTuple):
    """The rounds of a key, whole numbers and real ones in the same rows; ``opens`` are the open ones.

    ``ROW`` is where the id is, and scores are.
    """

    whole: Counts
    real: Array
    opens: Counts


class Names(NamedTuple):
    """Where the ids of all rows are: those of events in one text, of open rounds in the states."""

    ids: Counts
    text: Bytes
    states: Bytes
    events: int


def make_form(learner: Learner, score: Any, form: int, width: int) -> Form:
    narrow = learner.layout.narrow
    parts = [narrow[name] for name in narrow.names or ()]
    lengths = [part.shape[0] for part in parts]
    limits: Any = learner.rule.list_limits(learner.settings)
    most = [min(limits[name], 2**32 - 1) if name in limits else -1 for name in narrow.names or ()]
    bound = score.bound if isinstance(score, BoundedResiduals) else 0.0
    return Form(
        score=form,
        bound=bound,
        rule=number_rule(learner.rule.name),
        sizes=np.repeat([part.base.itemsize for part in parts], lengths),
        most=np.repeat(np.array(most, dtype=np.int64), lengths),
        bytes=narrow.itemsize,
        outputs=2 if BOTH <= form <= LOWER else width,
    )


def make_key(learner: Learner, progress: Progress) -> Key:
    """Return a key that has come so far."""
    first = learner.start_arrays()
    sizes = [part.size for part in first] + [RECALLED + 1, LARGEST + 1, HALF + 1, MOST_DIGESTS + 1]
    ends = np.cumsum(sizes)
    memory = np.zeros(ends[-1], dtype=np.int64)
    *parts, counts, sums, middle, closed = np.split(memory, ends[:-1])
    parts = [part.view(one.dtype) for part, one in zip(parts, first, strict=True)]
    key = Key(
        memory=memory,
        state=type(first)(*parts),
        counts=counts,
        sums=sums.view(np.float64),
        middle=middle.view(np.float64),
        closed=closed,
        sums_at=int(ends[-4]),
        middle_at=int(ends[-3]),
        raw=np.zeros(learner.layout.narrow.itemsize, np.uint8),
    )
    for part, now in zip(parts, progress.state, strict=True):
        part[:] = now
    scale = progress.scale
    if scale is not None:
        key.counts[RESIDUALS] = scale.count
        key.sums[SCALE_NOW], key.sums[LARGEST] = scale.value, scale.largest
        key.middle[: len(scale.middle)] = scale.middle
    return key


def make_rounds(room: int) -> Rounds:
    """Return room for so many rounds of a key."""
    whole = np.empty((room, SECOND + 1), np.int64)
    return Rounds(whole, whole.view(np.float64), np.empty(room, np.int64))


def make_digests() -> Counts:
    """Return the table by which CRC-32 goes from one byte to the next."""
    table = np.arange(256)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0xEDB88320, table >> 1)
    return table


@called
def digest(text: Bytes, name: Counts, table: Counts) -> None:
    """Note the CRC-32 of an id."""
    found = np.int64(0xFFFFFFFF)
    for at in range(name[BEGIN], name[BEGIN] + name[LENGTH]):
        found = table[(found ^ np.int64(text[at])) & 255] ^ found >> 8
    name[DIGEST] = found ^ np.int64(0xFFFFFFFF)


@called
def read_number(content: Bytes, at: int, size: int) -> int:
    number: Any = np.int64(content[at])
    for place in range(1, size):
        number |= np.int64(content[at + place]) << 8 * place
    return number


@called
def write_number(content: Bytes, at: int, number: int, size: int) -> int:
    """Write so many bytes; return where they end."""
    for place in range(size):
        content[at + place] = number >> 8 * place & 255
    return at + size


@kernel
def start_key(key: Key, fresh: Counts, at: int) -> None:
    """Let the key be a new one, at the time of its first event."""
    recalled = key.counts[RECALLED]
    for place in range(fresh.size):
        key.memory[place] = fresh[place]
    key.counts[CLOCK], key.counts[EARLIEST], key.counts[RECALLED] = at, NEVER, recalled


@called
def read_key(
    key: Key, form: Form, rounds: Rounds, names: Names, scores: Array, begin: int, end: int
) -> bool:
    """Read a state and its open rounds; return whether it is one that the loop can play."""
    content, counts = names.states, key.counts
    layout, remembered = read_number(content, begin, 2), read_number(content, begin + 2, 1)
    is_scaled = BOTH <= form.score <= LOWER
    if (
        layout >> VERSION_AT != VERSION
        or read_number(content, begin + 3, 1) != form.rule
        or layout & (WEIGHT | WIDE_STATE) != 0
        or (layout & SCALE != 0) != is_scaled
        or remembered > MOST_DIGESTS
    ):
        return False
    at = _read_tally(key, content, begin + _LAYOUT_SIZE, layout)
    counts[RESIDUALS] = 0
    if is_scaled:
        at = _read_scale(key, content, at, end)
    if at >= 0:
        at = _read_learner(key, form, content, at, end, layout & SQUEEZED != 0)
    if at < 0 or at + 4 * remembered > end or counts[ANSWERED] < 0 or counts[EXPIRED_ROUNDS] < 0:
        return False
    counts[REMEMBERED] = remembered
    for place in range(remembered):
        key.closed[place] = read_number(content, at + 4 * place, 4)
    return _read_open(key, form, rounds, names, scores, at + 4 * remembered, end)


@called
def _read_tally(key: Key, content: Bytes, at: int, layout: int) -> int:
    """Read the time and what was counted; return where it ends."""
    counts, size = key.counts, 2 << min(layout >> COUNTS_AT & 3, 2)
    clock = read_number(content, at, 6)
    counts[CLOCK] = clock - (np.int64(1) << 48) if clock >= np.int64(1) << 47 else clock
    counts[ANSWERED] = read_number(content, at + 6, size)
    at += 6 + size
    for place, bit in _SUMS:
        if layout & bit:
            key.memory[key.sums_at + place] = read_number(content, at, 8)
            at += 8
        else:
            key.sums[place] = read_number(content, at, size)
            at += size
    for place, bit in _RARE:
        counts[place] = 0
        if layout & bit:
            counts[place] = read_number(content, at, size)
            at += size
    return at


@called
def _read_scale(key: Key, content: Bytes, at: int, end: int) -> int:
    """Read the scale; return where it ends, or -1 if it is none."""
    counts, sums, middle = key.counts, key.sums, key.middle
    count = read_number(content, at, 1)
    kept = 1 if count == FIXED else count if count <= HALF else 2 * HALF - count + 1
    if MOST <= count < FIXED or at + 1 + 8 * kept > end:
        return -1
    for place in range(kept):
        key.memory[key.middle_at + place] = read_number(content, at + 1 + 8 * place, 8)
        if not 0.0 <= middle[place] < ENDLESS:
            return -1
    if count == FIXED:
        counts[RESIDUALS], sums[SCALE_NOW], sums[LARGEST] = MOST, middle[0], 0.0
        return at + 1 + 8 * kept
    counts[RESIDUALS], sums[SCALE_NOW], sums[LARGEST] = count, 0.0, 0.0
    for place in range(kept):
        sums[LARGEST] = max(sums[LARGEST], middle[place])
    if count > HALF:
        sums[LARGEST] = middle[kept - 1]
    _find_scale(key)
    return at + 1 + 8 * kept


@kernel
def _count_middle(count: int) -> int:
    """Return how many residuals are kept of so many."""
    return count if count <= HALF else 2 * HALF - count


@called
def _find_scale(key: Key) -> None:
    """Let the scale be the median of the residuals that are kept, or the largest if that is 0."""
    sums, middle = key.sums, key.middle
    held = _count_middle(key.counts[RESIDUALS])
    if held == 0:
        return
    half = held // 2
    value = middle[half] if held % 2 == 1 else (middle[half - 1] + middle[half]) / 2
    if value == 0.0:
        value = sums[LARGEST]
    if value != 0.0:
        sums[SCALE_NOW] = value


@called
def add_residual(key: Key, residual: float) -> None:
    """Learn a residual, if the scale is not fixed yet."""
    counts, sums, middle = key.counts, key.sums, key.middle
    if counts[RESIDUALS] >= MOST:
        return
    size, place = abs(residual), _count_middle(counts[RESIDUALS])
    counts[RESIDUALS] += 1
    sums[LARGEST] = max(sums[LARGEST], size)
    while place > 0 and middle[place - 1] > size:
        middle[place] = middle[place - 1]
        place -= 1
    middle[place] = size
    if counts[RESIDUALS] > HALF:  # The first and the last go.
        for at in range(_count_middle(counts[RESIDUALS])):
            middle[at] = middle[at + 1]
    _find_scale(key)


@called
def _read_learner(key: Key, form: Form, content: Bytes, at: int, end: int, is_squeezed: bool) -> int:  # noqa: FBT001
    """Read the learner's state; return where it ends, or -1 if it is none."""
    source, start, after = content, at, at + form.bytes
    if is_squeezed:
        source, start, after = key.raw, 0, _stretch(key.raw, content, at, end)
    if after < 0 or after > end:
        return -1
    for place in range(form.sizes.size):
        size, most = form.sizes[place], form.most[place]
        number = read_number(source, start, size)
        start += size
        # A count has a limit; a float that is not finite has all bits of its exponent.
        if number > most if most >= 0 else number >> 52 & 0x7FF == 0x7FF:
            return -1
        key.memory[place] = number
    return after


@called
def _stretch(raw: Bytes, content: Bytes, at: int, end: int) -> int:
    """Read bytes without those that are 0, behind a bit for each; return where they end, or -1."""
    size = raw.size
    width = (size + 7) // 8
    after = at + width
    for bit in range(8 * width - 1, -1, -1):
        is_there = after <= end and content[at + bit // 8] >> bit % 8 & 1 == 1
        if is_there and (bit >= size or after == end):
            after = end + 1  # There is no such byte.
        elif bit < size:
            raw[size - 1 - bit] = content[after] if is_there else 0
            after += 1 if is_there else 0
    return after if after <= end else -1


@called
def _read_open(
    key: Key, form: Form, rounds: Rounds, names: Names, scores: Array, at: int, end: int
) -> bool:
    """Read the open rounds, if there are any; return whether the loop can play them."""
    content, counts = names.states, key.counts
    counts[HELD], counts[EARLIEST] = 0, NEVER
    if at == end:
        return True
    if end - at < OPEN_SIZE:
        return False
    held, earliest = read_number(content, at, 4), read_number(content, at + 4, 8)
    at += OPEN_SIZE
    while 0 < at < end:
        which, row = counts[HELD], names.events + counts[RECALLED]
        rounds.opens[which], rounds.whole[which, ROW] = which, row
        at = _read_round(form, rounds, names, scores, which, at, end)
        if at > 0:
            counts[HELD], counts[RECALLED] = which + 1, counts[RECALLED] + 1
            counts[EARLIEST] = min(counts[EARLIEST], rounds.whole[which, DUE])
    return at == end and counts[HELD] == held and counts[EARLIEST] == earliest


@called
def _read_round(
    form: Form, rounds: Rounds, names: Names, scores: Array, which: int, at: int, end: int
) -> int:
    """Read an open round; return where it ends, or -1 if it is none that the loop can play."""
    content, whole, real = names.states, rounds.whole[which], rounds.real[which]
    length, name, output = ROUND_SIZE, 0, 0
    if at + ROUND_SIZE <= end:
        length, name = read_number(content, at, 4), read_number(content, at + 4, 2)
        output = read_number(content, at + 6, 4)
    begin = at + ROUND_SIZE
    case = begin + name + 8
    is_one = at + length <= end and at + length == case + output and output == 8 * form.outputs
    if is_one:
        ids = names.ids[whole[ROW]]
        ids[BEGIN], ids[LENGTH] = begin, name
        for place in range(begin, begin + name):
            if content[place] > 127:  # not ASCII
                is_one = False
        whole[DUE] = read_number(content, at + 10, 8)
        whole[NUMBER], whole[THEN] = read_number(content, at + 18, 8), read_number(content, at + 26, 8)
        whole[THRESHOLD] = read_number(content, at + 34, 8)
        whole[SIZE] = read_number(content, at + 42, 8)
        whole[MEMO] = read_number(content, begin + name, 8)
        if whole[NUMBER] < 0 or whole[THEN] < 0 or not abs(real[MEMO]) < ENDLESS:
            is_one = False
        if not real[THRESHOLD] >= 0.0 or not real[SIZE] >= 0.0:
            is_one = False
        if not _read_output(form, rounds, names, scores, which, case):
            is_one = False
    return at + length if is_one else -1


@called
def _read_output(form: Form, rounds: Rounds, names: Names, scores: Array, which: int, at: int) -> bool:
    """Read the output of an open round; return whether it is one."""
    content, whole, real, is_one = names.states, rounds.whole[which], rounds.real[which], True
    if form.score == LABELS:
        own = scores[whole[ROW] - names.events]
        for place in range(form.outputs):
            whole[FIRST] = read_number(content, at + 8 * place, 8)
            own[place] = real[FIRST]
            if not 0.0 <= own[place] <= 1.0:
                is_one = False
    else:
        whole[FIRST] = read_number(content, at, 8)
        real[SECOND] = 0.0
        if form.outputs == 2:
            whole[SECOND] = read_number(content, at + 8, 8)
        is_one = abs(real[FIRST]) < ENDLESS
        if BOTH <= form.score <= LOWER:
            is_one = is_one and real[SECOND] > 0.0
        elif form.outputs == 2:
            is_one = is_one and 0.0 < real[SECOND] - real[FIRST] < ENDLESS
    return is_one


@called
def write_key(
    key: Key, form: Form, rounds: Rounds, names: Names, output_bits: Counts, out: Bytes, at: int
) -> int:
    """Write a state with its open rounds; return where it ends, or -1 if it takes a wide one."""
    counts, is_scaled = key.counts, BOTH <= form.score <= LOWER
    largest = counts[ANSWERED] + counts[EXPIRED_ROUNDS]
    width = 0 if largest < 2**16 else 1 if largest < 2**32 else 2
    is_squeezed = is_scaled and (width > 0 or counts[RESIDUALS] < MOST)
    layout = (SCALE if is_scaled else 0) | (SQUEEZED if is_squeezed else 0)
    at = _write_tally(key, form, layout, width, out, at)
    if is_scaled:
        at = _write_scale(key, out, at)
    at = _write_learner(key, form, out, at, is_squeezed)
    if at >= 0:
        for place in range(counts[REMEMBERED]):
            at = write_number(out, at, key.closed[place], 4)
        if counts[HELD] > 0:
            at = _write_open(key, form, rounds, names, output_bits, out, at)
    return at


@called
def _write_tally(key: Key, form: Form, layout: int, width: int, out: Bytes, at: int) -> int:
    """Write the layout, the time and what was counted; return where it ends."""
    counts, sums, size = key.counts, key.sums, 2 << width
    limit = 2.0**16 if width == 0 else 2.0**32 if width == 1 else 2.0**63
    layout |= VERSION << VERSION_AT | width << COUNTS_AT
    for place, bit in _SUMS:
        is_count = 0.0 <= sums[place] < limit and int(sums[place]) == sums[place]
        layout |= 0 if is_count else bit
    for place, bit in _RARE:
        layout |= bit if counts[place] > 0 else 0
    at = write_number(out, at, layout, 2)
    at = write_number(out, at, counts[REMEMBERED], 1)
    at = write_number(out, at, form.rule, 1)
    at = write_number(out, at, counts[CLOCK], 6)
    at = write_number(out, at, counts[ANSWERED], size)
    for place, bit in _SUMS:
        if layout & bit:
            at = write_number(out, at, key.memory[key.sums_at + place], 8)
        else:
            at = write_number(out, at, int(sums[place]), size)
    for place, bit in _RARE:
        if layout & bit:
            at = write_number(out, at, counts[place], size)
    return at


@called
def _write_scale(key: Key, out: Bytes, at: int) -> int:
    count = key.counts[RESIDUALS]
    if count >= MOST:
        at = write_number(out, at, FIXED, 1)
        return write_number(out, at, key.memory[key.sums_at + SCALE_NOW], 8)
    at = write_number(out, at, count, 1)
    for place in range(_count_middle(count)):
        at = write_number(out, at, key.memory[key.middle_at + place], 8)
    if count > HALF:
        at = write_number(out, at, key.memory[key.sums_at + LARGEST], 8)
    return at


@called
def _write_learner(key: Key, form: Form, out: Bytes, at: int, is_squeezed: bool) -> int:  # noqa: FBT001
    """Write the learner's state; return where it ends, or -1 if a number takes more room."""
    target, start = (key.raw, 0) if is_squeezed else (out, at)
    for place in range(form.sizes.size):
        number, length = key.memory[place], form.sizes[place]
        if form.most[place] >= 0 and number >> 8 * length != 0:
            return -1
        start = write_number(target, start, number, length)
    if not is_squeezed:
        return start
    size, width = form.bytes, (form.bytes + 7) // 8
    after = at + width
    for place in range(at, after):
        out[place] = 0
    for place in range(size):
        if key.raw[place] != 0:
            bit = size - 1 - place
            out[at + bit // 8] |= 1 << bit % 8
            out[after] = key.raw[place]
            after += 1
    return after


@called
def _write_open(
    key: Key, form: Form, rounds: Rounds, names: Names, output_bits: Counts, out: Bytes, at: int
) -> int:
    at = write_number(out, at, key.counts[HELD], 4)
    at = write_number(out, at, key.counts[EARLIEST], 8)
    for place in range(key.counts[HELD]):
        whole = rounds.whole[rounds.opens[place]]
        row = whole[ROW]
        begin, name = names.ids[row, BEGIN], names.ids[row, LENGTH]
        length = ROUND_SIZE + name + 8 + 8 * form.outputs
        if row >= names.events:  # as it was read
            for here in range(length):
                out[at + here] = names.states[begin - ROUND_SIZE + here]
            at += length
            continue
        at = write_number(out, at, length, 4)
        at = write_number(out, at, name, 2)
        at = write_number(out, at, 8 * form.outputs, 4)
        for column in (DUE, NUMBER, THEN, THRESHOLD, SIZE):
            at = write_number(out, at, whole[column], 8)
        for here in range(name):
            out[at + here] = names.text[begin + here]
        at = write_number(out, at + name, whole[MEMO], 8)
        own = output_bits[row] if form.score == LABELS else whole[FIRST:]
        for here in range(form.outputs):
            at = write_number(out, at, own[here], 8)
    return at
