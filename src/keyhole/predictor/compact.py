"""Where one key of many stands, as few bytes: its progress, its open rounds, what it remembers.

The first three bytes say how the rest is laid out: the version, how wide counts are, which are there,
and how many closed rounds are remembered. Then come the time, the tally, the scale of residuals where
one is found, the learner's state, the marks of the remembered rounds, and the open rounds. Of the tally
a key keeps what it needs: not the median, the staleness and the groups' shares, and one count for all
rounds closed without an answer. How many were predicted is not written: those answered, those closed
without an answer, and those open.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from keyhole.errors import InvalidError, NewerSnapshotError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.scale import Scale
from keyhole.predictor.tally import Tally

VERSION = 1
NEVER = 2**63 - 1  # when a round is due that may wait for ever
LATEST = 2**47 - 1  # A time takes six bytes: in milliseconds, until the year 6429.
LONGEST_ID = 2**16 - 1  # bytes of a round's id, whose length takes two
MARK = 4  # bytes by which a closed round is remembered
MOST_MARKS = 31

_VERSION_AT, _WIDTH_AT = 12, 10  # where in the layout they begin; then a bit for each of these:
_EXPIRED, _UNREACHABLE, _UNBOUNDED, _WEIGHT = 0x200, 0x100, 0x80, 0x40
_REAL_MISSES, _REAL_SIZE, _WIDE_STATE, _SCALE = 0x20, 0x10, 0x08, 0x04
_TALLY = 0xFF0  # the bits that say how the tally is written
_WIDTHS = ((2**16, "H"), (2**32, "I"), (2**63, "Q"))
_LAYOUT = struct.Struct("<HB")
_TIME = _LAYOUT.size  # where the time begins
_OPEN = struct.Struct("<Iq")  # how many rounds are open, and the earliest time that one is due
_NONE_OPEN = (0, NEVER)
_ROUND = struct.Struct("<IHIqQQdd")  # its length, its id's, its output's, and what Waiting has next
_HEAD = struct.Struct("<IH")


class Standing:
    """Where a key stands; ``waiting`` are its open rounds as bytes, ``marks`` those last closed.

    What need not be read again is kept beside the bytes: ``recent`` are rounds by their ids that were
    opened since these were read; ``packed`` is what comes before and after the time, while no round
    is closed.
    """

    __slots__ = ("clock", "earliest", "marks", "open", "packed", "progress", "recent", "waiting")

    def __init__(
        self,
        progress: Progress,
        clock: int,
        marks: bytes = b"",
        waiting: bytes = b"",
        open: int = 0,  # noqa: A002
        earliest: int = NEVER,
        packed: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.progress, self.clock, self.marks = progress, clock, marks
        self.waiting, self.open, self.earliest = waiting, open, earliest
        self.packed = packed
        self.recent: dict[str, Round[Any]] = {}


class Waiting(NamedTuple):
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
    """Return how the marks' number, the time and the tally are written under a layout."""
    count = _WIDTHS[min(layout >> _WIDTH_AT, 2)][1]
    sums = ("d" if layout & _REAL_MISSES else count) + ("d" if layout & _REAL_SIZE else count)
    rare = "".join(count for bit in (_EXPIRED, _UNREACHABLE, _UNBOUNDED) if layout & bit)
    return struct.Struct(f"<HB6s{count}{sums}{rare}{'d' if layout & _WEIGHT else ''}")


_FORMS = {layout: _make_form(layout) for layout in range(0, _TALLY + 1, 0x10)}


def pack(here: Standing, learner: Learner) -> bytes:
    """Return where a key stands as bytes; equal standings give equal bytes."""
    if here.packed is None:
        here.packed = _pack_closed(here, learner)
    first, rest = here.packed
    time = here.clock.to_bytes(6, "little", signed=True)
    if not here.open:
        return first + time + rest
    return b"".join((first, time, rest, _OPEN.pack(here.open, here.earliest), here.waiting))


