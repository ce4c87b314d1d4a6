"""Shadows: learners beside a stream's own, who hear its answers and show what they would have done.

A shadow has the stream's score, feedback, draws and cases, and a progress of its own. It hears an
answer in so far as that tells of the set that it would have shown itself; what it does not tell is
counted as unknown. What it must remember of an open round is kept beside what the stream's own learner
must.

The inner levels of a stream of several are kept in the same way. The stream's own learner is that of
the smallest alpha. Each level hears the outcome of what it chose itself, and its figures are those of
a stream of that alpha alone. What is shown is nested: a level shows what the inner ones chose where
that is more, which can only prevent misses. The log keeps what each chose; what was shown follows from
it.
"""

import copy
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from keyhole import learners
from keyhole.errors import FeedbackError, InvalidError, KeyholeError
from keyhole.learners import Learner
from keyhole.numeric import Array
from keyhole.predictor.context import NOTHING_KNOWN, UNNAMED
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, answer_round
from keyhole.predictor.scale import Scale
from keyhole.predictor.setup import Setup, change_alpha
from keyhole.predictor.tally import Outcome
from keyhole.scores import Case, Predicted, Region
from keyhole.service.store.sql.schema import AlarmRow, AmendmentRow, AnswerRow, RoundRow
from keyhole.service.store.streams.settings import check_name

if TYPE_CHECKING:
    from keyhole.service.store.streams.stream import Stream

MOST = 3
MOST_LEVELS = 10
_TELLS_ALL = {"label", "score", "miss", "chance"}


@dataclass(slots=True)
class Shadow:
    """A shadow, and what it and the stream came to in the rounds that were answered beside it."""

    name: str
    since: int  # the version of the stream with which it came: no other has it
    at: float
    setup: Setup
    progress: Progress  # without a scale: it is the stream's
    rounds: int = 0
    unknown: float = 0.0  # how many of them, by weight, could not tell whether it would have missed
    size: float = 0.0  # the sum of its bounded sizes,
    bounded: int = 0  # of which there are so many
    shown_size: float = 0.0  # and those of what the stream showed
    shown_bounded: int = 0
    shown_weight: float = 0.0
    shown_misses: float = 0.0
    is_level: bool = False  # Whether it is shown, with a promise of its own.
    alarmed: AlarmRow | None = None  # the last alarm of a level, as of the stream

    @property
    def watch(self) -> Watch:
        return self.progress.watch or Watch()


class NewShadow(NamedTuple):
    """What a shadow is to be: what is None is as in the stream."""

    name: str
    alpha: float | None = None
    learner: str | None = None
    horizon: int | None = None
    arms: int | None = None
    options: Mapping[str, Any] | None = None


_COUNTS = [one.name for one in fields(Shadow) if one.name not in ("setup", "progress", "alarmed")]


def start_shadow(
    setup: Setup,
    learner: Learner,
    *,
    name: str,
    since: int,
    at: float,
    is_level: bool = False,
) -> Shadow:
    """Return a shadow of a stream of this setup, which has heard nothing yet."""
    own = make_setup(setup, learner)
    progress = own.kind.start(own, watch=is_level)
    progress.scale = None
    return Shadow(name, since, at, own, progress, is_level=is_level)


def describe(shadow: Shadow) -> dict[str, Any]:
    more = {"is_level": True} if shadow.is_level else {}
    return {"name": shadow.name, **shadow.setup.learner.dump(), **more}


def make_setup(setup: Setup, learner: Learner) -> Setup:
    counts = (learner.features, learner.groups)
    is_same = counts == (setup.learner.features, setup.learner.groups)
    if not is_same and counts != (0, 0):
        raise InvalidError(
            f"{learner.name} would take {counts[0]} features and {counts[1]} groups, which the "
            "stream's cases do not have; give those of the stream, or none",
            field="options",
        )
    return replace(setup, learner=learner, names=setup.names if is_same else UNNAMED)


