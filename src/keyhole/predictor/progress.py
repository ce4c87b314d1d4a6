"""What a predictor has become: the learner's state and the tally of its rounds, as bytes both ways."""

import copy
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any

from keyhole.checks import is_missing
from keyhole.errors import FeedbackError, InvalidError, LabelError, SnapshotError
from keyhole.learners import Learner
from keyhole.numeric import Array
from keyhole.predictor.draws import CALIBRATION, make_draws
from keyhole.predictor.monitor import RATES, Alarm, Watch
from keyhole.predictor.scale import Scale
from keyhole.predictor.tally import FORMATS, Tally

if TYPE_CHECKING:
    from keyhole.predictor.setup import Setup

VERSION = 2
_HEAD = struct.Struct("<BB")  # version, what follows the tally
_SCALE, _WATCH = 1, 2  # bits of what follows
_MEMBER = struct.Struct("<dd")  # of each group: its rounds, its misses
_WATCHED = struct.Struct(f"<qbqqqqqqdd5d{RATES}d{RATES}d{RATES}q")


@dataclass(slots=True)
class Progress:
    """The learner's state, what the rounds add up to, perhaps a scale of residuals and a watch."""

    state: Any
    tally: Tally
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

    def calibrate(
        self,
        setup: "Setup",
        outputs: Sequence[object],
        truths: Sequence[object],
        *,
        contexts: Sequence[Array],
    ) -> None:
        """Learn labelled history; the tally stays clean but for what was calibrated."""
        learner, kind, before = setup.learner, setup.kind, self.tally
        if before.predicted:
            raise InvalidError(f"history comes before the first round; {kind.afresh}")
        if len(outputs) != len(truths):
            what, of = kind.history
            raise FeedbackError(f"{len(truths)} {what} came for {len(outputs)} {of}; give one for each")
        clean = Tally.start(setup.groups, decides=kind.decides)
        played = replace(copy.deepcopy(self), tally=copy.deepcopy(clean), watch=None)
        draws = [0.5] * len(outputs)
        if learner.rule.draws:
            draws = make_draws(setup.seed, before.calibrated, len(outputs), kind=CALIBRATION).tolist()
        rows = zip(outputs, truths, draws, contexts, strict=True)
        for number, (output, truth, draw, known) in enumerate(rows, start=before.calibrated):
            try:
                case = played.read(setup.score, output)
                if is_missing(truth):
                    raise LabelError(f"{truth!r} does not say what was true; leave the round out")
                opened = kind.open(learner, played, case, draw, known)
                kind.settle(setup, played, opened, kind.read_truth(setup, opened, truth))
            except InvalidError as error:
                raise type(error)(f"round {number} of the history: {error}") from None
        own = played.tally
        if own.unreachable and own.unreachable == len(outputs):
            raise LabelError(
                f"no set could have held any of the {len(outputs):,} truths of the history, such as "
                f"{truths[0]!r:.80} of type {type(truths[0]).__name__}; give them as the model's "
                "output names its candidates, or a larger bound"
            )
        excess = own.misses - learner.alpha * own.weight + own.calibrated_excess
        clean.calibrated = before.calibrated + len(outputs)
        clean.calibrated_excess = before.calibrated_excess + excess
        clean.lost_in_full = before.lost_in_full + own.lost_in_full
        clean.spared_empty = before.spared_empty + own.spared_empty
        self.state, self.states, self.scale, self.tally = (
            played.state, played.states, played.scale, clean,
        )  # fmt: skip

    def pack(self, learner: Learner) -> bytes:
        """Return everything as bytes; floats keep every bit."""
        tally = pack_tally(self.tally)
        scale = b"" if self.scale is None else self.scale.pack()
        watch = b"" if self.watch is None else pack_watch(self.watch)
        head = _HEAD.pack(VERSION, (_SCALE if scale else 0) | (_WATCH if watch else 0))
        state = learner.layout.pack(self.state)
        if self.states:
            state += b"".join([learner.layout.pack(one) for one in self.states])
        return head + tally + scale + watch + state

    @classmethod
    def unpack(cls, content: bytes, *, setup: "Setup") -> "Progress":
        if len(content) < _HEAD.size:
            raise SnapshotError(f"{len(content)} bytes are not a predictor's progress; restore a copy")
        version, follows = _HEAD.unpack_from(content)
        if version > VERSION:
            raise SnapshotError(
                f"the progress has format version {version}, this Keyhole reads up to {VERSION}; "
                "upgrade keyhole-conformal"
            )
        rest = content[_HEAD.size :]
        tally, taken = unpack_tally(rest, groups=setup.groups, decides=setup.kind.decides)
        rest = rest[taken:]
        scale, taken = Scale.unpack(rest) if follows & _SCALE else (None, 0)
        watch = None
        if follows & _WATCH:
            watch = unpack_watch(rest[taken : taken + _WATCHED.size])
            taken += _WATCHED.size
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


def pack_tally(tally: Tally) -> bytes:
    names, numbers = FORMATS[tally.decides]
    values = [getattr(tally, name) for name in names]
    return numbers.pack(*values) + b"".join(starmap(_MEMBER.pack, tally.members))


def unpack_tally(content: bytes, *, groups: int, decides: bool) -> tuple[Tally, int]:
    """Return the tally that was packed, of so many groups, and where it ends; or raise."""
    names, numbers = FORMATS[decides]
    start, end = numbers.size, numbers.size + groups * _MEMBER.size
    if len(content) < end:
        raise SnapshotError(
            f"{len(content)} bytes are not the tally of {groups} groups; restore a copy"
        )
    counts: Any = dict(zip(names, numbers.unpack_from(content), strict=True))
    members = [list(one) for one in _MEMBER.iter_unpack(content[start:end])]
    return Tally(**counts, members=members, decides=decides), end


def pack_watch(watch: Watch) -> bytes:
    """Return a watch as bytes, of which there are always as many."""
    counts = (watch.rounds, watch.alarm, watch.since, watch.raised, watch.cleared, watch.alarms)
    rest = (watch.heard, watch.tested, watch.scale, watch.ratio, *watch.together, *watch.doubts)
    return _WATCHED.pack(*counts, *rest, *watch.evidence, *watch.walks, *watch.starts)


def unpack_watch(content: bytes) -> Watch:
    if len(content) != _WATCHED.size:
        raise SnapshotError(f"a watch has {_WATCHED.size} bytes, not {len(content)}; restore a copy")
    numbers = iter(_WATCHED.unpack(content))
    head = islice(numbers, 10)
    watch = Watch(*head, *(list(islice(numbers, size)) for size in (3, 2, RATES, RATES, RATES)))
    watch.alarm = Alarm(watch.alarm)
    return watch
