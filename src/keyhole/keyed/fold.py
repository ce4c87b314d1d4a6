"""How the rounds of every key are played."""

import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from keyhole.checks import is_real, is_whole
from keyhole.errors import FeedbackError, InvalidError, KeyholeError, SnapshotError
from keyhole.feedback import check_chance
from keyhole.keyed import state as states
from keyhole.keyed.columns import EventColumns, OutputColumns, join_columns, write_columns
from keyhole.keyed.events import (
    NOTES,
    Amended,
    Answered,
    Asked,
    Elapsed,
    Event,
    Kind,
    Output,
    Outputs,
    Skipped,
)
from keyhole.keyed.many import play_many
from keyhole.keyed.state import DIGEST, LATEST, LONGEST_ID, MOST_DIGESTS, NEVER, KeyState, OpenRound
from keyhole.predictor.context import NOTHING_KNOWN, list_groups, read_context
from keyhole.predictor.draws import Draws
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, change_miss, check_loss, is_listening
from keyhole.predictor.setup import Setup
from keyhole.scores import check_storable

OPEN_LIMIT = 100  # a key's open rounds travel with its state, so that they are few
RECALL = 2
_SHORT, _CACHED = 4096, 256  # bytes of the states, and how many, that are cached as they were left
_SHOWN, _COUNTED, _REFUSED = Kind.SHOWN, Kind.COUNTED, Kind.REFUSED  # quicker than members


