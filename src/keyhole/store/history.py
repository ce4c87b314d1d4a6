"""What happened: a thinned curve, the last rounds, and the whole log row by row."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from keyhole.scores import Interval, LabelSet
from keyhole.store import standing
from keyhole.store.database import Database
from keyhole.store.schema import feedback, marks, rounds
from keyhole.store.standing import Standing

_RAW_UP_TO = 2000
_PAGE = 500


@dataclass(frozen=True)
class Curve:
    """Sums up to some rounds: how many were answered, missed, and how large they were."""

    answered: list[int]
    misses: list[int]
    sizes: list[float]


@dataclass(frozen=True)
class Entry:
    """One round of the log; what its answer told is None where there is none."""

    number: int
    id: str
    at: float
    threshold: float
    size: float
    region: LabelSet | Interval
    answer: Any
    answered_at: float | None
    missed: bool | None
    score: float | None


def curve(database: Database, name: str, *, points: int) -> tuple[Standing, Curve]:
    """Return where a stream stands and how it got there, in at most so many points."""
    with database.read() as connection:
        here = standing.found(connection, name)
        whole = (
            _raw(connection, here) if here.tally.answered <= _RAW_UP_TO else _marked(connection, here)
        )
    kept = np.unique(np.linspace(0, len(whole.answered) - 1, points).round().astype(int))
    if not whole.answered:
        return here, whole
    return here, Curve(
        [whole.answered[k] for k in kept],
        [whole.misses[k] for k in kept],
        [whole.sizes[k] for k in kept],
    )


def last(database: Database, name: str, *, count: int) -> list[Entry]:
    """Return the newest rounds, the newest first."""
    with database.read() as connection:
        here = standing.found(connection, name)
        rows = connection.execute(
            _LOG.where(rounds.c.stream == here.id).order_by(rounds.c.number.desc()).limit(count)
        ).all()
    return [_entry(here, row) for row in rows]


def log(database: Database, name: str) -> Iterator[Entry]:
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
        yield from (_entry(here, row) for row in rows)
        after = rows[-1].number


def _found(database: Database, name: str) -> Standing:
    with database.read() as connection:
        return standing.found(connection, name)


_LOG = sql.select(
    rounds,
    feedback.c.answer,
    feedback.c.at.label("answered_at"),
    feedback.c.missed,
    feedback.c.score,
).select_from(
    rounds.outerjoin(
        feedback,
        sql.and_(feedback.c.stream == rounds.c.stream, feedback.c.number == rounds.c.number),
    )
)


def _entry(here: Standing, row: Any) -> Entry:
    case = here.blueprint.unpack(row.output, row.labels)
    return Entry(
        number=row.number,
        id=here.prediction_id(row.number),
        at=row.at,
        threshold=row.threshold,
        size=row.size,
        region=case.region(row.number, row.threshold),
        answer=None if row.answer is None else json.loads(row.answer),
        answered_at=row.answered_at,
        missed=row.missed,
        score=row.score,
    )


def _raw(connection: sql.Connection, here: Standing) -> Curve:
    rows = connection.execute(
        sql.select(feedback.c.missed, feedback.c.size)
        .where(feedback.c.stream == here.id)
        .order_by(feedback.c.version)
    ).all()
    misses = np.cumsum([row.missed for row in rows], dtype=int)
    sizes = np.cumsum([row.size for row in rows], dtype=float)
    return Curve(list(range(1, len(rows) + 1)), misses.tolist(), sizes.tolist())


def _marked(connection: sql.Connection, here: Standing) -> Curve:
    rows = connection.execute(
        sql.select(marks.c.answered, marks.c.misses, marks.c.size)
        .where(marks.c.stream == here.id)
        .order_by(marks.c.version)
    ).all()
    tally = here.tally
    sums = [(row.answered, row.misses, row.size) for row in rows]
    if not sums or sums[-1][0] < tally.answered:
        sums.append((tally.answered, tally.misses, tally.size))
    answered, misses, sizes = (list(column) for column in zip(*sums, strict=True))
    return Curve(answered, misses, sizes)
