"""The stream as it would be if the log so far were all of it."""

import json
import math
from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from keyhole.errors import KeyholeError
from keyhole.feedback import is_miss
from keyhole.learners import Learner
from keyhole.predictor.context import unpack_context
from keyhole.predictor.draws import Draws
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, measure_delay
from keyhole.predictor.setup import Setup
from keyhole.scores import Region
from keyhole.service.store.log.chain import FIRST, make_link
from keyhole.service.store.sql.schema import marks
from keyhole.service.store.streams import alarms, amendments, changes, stream
from keyhole.service.store.streams.alarms import Alarmed
from keyhole.service.store.streams.answers import MARK_EVERY, TOLD, list_told, settle_reply
from keyhole.service.store.streams.stream import Stream


class Difference(Exception):  # noqa: N818
    """The log and its replay part here."""


@dataclass(slots=True)
class _Open:
    """A round that waits, as the table of open rounds holds it."""

    round: Round[Region]
    expires: float

    def list_columns(self, learner: Learner) -> dict[str, Any]:
        """Return what the table should hold of it."""
        memo = learner.pack_memo(self.round.memo)
        return {"expires": self.expires, "then": self.round.then, "memo": memo}


@dataclass
class Player:
    """What the rows up to now come to; until the first one there is no stream."""

    here: Stream | None = None
    version: int = -1
    link: bytes = FIRST
    until: int = 0  # The rows up to this version are counted, not played.
    unplayed: int = 0
    open: dict[int, _Open] = field(default_factory=dict)
    alarmed: list[Alarmed] = field(default_factory=list)
    _misses: bytearray = field(default_factory=bytearray)  # of the answers
    _times: "array[float]" = field(default_factory=lambda: array("d"))  # of the answers
    _draws: Draws | None = None
    _at: float = 0.0  # of the last answer
    _owes_mark: bool = False  # Whether a snapshot is to come next.
    _marks: Any = field(default_factory=lambda: blake2b(digest_size=16))

    @property
    def learner(self) -> Learner:
        """The rule at work."""
        return self.stream.setup.learner

    @property
    def stream(self) -> Stream:
        """The stream, or raise if the log does not say how it was made."""
        if self.here is None:
            raise Difference("the log does not begin with how the stream was made")
        return self.here

    def check_mark(self) -> None:
        """Raise if a snapshot is missing here."""
        if self._owes_mark:
            raise Difference(f"the snapshot after {self.stream.tally.answered} answers is gone")

    def change(self, where: str, row: Any) -> None:
        """Change the stream again."""
        content = json.loads(row.content)
        match row.kind:
            case changes.CREATED if self.here is None:
                self._create(row, content)
            case changes.CARRIED if row.version == self.until + 1:
                self._carry(where, row, content)
            case changes.CHANGED:
                self._amend(row, content)
            case changes.CALIBRATED:
                self._calibrate(where, row, content)
            case changes.ARCHIVED:
                self.stream.archived = row.at
            case _:
                raise Difference(f"{where} cannot be replayed here")
        self.stream.version = row.version

    def _create(self, row: Any, content: dict[str, Any]) -> None:
        setup: Setup[Region] = Setup.load(content["setup"])
        self.until = content.get("until", 0)
        self._draws = Draws(setup.seed)
        self.here = stream.start(
            setup,
            id=row.stream,
            name=content["name"],
            lifetime=content["lifetime"],
            window=content["window"],
            created=row.at,
        )
        self.here.description = content.get("description")

    def _amend(self, row: Any, content: dict[str, Any]) -> None:
        here, misses = self.stream, self._misses
        was_on = bool(here.watch.alarm)
        amendments.apply(
            here, content, read_recent=lambda count: amendments.gather_bits(misses[-count:])
        )
        if was_on and not here.watch.alarm:
            self._follow(row.at)

    def _calibrate(self, where: str, row: Any, content: dict[str, Any]) -> None:
        """Go on from what the learner had become: the history itself is not in the log."""
        here = self.stream
        kept = Progress.unpack(row.progress, setup=self.stream.setup)
        expect(where, "number of rounds before it", here.tally.predicted, 0)
        expect(
            where,
            "history",
            kept.tally.calibrated,
            here.tally.calibrated + content["rounds"],
        )
        here.progress = kept

    def _carry(self, where: str, row: Any, content: dict[str, Any]) -> None:
        """Go on from where another Keyhole stood."""
        here = self.stream
        if content["fault"] is not None:
            raise Difference(content["fault"])
        expect(where, "digest of the snapshots before", content["marks"], self._marks.hexdigest())
        kept = Progress.unpack(row.progress, setup=here.setup)
        expect(where, "sums", kept.tally.sum_up(), here.tally.sum_up())
        here.progress, here.sweep = kept, content["sweep"]
        self.unplayed = here.tally.predicted
        opened, self.open = self.open, {}
        for number, expires, then, memo in content["open"]:
            held = here.setup.learner.unpack_memo(bytes.fromhex(memo))
            waiting = opened[number].round._replace(memo=held, then=then)
            self.open[number] = _Open(waiting, expires)

    def predict(self, where: str, row: Any) -> None:
        """Predict a round again."""
        here = self.stream
        expect(where, "number", row.number, here.tally.predicted)
        case = here.setup.score.unpack(row.output, row.labels)
        if row.version <= self.until:
            opened = Round(case.region(row.number, row.threshold), case, None, here.tally.answered)
            here.tally.predicted += 1
        else:
            draw = self._draws.of(row.number) if self._draws and self.learner.rule.draws else 0.5
            context = unpack_context(here.setup, row.context)
            opened = here.setup.kind.open(here.setup, here.progress, case, draw=draw, context=context)
        expect(where, "threshold", row.threshold, opened.prediction.threshold)
        expect(where, "size", row.size, opened.prediction.size)
        here.version = row.version
        expires = row.at + here.lifetime
        if here.setup.kind.is_awaited(here.setup, opened.prediction):
            self.open[row.number] = _Open(opened, expires)
        here.sweep = min(here.sweep, expires)
        if row.version > self.until:
            self._expire(row.at)

    def _expire(self, now: float) -> None:
        """Drop the rounds that the store dropped when this one was opened."""
        here = self.stream
        if here.sweep <= now:
            for number in [n for n, waiting in self.open.items() if waiting.expires <= now]:
                del self.open[number]
                here.tally.expired += 1
            here.sweep = min((one.expires for one in self.open.values()), default=math.inf)
        while len(self.open) > here.setup.open_limit:
            del self.open[min(self.open)]
            here.tally.expired += 1

    def answer(self, where: str, row: Any) -> None:
        """Answer a round again."""
        here = self.stream
        if row.number not in self.open:
            raise Difference(f"{where} comes before the round, after its time, or a second time")
        waiting = self.open.pop(row.number).round
        if row.version <= self.until:
            self._count(row, waiting)
        else:
            try:
                outcome = settle_reply(here, waiting, json.loads(row.answer))
            except KeyholeError as error:
                raise Difference(f"{where} cannot be used: {error}") from None
            for name, value in zip(TOLD, list_told(outcome, waiting), strict=True):
                expect(where, name, getattr(row, name), value)
            self._owes_mark = outcome is not None and here.tally.answered % MARK_EVERY == 0
        self._at = row.at
        if row.weight:
            self._times.append(row.at)
            self._misses.append(is_miss(row.miss) is True)
            self._follow(row.at)
        here.version = row.version

    def _follow(self, at: float) -> None:
        """Note the alarm that this answer raised or cleared."""
        last, times = self.alarmed[-1] if self.alarmed else None, self._times
        turned = alarms.follow(self.stream.watch, last, at=at, time_of=lambda k: times[k - 1])
        if turned is not None:
            is_over = last is not None and last.raised == turned.raised
            self.alarmed[-1 if is_over else len(self.alarmed) :] = [turned]

    def _count(self, row: Any, waiting: Round[Region]) -> None:
        """Add up an answer that is not played."""
        here = self.stream
        tally = here.tally
        _, stale = measure_delay(row.number, waiting.then, tally.predicted, tally.answered)
        here.progress.tally.count(row.miss, row.size, stale=stale)
        here.note_recent(row.miss)

    def mark(self, where: str, row: Any) -> None:
        """Compare a snapshot."""
        here = self.stream
        self._owes_mark = False
        expect(where, "time", row.at, self._at)
        for name, value in here.tally.sum_up()._asdict().items():
            expect(where, name, getattr(row, name), value)
        if row.version <= self.until:
            self._marks.update(make_link(FIRST, marks, row._mapping))  # noqa: SLF001
            return
        kept = Progress.unpack(row.progress, setup=self.stream.setup)
        state, played = (self.learner.pack(one.state) for one in (kept, here.progress))
        expect(where, "state of the learner", state, played)
        expect(where, "progress", row.progress, here.progress.pack(self.learner))


def expect(where: str, what: str, stored: Any, played: Any) -> None:
    """Raise if the two are not equal."""
    if stored == played:
        return
    if isinstance(stored, bytes) and isinstance(played, bytes):
        place = _first_difference(stored, played)
        raise Difference(f"{where}: the {what} differs from byte {place} on")
    raise Difference(f"{where}: the {what} is {stored!r}, and the replay gives {played!r}")


def _first_difference(stored: bytes, played: bytes) -> int:
    length = min(len(stored), len(played))
    unequal = np.frombuffer(stored[:length], np.uint8) != np.frombuffer(played[:length], np.uint8)
    return int(np.argmax(unequal)) if unequal.any() else length
