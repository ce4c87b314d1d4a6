"""A stream is a fold of its log: play the log again and name the first difference.

Every row is held to its place in the chain and to what the replay makes of it; at the end the stream's
row, its open rounds, its alarms and what finds rounds by their metadata are held to what the log comes
to.

What the learner made of a round that was erased cannot be played again. Until the next snapshot, which
says where the learner was, rows are then held to the chain and to the accounts alone.
"""

import heapq
import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

from keyhole.errors import DatabaseError, KeyholeError, QuarantinedError
from keyhole.feedback import is_miss
from keyhole.learners import Learner, rebuild
from keyhole.predictor.context import unpack_context
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import CountedRound, Tally, amend_misses
from keyhole.service.store.log.chain import FIRST, make_link
from keyhole.service.store.sql import pages, statements
from keyhole.service.store.sql.backend import Statement, Transaction, find_reason
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import (
    SUMS,
    AlarmRow,
    AmendmentRow,
    AnswerRow,
    ChangeRow,
    OpenRow,
    RoundRow,
    SnapshotRow,
    StreamRow,
)
from keyhole.service.store.sql.statements import LoggedRound
from keyhole.service.store.streams import alarms, changes, erasures, shadows, updates
from keyhole.service.store.streams.answers import SNAPSHOT_EVERY, amend_reply, settle_reply
from keyhole.service.store.streams.proposals import draw_next, list_metadata
from keyhole.service.store.streams.stream import (
    Stream,
    find_stream_row,
    make_stream_row,
    read_stream_row,
)

_PAGE = 1000
_NO_NUMBER = 2**62  # of a round
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_Heard = AnswerRow | AmendmentRow
_Event = RoundRow | _Heard | ChangeRow | SnapshotRow


class Difference(Exception):  # noqa: N818
    """The first place where the log and its replay differ."""


@dataclass(frozen=True)
class StreamReplay:
    """How much of the log was played, and the first difference if there is one."""

    stream: str
    rounds: int
    answers: int
    difference: str | None
    link: bytes
    erased: int = 0
    unplayed: int = 0  # rounds whose choice could not be played again, as one before them is erased


def replay(database: Database, name: str) -> StreamReplay:
    """Play the log of a stream from its first row to where it stands."""
    played, difference = Replay(), None
    try:
        with database.read() as transaction:
            row = find_stream_row(transaction, name)
            _play(transaction, row, played)
            _compare_end(transaction, row, played)
    except Difference as found:
        difference = str(found)
    except DatabaseError as error:
        reason = find_reason(error.__cause__ or error)
        difference = f"the database cannot be read after version {played.version}: {reason}"
    tally = Tally() if played.made is None else played.made.tally
    counts = (len(played.erased), played.unplayed)
    return StreamReplay(name, tally.predicted, tally.answered, difference, played.link, *counts)


def find_strays(database: Database) -> list[str]:
    """Return, for every stream whose row is gone while its log is there, what is left of it."""
    left: dict[int, list[str]] = {}
    with database.read() as transaction:
        for table, statement in statements.FIND_STRAYS.items():
            for stream_id in transaction.fetch(statement):
                left.setdefault(stream_id, []).append(table)
    return [
        f"stream {stream_id}: its row is gone, and rows of {', '.join(names)} are left"
        for stream_id, names in sorted(left.items())
    ]


def _play(transaction: Transaction, stored: StreamRow, played: "Replay") -> None:
    played.find = lambda number: transaction.fetch(statements.FIND_ROUNDS, stored.id, [number])[0]
    for row in _list_events(transaction, stored.id):
        where = _NAMES[type(row)].format(row)
        try:
            played.play(where, row)
        except Difference:
            raise
        except _UNREADABLE as error:
            raise Difference(f"{where} cannot be read: {type(error).__name__}: {error}") from None


