"""What a predictor has become: the learner's state and the tally of its rounds, as bytes both ways."""

import struct
from dataclasses import dataclass, field, fields
from typing import Any

from keyhole.errors import InvalidError, SnapshotError
from keyhole.learners import Learner
from keyhole.predictor import monitor
from keyhole.predictor.monitor import Watch
from keyhole.predictor.scale import Scale
from keyhole.predictor.tally import Tally

VERSION = 2
_TALLY = struct.Struct("<BBqqddddqqqqqdqd")  # version, what follows, the tally's fields
_SCALE, _WATCH, _GROUPS = 1, 2, 4  # bits of what follows
_NAMES = [one.name for one in fields(Tally) if one.name != "members"]
_MEMBERS = struct.Struct("<dd")  # of each group: its rounds, its misses
_COUNT = struct.Struct("<q")


@dataclass(slots=True)
class Progress:
    """The learner's state, what the rounds add up to, perhaps a scale of residuals and a watch."""

    state: Any
    tally: Tally
    scale: Scale | None = None
    watch: Watch | None = None
    states: list[Any] = field(default_factory=list)  # of a gate's groups

    @classmethod
    def start(
        cls, learner: Learner, score: object = None, *, watch: bool = False, states: int = 0
    ) -> "Progress":
        """Return the progress of a predictor to which nothing has happened."""
        return cls(
            learner.start(),
            Tally.start(learner.groups or states),
            Scale.start(score),
            Watch() if watch else None,
            [learner.start() for _ in range(states)],
        )

    def read(self, score: Any, output: Any) -> Any:
        """Return the case of a model output, at the scale of now where one is found."""
        return score.read(output) if self.scale is None else self.scale.fit(score).read(output)

    def pack(self, learner: Learner) -> bytes:
        """Return everything as bytes; floats keep every bit."""
        counts = [getattr(self.tally, name) for name in _NAMES]
        members = b"".join([_MEMBERS.pack(*member) for member in self.tally.members])
        scale = b"" if self.scale is None else self.scale.pack()
        watch = b"" if self.watch is None else self.watch.pack()
        follows = (_SCALE if scale else 0) | (_WATCH if watch else 0)
        if self.states:  # The learner does not say how many groups a gate has.
            follows |= _GROUPS
            members = _COUNT.pack(len(self.states)) + members
        known = _TALLY.pack(VERSION, follows, *counts)
        states = learner.layout.pack(self.state)
        if self.states:
            states += b"".join([learner.layout.pack(state) for state in self.states])
        return known + members + scale + watch + states

    def check_states(self, count: int) -> "Progress":
        """Return the progress, or raise ``SnapshotError`` unless so many groups have a state."""
        if len(self.states) != count:
            raise SnapshotError(f"{len(self.states)} groups have states, not {count}; restore a copy")
        return self

    @classmethod
    def unpack(cls, content: bytes, *, learner: Learner) -> "Progress":
        """Return the progress that was packed, or raise ``SnapshotError``."""
        least = _TALLY.size + learner.groups * _MEMBERS.size
        if len(content) < least:
            raise SnapshotError(f"{len(content)} bytes are no predictor's progress; restore a copy")
        version, follows, *counts = _TALLY.unpack_from(content)
        if version > VERSION:
            raise SnapshotError(
                f"the progress has format version {version}, this Keyhole reads up to {VERSION}; "
                "upgrade keyhole-conformal"
            )
        members, rest = _unpack_members(content[_TALLY.size :], learner, counted=follows & _GROUPS)
        scale, taken = Scale.unpack(rest) if follows & _SCALE else (None, 0)
        watch = None
        if follows & _WATCH:
            watch = monitor.unpack(rest[taken : taken + monitor.SIZE])
            taken += monitor.SIZE
        try:
            state, *states = _unpack_states(learner, rest[taken:])
        except InvalidError as error:
            raise SnapshotError(f"{error}; restore it from a copy") from None
        # Gates of before counted no groups apart.
        members += [[0.0, 0.0] for _ in range(len(states) - len(members))]
        tally = Tally(**dict(zip(_NAMES, counts, strict=True)), members=members)
        return cls(state, tally, scale, watch, states)


def _unpack_members(
    content: bytes, learner: Learner, *, counted: int
) -> tuple[list[list[float]], bytes]:
    """Return the rounds and misses of every group, and what is behind them, or raise."""
    start, count = 0, learner.groups
    if counted:
        start = _COUNT.size
        (count,) = _COUNT.unpack_from(content.ljust(start, b"\0"))
    end = start + count * _MEMBERS.size
    if not count >= 0 or len(content) < end:
        raise SnapshotError(f"{len(content)} bytes do not hold {count} groups; restore a copy")
    return [list(one) for one in _MEMBERS.iter_unpack(content[start:end])], content[end:]


def _unpack_states(learner: Learner, content: bytes) -> list[Any]:
    """Return the state of a learner; of a gate's rule, after it those of the groups."""
    size = learner.layout.sizes[0]
    if learner.rule.kind != "gate" or len(content) <= size:
        return [learner.unpack(content)]
    return [learner.unpack(content[at : at + size]) for at in range(0, len(content), size)]
