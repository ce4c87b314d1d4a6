"""The state of a key as a compiled loop reads and writes it: in the bytes of ``keyed.state``.

The loop has one key in its hands at a time, in arrays that serve all keys.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
LABELS, BOTH, UPPER, LOWER, BOUNDED, BANDS = range(6)  # the forms of scores
ENDLESS = float("inf")  # the scale of a round before there was one
FIXED_PART = 700  # bytes that a state takes at most beside its open rounds and the learner's state
# The numbers of a key: what was said and recalled of all, counts and times, sums, then some of a kind.
SAID, RECALLED, CLOCK, ANSWERED, EXPIRED_ROUNDS, OUT_OF_REACH, ENDLESS_ROUNDS = range(7)
REMEMBERED, RESIDUALS, HELD, EARLIEST, PREDICTED, MADE, SCRATCH = range(7, 14)
MISSES, SIZES, SCALE_NOW, LARGEST = range(14, 18)
MIDDLE = 18  # the residuals that its scale may still become
CLOSED = MIDDLE + HALF + 1
LEARNER = CLOSED + MOST_DIGESTS + 1
# The columns of rounds; an output that is no row of scores is one number or two.
ROW, NUMBER, THEN, DUE, THRESHOLD, SIZE, MEMO, FIRST, SECOND, OPEN = range(10)
_WRITTEN = (DUE, NUMBER, THEN, THRESHOLD, SIZE)  # of a round, in this order
BEGIN, LENGTH, DIGEST, OUTPUTS = range(4)  # the columns of ids
_RARE = ((EXPIRED_ROUNDS, EXPIRED), (OUT_OF_REACH, UNREACHABLE), (ENDLESS_ROUNDS, UNBOUNDED))
_SUMS = ((MISSES, REAL_MISSES), (SIZES, REAL_SIZE))
_LAYOUT_SIZE = HEAD_SIZE - 6
_PLACE, _COUNT, _BYTES, _MOST = range(4)  # the columns of the parts of a learner's state


class Form(NamedTuple):
    """How the states of a fold are written."""

    score: int
    bound: float  # of bounded residuals
    rule: int
    outputs: int  # numbers of a round's output
    parts: Counts  # of the learner's state: place, count, bytes of each, the most (-1 for any float)
    raw: Bytes  # room for the bytes of the learner's state


class Key(NamedTuple):
    """One key: its numbers and its rounds, as whole numbers and as floats of the same bits.

    ``OPEN`` of the first rounds are those that are open. The ids of events are in a text, in which all
    states follow: a row of ``ids`` says where, and of an open round that was read also its output.
    """

    whole: Counts
    real: Array
    rounds: Counts
    rounds_real: Array
    ids: Counts
    text: Bytes
    events: int


def make_form(learner: Learner, score: object, form: int, width: int) -> Form:
    narrow = learner.layout.narrow
    limits: Any = learner.rule.list_limits(learner.settings)
    parts, place = [], LEARNER
    for name in narrow.names or ():
        one, most = narrow[name], min(limits.get(name, -1), 2**32 - 1)
        parts.append((place, one.shape[0], one.base.itemsize, most))
        place += one.shape[0]
    return Form(
        score=form,
        bound=score.bound if isinstance(score, BoundedResiduals) else 0.0,
        rule=number_rule(learner.rule.name),
        outputs=2 if BOTH <= form <= LOWER else width,
        parts=np.array(parts),
        raw=np.zeros(narrow.itemsize, np.uint8),
    )


def make_numbers(learner: Learner, progress: Progress) -> tuple[Counts, Any]:
    """Return the numbers of a key that has come so far, and the learner's state in them."""
    first = learner.start_arrays()
    ends = np.cumsum([LEARNER, *(part.size for part in first)])
    whole = np.zeros(ends[-1], np.int64)
    real, scale = whole.view(np.float64), progress.scale
    parts = [
        whole[begin:end].view(part.dtype)
        for part, (begin, end) in zip(first, pairwise(ends), strict=True)
    ]
    for part, now in zip(parts, progress.state, strict=True):
        part[:] = now
    if scale is not None:
        whole[RESIDUALS] = scale.count
        real[SCALE_NOW], real[LARGEST] = scale.value, scale.largest
        real[MIDDLE : MIDDLE + len(scale.middle)] = scale.middle
    return whole, type(first)(*parts)