_NAMES: dict[type[_Event], str] = {
    RoundRow: "round {0.number}",
    AnswerRow: "the answer to round {0.number}",
    AmendmentRow: "the amended answer to round {0.number}",
    SnapshotRow: "the snapshot after {0.answered} answers",
    ChangeRow: "the change {0.kind!r} of version {0.version}",
}


def _list_events(transaction: Transaction, stream_id: int) -> Iterator[_Event]:
    """Yield the rows of the log and its snapshots in the order in which they were written."""
    sources = (
        pages.list_rounds(transaction, statements.PAGE_ROUNDS, stream_id, end=_NO_NUMBER),
        *(_read_pages(transaction, stream_id, page) for page in statements.PAGES),
    )
    # Where versions are equal, merge keeps this order: a snapshot comes after its answer.
    yield from heapq.merge(*sources, key=lambda row: row.version)


def _read_pages(transaction: Transaction, stream_id: int, page: Statement[Any]) -> Iterator[Any]:
    after = -1
    while rows := transaction.fetch(page, stream_id, after, _PAGE):
        yield from rows
        after = rows[-1].version


_UNKNOWN: Any = None  # what a round remembers where the replay cannot know that


@dataclass
class Replay:
    """What the rows up to now come to; until the first one no stream is made."""

    made: Stream | None = None
    version: int = -1
    link: bytes = FIRST
    open: dict[int, LoggedRound] = field(default_factory=dict)
    alarmed: dict[tuple[int, int], AlarmRow] = field(default_factory=dict)
    metadata: int = 0  # a sum of hashes, as ``add_metadata`` makes it
    find: Callable[[int], LoggedRound] = field(init=False)  # a round of the log, by its number
    amended: dict[int, AmendmentRow] = field(default_factory=dict)  # the last of each round
    _places: dict[int, int] = field(default_factory=dict)  # of rounds among the misses
    _misses: bytearray = field(default_factory=bytearray)  # of the answers
    _times: "array[float]" = field(default_factory=lambda: array("d"))  # of the answers
    _at: float = 0.0  # of the last answer
    _needs_snapshot: bool = False  # Whether a snapshot is to come next.
    erased: set[int] = field(default_factory=set)
    unplayed: int = 0
    is_known: bool = True  # Whether the replay knows the learner's state.

    @property
    def stream(self) -> Stream:
        """The stream, or raise if the log does not say how it was made."""
        if self.made is None:
            raise Difference("the log does not begin with how the stream was made")
        return self.made

    @property
    def learner(self) -> Learner:
        return self.stream.setup.learner

    def play(self, where: str, row: _Event) -> None:
        """Do again what a row says, and compare what it comes to with the row."""
        if isinstance(row, SnapshotRow):
            expect(where, "version", row.version, self.version)
            self._compare_snapshot(where, row)
            return
        self.check_snapshot()
        expect("the log", f"version of {where}", row.version, self.version + 1)
        self.version = row.version
        match row:
            case RoundRow():
                self._predict(where, row)
            case AnswerRow():
                self._answer(where, row)
            case AmendmentRow():
                self._amend(where, row)
            case ChangeRow():
                self._change(where, row)
        self.stream.version = row.version
        if make_link(self.link, row) != row.link:
            raise Difference(f"{where} is not what was written, or a row before it is gone")
        self.link = row.link

    def check_snapshot(self) -> None:
        if self._needs_snapshot:
            raise Difference(f"the snapshot after {self.stream.tally.answered} answers is gone")

    def _change(self, where: str, row: ChangeRow) -> None:
        content = json.loads(row.content)
        match row.kind:
            case changes.CREATED if self.made is None:
                self._create(row, content)
            case changes.CHANGED:
                self._update(row, content)
            case changes.CALIBRATED:
                self._calibrate(where, row, content)
            case changes.SHADOWED | changes.UNSHADOWED | changes.PROMOTED:
                self._change_shadows(row, content)
            case changes.ARCHIVED:
                self.stream.archived = row.at
            case changes.ERASED:
                pass  # The rows it is about are without what they held; see the end.
            case _:
                raise Difference(f"{where} cannot be replayed")

    def _create(self, row: ChangeRow, content: dict[str, Any]) -> None:
        setup: Setup = Setup.load(content.pop("setup"))
        self.made = Stream(id=row.stream, created=row.at, setup=setup, **content)

    def _update(self, row: ChangeRow, content: dict[str, Any]) -> None:
        updates.apply(self.stream, content)
        self._read_recent()
        self._follow_alarms(row.at)

    def _change_shadows(self, row: ChangeRow, content: dict[str, Any]) -> None:
        stream, name = self.stream, content["name"]
        if row.kind == changes.PROMOTED:
            self._promote(row, name)
        elif row.kind == changes.UNSHADOWED:
            stream.shadows.remove(shadows.find_shadow(stream.shadows, name))
        else:
            learner = rebuild(content["learner"], content["parameters"])
            is_level = content.get("is_level", False)
            told = {"name": name, "since": row.version, "at": row.at, "is_level": is_level}
            stream.shadows.append(shadows.start_shadow(stream.setup, learner, **told))

    def _promote(self, row: ChangeRow, name: str) -> None:
        stream = self.stream
        updates.apply_promotion(stream, name)
        for number, (kept, opened, _) in self.open.items():
            memo = _UNKNOWN if self.learner.memory or opened.memo is _UNKNOWN else b""
            if self.is_known and opened.memo is not _UNKNOWN:
                memo = updates.choose_again(stream, kept, opened)
            self.open[number] = LoggedRound(kept, opened._replace(memo=memo), None)
        self._follow_alarms(row.at)

    def _calibrate(self, where: str, row: ChangeRow, content: dict[str, Any]) -> None:
        """Go on from what the learner had become: the history itself is not in the log."""
        stream = self.stream
        kept = Progress.unpack(row.progress or b"", setup=stream.setup)
        expect(where, "number of rounds before it", stream.tally.predicted, 0)
        known = stream.tally.calibrated + content["rounds"]
        expect(where, "history", kept.tally.calibrated, known)
        stream.progress = kept
        if stream.shadows:
            stream.shadows = shadows.load_shadows(json.dumps(content["shadows"]), stream.setup)

    def _predict(self, where: str, row: RoundRow) -> None:
        stream = self.stream
        expect(where, "number", row.number, stream.tally.predicted)
        if row.digest is not None:
            self.erased.add(row.number)
            self.is_known = False
        then, (memo, beside) = stream.tally.answered, self._open(where, row)
        for found in list_metadata(row):
            self.metadata = add_metadata(self.metadata, found.name, found.value, row.number)
        expires = row.at + stream.lifetime
        # Of an erased decision too the size tells whether it was accepted.
        if stream.setup.kind.is_awaited(stream.setup, SimpleNamespace(accepted=row.size > 0.0)):
            opened = OpenRow(row.stream, row.number, expires, then, memo, beside)
            self.open[row.number] = LoggedRound(row, opened, None)
        stream.next_expiry = min(stream.next_expiry, expires)
        self._expire(row.at)

    def _open(self, where: str, row: RoundRow) -> tuple[bytes, str | None]:
        """Return what the learner had to remember of a round, and what its shadows had to."""
        stream = self.stream
        if self.is_known:
            setup, case = stream.setup, stream.setup.score.unpack(row.output, row.labels)
            (draw,), context = draw_next(stream, 1), unpack_context(setup, row.context)
            opened = setup.kind.open(setup.learner, stream.progress, case, draw=draw, context=context)
            beside, levels = None, None
            if stream.shadows:
                beside, levels = shadows.open_beside(stream, opened, draw=draw, context=context)
            expect(where, "threshold", row.threshold, opened.prediction.threshold)
            expect(where, "size", row.size, opened.prediction.size)
            expect(where, "thresholds of the levels", row.levels, levels)
            return setup.learner.layout.pack_memo(opened.memo), beside
        self.unplayed += 1
        tally: Any = stream.tally
        for one in (tally, *(level.progress.tally for level in stream.levels)):
            one.predicted += 1
        if stream.setup.kind.decides:
            tally.accepted += row.size > 0.0  # A size of 1 is an acceptance.
        is_lost = row.digest is not None or self.learner.memory or stream.shadows
        return _UNKNOWN if is_lost else b"", None  # What it had to remember was in a state.

    def _expire(self, now: float) -> None:
        """Drop the rounds that the store dropped when this one was opened."""
        stream = self.stream
        if stream.next_expiry <= now:
            for number in [n for n, (_, one, _) in self.open.items() if one.expires <= now]:
                del self.open[number]
                stream.tally.expired += 1
            left = [one.expires for _, one, _ in self.open.values()]
            stream.next_expiry = min(left, default=math.inf)
        while len(self.open) > stream.setup.open_limit:
            del self.open[min(self.open)]
            stream.tally.expired += 1

    def _answer(self, where: str, row: AnswerRow) -> None:
        stream = self.stream
        if row.number not in self.open:
            raise Difference(f"{where} comes before the round, after its time, or a second time")
        kept, opened, _ = self.open.pop(row.number)
        if row.digest is not None or opened.memo is _UNKNOWN:
            self.is_known = False
        if self.is_known:
            self._hear(where, row, partial(settle_reply, self.stream, kept, opened))
        else:
            self._count(row, kept, opened)
        is_counted = row.miss is not None
        self._needs_snapshot = is_counted and stream.tally.answered % SNAPSHOT_EVERY == 0
        self._at = row.at
        if row.weight:
            self._times.append(row.at)
            self._places[row.number] = len(self._misses)
            self._misses.append(is_miss(row.miss) is True)
            if not self.is_known:
                self._read_recent()
            self._follow_alarms(row.at)

    def _hear(self, where: str, row: _Heard, hear: Callable[..., _Heard]) -> None:
        try:
            made = hear(json.loads(row.answer), now=row.at)
        except KeyholeError as error:
            raise Difference(f"{where} cannot be used: {error}") from None
        told = ("kind", "miss", "weight", "score", "size")
        expect_all(where, [name for name in told if name in row._fields], row, made)
        expect(where, "outcome on the levels", row.levels, made.levels)

    def _count(self, row: AnswerRow, kept: RoundRow, opened: OpenRow) -> None:
        stream = self.stream
        if row.miss is None:
            stream.tally.skipped += 1
            return
        counted = CountedRound(row.number, kept.size, row.miss, row.weight)
        progress = stream.progress
        stream.setup.kind.count(stream.setup, progress, counted, then=opened.then)
        for one, (miss, size) in zip(stream.levels, shadows.list_outcomes(row), strict=True):
            known = counted._replace(miss=miss, size=size)
            one.setup.kind.count(one.setup, one.progress, known, then=opened.then)

    def _amend(self, where: str, row: AmendmentRow) -> None:
        stream, logged = self.stream, self.find(row.number)
        last = self.amended.get(row.number) or logged.answer
        if last is None or last.version >= row.version:
            raise Difference(f"{where} comes before the answer")
        if row.digest is not None:
            self.is_known = False
        if self.is_known:
            self._hear(where, row, partial(amend_reply, stream, logged.round, last))
        else:
            amend_misses(stream.tally, row.weight * (row.miss - (last.miss or 0.0)), ())
        self.amended[row.number] = row
        if row.weight:
            self._misses[self._places[row.number]] = is_miss(row.miss) is True
            self._read_recent()

    def _read_recent(self) -> None:
        self.stream.recent = updates.gather_bits(self._misses[-self.stream.window :])

    def _follow_alarms(self, at: float) -> None:
        stream, times = self.stream, self._times
        for level, watch in enumerate(one.watch for one in shadows.list_levels(stream)):
            last = next((one for one in reversed(self.alarmed.values()) if one.level == level), None)
            found = alarms.follow(
                watch, last, stream=stream.id, at=at, time_of=lambda k: times[k - 1], level=level
            )
            if found is not None:
                self.alarmed[found.raised, level] = found

    def _compare_snapshot(self, where: str, row: SnapshotRow) -> None:
        stream = self.stream
        self._needs_snapshot = False
        expect(where, "time", row.at, self._at)
        expect_all(where, SUMS, row, stream.tally.sum_up())
        kept = Progress.unpack(row.progress, setup=stream.setup)
        if not self.is_known:
            stream.progress, self.is_known = kept, True
            stream.shadows = shadows.load_shadows(row.shadows, stream.setup)
        state, played = (self.learner.pack(one.state) for one in (kept, stream.progress))
        expect(where, "state of the learner", state, played)
        expect(where, "progress", row.progress, stream.progress.pack(self.learner))
        expect(where, "shadows", row.shadows, shadows.dump_shadows(stream.shadows))


