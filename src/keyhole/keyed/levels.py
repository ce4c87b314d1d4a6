"""Several target miss rates by key: a fold for each, whose sets or intervals are shown nested."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from keyhole.errors import SnapshotError
from keyhole.feedback import MISS
from keyhole.keyed.columns import EventColumns, OutputColumns, write_columns
from keyhole.keyed.events import Amended, Answered, Event, Kind, Output, Outputs
from keyhole.keyed.fold import Fold
from keyhole.keyed.state import refuse_content, refuse_version
from keyhole.predictor.levels import TELLS_TOO_LITTLE, nest
from keyhole.predictor.progress import Progress

VERSION = 9  # Those of other keys begin with another number.
_HEAD = struct.Struct("<BB")  # version, how many levels
_HIT = f"a hit is about the outermost one only: {TELLS_TOO_LITTLE}"


@dataclass(frozen=True)
class LevelFold:
    """How the rounds of every key are played on several levels; ``make_fold(alpha=[...])`` makes one.

    It is used as a ``Fold``. A key makes the same choices as
    ``Predictor(alpha=[...], seed=fold.seed_of(key))``, and takes the answers that this takes.

    Examples
    --------
    >>> from keyhole.keyed import Answered, Asked, make_fold
    >>> fold = make_fold(alpha=[0.05, 0.2], seed=7)
    >>> state, (shown,) = fold.step("anna", b"", Asked("r1", [0.71, 0.22, 0.07]))
    >>> {alpha: len(one) for alpha, one in shown.region.items()}
    {0.05: 3, 0.2: 2}
    >>> state, (counted,) = fold.step("anna", state, Answered("r1", label=2))
    >>> counted.misses
    {0.05: 0.0, 0.2: 1.0}
    """

    folds: Mapping[float, Fold]  # by alpha, from the smallest to the largest
    has_levels: ClassVar[bool] = True

    @property
    def first(self) -> Fold:
        """The fold of the smallest alpha, which in all but alpha is like the others."""
        return next(iter(self.folds.values()))

    def seed_of(self, key: str) -> int:
        """Return the seed of a key's draws."""
        return self.first.seed_of(key)

    def step(self, key: str, state: bytes, event: Event) -> tuple[bytes, Outputs]:
        """Return the key's next state and the outputs; ``b""`` is the state of a new key."""
        parts = self._split(state)
        if isinstance(event, Answered | Amended) and (fault := _find_fault(event)):
            return state, [Output(Kind.REFUSED, event.id, note=fault)]
        stepped = [
            one.step(key, part, event) for one, part in zip(self.folds.values(), parts, strict=True)
        ]
        outputs = [self._join(each) for each in _match(key, [outputs for _, outputs in stepped])]
        after = [part for part, _ in stepped]
        return _pack(after) if any(after) else b"", outputs

    def run(self, key: str, state: bytes, events: Iterable[Event]) -> tuple[bytes, Outputs]:
        """Return the last state and all outputs, as the steps one by one would."""
        outputs: Outputs = []
        for event in events:
            state, more = self.step(key, state, event)
            outputs += more
        return state, outputs

    def run_many(
        self, states: Mapping[str, bytes], events: Mapping[str, object]
    ) -> tuple[dict[str, bytes], dict[float, OutputColumns]]:
        """Return the last states of the keys with events, and all outputs on each level.

        As ``Fold.run_many``, but one key at a time.
        """
        table = EventColumns(events)
        after: dict[str, bytes] = {}
        reported: list[tuple[int, Output]] = []
        for key, rows in table.group().items():
            state = states.get(key, b"")
            for row, event in zip(rows, table.events(rows), strict=True):
                state, outputs = self.step(key, state, event)
                reported += [(row, one) for one in outputs]
            after[key] = state
        reported.sort(key=itemgetter(0))
        about = [row for row, _ in reported]
        return after, {
            alpha: write_columns(about, [_pick_level(one, alpha) for _, one in reported])
            for alpha in self.folds
        }

    def read(self, state: bytes) -> dict[float, Progress]:
        """Return the progress of a key on each level, of what that level chose by itself."""
        parts = zip(self.folds.items(), self._split(state), strict=True)
        return {alpha: fold.read(part) for (alpha, fold), part in parts}

    def begin(self, state: bytes | Mapping[float, Progress]) -> bytes:
        """Return the state of a new key that begins with what another has learnt, as ``Fold.begin``."""
        learnt = self.read(state) if isinstance(state, bytes) else state
        return _pack([fold.begin(learnt[alpha]) for alpha, fold in self.folds.items()])

    def next_due(self, state: bytes) -> int | None:
        """Return the earliest time at which an open round of the key expires, if any does."""
        return self.first.next_due(self._split(state)[0])

    def _split(self, state: bytes) -> list[bytes]:
        if not state:
            return [b""] * len(self.folds)
        count = len(self.folds)
        try:
            version, levels = _HEAD.unpack_from(state)
            if version != VERSION:
                raise refuse_version(version, VERSION)
            if levels != count:
                raise SnapshotError(
                    f"a key's state is of {levels} levels, not of {count}; go on with those"
                )
            sizes = struct.unpack_from(f"<{count}I", state, _HEAD.size)
        except struct.error as error:
            raise refuse_content(state, error) from None
        parts, at = [], _HEAD.size + 4 * count
        for size in sizes:
            parts.append(state[at : at + size])
            at += size
        if at != len(state):
            raise SnapshotError(f"a key's state has {len(state)} bytes, not {at}; restore a copy")
        return parts

    def _join(self, each: tuple[Output, ...]) -> Output:
        first = each[0]
        if first.region is not None:
            return first._replace(region=nest(self.folds, [one.region for one in each]))
        if first.miss is None:
            return first
        # All levels have one output, so that of any two the one with the lower threshold holds the
        # other: what is shown misses where it and every larger alpha's does.
        own = [1.0 if one.miss is None else one.miss for one in each]
        shown = [min(own[place:]) for place in range(len(own))]
        return first._replace(miss=shown[0], misses=dict(zip(self.folds, shown, strict=True)))


def _pick_level(output: Output, alpha: float) -> Output:
    """Return an output of several levels as one of them would report it."""
    region: Any = output.region
    miss = output.miss if output.misses is None else output.misses[alpha]
    return output._replace(region=None if region is None else region[alpha], miss=miss)


def _pack(parts: list[bytes]) -> bytes:
    sizes = struct.pack(f"<{len(parts)}I", *map(len, parts))
    return _HEAD.pack(VERSION, len(parts)) + sizes + b"".join(parts)


def _match(key: str, columns: list[Outputs]) -> Iterator[tuple[Output, ...]]:
    first, *others = ([(one.kind, one.id) for one in column] for column in columns)
    if any(other != first for other in others):
        raise SnapshotError(f"the levels of key {key!r:.80} are not of the same rounds; restore a copy")
    return zip(*columns, strict=True)


def _find_fault(event: Answered | Amended) -> str:
    """Return why an answer does not tell the outcome of every level, or nothing if it does."""
    if isinstance(event, Amended):
        return f"was and miss are of one level: {TELLS_TOO_LITTLE}"
    if event.answer is not None and event.answer != MISS:
        return _HIT
    if event.judged is not None or event.loss is not None or event.wrong:
        return f"judged, loss and wrong are of one level: {TELLS_TOO_LITTLE}"
    return ""
