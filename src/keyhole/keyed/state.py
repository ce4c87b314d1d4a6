"""The state of one key of many as few bytes: its progress, its open rounds, the rounds closed last.

The first four bytes describe the layout of the rest: the version, the width of counts, which of them
are there, how many closed rounds are remembered, and to which rule the state belongs. Then come the
time, the tally, the scale of residuals where one is found, the learner's state (without bytes that
are 0, where there is much else), the ids of the remembered rounds as CRC-32, and the open rounds, one
behind the other in the order of their numbers.
Of the tally a key keeps what it needs: not the median, the staleness and the groups' shares, and one
count for all rounds closed without an answer. How many were predicted is not written: it is the sum of
those answered, those closed without an answer, and those open.

Where more than that is kept, as of decisions, which have a state for each group, the progress is
written whole, as a file has it; what comes behind it is the same.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from keyhole.errors import InvalidError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.scale import Scale
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally

VERSION, WHOLE_VERSION = 1, 8  # with which the two forms begin
LATEST = 2**47 - 1  # A time takes six bytes: in milliseconds, until the year 6429.
NEVER = 2**63 - 1  # when a round is due that may wait for ever
LONGEST_ID = 2**16 - 1  # bytes of a round's id, whose length takes two
DIGEST = 4  # bytes by which a closed round is remembered
MOST_DIGESTS = 31

VERSION_AT, COUNTS_AT = 12, 10  # where in the layout they begin; then a bit for each of these:
EXPIRED, UNREACHABLE, UNBOUNDED, WEIGHT = 0x200, 0x100, 0x80, 0x40
REAL_MISSES, REAL_SIZE, WIDE_STATE, SCALE, SQUEEZED = 0x20, 0x10, 0x08, 0x04, 0x02
_RARE = ((EXPIRED, "expired"), (UNREACHABLE, "unreachable"), (UNBOUNDED, "unbounded"))
_TALLY = 0xFF0  # the bits that say how the tally is written
_WIDTHS = ((2**16, "H"), (2**32, "I"), (2**63, "Q"))
_LAYOUT = struct.Struct("<HBB")
_TIME = _LAYOUT.size  # where the time begins
_WHOLE = struct.Struct("<BBB6sI")  # version, remembered rounds, rule, time, length of the progress
_OPEN = struct.Struct("<Iq")  # how many rounds are open, and the earliest time that one is due
_NONE_OPEN = (0, NEVER)
_BITS = bytes.maketrans(bytes(range(256)), b"0" + b"1" * 255)  # of bytes, whether they are 0

_ROUND = struct.Struct("<IHIqQQdd")  # its length, its id's, its output's, and what OpenRound has next
_HEAD = struct.Struct("<IH")
HEAD_SIZE, OPEN_SIZE, ROUND_SIZE = _TIME + 6, _OPEN.size, _ROUND.size


@dataclass(slots=True, eq=False)
class KeyState:
    """The state of a key; ``waiting`` are its open rounds as bytes, ``closed`` those closed last.

    What need not be read again is kept beside the bytes: ``opened`` are rounds by their ids that were
    opened since these were read; ``packed`` is what comes before and after the time, as long as no
    round is closed.
    """

    progress: Progress
    clock: int
    closed: bytes = b""
    waiting: bytes = b""
    open: int = 0
    earliest: int = NEVER
    packed: tuple[bytes, bytes] | None = None
    opened: dict[str, Round[Any]] = field(default_factory=dict, init=False)


class OpenRound(NamedTuple):
    """An open round, its case and memo still packed, and where in the bytes it begins and ends."""

    id: str
    number: int
    then: int
    due: int
    threshold: float
    size: float
    memo: bytes
    output: bytes
    labels: str | None
    start: int
    end: int


def _make_form(layout: int) -> struct.Struct:
    """Return how the number of closed rounds, the rule, the time and the tally are written."""
    count = _WIDTHS[min(layout >> COUNTS_AT, 2)][1]
    sums = ("d" if layout & REAL_MISSES else count) + ("d" if layout & REAL_SIZE else count)
    rare = "".join(count for bit, _ in _RARE if layout & bit)
    return struct.Struct(f"<HBB6s{count}{sums}{rare}{'ddd' + count if layout & WEIGHT else ''}")


_FORMS = {layout: _make_form(layout) for layout in range(0, _TALLY + 1, 0x10)}


def pack(key: KeyState, learner: Learner) -> bytes:
    """Return the state of a key as bytes; equal states give equal bytes."""
    if key.packed is None:
        key.packed = _pack_closed(key, learner)
    first, rest = key.packed
    time = key.clock.to_bytes(6, "little", signed=True)
    if not key.open:
        return first + time + rest
    return b"".join((first, time, rest, _OPEN.pack(key.open, key.earliest), key.waiting))


def _pack_closed(key: KeyState, learner: Learner) -> tuple[bytes, bytes]:
    """Return what the closed rounds come to, as the bytes before the time and those after it."""
    progress = key.progress
    tally, scale = progress.tally, progress.scale
    answered, misses, size = tally.answered, tally.misses, tally.size
    largest = answered + tally.expired
    width = 0 if largest < 2**16 else 1 if largest < 2**32 else 2
    limit = _WIDTHS[width][0]
    layout = VERSION << VERSION_AT | width << COUNTS_AT
    if 0.0 <= misses < limit and int(misses) == misses:
        misses = int(misses)
    else:
        layout |= REAL_MISSES
    if 0.0 <= size < limit and int(size) == size:
        size = int(size)
    else:
        layout |= REAL_SIZE
    rare: list[float] = []
    if (
        tally.expired
        or tally.unreachable
        or tally.unbounded
        or tally.checks
        or tally.weight != answered
    ):
        layout |= _note_rare(tally, rare)
    state = learner.layout.pack_narrow(progress.state)
    if len(state) != learner.layout.sizes[1]:
        layout |= WIDE_STATE
    if scale is not None:
        layout |= SCALE
        if width or not scale.is_fixed:  # Counts or residuals take more: let zeros take less.
            layout |= SQUEEZED
            state = _squeeze(state)
        state = scale.pack() + state
    form = _FORMS[layout & _TALLY]
    rule = number_rule(learner.rule.name)
    head = form.pack(layout, len(key.closed) // DIGEST, rule, b"", answered, misses, size, *rare)
    return head[:_TIME], head[_TIME + 6 :] + state + key.closed


def _squeeze(content: bytes) -> bytes:
    """Return bytes without those that are 0, behind a bit for each that says whether it is there."""
    bits = int(content.translate(_BITS), 2)
    return bits.to_bytes(-(-len(content) // 8), "little") + content.translate(None, b"\0")


def _stretch(content: bytes, size: int) -> tuple[bytes, int]:
    """Return so many bytes as they were before ``_squeeze``, and how many it had left of them."""
    width = -(-size // 8)
    bits = f"{int.from_bytes(content[:width], 'little'):0{size}b}"
    end = width + bits.count("1")
    if len(content) < end or len(bits) > size:
        raise InvalidError("the learner's state is cut short")
    rest = iter(content[width:end])
    return bytes([next(rest) if bit == "1" else 0 for bit in bits]), end


def _note_rare(tally: Tally, rare: list[float]) -> int:
    bits = 0
    for bit, name in _RARE:
        if count := getattr(tally, name):
            bits |= bit
            rare.append(count)
    if tally.weight != tally.answered or tally.checks:
        bits |= WEIGHT
        rare += (tally.weight, tally.usual, tally.bias, tally.checks)
    return bits


def unpack(content: bytes, learner: Learner) -> KeyState:
    """Return the state that ``pack`` wrote, or raise ``SnapshotError``."""
    try:
        layout, closed, rule = _LAYOUT.unpack_from(content)
        if layout >> VERSION_AT != VERSION:
            raise refuse_version(layout >> VERSION_AT)
        _check_rule(rule, learner, called="learner")
        form = _FORMS[layout & _TALLY]
        _, _, _, time, answered, misses, size, *rare = form.unpack_from(content)
        scale, begin = None, form.size
        if layout & SCALE:
            scale, taken = Scale.unpack(content[begin:])
            begin += taken
        length = learner.layout.sizes[not layout & WIDE_STATE]
        packed = content[begin : begin + length]
        if layout & SQUEEZED:
            packed, length = _stretch(content[begin:], length)
        end = begin + length
        state = learner.unpack(packed)
        last = end + DIGEST * closed
        waiting, count, earliest = unpack_open(content[last:])
    except (struct.error, InvalidError) as error:
        raise refuse_content(content, error) from None
    tally = Tally(answered + count, answered, float(answered), float(misses), float(size))
    if rare:
        _read_rare(tally, layout, rare)
    clock = int.from_bytes(time, "little", signed=True)
    closed_part = content[:_TIME], content[_TIME + 6 : last]
    return KeyState(
        Progress(state, tally, scale), clock, content[end:last], waiting, count, earliest, closed_part
    )


def pack_whole(key: KeyState, setup: Setup) -> bytes:
    progress = key.progress.pack(setup.learner)
    time = key.clock.to_bytes(6, "little", signed=True)
    rule = number_rule(setup.learner.rule.name)
    head = _WHOLE.pack(WHOLE_VERSION, len(key.closed) // DIGEST, rule, time, len(progress))
    waiting = _OPEN.pack(key.open, key.earliest) + key.waiting if key.open else b""
    return head + progress + key.closed + waiting


def unpack_whole(content: bytes, setup: Setup) -> KeyState:
    try:
        version, closed, rule, time, length = _WHOLE.unpack_from(content)
        if version != WHOLE_VERSION:
            raise refuse_version(version, WHOLE_VERSION)
        _check_rule(rule, setup.learner, called="rule")
        end = _WHOLE.size + length
        last = end + DIGEST * closed
        progress = Progress.unpack(content[_WHOLE.size : end], setup=setup)
        waiting, count, earliest = unpack_open(content[last:])
    except (struct.error, InvalidError) as error:
        raise refuse_content(content, error) from None
    if len(content) < last:
        raise SnapshotError(f"{len(content)} bytes of a key's state are cut short; restore a copy")
    clock = int.from_bytes(time, "little", signed=True)
    return KeyState(progress, clock, content[end:last], waiting, count, earliest)


def find_due(content: bytes, learner: Learner) -> int:
    """Return when the first open round of a state that ``pack`` wrote is due; never if none is."""
    with suppress(struct.error):
        layout, closed, _ = _LAYOUT.unpack_from(content)
        if layout >> VERSION_AT == VERSION and not layout & (SCALE | SQUEEZED):
            size = learner.layout.sizes[not layout & WIDE_STATE]
            end = _FORMS[layout & _TALLY].size + size + DIGEST * closed
            return int(_OPEN.unpack_from(content, end)[1]) if len(content) > end else NEVER
    return unpack(content, learner).earliest


def _read_rare(tally: Tally, layout: int, rare: list[float]) -> None:
    numbers = iter(rare)
    for bit, name in _RARE:
        if layout & bit:
            setattr(tally, name, int(next(numbers)))
    if layout & WEIGHT:
        tally.weight, tally.usual, tally.bias, checks = numbers
        tally.checks = int(checks)
    tally.predicted += tally.expired


@cache
def number_rule(name: str) -> int:
    """Return a byte that differs between the states of nearly any two rules."""
    return zlib.crc32(name.encode()) & 0xFF


def _check_rule(number: int, learner: Learner, *, called: str) -> None:
    if number != number_rule(learner.rule.name):
        raise SnapshotError(
            f"a key's state is of another {called} than {learner.rule.name}; go on with that one, or "
            "start the keys afresh"
        )


def refuse_content(content: bytes, fault: Exception) -> SnapshotError:
    return SnapshotError(f"{len(content)} bytes are no key's state ({fault}); restore a copy")


def refuse_version(version: int, newest: int = VERSION) -> SnapshotError:
    if version > newest:
        return SnapshotError(
            f"the key's state has format version {version}, this Keyhole reads up to {newest}; "
            "upgrade keyhole-conformal"
        )
    return SnapshotError(f"a key's state has no format version {version}; restore a copy")


def unpack_open(content: bytes) -> tuple[bytes, int, int]:
    """Return the open rounds at the end of a state, how many they are and the earliest time of one."""
    count, earliest = _OPEN.unpack_from(content) if content else _NONE_OPEN
    waiting = content[_OPEN.size :]
    _check_lengths(waiting, count)
    return waiting, count, earliest


def _check_lengths(waiting: bytes, count: int) -> None:
    """Raise unless so many rounds, one behind the other, fill the bytes."""
    start = 0
    for _ in range(count):
        length, _ = _HEAD.unpack_from(waiting, start)
        if length < _ROUND.size:
            raise InvalidError(f"an open round has {length} bytes")
        start += length
    if start != len(waiting):
        raise InvalidError(f"{count} open rounds have {start} bytes, not {len(waiting)}")


def pack_round(
    opened: Round[Any],
    id: str,
    *,
    due: int,
    memo: bytes,
    case: bytes,
    labels: str | None,
) -> bytes:
    name, rest = id.encode(), b"" if labels is None else labels.encode()
    shown, length = opened.prediction, len(case)
    whole = _ROUND.size + len(name) + len(memo) + length + len(rest)
    head = _ROUND.pack(
        whole, len(name), length, due, shown.id, opened.then, shown.threshold, shown.size
    )
    return b"".join((head, name, memo, case, rest))


def find_round(waiting: bytes, id: str, *, memory: int) -> OpenRound | None:
    name = id.encode()
    if name not in waiting:  # a fast look; what it finds may be part of something else
        return None
    start, end, size = 0, len(waiting), len(name)
    while start < end:
        length, name_length = _HEAD.unpack_from(waiting, start)
        if name_length == size and waiting.startswith(name, start + _ROUND.size):
            return _read_round(waiting, start, memory=memory)
        start += length
    return None


def split_due(waiting: bytes, clock: int, *, memory: int) -> tuple[list[OpenRound], bytes, int]:
    """Return the rounds that are due, the bytes of the others, and the earliest time of those."""
    over: list[OpenRound] = []
    kept: list[bytes] = []
    earliest = NEVER
    for start, end, due in _walk(waiting):
        if due <= clock:
            over.append(_read_round(waiting, start, memory=memory))
        else:
            kept.append(waiting[start:end])
            earliest = min(earliest, due)
    return over, b"".join(kept), earliest


def find_oldest(waiting: bytes, *, memory: int) -> OpenRound:
    """Return the round that has waited longest: rounds are kept in the order of their numbers."""
    return _read_round(waiting, 0, memory=memory)


def find_earliest(waiting: bytes) -> int:
    return min((due for _, _, due in _walk(waiting)), default=NEVER)


def _walk(waiting: bytes) -> Iterator[tuple[int, int, int]]:
    start, last = 0, len(waiting)
    while start < last:
        length, _, _, due, *_ = _ROUND.unpack_from(waiting, start)
        yield start, start + length, due
        start += length


def _read_round(waiting: bytes, start: int, *, memory: int) -> OpenRound:
    length, name, output, due, number, then, threshold, size = _ROUND.unpack_from(waiting, start)
    begin, end = start + _ROUND.size, start + length
    memo = begin + name
    case = memo + 8 * memory
    labels = case + output
    return OpenRound(
        waiting[begin:memo].decode(),
        number,
        then,
        due,
        threshold,
        size,
        waiting[memo:case],
        waiting[case:labels],
        waiting[labels:end].decode() if labels < end else None,
        start,
        end,
    )