def add_metadata(total: int, name: str, value: str, number: int) -> int:
    """Return a sum that is the same in whatever order all is added."""
    content = json.dumps([name, value, number]).encode()
    return (total + int.from_bytes(blake2b(content, digest_size=16).digest(), "big")) % 2**128


def _compare_end(transaction: Transaction, stored: StreamRow, played: Replay) -> None:
    played.check_snapshot()
    where, stream = "the stream's row", played.stream
    stream.link = played.link
    try:
        kept = read_stream_row(stored)
    except QuarantinedError as error:
        raise Difference(str(error)) from None
    expect(where, "version", stored.version, played.version)
    expect_all(where, SUMS, kept.tally.sum_up(), stream.tally.sum_up())
    counts = ["expired", "skipped", "unreachable"] if played.is_known else ["expired", "skipped"]
    expect_all(where, counts, kept.tally, stream.tally)
    told = erasures.list_erased(transaction, stored.id)
    expect("the log", "rounds that are erased", sorted(told), sorted(played.erased))
    if not played.is_known:
        stream.progress, stream.shadows = kept.progress, kept.shadows
    pack = stream.setup.learner.pack
    expect(where, "state of the learner", pack(kept.progress.state), pack(stream.progress.state))
    expect_all(where, StreamRow._fields, stored, make_stream_row(stream))
    _compare_open(transaction, stored.id, played)
    listed = alarms.list_alarms(transaction, stored.id, most=len(played.alarmed) + 1)
    expect("the stream", "list of alarms", listed, [*played.alarmed.values()])
    total = 0
    for found in transaction.fetch(statements.LIST_METADATA, stored.id):
        total = add_metadata(total, *found)
    expect("the stream", "sum of what finds its rounds by metadata", total, played.metadata)


