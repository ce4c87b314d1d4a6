"""What a predictor has become: the learner's state and the tally of its rounds, as bytes both ways."""

import struct
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from keyhole.errors import InvalidError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor import monitor
from keyhole.predictor.monitor import Watch
from keyhole.predictor.scale import Scale
from keyhole.predictor.tally import RoundTally, Tally

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from keyhole.predictor.setup import Setup

    T = TypeVarWithDefault("T", bound=RoundTally, default=Tally)
else:
    T = TypeVar("T", bound=RoundTally)

VERSION = 2
_MEMBER = struct.Struct("<dd")  # of each group: its rounds, its misses
_HEAD = struct.Struct("<BB")  # version, what follows the tally
_SCALE, _WATCH = 1, 2  # bits of what follows


@dataclass(slots=True)
class Progress(Generic[T]):
    """The learner's state, what the rounds add up to, perhaps a scale of residuals and a watch."""

    state: Any
    tally: T
    scale: Scale | None = None
    watch: Watch | None = None
    states: list[Any] = field(default_factory=list)  # of groups, where each has one of its own

    @classmethod
    def start(cls, learner: Learner, score: object = None, *, watch: bool = False) -> "Progress":
        """Return the progress of a predictor of sets to which nothing has happened."""
        tally, scale = Tally.start(learner.groups), Scale.start(score)
        return Progress(learner.start(), tally, scale, Watch() if watch else None)

    def read(self, score: Any, output: Any) -> Any:
        return score.read(output) if self.scale is None else self.scale.fit(score).read(output)

    def pack(self, learner: Learner) -> bytes:
        """Return everything as bytes; floats keep every bit."""
        tally = _pack_tally(self.tally)
        scale = b"" if self.scale is None else self.scale.pack()
        watch = b"" if self.watch is None else self.watch.pack()
        head = _HEAD.pack(VERSION, (_SCALE if scale else 0) | (_WATCH if watch else 0))
        state = learner.layout.pack(self.state)
        if self.states:
            state += b"".join([learner.layout.pack(one) for one in self.states])
        return head + tally + scale + watch + state

    @classmethod
    def unpack(cls, content: bytes, *, setup: "Setup") -> "Progress[Any]":
        if len(content) < _HEAD.size:
            raise SnapshotError(f"{len(content)} bytes are not a predictor's progress; restore a copy")
        version, follows = _HEAD.unpack_from(content)
        if version > VERSION:
            raise SnapshotError(
                f"the progress has format version {version}, this Keyhole reads up to {VERSION}; "
                "upgrade keyhole-conformal"
            )
        rest = content[_HEAD.size :]
        tally, taken = _unpack_tally(setup.kind.tally, rest, groups=setup.groups)
        rest = rest[taken:]
        scale, taken = Scale.unpack(rest) if follows & _SCALE else (None, 0)
        watch = None
        if follows & _WATCH:
            watch = monitor.unpack(rest[taken : taken + monitor.SIZE])
            taken += monitor.SIZE
        try:
            state, *states = _unpack_states(setup, rest[taken:])
        except InvalidError as error:
            raise SnapshotError(f"{error}; restore it from a copy") from None
        return Progress(state, tally, scale, watch, states)


def _unpack_states(setup: "Setup", content: bytes) -> list[Any]:
    """Return the learner's state, and after it those of the groups that have one of their own."""
    learner, more = setup.learner, setup.groups - setup.learner.groups
    size = learner.layout.sizes[0]
    own = content if not more else content[: len(content) - more * size]
    ends = range(len(own), len(content), size)
    return [learner.unpack(own), *(learner.unpack(content[at : at + size]) for at in ends)]


def _pack_tally(tally: RoundTally) -> bytes:
    members = b"".join(starmap(_MEMBER.pack, tally.members))
    return tally.FORMAT.pack(*attrgetter(*_list_names(type(tally)))(tally)) + members


def _unpack_tally(tally: type[T], content: bytes, *, groups: int) -> tuple[T, int]:
    """Return the tally that was packed, of so many groups, and where it ends; or raise."""
    start, end = tally.FORMAT.size, tally.FORMAT.size + groups * _MEMBER.size
    if len(content) < end:
        raise SnapshotError(
            f"{len(content)} bytes are not the tally of {groups} groups; restore a copy"
        )
    counts = dict(zip(_list_names(tally), tally.FORMAT.unpack_from(content), strict=True))
    members = [list(one) for one in _MEMBER.iter_unpack(content[start:end])]
    made: Any = tally
    return made(**counts, members=members), end


@cache
def _list_names(tally: Any) -> list[str]:
    return [one.name for one in fields(tally) if one.name != "members"]