@dataclass(frozen=True, kw_only=True)
class Fold:
    """How the rounds of every key are played; ``make_fold`` is the short way to one.

    Parameters
    ----------
    setup
        What every key's predictor is made with; its seed and a key give the key's own seed.
    lifetime
        How long a round may stay open, in the unit of the events' times; None for ever.
    recall
        How many closed rounds a key remembers, to recognise replays; at most 31.
    start
        What a new key's learner and scale begin as, in bytes, or nothing.

    Examples
    --------
    >>> from keyhole.keyed import Answered, Asked, make_fold
    >>> fold = make_fold(alpha=0.1, seed=7)
    >>> state, outputs = fold.step("anna", b"", Asked("r1", [0.7, 0.2, 0.1]))
    >>> outputs[0].region.labels
    (0, 1)
    >>> state, outputs = fold.step("anna", state, Answered("r1", label=0))
    >>> outputs[0].kind.value, len(state) <= 256
    ('counted', True)
    """

    setup: Setup
    lifetime: int | None = None
    recall: int = RECALL
    start: bytes = b""
    has_levels: ClassVar[bool] = False
    _cache: dict[bytes, KeyState] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_storable(self.setup.score)  # Workers make it again, and a key's open rounds are bytes.
        if self.lifetime is not None and not is_whole(self.lifetime, least=1, most=LATEST):
            raise InvalidError(f"lifetime {self.lifetime!r} is not a whole number from 1; or give None")
        if not is_whole(self.recall, least=0, most=MOST_DIGESTS):
            raise InvalidError(f"recall {self.recall!r} is not a whole number from 0 to {MOST_DIGESTS}")

    def seed_of(self, key: str) -> int:
        """Return the seed of a key's draws."""
        return _derive_seed(self.setup.seed, key)

    def step(self, key: str, state: bytes, event: Event) -> tuple[bytes, Outputs]:
        """Return the key's next state and the outputs; ``b""`` is the state of a new key."""
        return self.run(key, state, (event,))

    def run(self, key: str, state: bytes, events: Iterable[Event]) -> tuple[bytes, Outputs]:
        """Return the last state and all outputs, as the steps one by one would."""
        outputs: Outputs = []
        return self._run(key, state, events, outputs, []), outputs

    def run_many(
        self, states: Mapping[str, bytes], events: Mapping[str, object]
    ) -> tuple[dict[str, bytes], OutputColumns]:
        """Return the last states of the keys with events, and all outputs: as ``run`` for each key.

        Parameters
        ----------
        states
            The states by key; a key that is not there is new.
        events
            The columns of a table by name, such as a pandas table or a dict of arrays, with a row for
            each event; those of a key are in their order. ``key`` and ``id`` are text, ``at`` whole
            numbers. A row with an ``output`` asks (for labels best a table of numbers of as many
            rows, NaN in those that do not ask), perhaps with ``features`` and ``groups``. One where
            ``skipped`` is true skips its round, one where ``elapsed`` is true says only the time.
            Every other one answers: by ``label``, ``hit`` (true or false), ``score`` or ``loss``, and
            ``chance``, ``wrong`` and ``judged`` (true: a hit) as for ``Answered``. None and NaN are
            empty cells.

        Examples
        --------
        >>> from keyhole.keyed import make_fold
        >>> fold = make_fold(alpha=0.1)
        >>> events = {
        ...     "key": ["anna", "bert", "anna"],
        ...     "id": ["r1", "r1", "r1"],
        ...     "output": [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], None],
        ...     "label": [None, None, 0],
        ... }
        >>> states, outputs = fold.run_many({}, events)
        >>> [(kind.value, int(row)) for kind, row in zip(outputs.kind, outputs.row)]
        [('shown', 0), ('shown', 1), ('counted', 2)]
        >>> outputs.labels[outputs.offsets[1] : outputs.offsets[2]].tolist(), outputs.miss[2].item()
        ([2, 0, 1], 0.0)
        """
        table = EventColumns(events)
        after, parts = play_many(self, states, table)
        left = table.group(but=after) if len(after) < len(table.distinct) else {}
        about: list[int] = []
        outputs: Outputs = []
        for key, rows in left.items():
            ends = [len(outputs)]
            after[key] = self._run(key, states.get(key, b""), table.events(rows), outputs, ends)
            about += np.repeat(rows, np.diff(ends)).tolist()
        if outputs or not parts:
            parts.append(write_columns(about, outputs))
        return after, join_columns(parts)

    def _run(
        self, key: str, state: bytes, events: Iterable[Event], outputs: Outputs, ends: list[int]
    ) -> bytes:
        """Return the last state; add the outputs, and how many there were after each event."""
        found = self._unpack(state) if state else None
        for event in events:
            step = _STEPS.get(type(event))
            if step is None:
                raise InvalidError(
                    f"{event!r} is no event; give Asked, Answered, Amended, Skipped or Elapsed"
                )
            if fault := _find_fault(event):
                outputs.append(Output(_REFUSED, _name(event), note=fault))
                ends.append(len(outputs))
                continue
            if type(event.at) is not int:  # NumPy's, which have no to_bytes
                event = event._replace(at=int(event.at))
            if found is None:
                found = KeyState(self.start_progress(), event.at)
            try:
                step(self, key, found, event, outputs)
            except (ArithmeticError, LookupError, ValueError, struct.error) as error:
                if not state or isinstance(error, KeyholeError):
                    raise
                raise SnapshotError(
                    f"the state of key {key!r:.80} is inconsistent ({error!r:.120}); restore a copy"
                ) from error
            ends.append(len(outputs))
        return state if found is None else self._pack(found)

    def _unpack(self, content: bytes) -> KeyState:
        """Return a key's state, to be changed: taken out of the cache, or read from its bytes."""
        cached = self._cache.pop(bytes(content), None)
        return self._read_state(content) if cached is None else cached

    def _read_state(self, content: bytes) -> KeyState:
        if self.decides:
            return states.unpack_whole(content, self.setup)
        return states.unpack(content, self.setup.learner)

    @property
    def first(self) -> "Fold":
        """The fold itself; of several levels, the first of them."""
        return self

    @cached_property
    def decides(self) -> bool:
        """Whether a round changes a key's state once it is opened, and more than a tally is kept."""
        return self.setup.kind.decides

    def begin(self, state: bytes | Progress) -> bytes:
        """Return the state of a new key that begins with what another one has learnt.

        Such as the key of a segment, which gets the events of all its members: a new member begins
        where its segment stands by then, and goes on by itself. What was counted is not carried over.

        Examples
        --------
        >>> from keyhole.keyed import make_fold
        >>> fold = make_fold(alpha=0.1)
        >>> pool = b""
        >>> for n in range(100):
        ...     events = Asked(f"r{n}", [0.7, 0.2, 0.1]), Answered(f"r{n}", label=int(n % 5 == 0))
        ...     pool, _ = fold.run("travel", pool, events)
        >>> _, (shown,) = fold.step("anna", fold.begin(pool), Asked("r1", [0.6, 0.3, 0.1]))
        >>> shown.region.labels, fold.read(fold.begin(pool)).tally.answered
        ((0, 1), 0)
        """
        learnt = self.read(state) if isinstance(state, bytes) else state
        content = pack_start(self.setup, learnt)
        return self._pack(KeyState(Progress.unpack(content, setup=self.setup), -LATEST))

    def _pack(self, state: KeyState) -> bytes:
        """Return a key's state as bytes; it is cached under them, as its next event may come soon."""
        if self.decides:
            content = states.pack_whole(state, self.setup)
        else:
            content = states.pack(state, self.setup.learner)
        cache = self._cache
        if len(content) <= _SHORT:
            cache[content] = state
            if len(cache) > _CACHED:
                with suppress(RuntimeError, StopIteration):  # Another thread changed it meanwhile.
                    cache.pop(next(iter(cache)), None)
        return content

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(Fold, setup=self.setup, lifetime=self.lifetime)
        return partial(make, recall=self.recall, start=self.start), ()  # without the cache

    def read(self, state: bytes) -> Progress:
        """Return the progress of a key: its learner's state and the tally of its rounds."""
        return self._read_state(state).progress if state else self.start_progress()

    def start_progress(self) -> Progress:
        """Return the progress that a new key begins with."""
        if self.start:
            return Progress.unpack(self.start, setup=self.setup)
        return self.setup.kind.start(self.setup)

    def next_due(self, state: bytes) -> int | None:
        """Return the earliest time at which an open round of the key expires, if any does."""
        if not state:
            return None
        if self.decides:
            earliest = self._read_state(state).earliest
        else:
            earliest = states.find_due(state, self.setup.learner)
        return None if earliest == NEVER else earliest


