"""What happened: a thinned curve, the last rounds, and the whole log row by row."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from keyhole.errors import KeyholeError, UnknownRoundError, UnknownStreamError
from keyhole.numeric import Array
from keyhole.predictor.context import Known, show_context, unpack_context
from keyhole.scores import Case, Region
from keyhole.service.store.log import recent
from keyhole.service.store.log.recent import Lately
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import SUMS, feedback, marks, rounds
from keyhole.service.store.streams import alarms, changes, registry, stream
from keyhole.service.store.streams.alarms import Alarmed
from keyhole.service.store.streams.answers import MARK_EVERY
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.proposals import pack_metadata
from keyhole.service.store.streams.stream import Stream

_RAW_UP_TO = 2000
_MOST_READ = 20_000  # rounds
_MOST_ALARMS = 100
_LAST = 200  # answered rounds
_PAGE = 500
_MOST_SOUGHT = 50_000  # rounds looked through at once


@dataclass(frozen=True)
class StreamCurve:
    """Sums up to some answers, as a mark holds them, and when the answers came."""

    answered: list[int]
    misses: list[float]
    weights: list[float]
    sizes: list[float]
    bounded: list[float]
    predicted: list[float]
    accepted: list[float]
    at: list[float]
    alarms: list[Alarmed]
    changes: list[Change]
    lately: Lately
    has_other_targets: bool
    last: list[bool]


@dataclass(frozen=True)
class LogEntry:
    """One round of the log; what its answer told is None where there is none."""

    number: int
    id: str
    key: str | None
    at: float
    case: Case[Region]
    threshold: float
    size: float
    region: Region
    known: Known
    answer: Any
    answered_at: float | None
    miss: float | None
    weight: float | None
    score: float | None
    metadata: dict[str, Any] | None


def curve(database: Database, name: str, *, points: int) -> tuple[Stream, StreamCurve]:
    """Return where a stream stands and how it got there, in at most so many points."""
    with database.read() as connection:
        here = registry.look(connection, name)
        few = here.tally.answered <= _RAW_UP_TO and here.tally.predicted <= _MOST_READ
        read = _raw if few else _marked
        rows = read(connection, here, points)
        alarmed = alarms.list_alarms(connection, here.id, most=_MOST_ALARMS)
        changed = changes.list_changes(connection, here, most=_MOST_ALARMS)
        late = recent.look_back(connection, here)
        retargeted = changes.has_other_targets(connection, here)
        newest = recent.list_misses(connection, here.id, most=_LAST)
    columns: Any = zip(*rows, strict=True) if rows else [()] * (len(SUMS) + 1)
    parts: Any = [*map(list, columns), alarmed, changed, late, retargeted, newest]
    return here, StreamCurve(*parts)


def last(
    database: Database,
    name: str,
    *,
    count: int,
    before: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> tuple[list[LogEntry], int | None]:
    """Return the newest rounds, the newest first, and before which there are more; or None.

    ``before`` leaves out that round and all after it; ``metadata`` those that were given another.
    Where few are found among very many, fewer than asked for may come, and more before them.
    """
    with database.read() as connection:
        here = stream.find(connection, name)
        end = here.tally.predicted if before is None else min(before, here.tally.predicted)
        least = 0 if metadata is None else max(0, end - _MOST_SOUGHT)
        query = _LOG.where(
            rounds.c.stream == here.id,
            rounds.c.number < end,
            rounds.c.number >= least,
            *(rounds.c.metadata.contains(part, autoescape=True) for part in _list_parts(metadata)),
        )
        rows = connection.execute(query.order_by(rounds.c.number.desc()).limit(count)).all()
    first = rows[-1].number if len(rows) == count else least
    # The text may hold such a part elsewhere too.
    found = [_entry(here, row) for row in rows]
    fitting = [one for one in found if _is_of(one.metadata, metadata)]
    return fitting, first or None


def _list_parts(metadata: Mapping[str, Any] | None) -> list[str]:
    return [pack_metadata({name: value})[1:-1] for name, value in (metadata or {}).items()]


def _is_of(found: Mapping[str, Any] | None, wanted: Mapping[str, Any] | None) -> bool:
    return all((found or {}).get(name, _NOTHING) == value for name, value in (wanted or {}).items())


_NOTHING = object()


def find_round(database: Database, name: str, key: str) -> str:
    """Return the id of the round that was asked for with this key, or raise."""
    with database.read() as connection:
        here = stream.find(connection, name)
        mine = (rounds.c.stream == here.id, rounds.c.key == key)
        # A key is printable, and PostgreSQL cannot even be asked for all that is not.
        query = sql.select(rounds.c.number).where(*mine)
        number = connection.execute(query).scalar_one_or_none() if key.isprintable() else None
    if number is None:
        raise UnknownRoundError(f"no prediction of stream {name!r} has the key {key[:80]!r}")
    return here.prediction_id(number)


def log(database: Database, name: str) -> Iterator[LogEntry]:
    """Yield every round up to now, in order, a page at a time."""
    here, after = _found(database, name), -1
    end = here.tally.predicted
    while after < end - 1:
        with database.read() as connection:
            rows = connection.execute(
                _LOG.where(rounds.c.stream == here.id, rounds.c.number > after, rounds.c.number < end)
                .order_by(rounds.c.number)
                .limit(_PAGE)
            ).all()
        if not rows:
            raise UnknownStreamError(f"stream {name!r} was deleted while its log was read")
        yield from (_entry(here, row) for row in rows)
        after = rows[-1].number


def _found(database: Database, name: str) -> Stream:
    with database.read() as connection:
        return stream.find(connection, name)


_LOG = sql.select(
    rounds,
    feedback.c.answer,
    feedback.c.at.label("answered_at"),
    feedback.c.miss,
    feedback.c.weight,
    feedback.c.score,
).select_from(
    rounds.outerjoin(
        feedback,
        sql.and_(feedback.c.stream == rounds.c.stream, feedback.c.number == rounds.c.number),
    )
)


def _entry(here: Stream, row: Any) -> LogEntry:
    try:
        return _read_entry(here, row)
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise stream.quarantine(here.name, f"its round {row.number} cannot be read: {error}") from None


def _read_entry(here: Stream, row: Any) -> LogEntry:
    case = here.setup.score.unpack(row.output, row.labels)
    return LogEntry(
        number=row.number,
        id=here.prediction_id(row.number),
        key=row.key,
        at=row.at,
        case=case,
        threshold=row.threshold,
        size=row.size,
        region=case.region(row.number, row.threshold),
        known=show_context(here.setup, unpack_context(here.setup, row.context)),
        answer=None if row.answer is None else json.loads(row.answer),
        answered_at=row.answered_at,
        miss=row.miss,
        weight=row.weight,
        score=row.score,
        metadata=None if row.metadata is None else json.loads(row.metadata),
    )


def _raw(connection: sql.Connection, here: Stream, points: int) -> list[tuple[Any, ...]]:
    rows = connection.execute(
        sql.select(feedback.c.at, feedback.c.version, *(feedback.c[name] for name in _TOLD))
        .where(feedback.c.stream == here.id, feedback.c.miss.is_not(None))
        .order_by(feedback.c.version)
    ).all()
    told = np.array([tuple(row)[2:] for row in rows]).reshape(len(rows), len(_TOLD))
    bounded = np.isfinite(told[:, 2])
    sizes = np.cumsum(np.where(bounded, told[:, 2], 0.0))
    predicted = accepted = np.zeros(len(rows))
    if here.setup.kind.decides:
        sizes, bounded = np.zeros(len(rows)), np.zeros(len(rows))
        accepted, predicted = _count_decisions(connection, here, [row.version for row in rows])
    sums = np.column_stack(
        (
            np.cumsum(told[:, 0] * told[:, 1]),
            np.cumsum(told[:, 1]),
            sizes,
            np.cumsum(bounded),
            predicted,
            accepted,
        )
    ).tolist()
    return [(k + 1, *sums[k], rows[k].at) for k in _spread(len(rows), points)]


_TOLD = ("miss", "weight", "size")


def _count_decisions(
    connection: sql.Connection, here: Stream, versions: list[int]
) -> tuple[Array, Array]:
    """Return how many cases had been accepted, and decided, before each of these versions."""
    made = connection.execute(
        sql.select(rounds.c.version, rounds.c.size)
        .where(rounds.c.stream == here.id)
        .order_by(rounds.c.number)
    ).all()
    predicted = np.searchsorted([row.version for row in made], versions)
    accepted = np.cumsum([0.0, *(row.size for row in made)])
    return accepted[predicted], predicted.astype(float)


def _marked(connection: sql.Connection, here: Stream, points: int) -> list[tuple[Any, ...]]:
    # There is a mark at every so many answers: those that are wanted are found by their number.
    tally = here.tally
    wanted = [(k + 1) * MARK_EVERY for k in _spread(tally.answered // MARK_EVERY, points - 1)]
    rows = connection.execute(
        sql.select(*(marks.c[name] for name in SUMS), marks.c.at)
        .where(marks.c.stream == here.id, marks.c.answered.in_(wanted))
        .order_by(marks.c.answered)
    ).all()
    sums = [tuple(row) for row in rows]
    if not sums or sums[-1][0] < tally.answered:
        newest = sql.select(feedback.c.at).where(feedback.c.stream == here.id)
        at = connection.execute(newest.order_by(feedback.c.version.desc()).limit(1)).scalar_one()
        sums.append((*tally.sum_up(), at))
    return sums


def _spread(count: int, points: int) -> list[int]:
    """Return at most so many numbers below a count, evenly apart, the first and the last included."""
    return sorted(set(np.linspace(0, count - 1, points).round().astype(int).tolist())) if count else []