def make_key(
    numbers: Counts, text: bytes, lengths: Counts, *, rounds: int, recalled: int, width: int
) -> Key:
    """Return room for one key: so many rounds, and ids of so many that were open before.

    ``lengths`` are those of the ids of the events, with which the text begins.
    """
    count, whole = len(lengths), np.empty((rounds, OPEN + 1), np.int64)
    ids = np.empty((count + recalled, OUTPUTS + 1), np.int64)
    own = ids[:count]
    own[:, BEGIN], own[:, LENGTH], own[:, OUTPUTS] = np.cumsum(lengths) - lengths, lengths, width
    return Key(
        whole=numbers,
        real=numbers.view(np.float64),
        rounds=whole,
        rounds_real=whole.view(np.float64),
        ids=ids,
        text=np.frombuffer(text, np.uint8),
        events=count,
    )


def make_digests() -> Counts:
    """Return the table by which CRC-32 goes from one byte to the next."""
    table = np.arange(256)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0xEDB88320, table >> 1)
    return table


@called
def digest(text: Bytes, name: Counts, table: Counts) -> None:
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
    whole = key.whole
    for place in range(CLOCK, fresh.size):
        whole[place] = fresh[place]
    whole[CLOCK], whole[EARLIEST] = at, NEVER


@called
def read_key(key: Key, form: Form, at: int, end: int) -> bool:
    """Read a state and its open rounds; return whether it is one that the loop can play."""
    text, whole = key.text, key.whole
    layout, remembered = read_number(text, at, 2), read_number(text, at + 2, 1)
    is_scaled = BOTH <= form.score <= LOWER
    if (
        layout >> VERSION_AT != VERSION
        or read_number(text, at + 3, 1) != form.rule
        or layout & (WEIGHT | WIDE_STATE) != 0
        or (layout & SCALE != 0) != is_scaled
        or remembered > MOST_DIGESTS
    ):
        return False
    at = _read_tally(key, at + _LAYOUT_SIZE, layout)
    whole[RESIDUALS] = 0
    if is_scaled:
        at = _read_scale(key, at, end)
    if at >= 0:
        at = _read_learner(key, form, at, end, layout & SQUEEZED != 0)
    if at < 0 or at + 4 * remembered > end or whole[ANSWERED] < 0 or whole[EXPIRED_ROUNDS] < 0:
        return False
    whole[REMEMBERED] = remembered
    for place in range(CLOSED, CLOSED + remembered):
        whole[place] = read_number(text, at, 4)
        at += 4
    return _read_open(key, form, at, end)


@called
def _read_tally(key: Key, at: int, layout: int) -> int:
    """Read the time and what was counted; return where it ends."""
    text, whole, size = key.text, key.whole, 2 << min(layout >> COUNTS_AT & 3, 2)
    clock = read_number(text, at, 6)
    whole[CLOCK] = clock - (np.int64(1) << 48) if clock >= np.int64(1) << 47 else clock
    whole[ANSWERED] = read_number(text, at + 6, size)
    at += 6 + size
    for place, bit in _SUMS:
        if layout & bit:
            whole[place] = read_number(text, at, 8)
            at += 8
        else:
            key.real[place] = read_number(text, at, size)
            at += size
    for place, bit in _RARE:
        whole[place] = 0
        if layout & bit:
            whole[place] = read_number(text, at, size)
            at += size
    return at


@called
def _read_scale(key: Key, at: int, end: int) -> int:
    whole, real = key.whole, key.real
    count = read_number(key.text, at, 1)
    kept = 1 if count == FIXED else count if count <= HALF else 2 * HALF - count + 1
    if MOST <= count < FIXED or at + 1 + 8 * kept > end:
        return -1
    whole[RESIDUALS], real[SCALE_NOW], real[LARGEST] = min(count, MOST), 0.0, 0.0
    for place in range(kept):
        whole[MIDDLE + place] = read_number(key.text, at + 1 + 8 * place, 8)
        if not 0.0 <= real[MIDDLE + place] < ENDLESS:
            return -1
        real[LARGEST] = max(real[LARGEST], real[MIDDLE + place])
    if count == FIXED:
        real[SCALE_NOW] = real[MIDDLE]
    else:
        if count > HALF:
            real[LARGEST] = real[MIDDLE + kept - 1]
        _find_scale(key)
    return at + 1 + 8 * kept