def pack_start(setup: Setup, start: Progress) -> bytes:
    """Return what has been learnt without what was counted, or raise if it is of another learner."""
    fresh = setup.kind.start(setup)
    known = isinstance(start, Progress) and isinstance(start.state, type(fresh.state))
    try:
        if known and (start.scale is None) == (fresh.scale is None):
            fresh.state, fresh.scale, fresh.states = start.state, start.scale, start.states
            content: bytes = fresh.pack(setup.learner)
            Progress.unpack(content, setup=setup)
            return content
    except SnapshotError:
        pass
    raise InvalidError(
        f"start is not what a predictor with {setup.learner.name} and this score has learnt; give the "
        "progress of one that is made with the same parameters"
    )


def _name(event: Event) -> str:
    """Return by which id an event that is of no use can be found again: its own, if it can be sent."""
    name = getattr(event, "id", "")
    return name if isinstance(name, str) and name.isascii() else ascii(name)


def _find_fault(event: Event) -> str:
    """Return why an event is of no use to any key, or nothing if it may be."""
    name = getattr(event, "id", "")
    if not isinstance(name, str):
        return "its id is not text"
    if not name.isascii() or len(name) > LONGEST_ID:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            return "its id is not text that UTF-8 can write"
        if size > LONGEST_ID:
            return f"its id has {size:,} bytes; {LONGEST_ID:,} is the most"
    if not is_whole(event.at, least=-LATEST, most=LATEST):
        return f"its time {event.at!r} is not a whole number that fits in six bytes; count milliseconds"
    return ""