def _compare_open(transaction: Transaction, stream_id: int, played: Replay) -> None:
    stored = {row.number: row for row in transaction.fetch(statements.LIST_OPEN, stream_id)}
    for number in sorted(stored.keys() ^ played.open.keys()):
        wrong = "is gone" if number in played.open else "is there, and should be closed"
        raise Difference(f"round {number}: what it must remember until its answer {wrong}")
    for number, (_, opened, _) in played.open.items():
        row, where = stored[number], f"open round {number}"
        expect_all(where, ["expires", "then"], row, opened)
        if opened.memo is not _UNKNOWN:
            expect(where, "memo", row.memo, opened.memo)
            expect(where, "memory of the shadows", row.shadows, opened.shadows)


def expect_all(where: str, names: Iterable[str], stored: object, played: object) -> None:
    for name in names:
        expect(where, name, getattr(stored, name), getattr(played, name))


def expect(where: str, what: str, stored: object, played: object) -> None:
    if stored == played:
        return
    if isinstance(stored, bytes) and isinstance(played, bytes):
        pairs = enumerate(zip_longest(stored, played))
        place = next(place for place, (one, other) in pairs if one != other)
        raise Difference(f"{where}: the {what} differs from byte {place} on")
    raise Difference(f"{where}: the {what} is {stored!r}, and the replay gives {played!r}")
