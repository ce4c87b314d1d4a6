"""What the newest answered rounds were like: how large their sets, how late their answers."""

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sql

from keyhole.feedback import is_miss
from keyhole.service.store.sql.schema import feedback, rounds
from keyhole.service.store.streams.stream import Stream

ROUNDS = 500
_BYTES = 8  # of a score


@dataclass(frozen=True)
class Lately:
    """Shares and medians over so many of the newest answered rounds; NaN where there are none.

    ``full`` is the share of sets that held every candidate; intervals have none, and decisions have no
    sizes at all. ``median_size`` is infinite where half of the intervals or more are unbounded.
    """

    rounds: int
    median_size: float
    empty: float
    full: float
    unbounded: float
    median_seconds: float
    late_seconds: float


def look_back(connection: sql.Connection, here: Stream) -> Lately:
    """Return what the newest answered rounds of a stream were like."""
    rows = connection.execute(_NEWEST, {"stream": here.id}).all()
    kind = here.setup.kind
    sizes = np.array([row.size for row in rows], dtype=float)
    candidates = np.array([row.bytes / _BYTES for row in rows], dtype=float)
    seconds = np.array([row.answered - row.asked for row in rows], dtype=float)
    return Lately(
        rounds=len(rows),
        median_size=np.nan if kind.decides else _quantile(sizes, 0.5),
        empty=np.nan if kind.decides else _share(sizes <= 0.0),
        full=_share(sizes >= candidates) if kind.name == "labels" else np.nan,
        unbounded=np.nan if kind.decides else _share(np.isinf(sizes)),
        median_seconds=_quantile(seconds, 0.5),
        late_seconds=_quantile(seconds, 0.9),
    )


def list_misses(connection: sql.Connection, stream: int, *, most: int) -> list[bool]:
    """Return which of the newest answered rounds missed, the oldest first."""
    rows = connection.execute(
        sql.select(feedback.c.miss)
        .where(feedback.c.stream == stream, feedback.c.weight > 0.0)
        .order_by(feedback.c.version.desc())
        .limit(most)
    ).scalars()
    return [is_miss(miss) is True for miss in rows][::-1]


_NEWEST = (
    sql.select(
        feedback.c.size,
        feedback.c.at.label("answered"),
        rounds.c.at.label("asked"),
        sql.func.length(rounds.c.output).label("bytes"),
    )
    .join(rounds, sql.and_(rounds.c.stream == feedback.c.stream, rounds.c.number == feedback.c.number))
    .where(feedback.c.stream == sql.bindparam("stream"), feedback.c.miss.is_not(None))
    .order_by(feedback.c.version.desc())
    .limit(ROUNDS)
)


def _share(hold: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> float:
    return float(hold.mean()) if len(hold) else np.nan


def _quantile(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", share: float) -> float:
    # One that was measured, not a mean of two: between a bounded and an unbounded one there is none.
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else np.nan