def _pack_closed(here: Standing, learner: Learner) -> tuple[bytes, bytes]:
    """Return what the closed rounds come to, as the bytes before the time and those after it."""
    progress = here.progress
    tally, scale = progress.tally, progress.scale
    answered, misses, size = tally.answered, tally.misses, tally.size
    largest = answered + tally.expired
    width = 0 if largest < 2**16 else 1 if largest < 2**32 else 2
    limit = _WIDTHS[width][0]
    layout = VERSION << _VERSION_AT | width << _WIDTH_AT
    if 0.0 <= misses < limit and int(misses) == misses:
        misses = int(misses)
    else:
        layout |= _REAL_MISSES
    if 0.0 <= size < limit and int(size) == size:
        size = int(size)
    else:
        layout |= _REAL_SIZE
    rare: list[float] = []
    if tally.expired or tally.unreachable or tally.unbounded or tally.weight != answered:
        layout |= _note_rare(tally, rare)
    state = learner.layout.pack_narrow(progress.state)
    if len(state) != learner.layout.sizes[1]:
        layout |= _WIDE_STATE
    if scale is not None:
        layout |= _SCALE
        state = scale.pack_narrow() + state
    form = _FORMS[layout & _TALLY]
    head = form.pack(layout, len(here.marks) // MARK, b"", answered, misses, size, *rare)
    return head[:_TIME], head[_TIME + 6 :] + state + here.marks


def _note_rare(tally: Tally, rare: list[float]) -> int:
    """Add to the list what is seldom other than nothing; return the bits of what was added."""
    bits = 0
    for bit, count in (
        (_EXPIRED, tally.expired),
        (_UNREACHABLE, tally.unreachable),
        (_UNBOUNDED, tally.unbounded),
    ):
        if count:
            bits |= bit
            rare.append(count)
    if tally.weight != tally.answered:
        bits |= _WEIGHT
        rare.append(tally.weight)
    return bits


def unpack(content: bytes, learner: Learner) -> Standing:
    """Return where the key stands of which ``pack`` wrote the bytes, or raise ``SnapshotError``."""
    try:
        layout, marks = _LAYOUT.unpack_from(content)
        if layout >> _VERSION_AT != VERSION:
            raise _refuse_version(layout >> _VERSION_AT)
        form = _FORMS[layout & _TALLY]
        _, _, time, answered, misses, size, *rare = form.unpack_from(content)
        scale, begin = None, form.size
        if layout & _SCALE:
            scale, taken = Scale.unpack(content[begin:])
            begin += taken
        end = begin + learner.layout.sizes[not layout & _WIDE_STATE]
        state = learner.unpack(content[begin:end])
        last = end + MARK * marks
        count, earliest = _OPEN.unpack_from(content, last) if len(content) > last else _NONE_OPEN
        waiting = content[last + _OPEN.size :]
        _check_lengths(waiting, count)
    except (struct.error, InvalidError) as error:
        raise SnapshotError(
            f"{len(content)} bytes are no key's state ({error}); restore a copy"
        ) from None
    tally = Tally(answered + count, answered, float(answered), float(misses), float(size))
    if rare:
        _read_rare(tally, layout, rare)
    clock = int.from_bytes(time, "little", signed=True)
    packed = content[:_TIME], content[_TIME + 6 : last]
    return Standing(
        Progress(state, tally, scale), clock, content[end:last], waiting, count, earliest, packed
    )


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


def _read_rare(tally: Tally, layout: int, rare: list[float]) -> None:
    """Put into the tally what ``_note_rare`` noted."""
    numbers = iter(rare)
    tally.expired = int(next(numbers)) if layout & _EXPIRED else 0
    tally.unreachable = int(next(numbers)) if layout & _UNREACHABLE else 0
    tally.unbounded = int(next(numbers)) if layout & _UNBOUNDED else 0
    tally.weight = next(numbers) if layout & _WEIGHT else tally.weight
    tally.predicted += tally.expired


def _refuse_version(version: int) -> SnapshotError:
    if version > VERSION:
        return NewerSnapshotError(
            f"the key's state has format version {version}, this Keyhole reads up to {VERSION}; "
            "upgrade keyhole-conformal"
        )
    return SnapshotError(f"a key's state has no format version {version}; restore a copy")


def pack_round(
    opened: Round[Any],
    id: str,  # noqa: A002
    *,
    due: int,
    memo: bytes,
    case: bytes,
    labels: str | None,
) -> bytes:
    """Return an open round as bytes."""
    name, rest = id.encode(), b"" if labels is None else labels.encode()
    shown, length = opened.prediction, len(case)
    whole = _ROUND.size + len(name) + len(memo) + length + len(rest)
    head = _ROUND.pack(
        whole, len(name), length, due, shown.id, opened.then, shown.threshold, shown.size
    )
    return b"".join((head, name, memo, case, rest))


def find_round(waiting: bytes, id: str, *, memory: int) -> Waiting | None:  # noqa: A002
    """Return the open round of this id, if there is one."""
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


def split_due(waiting: bytes, clock: int, *, memory: int) -> tuple[list[Waiting], bytes, int]:
    """Return the rounds that are due, the bytes of the others, and the earliest time of those."""
    over: list[Waiting] = []
    kept: list[bytes] = []
    earliest = NEVER
    for start, end, due in _walk(waiting):
        if due <= clock:
            over.append(_read_round(waiting, start, memory=memory))
        else:
            kept.append(waiting[start:end])
            earliest = min(earliest, due)
    return over, b"".join(kept), earliest


def find_oldest(waiting: bytes, *, memory: int) -> Waiting:
    """Return the round that has waited longest: rounds are kept in the order of their numbers."""
    return _read_round(waiting, 0, memory=memory)


def find_earliest(waiting: bytes) -> int:
    """Return the earliest time at which an open round is due."""
    return min((due for _, _, due in _walk(waiting)), default=NEVER)


def _walk(waiting: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each round begins and ends, and when it is due."""
    start, last = 0, len(waiting)
    while start < last:
        length, _, _, due, *_ = _ROUND.unpack_from(waiting, start)
        yield start, start + length, due
        start += length


def _read_round(waiting: bytes, start: int, *, memory: int) -> Waiting:
    length, name, output, due, number, then, threshold, size = _ROUND.unpack_from(waiting, start)
    begin, end = start + _ROUND.size, start + length
    memo = begin + name
    case = memo + 8 * memory
    labels = case + output
    return Waiting(
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