@lru_cache(maxsize=65_536)
def _derive_seed(seed: int, key: str) -> int:
    digest = blake2b(key.encode(), key=seed.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


@lru_cache(maxsize=4096)
def _draws_of(seed: int) -> Draws:
    return Draws(seed)


def _ask(fold: Fold, key: str, state: KeyState, event: Asked, outputs: Outputs) -> None:
    setup, learner = fold.setup, fold.setup.learner
    if _is_repeated(fold, state, event.id, outputs):
        return
    due = NEVER if fold.lifetime is None else event.at + fold.lifetime
    if due <= state.clock:
        outputs.append(Output(_REFUSED, event.id, note=NOTES["late"]))
        return
    try:
        case = state.progress.read(setup.score, event.output)
        context = NOTHING_KNOWN
        if setup.context or event.features is not None or event.groups != ():
            context = read_context(setup, event.features, event.groups)
        output, labels = case.pack()
    except KeyholeError as error:
        outputs.append(Output(_REFUSED, event.id, note=str(error)))
        return
    _advance(fold, state, event.at, outputs)
    tally = state.progress.tally
    draw = _draws_of(fold.seed_of(key)).of(tally.predicted) if learner.rule.draws else 0.5
    opened, memo, known = _open(fold, state, case, draw, context)
    if fold.decides and not setup.kind.is_awaited(setup, opened.prediction):
        _remember(fold, state, event.id)  # A referred case that nobody judges.
        outputs.append(Output(_SHOWN, event.id, opened.prediction.id, opened.prediction))
        return
    shown = opened.prediction
    state.waiting[event.id] = states.pack_round(
        opened, event.id, due=due, memo=memo, case=known + output, labels=labels
    )
    state.opened[event.id] = opened
    if due < state.earliest:
        state.earliest = due
    outputs.append(Output(_SHOWN, event.id, shown.id, shown))
    if len(state.waiting) > setup.open_limit:
        _drop(fold, state, next(iter(state.waiting)), outputs, Kind.EXPIRED, NOTES["pushed"])


def _answer(fold: Fold, key: str, state: KeyState, event: Answered, outputs: Outputs) -> None:
    _advance(fold, state, event.at, outputs)
    if not _is_open(state, event.id, outputs):
        return
    setup, opened = fold.setup, state.opened.get(event.id)
    if opened is None:
        opened = setup.kind.unpack_waiting(setup, _read_waiting(fold, state, event.id))
    number = opened.prediction.id
    try:
        seed = 0 if event.chance == 1.0 else fold.seed_of(key)
        outcome = setup.kind.answer_event(setup, state.progress, opened, event, seed=seed)
    except KeyholeError as error:
        outputs.append(Output(_REFUSED, event.id, number, note=str(error)))
        return
    _close(fold, state, event.id)
    outputs.append(Output(_COUNTED, event.id, number, None, outcome.miss))


def _open(
    fold: Fold, state: KeyState, case: Any, draw: float, context: Any
) -> tuple[Round[Any], bytes, bytes]:
    """Return the next round, its memo, and what is to stand before its output."""
    setup, progress = fold.setup, state.progress
    if fold.decides or is_listening(setup.learner, progress):
        state.packed = None  # A decision, or the model's word, changes the learner's state.
    opened = setup.kind.open(setup.learner, progress, case, draw, context)
    if opened.groups and not fold.decides:
        opened = opened._replace(groups=())
    return opened, *setup.kind.pack_waiting(setup, opened)


def _amend(fold: Fold, key: str, state: KeyState, event: Amended, outputs: Outputs) -> None:  # noqa: ARG001
    _advance(fold, state, event.at, outputs)
    name = f"{event.id} from {event.was!r} to {event.miss!r} at {event.at}"  # which is made once
    if _is_remembered(state, name, outputs):
        outputs[-1] = outputs[-1]._replace(id=event.id, note="this amendment was made already")
        return
    setup, learner = fold.setup, fold.setup.learner
    if event.id in state.waiting:
        note = "this round is open, so that it has no answer to amend; answer it"
        outputs.append(Output(_REFUSED, event.id, note=note))
        return
    try:
        if fold.decides:
            raise FeedbackError("a key cannot amend decisions: it remembers none that it accepted")
        if not is_real(event.was):  # Corrected for answers that may be wrong it may be beyond 0 and 1.
            raise FeedbackError(f"was {event.was!r} is not the miss that was counted; try 0.0 or 1.0")
        change = check_loss(event.miss) - event.was
        weight = 1.0 / check_chance(event.chance, least=setup.least_chance)
        groups = list_groups(learner, read_context(setup, None, event.groups))
        change_miss(learner, state.progress, change, weight=weight, groups=groups)
    except KeyholeError as error:
        outputs.append(Output(_REFUSED, event.id, note=str(error)))
        return
    _remember(fold, state, name)
    outputs.append(Output(Kind.AMENDED, event.id, None, None, event.miss))


def _skip(fold: Fold, key: str, state: KeyState, event: Skipped, outputs: Outputs) -> None:  # noqa: ARG001
    _advance(fold, state, event.at, outputs)
    if _is_open(state, event.id, outputs):
        _drop(fold, state, event.id, outputs, Kind.SKIPPED)


def _elapse(fold: Fold, key: str, state: KeyState, event: Elapsed, outputs: Outputs) -> None:  # noqa: ARG001
    _advance(fold, state, event.at, outputs)


_STEPS: dict[type, Any] = {
    Asked: _ask, Answered: _answer, Amended: _amend, Skipped: _skip, Elapsed: _elapse
}  # fmt: skip


def _advance(fold: Fold, state: KeyState, at: int, outputs: Outputs) -> None:
    """Move the key's time on; rounds whose lifetime is over expire."""
    if at > state.clock:
        state.clock = at
    if state.earliest > state.clock:
        return
    over = [name for name, one in state.waiting.items() if states.read_due(one) <= state.clock]
    state.earliest = NEVER  # It is found once, when all of them are closed.
    for name in over:
        _drop(fold, state, name, outputs, Kind.EXPIRED, NOTES["over"])
    state.earliest = states.find_earliest(state.waiting.values())


def _is_repeated(fold: Fold, state: KeyState, id: str, outputs: Outputs) -> bool:
    """Report an ask that is a replay, as far as the key remembers; return whether it is one."""
    if id not in state.waiting:
        return _is_remembered(state, id, outputs)
    waiting = _read_waiting(fold, state, id)
    case = fold.setup.kind.unpack_waiting(fold.setup, waiting).case
    shown = case.region(waiting.number, waiting.threshold)
    outputs.append(Output(Kind.REPEATED, id, waiting.number, shown))
    return True


def _is_open(state: KeyState, id: str, outputs: Outputs) -> bool:
    """Return whether a round is open, and report one that is not."""
    if id in state.waiting:
        return True
    if not _is_remembered(state, id, outputs):
        outputs.append(Output(_REFUSED, id, note=NOTES["unknown"]))
    return False


def _read_waiting(fold: Fold, state: KeyState, id: str) -> OpenRound:
    memory = 0 if fold.decides else fold.setup.learner.memory  # numbers before its output
    return states.read_round(state.waiting[id], memory=memory)


def _drop(
    fold: Fold,
    state: KeyState,
    id: str,
    outputs: Outputs,
    kind: Kind,
    note: str | None = None,
) -> None:
    """Close a round without an answer."""
    outputs.append(Output(kind, id, _read_waiting(fold, state, id).number, note=note))
    state.progress.tally.expired += 1
    _close(fold, state, id)


def _close(fold: Fold, state: KeyState, id: str) -> None:
    """Remove a round from the open ones and remember its id."""
    state.opened.pop(id, None)
    closed = state.waiting.pop(id)
    if not state.waiting:
        state.earliest = NEVER
    elif state.earliest != NEVER and states.read_due(closed) == state.earliest:
        state.earliest = states.find_earliest(state.waiting.values())
    _remember(fold, state, id)


def _remember(fold: Fold, state: KeyState, id: str) -> None:
    state.packed = None
    if fold.recall:
        state.closed = (state.closed + _digest(id))[-DIGEST * fold.recall :]


def _is_remembered(state: KeyState, id: str, outputs: Outputs) -> bool:
    """Report that the round of an id is one of those closed last; return whether it is."""
    digest, closed = _digest(id), state.closed
    if digest not in closed or all(
        closed.find(digest, at, at + DIGEST) < 0 for at in range(0, len(closed), DIGEST)
    ):
        return False
    outputs.append(Output(Kind.REPEATED, id, note=NOTES["closed"]))
    return True


def _digest(id: str) -> bytes:
    return crc32(id.encode()).to_bytes(DIGEST, "little")
