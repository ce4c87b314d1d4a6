"""What happened: a thinned curve, the last rounds, and the whole log row by row."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import KeyholeError, UnknownRoundError, UnknownStreamError
from keyhole.numeric import Array
from keyhole.predictor.context import Known, show_context, unpack_context
from keyhole.scores import Case, Predicted, Region
from keyhole.scores.regions import Contents
from keyhole.service.store.log.chain import make_id
from keyhole.service.store.sql import pages, statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import SUMS, AlarmRow, AmendmentRow, AnswerRow, RoundRow
from keyhole.service.store.sql.statements import LoggedRound
from keyhole.service.store.streams import alarms, changes, registry
from keyhole.service.store.streams.answers import SNAPSHOT_EVERY
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.proposals import list_filters
from keyhole.service.store.streams.shadows import load_shadows, show_misses, show_regions, unpack_reals
from keyhole.service.store.streams.stream import Stream, find_stream, make_round_error
from keyhole.service.store.streams.updates import list_misses
from keyhole.service.wire.responses import RecentRounds

_RAW_UP_TO = 2000
_MOST_READ = 20_000  # rounds
_MOST_ALARMS = 100
_LAST = 200  # answered rounds
RECENT = 500  # answered rounds
_BYTES = 8  # of a score


class LevelCurve(NamedTuple):
    """Sums of one level up to some answers, and which of the newest rounds missed."""

    misses: list[float]
    weights: list[float]
    sizes: list[float]
    bounded: list[float]
    last: list[bool]


@dataclass(frozen=True)
class StreamCurve:
    """How many answers had come and when, what was opened by then, and the curve of each level."""

    answered: list[int]
    predicted: list[float]
    accepted: list[float]
    at: list[float]
    alarms: list[AlarmRow]
    changes: list[Change]
    recent: RecentRounds
    levels: list[LevelCurve]  # the outermost first


@dataclass(frozen=True)
class LogEntry:
    """A round of the log, its answer and what that was amended to, and what their columns hold.

    ``answer`` is the first one; ``final`` the row that counts. What is erased is None.
    """

    row: RoundRow
    answered: AnswerRow | None
    amended: AmendmentRow | None
    id: str
    alphas: tuple[float, ...]  # of several levels
    case: Case[Predicted] | None = None
    regions: tuple[Region, ...] = ()  # on each level, the smallest alpha first
    known: Known = field(default_factory=Known)
    answer: Any = None
    metadata: dict[str, Any] | None = None

    @property
    def is_erased(self) -> bool:
        return self.row.digest is not None

    @property
    def shown(self) -> tuple[float, float]:
        """Threshold and size of what was shown, outermost; of what is erased, of its own choice."""
        found = self.row if self.region is None else self.region
        return found.threshold, found.size

    @property
    def region(self) -> Region | None:
        return self.regions[0] if self.regions else None

    @property
    def contents(self) -> Contents:
        return Contents() if self.region is None else self.region.contents

    @cached_property
    def candidates(self) -> tuple[Sequence[Any] | None, Sequence[float] | None]:
        """All labels that could have been in the set, where they have names, and their scores."""
        found: Any = getattr(self.case, "candidates", (None, None))
        return found

    @property
    def misses(self) -> list[float | None]:
        """What each level came to in the end, as it was shown; of an open round, None."""
        if self.final is None or self.final.miss is None:
            return [None] * max(1, len(self.alphas))
        return [*show_misses(self.final)]

    @property
    def final(self) -> AnswerRow | AmendmentRow | None:
        return self.amended or self.answered


def curve(database: Database, name: str, *, points: int) -> tuple[Stream, StreamCurve]:
    """Return where a stream stands and how it got there, in at most so many points."""
    with database.read() as transaction:
        stream = registry.find_with_alarm(transaction, name)
        few = stream.tally.answered <= _RAW_UP_TO and stream.tally.predicted <= _MOST_READ
        rows, inner = (_add_up if few else _read_snapshots)(transaction, stream, points)
        alarmed = alarms.list_alarms(transaction, stream.id, most=_MOST_ALARMS)
        changed = changes.list_changes(transaction, stream, most=_MOST_ALARMS)
        recent = _read_recent(transaction, stream)
        newest = list_misses(transaction, stream.id, most=_LAST)
        levels = _add_last(transaction, stream, inner)
    columns: Any = zip(*rows, strict=True) if rows else [()] * (len(SUMS) + 1)
    answered, misses, weights, sizes, bounded, predicted, accepted, at = map(list, columns)
    curves = [LevelCurve(misses, weights, sizes, bounded, newest), *levels]
    made = (answered, predicted, accepted, at, alarmed, changed, recent, curves)
    return stream, StreamCurve(*made)


def last(
    database: Database,
    name: str,
    *,
    count: int,
    before: int | None = None,
    metadata: Mapping[str, object] | None = None,
) -> tuple[list[LogEntry], int | None]:
    """Return the newest rounds, the newest first, and before which there may be more; or None.

    ``before`` leaves out that round and all after it; ``metadata`` those that were given another. Of
    long rounds there are fewer than were asked for, so that they fit a page.
    """
    with database.read() as transaction:
        stream = find_stream(transaction, name)
        end = stream.tally.predicted if before is None else min(before, stream.tally.predicted)
        query = statements.measure_last(len(metadata or ()))
        filters = list_filters(stream.id, metadata)
        measured = transaction.fetch(query, stream.id, end, *filters, count)
        numbers = pages.fit(measured)
        rows = transaction.fetch(statements.FIND_ROUNDS, stream.id, numbers) if numbers else []
        amended = _find_amended(transaction, stream, rows)
    rows.sort(key=lambda row: -row.round.number)
    has_more = len(numbers) < len(measured) or len(measured) == count
    following = numbers[-1] if numbers and has_more else 0
    return [_entry(stream, row, amended) for row in rows], following or None


def find_round(database: Database, name: str, key: str) -> str:
    with database.read() as transaction:
        stream = find_stream(transaction, name)
        # A key is printable, and PostgreSQL cannot even be asked for all that is not.
        keys = [key] if key.isprintable() else []
        rows = transaction.fetch(statements.FIND_KEYS, stream.id, keys)
    if not rows:
        raise UnknownRoundError(f"no prediction of stream {name!r} has the key {key[:80]!r}")
    return make_id(rows[0])


def log(database: Database, name: str) -> Iterator[LogEntry]:
    """Yield every round up to now, in order, a page at a time."""
    with database.read() as transaction:
        stream = find_stream(transaction, name)
    after, end = -1, stream.tally.predicted
    while after < end - 1:
        with database.read() as transaction:
            page = pages.find_end(transaction, stream.id, after=after, end=end)
            rows = transaction.fetch(statements.PAGE_LOG, stream.id, after, page)
            amended = _find_amended(transaction, stream, rows)
        if not rows:
            raise UnknownStreamError(f"stream {name!r} was deleted while its log was read")
        for row in rows:
            yield _entry(stream, row, amended)
        after = rows[-1].round.number


def _find_amended(
    transaction: Transaction, stream: Stream, rows: list[LoggedRound]
) -> dict[int, AmendmentRow]:
    numbers = [row.round.number for row in rows if row.answer is not None]
    found = transaction.fetch(statements.FIND_AMENDMENTS, stream.id, numbers) if numbers else []
    return {row.number: row for row in found}


def _entry(stream: Stream, logged: LoggedRound, amended: Mapping[int, AmendmentRow]) -> LogEntry:
    row, _, answered = logged
    found = (row, answered, amended.get(row.number))
    try:
        id_, alphas = make_id(row), stream.alphas
        if row.digest is not None:
            return LogEntry(*found, id_, alphas)
        case = stream.setup.score.unpack(row.output, row.labels)
        return LogEntry(
            *found,
            id_,
            alphas,
            case=case,
            regions=show_regions(case, row),
            known=show_context(stream.setup, unpack_context(stream.setup, row.context)),
            answer=None if answered is None else json.loads(answered.answer),
            metadata=None if row.metadata is None else json.loads(row.metadata),
        )
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise make_round_error(stream.name, row.number, error) from None


_Sums = tuple[float, ...]  # after so many answers
_Inner = Sequence[Array]  # of each inner level: misses, weights, sizes, bounded, by answers


def _add_up(transaction: Transaction, stream: Stream, points: int) -> tuple[list[_Sums], _Inner]:
    """Return the sums after answers, by adding up all of them."""
    rows = transaction.fetch(statements.LIST_ANSWERS, stream.id)
    times, versions, *numbers, levels = zip(*rows, strict=True) if rows else [()] * 6
    misses, weights, sizes = np.array(numbers, dtype=float).reshape(3, -1)
    predicted = accepted = np.zeros(len(rows))
    if stream.setup.kind.decides:  # They have no sizes, as if none were bounded.
        sizes = np.full(len(rows), np.inf)
        accepted, predicted = _count_decisions(transaction, stream, versions)
    outer = _add_up_level(misses, weights, sizes)
    added = np.column_stack((outer, predicted, accepted)).tolist()
    kept = _spread(len(rows), points)
    own = np.array([unpack_reals(level) for level in levels], dtype=float)
    inner = [
        _add_up_level(missed, weights, size)[kept]
        for missed, size in own.reshape(len(rows), len(stream.levels), 2).transpose(1, 2, 0)
    ]
    return [(k + 1, *added[k], times[k]) for k in kept], inner


def _add_up_level(misses: Array, weights: Array, sizes: Array) -> Array:
    """Return the sums of misses, weights and bounded sizes, and how many are bounded, by answers."""
    bounded = np.isfinite(sizes)
    columns = (misses * weights, weights, np.where(bounded, sizes, 0.0), bounded)
    return np.column_stack(columns).cumsum(axis=0)


def _add_last(transaction: Transaction, stream: Stream, inner: _Inner) -> list[LevelCurve]:
    """Return the curves of the inner levels, with the newest rounds of each, the oldest first."""
    if not inner:
        return []
    newest = transaction.fetch(statements.LIST_LEVELS, stream.id, _LAST)[::-1]
    own = np.array([unpack_reals(content) for content in newest], dtype=float)
    missed = own.reshape(len(newest), len(inner), 2)[:, :, 0] >= 0.5
    return [
        LevelCurve(*[*sums.T.tolist(), missed[:, place].tolist()]) for place, sums in enumerate(inner)
    ]


def _count_decisions(
    transaction: Transaction, stream: Stream, versions: Sequence[int]
) -> tuple[Array, Array]:
    """Return how many cases had been accepted, and decided, before each of these versions."""
    made = transaction.fetch(statements.LIST_SIZES, stream.id)
    predicted = np.searchsorted([version for version, _ in made], versions)
    accepted = np.cumsum([0.0, *(size for _, size in made)])  # A size of 1 is an acceptance.
    return accepted[predicted], predicted.astype(float)


def _read_snapshots(
    transaction: Transaction, stream: Stream, points: int
) -> tuple[list[_Sums], _Inner]:
    """Return the sums after answers, from snapshots and what the stream comes to now."""
    # There is a snapshot at every so many answers: those of the curve are found by their number.
    tally = stream.tally
    count = tally.answered // SNAPSHOT_EVERY
    counts = [(k + 1) * SNAPSHOT_EVERY for k in _spread(count, points - 1)]
    rows = transaction.fetch(statements.FIND_SNAPSHOTS, stream.id, counts)
    sums = [(*(getattr(row, name) for name in SUMS), row.at) for row in rows]
    if not sums or sums[-1][0] < tally.answered:  # The first of the sums is how many were answered.
        (at,) = transaction.fetch(statements.FIND_LAST_TIME, stream.id)
        sums.append((*tally.sum_up(), at))
    if not stream.levels:
        return sums, ()
    own = [*(load_shadows(row.shadows, stream.setup) for row in rows), stream.shadows][: len(sums)]
    table = np.array([[one.progress.tally.sum_up()[1:5] for one in levels] for levels in own])
    return sums, list(table.swapaxes(0, 1))


def _read_recent(transaction: Transaction, stream: Stream) -> RecentRounds:
    """Return shares and medians; NaN where there are none, endless where half have no end."""
    rows = transaction.fetch(statements.LIST_RECENT, stream.id, RECENT)
    kind = stream.setup.kind
    sizes = np.array([row.size for row in rows], dtype=float)
    candidates = np.array([(row.output_bytes or np.inf) / _BYTES for row in rows], dtype=float)
    seconds = np.array([row.answered - row.asked for row in rows], dtype=float)
    return RecentRounds(
        rounds=len(rows),
        median_size=np.nan if kind.decides else _quantile(sizes, 0.5),
        empty=np.nan if kind.decides else _share(sizes <= 0.0),
        full=_share(sizes >= candidates) if kind.name == "labels" else np.nan,
        unbounded=np.nan if kind.decides else _share(np.isinf(sizes)),
        median_seconds=_quantile(seconds, 0.5),
        late_seconds=_quantile(seconds, 0.9),
        late_rounds=stream.tally.stale,
        largest_batch=max(Counter(row.answered for row in rows).values(), default=0),
    )


def _spread(count: int, points: int) -> list[int]:
    """Return at most so many numbers below a count, evenly apart, the first and the last included."""
    return sorted(set(np.linspace(0, count - 1, points).round().astype(int).tolist())) if count else []


def _share(hold: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> float:
    return float(hold.mean()) if len(hold) else np.nan


def _quantile(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", share: float) -> float:
    # One that was measured, not a mean of two: between a bounded and an unbounded one there is none.
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else np.nan