def add_shadow(shadows: list[Shadow], setup: Setup, new: NewShadow, *, since: int, at: float) -> Shadow:
    """Put a further shadow beside a stream of this setup, or raise; return it."""
    if any(shadow.is_level for shadow in shadows):
        raise InvalidError(
            "a stream of several levels has no shadows; make another stream to try a learner",
            field="shadows",
        )
    if len(shadows) >= MOST:
        raise InvalidError(f"the stream has {MOST} shadows already; remove one first", field="shadows")
    if any(shadow.name == new.name for shadow in shadows):
        raise InvalidError(f"there is a shadow {new.name!r} already; choose another name", field="name")
    learner = _make_learner(setup, new)
    shadow = start_shadow(setup, learner, name=check_name(new.name), since=since, at=at)
    shadows.append(shadow)
    return shadow


def _make_learner(setup: Setup, new: NewShadow) -> Learner:
    own = setup.learner
    target = own.alpha if new.alpha is None else new.alpha
    if new[2:] == (None, None, None, None):
        made = change_alpha(setup, target).learner
    else:
        name = new.learner or own.name
        counts = {"features": own.features, "groups": own.groups}
        known = learners.takes(learners.find(name))
        taken = {what: count for what, count in counts.items() if count and what in known}
        given = {**taken, **(new.options or {})}
        made = learners.make(name, alpha=target, horizon=new.horizon, arms=new.arms, options=given)
    if made == own:
        raise InvalidError(
            f"{made.name} at alpha {made.alpha:g} is the stream's own learner; give another alpha, "
            "learner or options",
            field="learner",
        )
    return made


def find_shadow(shadows: Sequence[Shadow], name: str) -> Shadow:
    others = [shadow for shadow in shadows if not shadow.is_level]
    for shadow in others:
        if shadow.name == name:
            return shadow
    known = ", ".join(shadow.name for shadow in others) or "none"
    raise InvalidError(f"there is no shadow {name!r:.80}; there are {known}", field="shadow")


def dump_shadows(shadows: Sequence[Shadow]) -> str | None:
    """Return shadows as JSON; floats keep every bit."""
    if not shadows:
        return None
    return json.dumps(
        [
            {
                **{name: getattr(shadow, name) for name in _COUNTS},
                **shadow.setup.learner.dump(),
                "progress": shadow.progress.pack(shadow.setup.learner).hex(),
            }
            for shadow in shadows
        ]
    )


def load_shadows(text: str | None, setup: Setup) -> list[Shadow]:
    made = []
    for kept in json.loads(text) if text else ():
        own = make_setup(setup, learners.rebuild(kept["learner"], kept["parameters"]))
        progress = Progress.unpack(bytes.fromhex(kept["progress"]), setup=own)
        made.append(Shadow(setup=own, progress=progress, **{name: kept[name] for name in _COUNTS}))
    return made


class _Kept(NamedTuple):
    """What a shadow must remember of an open round."""

    number: int  # among the shadow's own
    then: int
    threshold: float
    size: float
    memo: str  # as hexadecimal digits


def open_beside(
    stream: "Stream", opened: Round[Predicted], *, draw: float, context: Array
) -> tuple[str, bytes | None]:
    """Let shadows take the case of a round; return what they must remember of it, as JSON.

    And the thresholds of those that are levels, packed.
    """
    kept, is_awaited = {}, stream.setup.kind.is_awaited(stream.setup, opened.prediction)
    for shadow in stream.shadows:
        setup = shadow.setup
        known = context if setup.context else NOTHING_KNOWN
        made = setup.kind.open(setup.learner, shadow.progress, opened.case, draw=draw, context=known)
        own, learner = made.prediction, setup.learner
        if not is_awaited and setup.kind.is_counted(own):
            shadow.unknown += 1.0  # It would have been answered, and the stream's is not.
        memo = learner.layout.pack_memo(made.memo)
        kept[shadow.since] = _Kept(own.id, made.then, own.threshold, own.size, memo.hex())
    thresholds = [kept[one.since].threshold for one in stream.levels]
    return json.dumps(kept), pack_reals(thresholds) if thresholds else None


