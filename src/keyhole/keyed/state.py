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
from collections.abc import Iterable
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
_BITS = bytes.maketrans(bytes(range(256)), b"0" + b"1" * 255)  # of bytes, whether they are 0

_ROUND = struct.Struct("<IHIqQQdd")  # its length, its id's, its output's, and what OpenRound has next
_HEAD = struct.Struct("<IH")
HEAD_SIZE, OPEN_SIZE, ROUND_SIZE = _TIME + 6, _OPEN.size, _ROUND.size


@dataclass(slots=True, eq=False)
class KeyState:
    """The state of a key; ``waiting`` are its open rounds by their ids, ``closed`` those closed last.

    Open rounds are in the order of their numbers, as bytes. What need not be read again is kept beside
    these: ``opened`` are those that were opened since the state was read; ``packed`` is what comes
    before and after the time, as long as no round is closed.
    """

    progress: Progress
    clock: int
    closed: bytes = b""
    waiting: dict[str, bytes] = field(default_factory=dict)
    earliest: int = NEVER
    packed: tuple[bytes, bytes] | None = None
    opened: dict[str, Round[Any]] = field(default_factory=dict, init=False)


class OpenRound(NamedTuple):
    """An open round, its case and memo still packed."""

    number: int
    then: int
    due: int
    threshold: float
    size: float
    memo: bytes
    output: bytes
    labels: str | None


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
    return first + time + rest + _pack_open(key) if key.waiting else first + time + rest


def _pack_open(key: KeyState) -> bytes:
    return _OPEN.pack(len(key.waiting), key.earliest) + b"".join(key.waiting.values())


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
        or tally.checks > 0
        or tally.weight != answered
    ):
        layout |= _note_rare(tally, rare)
    state = learner.layout.pack_narrow(progress.state)
    if len(state) != learner.layout.sizes[1]:
        layout |= WIDE_STATE
    if layout & WEIGHT or (scale is not None and (width or not scale.is_fixed)):
        layout |= SQUEEZED  # Counts, weights or residuals take more: let zeros take less.
        state = _squeeze(state)
    if scale is not None:
        layout |= SCALE
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
    width, end = -(-size // 8), _measure_squeezed(content, size)
    bits = f"{int.from_bytes(content[:width], 'little'):0{size}b}"
    if len(content) < end or len(bits) > size:
        raise InvalidError("the learner's state is cut short")
    rest = iter(content[width:end])
    return bytes([next(rest) if bit == "1" else 0 for bit in bits]), end


def _measure_squeezed(content: bytes, size: int) -> int:
    """Return how many bytes so many take without those that are 0."""
    width = -(-size // 8)
    return width + int.from_bytes(content[:width], "little").bit_count()


def _note_rare(tally: Tally, rare: list[float]) -> int:
    bits = 0
    for bit, name in _RARE:
        if count := getattr(tally, name):
            bits |= bit
            rare.append(count)
    if tally.weight != tally.answered or tally.checks > 0:
        bits |= WEIGHT
        checks = max(tally.checks, 0)  # A key states no bound, which alone asks for less.
        rare += (tally.weight, tally.usual, tally.bias, checks)
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
        waiting, earliest = _unpack_open(content[last:])
    except (struct.error, InvalidError, UnicodeDecodeError) as error:
        raise refuse_content(content, error) from None
    tally = Tally(answered + len(waiting), answered, float(answered), float(misses), float(size))
    if rare:
        _read_rare(tally, layout, rare)
    clock = int.from_bytes(time, "little", signed=True)
    closed_part = content[:_TIME], content[_TIME + 6 : last]
    progress = Progress(state, tally, scale)
    return KeyState(progress, clock, content[end:last], waiting, earliest, closed_part)


def pack_whole(key: KeyState, setup: Setup) -> bytes:
    progress = key.progress.pack(setup.learner)
    time = key.clock.to_bytes(6, "little", signed=True)
    rule = number_rule(setup.learner.rule.name)
    head = _WHOLE.pack(WHOLE_VERSION, len(key.closed) // DIGEST, rule, time, len(progress))
    return head + progress + key.closed + (_pack_open(key) if key.waiting else b"")


def unpack_whole(content: bytes, setup: Setup) -> KeyState:
    try:
        version, closed, rule, time, length = _WHOLE.unpack_from(content)
        if version != WHOLE_VERSION:
            raise refuse_version(version, WHOLE_VERSION)
        _check_rule(rule, setup.learner, called="rule")
        end = _WHOLE.size + length
        last = end + DIGEST * closed
        progress = Progress.unpack(content[_WHOLE.size : end], setup=setup)
        waiting, earliest = _unpack_open(content[last:])
    except (struct.error, InvalidError, UnicodeDecodeError) as error:
        raise refuse_content(content, error) from None
    if len(content) < last:
        raise SnapshotError(f"{len(content)} bytes of a key's state are cut short; restore a copy")
    clock = int.from_bytes(time, "little", signed=True)
    return KeyState(progress, clock, content[end:last], waiting, earliest)


def find_due(content: bytes, learner: Learner) -> int:
    """Return when the first open round of a state that ``pack`` wrote is due; never if none is."""
    with suppress(struct.error):
        layout, closed, _ = _LAYOUT.unpack_from(content)
        if layout >> VERSION_AT == VERSION and not layout & SCALE:
            size, begin = learner.layout.sizes[not layout & WIDE_STATE], _FORMS[layout & _TALLY].size
            if layout & SQUEEZED:
                size = _measure_squeezed(content[begin:], size)
            end = begin + size + DIGEST * closed
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


def _unpack_open(content: bytes) -> tuple[dict[str, bytes], int]:
    """Return the open rounds at the end of a state, and the earliest time that one is due."""
    waiting: dict[str, bytes] = {}
    if not content:
        return waiting, NEVER
    (count, earliest), start = _OPEN.unpack_from(content), _OPEN.size
    for _ in range(count):
        length, name = _HEAD.unpack_from(content, start)
        if length < _ROUND.size:
            raise InvalidError(f"an open round has {length} bytes")
        begin = start + _ROUND.size
        waiting[content[begin : begin + name].decode()] = content[start : start + length]
        start += length
    if start != len(content) or len(waiting) != count:
        raise InvalidError(f"{count} open rounds have {start} bytes, not {len(content)}")
    return waiting, earliest


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


def read_round(waiting: bytes, *, memory: int) -> OpenRound:
    _, name, output, due, number, then, threshold, size = _ROUND.unpack_from(waiting)
    memo = _ROUND.size + name
    case = memo + 8 * memory
    labels = case + output
    known = waiting[labels:].decode() if labels < len(waiting) else None
    return OpenRound(
        number, then, due, threshold, size, waiting[memo:case], waiting[case:labels], known
    )


def find_earliest(waiting: Iterable[bytes]) -> int:
    return min(map(read_due, waiting), default=NEVER)


def read_due(waiting: bytes) -> int:
    """Return when an open round is due."""
    return int(_ROUND.unpack_from(waiting)[3])