@kernel
def _count_middle(count: int) -> int:
    return count if count <= HALF else 2 * HALF - count


@called
def _find_scale(key: Key) -> None:
    """Let the scale be the median of the residuals that are kept, or the largest if that is 0."""
    real, held = key.real, _count_middle(key.whole[RESIDUALS])
    if held == 0:
        return
    half = MIDDLE + held // 2
    value = real[half] if held % 2 == 1 else (real[half - 1] + real[half]) / 2
    if value == 0.0:
        value = real[LARGEST]
    if value != 0.0:
        real[SCALE_NOW] = value


@called
def add_residual(key: Key, residual: float) -> None:
    whole, real = key.whole, key.real
    if whole[RESIDUALS] >= MOST:
        return
    if whole[RESIDUALS] == MOST - 1 and real[LARGEST] == 0.0 and residual == 0.0:
        return  # Zeros alone are no scale that could be fixed.
    size, place = abs(residual), MIDDLE + _count_middle(whole[RESIDUALS])
    whole[RESIDUALS] += 1
    real[LARGEST] = max(real[LARGEST], size)
    while place > MIDDLE and real[place - 1] > size:
        real[place] = real[place - 1]
        place -= 1
    real[place] = size
    if whole[RESIDUALS] > HALF:  # The first and the last go.
        for at in range(MIDDLE, MIDDLE + _count_middle(whole[RESIDUALS])):
            real[at] = real[at + 1]
    _find_scale(key)


@called
def _read_learner(key: Key, form: Form, at: int, end: int, is_squeezed: bool) -> int:  # noqa: FBT001
    """Read the learner's state; return where it ends, or -1 if it is none."""
    whole, parts, source, start, is_one = key.whole, form.parts, key.text, at, True
    after = at + form.raw.size
    if is_squeezed:
        source, start, after = form.raw, 0, _stretch(form.raw, key.text, at)
    for part in range(parts.shape[0]):
        begin, size, most = parts[part, _PLACE], parts[part, _BYTES], parts[part, _MOST]
        for place in range(begin, begin + parts[part, _COUNT]):
            # A loop over a known number of bytes is no loop.
            number = read_number(source, start, 2) if size == 2 else read_number(source, start, size)
            start += size
            whole[place] = number
            # A count has a limit; a float that is not finite has all bits of its exponent.
            is_one &= number <= most if most >= 0 else number >> 52 & 0x7FF != 0x7FF
    return after if is_one and after <= end else -1


@called
def _stretch(raw: Bytes, content: Bytes, at: int) -> int:
    """Read bytes without those that are 0, behind a bit for each; return where they end."""
    size = raw.size
    after = at + (size + 7) // 8
    if size % 8 > 0 and content[after - 1] >> size % 8 != 0:  # more bits than there are bytes
        return content.size
    for place in range(size):
        bit = size - 1 - place
        is_there: Any = np.int64(content[at + (bit >> 3)]) >> (bit & 7) & 1
        raw[place] = content[after] * is_there
        after += is_there
    return after


@called
def _read_open(key: Key, form: Form, at: int, end: int) -> bool:
    """Read the open rounds, if there are any; return whether the loop can play them."""
    whole, rounds = key.whole, key.rounds
    whole[HELD], whole[EARLIEST] = 0, NEVER
    if at == end:
        return True
    if end - at < OPEN_SIZE:
        return False
    held, earliest = read_number(key.text, at, 4), read_number(key.text, at + 4, 8)
    at += OPEN_SIZE
    while 0 < at < end:
        which = whole[HELD]
        rounds[which, OPEN], rounds[which, ROW] = which, key.events + whole[RECALLED]
        at = _read_round(key, form, which, at, end)
        if at > 0:
            whole[HELD], whole[RECALLED] = which + 1, whole[RECALLED] + 1
            whole[EARLIEST] = min(whole[EARLIEST], rounds[which, DUE])
    return at == end and whole[HELD] == held and whole[EARLIEST] == earliest