def pack_reals(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


Heard = tuple[Shadow, Round[Any], Any]  # and what an answer tells of its round; None if nothing


def recall_beside(
    shadows: Sequence[Shadow], memories: str, row: RoundRow, shown: Round[Any], answer: object
) -> list[Heard]:
    """Return what an answer to a round tells the shadows; raise if a level cannot take it."""
    remembered, heard = json.loads(memories), list[Heard]()
    for shadow in shadows:
        if str(shadow.since) not in remembered:  # It came after the round.
            continue
        kept, setup = _Kept(*remembered[str(shadow.since)]), shadow.setup
        own = row._replace(
            number=kept.number,
            threshold=kept.threshold,
            size=kept.size,
            context=row.context if setup.context else None,
        )
        waiting = setup.kind.recall(setup, own, then=kept.then, memo=bytes.fromhex(kept.memo))
        told = answer
        if shadow.is_level:  # Before anybody learns it: all levels take an answer, or none.
            setup.kind.read_answer(setup, waiting, answer)
        else:
            told = setup.kind.translate(setup, waiting.prediction, shown.prediction, answer)
        heard.append((shadow, waiting, told))
    return heard


def learn_beside(
    heard: Sequence[Heard], shown: Round[Any], outcome: Outcome, *, scale: Scale | None
) -> bytes | None:
    """Teach shadows what an answer tells of their sets; return what it came to on levels, packed.

    ``scale`` is the stream's before the answer came.
    """
    levels = list[float]()
    for shadow, waiting, answer in heard:
        setup, progress, told = shadow.setup, shadow.progress, answer
        own = waiting.prediction
        progress.scale = copy.deepcopy(scale)
        try:
            if told is not None:
                found = answer_round(setup, progress, waiting, told)
                levels += (found.miss, own.size) if shadow.is_level else ()
        except KeyholeError:  # What the stream's learner takes, this one may not.
            if shadow.is_level:
                raise
            told = None
        progress.scale = None
        if told is None and setup.kind.is_counted(own):
            shadow.unknown += outcome.weight or 1.0
        _count(shadow, own.size, shown.prediction.size, outcome)
    return pack_reals(levels) if levels else None


def _count(shadow: Shadow, size: float, shown_size: float, outcome: Outcome) -> None:
    shadow.rounds += 1
    if math.isfinite(size):
        shadow.size, shadow.bounded = shadow.size + size, shadow.bounded + 1
    if math.isfinite(shown_size):
        shadow.shown_size, shadow.shown_bounded = (
            shadow.shown_size + shown_size, shadow.shown_bounded + 1,
        )  # fmt: skip
    shadow.shown_weight += outcome.weight
    shadow.shown_misses += outcome.weight * outcome.miss


def start_levels(setup: Setup, learners: Sequence[Learner], *, at: float) -> list[Shadow]:
    return [
        start_shadow(setup, one, name=f"{one.alpha:g}", since=since, at=at, is_level=True)
        for since, one in enumerate(learners, start=1)
    ]


def check_tells_all(answer: Any) -> None:
    names = {answer} if isinstance(answer, str) else set(answer)
    if names - _TELLS_ALL:
        raise FeedbackError(
            f"{sorted(names - _TELLS_ALL)[0]} is about the outermost level only: it does not say "
            "which of the inner levels contain the truth; give label, score, or miss if the outermost "
            "one misses"
        )


def list_levels(stream: "Stream") -> "list[Stream | Shadow]":
    """Return the levels of a stream, the smallest alpha first: itself and, of several, the others."""
    return [stream, *stream.levels]


def unpack_reals(content: bytes | None) -> tuple[float, ...]:
    return struct.unpack(f"<{len(content) // 8}d", content) if content else ()


def list_outcomes(row: AnswerRow | AmendmentRow) -> list[tuple[float, float]]:
    """Return the miss and the size of what each inner level chose."""
    found = unpack_reals(row.levels)
    return list(zip(found[::2], found[1::2], strict=True))


def show_regions(case: Case[Any], row: RoundRow) -> tuple[Region, ...]:
    """Return what a round showed on each level: what the lowest threshold from there inwards gives."""
    if row.levels is None:
        return (case.region(row.number, row.threshold),)
    thresholds = (row.threshold, *unpack_reals(row.levels))
    shown = list(accumulate(reversed(thresholds), min))[::-1]
    return tuple(case.region(row.number, threshold) for threshold in shown)


def show_misses(row: AnswerRow | AmendmentRow) -> Sequence[float | None]:
    """Return what an answer came to on each level: what was shown misses if all that it holds do."""
    if row.levels is None or row.miss is None:
        return [row.miss]
    own = [row.miss, *(miss for miss, _ in list_outcomes(row))]
    return list(accumulate(reversed(own), min))[::-1]
