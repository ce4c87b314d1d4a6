"""Rounds opened: a set for every model output, in one transaction that holds the stream."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.draws import draw_of
from keyhole.errors import KeyReusedError
from keyhole.rounds import Round, propose
from keyhole.scores import Case, Region
from keyhole.store import standing
from keyhole.store.database import Database, append
from keyhole.store.schema import open_rounds, rounds
from keyhole.store.standing import Standing


class Ask(NamedTuple):
    """A model's output to be turned into a set, and what makes a retry recognisable."""

    output: Any
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A prediction that waits for its answer; ``repeated`` if an earlier request had made it."""

    id: str
    number: int
    region: Region
    expires: float
    repeated: bool = False


def predict(database: Database, name: str, *, asks: Sequence[Ask], now: float) -> list[Opened]:
    """Open a round for every output, all or none; a key that was seen gives its old round again."""
    with database.write() as connection:
        here = standing.locked(connection, name)
        cases = [here.blueprint.read(ask.output) for ask in asks]
        known = _by_key(connection, here, [ask.key for ask in asks if ask.key is not None])
        first = here.tally.predicted
        fresh: list[tuple[dict[str, Any], Any]] = []
        made: list[Opened] = []
        for ask, case in zip(asks, cases, strict=True):
            if ask.key is not None and ask.key in known:
                made.append(_repeat(here, known[ask.key], case))
                continue
            number = first + len(fresh)
            draw = draw_of(here.blueprint.seed, number)
            opened = propose(here.blueprint.learner, here.state, case, number=number, draw=draw)
            row = _round_row(here, opened, ask.key, now)
            fresh.append((row, opened.memo))
            made.append(_opened(here, opened.prediction, now))
            if ask.key is not None:
                known[ask.key] = row
        if fresh:
            _append(connection, here, fresh, now)
    return made


def _round_row(here: Standing, opened: Round[Region], key: str | None, now: float) -> dict[str, Any]:
    output, labels = here.blueprint.pack(opened.case)
    here.version += 1
    here.tally.predicted += 1
    return {
        "stream": here.id,
        "number": opened.prediction.id,
        "version": here.version,
        "at": now,
        "threshold": opened.prediction.threshold,
        "size": opened.prediction.size,
        "output": output,
        "labels": labels,
        "key": key,
    }


def _append(
    connection: sql.Connection, here: Standing, fresh: list[tuple[dict[str, Any], Any]], now: float
) -> None:
    expires = now + here.blueprint.lifetime
    append(connection, rounds, [row for row, _ in fresh])
    waiting = [
        {"stream": here.id, "number": row["number"], "expires": expires, "memo": memo.tobytes()}
        for row, memo in fresh
    ]
    append(connection, open_rounds, waiting)
    here.sweep = min(here.sweep, expires)
    _expire(connection, here, now)
    standing.write_predicted(connection, here)


def _expire(connection: sql.Connection, here: Standing, now: float) -> None:
    """Drop the open rounds whose time is over, and the oldest of those that are too many."""
    mine = open_rounds.c.stream == here.id
    if here.sweep <= now:
        gone = connection.execute(open_rounds.delete().where(mine, open_rounds.c.expires <= now))
        here.tally.expired += gone.rowcount
        earliest = connection.execute(sql.select(sql.func.min(open_rounds.c.expires)).where(mine))
        here.sweep = earliest.scalar() or math.inf
    excess = here.open - here.blueprint.open_limit
    if excess > 0:
        oldest = (
            sql.select(open_rounds.c.number).where(mine).order_by(open_rounds.c.number).limit(excess)
        )
        connection.execute(open_rounds.delete().where(mine, open_rounds.c.number.in_(oldest)))
        here.tally.expired += excess


def _by_key(connection: sql.Connection, here: Standing, keys: list[str]) -> dict[str, Any]:
    if not keys:
        return {}
    rows = connection.execute(
        sql.select(rounds).where(rounds.c.stream == here.id, rounds.c.key.in_(keys))
    )
    return {row.key: dict(row._mapping) for row in rows}  # noqa: SLF001


def _repeat(here: Standing, row: dict[str, Any], case: Case[Region]) -> Opened:
    if here.blueprint.pack(case) != (row["output"], row["labels"]):
        raise KeyReusedError(
            f"Idempotency-Key {row['key']!r} came with another output before; use a new key"
        )
    region = case.region(row["number"], row["threshold"])
    return _opened(here, region, row["at"], repeated=True)


def _opened(here: Standing, region: Region, at: float, *, repeated: bool = False) -> Opened:
    expires = at + here.blueprint.lifetime
    return Opened(here.prediction_id(region.id), region.id, region, expires, repeated)