@called
def _read_round(key: Key, form: Form, which: int, at: int, end: int) -> int:
    """Read an open round; return where it ends, or -1 if it is none that the loop can play."""
    text, whole, real = key.text, key.rounds[which], key.rounds_real[which]
    if at + ROUND_SIZE > end:
        return -1
    length, name = read_number(text, at, 4), read_number(text, at + 4, 2)
    output = read_number(text, at + 6, 4)
    begin = at + ROUND_SIZE
    if at + length > end or length != ROUND_SIZE + name + 8 + output or output % 8 != 0:
        return -1
    ids, is_one = key.ids[whole[ROW]], True
    ids[BEGIN], ids[LENGTH], ids[OUTPUTS] = begin, name, output // 8
    for place in range(begin, begin + name):
        is_one &= text[place] <= 127  # ASCII
    for place, column in enumerate(_WRITTEN):
        whole[column] = read_number(text, at + 10 + 8 * place, 8)
    whole[MEMO] = read_number(text, begin + name, 8)
    is_one &= whole[NUMBER] >= 0 and whole[THEN] >= 0 and abs(real[MEMO]) < ENDLESS
    is_one &= real[THRESHOLD] >= 0.0 and real[SIZE] >= 0.0
    return at + length if is_one and _read_output(key, form, which) else -1


@called
def read_output(key: Key, row: int, place: int) -> float:
    """Return a number of the output of a round that was open before."""
    begin, length = key.ids[row, BEGIN], key.ids[row, LENGTH]
    key.whole[SCRATCH] = read_number(key.text, begin + length + 8 + 8 * place, 8)
    return key.real[SCRATCH]


@called
def _read_output(key: Key, form: Form, which: int) -> bool:
    """Read the output of an open round; return whether it is one."""
    row, real, is_one = key.rounds[which, ROW], key.rounds_real[which], True
    outputs = key.ids[row, OUTPUTS]
    if form.score == LABELS:
        for place in range(outputs):
            is_one &= 0.0 <= read_output(key, row, place) <= 1.0
        return is_one and outputs > 0
    if outputs != form.outputs:
        return False
    real[FIRST], real[SECOND] = read_output(key, row, 0), 0.0
    if outputs == 2:
        real[SECOND] = read_output(key, row, 1)
    is_one = abs(real[FIRST]) < ENDLESS
    if BOTH <= form.score <= LOWER:
        is_one &= real[SECOND] > 0.0
    elif outputs == 2:
        is_one &= 0.0 < real[SECOND] - real[FIRST] < ENDLESS
    return is_one


@called
def write_key(key: Key, form: Form, outputs: Counts, out: Bytes, at: int) -> int:
    """Write a state with its open rounds; return where it ends, or -1 if it takes a wide one."""
    whole, is_scaled = key.whole, BOTH <= form.score <= LOWER
    largest = whole[ANSWERED] + whole[EXPIRED_ROUNDS]
    width = 0 if largest < 2**16 else 1 if largest < 2**32 else 2
    is_squeezed = is_scaled and (width > 0 or whole[RESIDUALS] < MOST)
    layout = (SCALE if is_scaled else 0) | (SQUEEZED if is_squeezed else 0)
    at = _write_tally(key, form, layout, width, out, at)
    if is_scaled:
        at = _write_scale(key, out, at)
    at = _write_learner(key, form, out, at, is_squeezed)
    if at >= 0:
        for place in range(CLOSED, CLOSED + whole[REMEMBERED]):
            at = write_number(out, at, whole[place], 4)
        if whole[HELD] > 0:
            at = _write_open(key, form, outputs, out, at)
    return at


