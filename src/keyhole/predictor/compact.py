"""Where one key of many stands, as few bytes: its progress, its open rounds, what it remembers.

The first four bytes say how the rest is laid out: the version, how wide counts are, which are there,
how many closed rounds are remembered, and of which rule the state is. Then come the time, the tally,
the scale of residuals where one is found, the learner's state, the marks of the remembered rounds, and
the open rounds. Of the tally a key keeps what it needs: not the median, the staleness and the groups'
shares, and one count for all rounds closed without an answer. How many were predicted is not written:
those answered, those closed without an answer, and those open.
"""

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

from keyhole.errors import InvalidError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor.compact_rounds import NEVER, check_lengths
from keyhole.predictor.progress import Progress
from keyhole.predictor.scale import Scale
from keyhole.predictor.tally import Tally

if TYPE_CHECKING:
    from keyhole.predictor.rounds import Round

VERSION = 1
LATEST = 2**47 - 1  # A time takes six bytes: in milliseconds, until the year 6429.
MARK = 4  # bytes by which a closed round is remembered
MOST_MARKS = 31

_VERSION_AT, _WIDTH_AT = 12, 10  # where in the layout they begin; then a bit for each of these:
_EXPIRED, _UNREACHABLE, _UNBOUNDED, _WEIGHT = 0x200, 0x100, 0x80, 0x40
_REAL_MISSES, _REAL_SIZE, _WIDE_STATE, _SCALE = 0x20, 0x10, 0x08, 0x04
_TALLY = 0xFF0  # the bits that say how the tally is written
_WIDTHS = ((2**16, "H"), (2**32, "I"), (2**63, "Q"))
_LAYOUT = struct.Struct("<HBB")
_TIME = _LAYOUT.size  # where the time begins
_OPEN = struct.Struct("<Iq")  # how many rounds are open, and the earliest time that one is due
_NONE_OPEN = (0, NEVER)


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


def _make_form(layout: int) -> struct.Struct:
    """Return how the marks' number, the rule, the time and the tally are written under a layout."""
    count = _WIDTHS[min(layout >> _WIDTH_AT, 2)][1]
    sums = ("d" if layout & _REAL_MISSES else count) + ("d" if layout & _REAL_SIZE else count)
    rare = "".join(count for bit in (_EXPIRED, _UNREACHABLE, _UNBOUNDED) if layout & bit)
    return struct.Struct(f"<HBB6s{count}{sums}{rare}{'d' if layout & _WEIGHT else ''}")


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
    rule = _number_rule(learner.rule.name)
    head = form.pack(layout, len(here.marks) // MARK, rule, b"", answered, misses, size, *rare)
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
        layout, marks, rule = _LAYOUT.unpack_from(content)
        if layout >> _VERSION_AT != VERSION:
            raise _refuse_version(layout >> _VERSION_AT)
        if rule != _number_rule(learner.rule.name):
            raise SnapshotError(
                f"a key's state is of another learner than {learner.rule.name}; go on with that one, "
                "or start the keys afresh"
            )
        form = _FORMS[layout & _TALLY]
        _, _, _, time, answered, misses, size, *rare = form.unpack_from(content)
        scale, begin = None, form.size
        if layout & _SCALE:
            scale, taken = Scale.unpack(content[begin:])
            begin += taken
        end = begin + learner.layout.sizes[not layout & _WIDE_STATE]
        state = learner.unpack(content[begin:end])
        last = end + MARK * marks
        count, earliest = _OPEN.unpack_from(content, last) if len(content) > last else _NONE_OPEN
        waiting = content[last + _OPEN.size :]
        check_lengths(waiting, count)
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


def _read_rare(tally: Tally, layout: int, rare: list[float]) -> None:
    """Put into the tally what ``_note_rare`` noted."""
    numbers = iter(rare)
    tally.expired = int(next(numbers)) if layout & _EXPIRED else 0
    tally.unreachable = int(next(numbers)) if layout & _UNREACHABLE else 0
    tally.unbounded = int(next(numbers)) if layout & _UNBOUNDED else 0
    tally.weight = next(numbers) if layout & _WEIGHT else tally.weight
    tally.predicted += tally.expired


@cache
def _number_rule(name: str) -> int:
    """Return a byte by which a rule's states are told from those of nearly every other."""
    return zlib.crc32(name.encode()) & 0xFF


def _refuse_version(version: int) -> SnapshotError:
    if version > VERSION:
        return SnapshotError(
            f"the key's state has format version {version}, this Keyhole reads up to {VERSION}; "
            "upgrade keyhole-conformal"
        )
    return SnapshotError(f"a key's state has no format version {version}; restore a copy")