@called
def _write_tally(key: Key, form: Form, layout: int, width: int, out: Bytes, at: int) -> int:
    """Write the layout, the time and what was counted; return where it ends."""
    whole, real, size = key.whole, key.real, 2 << width
    limit = 2.0**16 if width == 0 else 2.0**32 if width == 1 else 2.0**63
    layout |= VERSION << VERSION_AT | width << COUNTS_AT
    for place, bit in _SUMS:
        is_count = 0.0 <= real[place] < limit and int(real[place]) == real[place]
        layout |= 0 if is_count else bit
    for place, bit in _RARE:
        layout |= bit if whole[place] > 0 else 0
    at = write_number(out, at, layout, 2)
    at = write_number(out, at, whole[REMEMBERED], 1)
    at = write_number(out, at, form.rule, 1)
    at = write_number(out, at, whole[CLOCK], 6)
    at = write_number(out, at, whole[ANSWERED], size)
    for place, bit in _SUMS:
        if layout & bit:
            at = write_number(out, at, whole[place], 8)
        else:
            at = write_number(out, at, int(real[place]), size)
    for place, bit in _RARE:
        if layout & bit:
            at = write_number(out, at, whole[place], size)
    return at


@called
def _write_scale(key: Key, out: Bytes, at: int) -> int:
    count = key.whole[RESIDUALS]
    if count >= MOST:
        at = write_number(out, at, FIXED, 1)
        return write_number(out, at, key.whole[SCALE_NOW], 8)
    at = write_number(out, at, count, 1)
    for place in range(MIDDLE, MIDDLE + _count_middle(count)):
        at = write_number(out, at, key.whole[place], 8)
    if count > HALF:
        at = write_number(out, at, key.whole[LARGEST], 8)
    return at


@called
def _write_learner(key: Key, form: Form, out: Bytes, at: int, is_squeezed: bool) -> int:  # noqa: FBT001
    """Write the learner's state; return where it ends, or -1 if a number takes more room."""
    parts, over = form.parts, np.int64(0)
    target, start = (form.raw, 0) if is_squeezed else (out, at)
    for part in range(parts.shape[0]):
        begin, size, is_count = parts[part, _PLACE], parts[part, _BYTES], parts[part, _MOST] >= 0
        for place in range(begin, begin + parts[part, _COUNT]):
            number = key.whole[place]
            over |= number >> 8 * size if is_count else 0
            if size == 2:
                start = write_number(target, start, number, 2)
            else:
                start = write_number(target, start, number, size)
    if over != 0:
        return -1
    return _squeeze(form.raw, out, at) if is_squeezed else start


@called
def _squeeze(raw: Bytes, out: Bytes, at: int) -> int:
    """Write bytes without those that are 0, behind a bit for each; return where they end."""
    size = raw.size
    after = at + (size + 7) // 8
    for place in range(at, after):
        out[place] = 0
    for place in range(size):
        bit, is_there = size - 1 - place, raw[place] != 0
        out[at + (bit >> 3)] |= is_there << (bit & 7)
        out[after] = raw[place]
        after += is_there
    return after


@called
def _write_open(key: Key, form: Form, outputs: Counts, out: Bytes, at: int) -> int:
    text = key.text
    at = write_number(out, at, key.whole[HELD], 4)
    at = write_number(out, at, key.whole[EARLIEST], 8)
    for place in range(key.whole[HELD]):
        whole = key.rounds[key.rounds[place, OPEN]]
        row = whole[ROW]
        begin, name = key.ids[row, BEGIN], key.ids[row, LENGTH]
        length = ROUND_SIZE + name + 8
        if row >= key.events:  # as it was read
            length += 8 * key.ids[row, OUTPUTS]
            for here in range(length):
                out[at + here] = text[begin - ROUND_SIZE + here]
            at += length
            continue
        at = write_number(out, at, length + 8 * form.outputs, 4)
        at = write_number(out, at, name, 2)
        at = write_number(out, at, 8 * form.outputs, 4)
        for column in _WRITTEN:
            at = write_number(out, at, whole[column], 8)
        for here in range(name):
            out[at + here] = text[begin + here]
        at = write_number(out, at + name, whole[MEMO], 8)
        own = outputs[row] if form.score == LABELS else whole[FIRST:]
        for here in range(form.outputs):
            at = write_number(out, at, own[here], 8)
    return at
