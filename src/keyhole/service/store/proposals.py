"""Rounds opened: a set for every model output, in one transaction that holds the stream."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.errors import InvalidError, KeyReusedError
from keyhole.numeric import Array
from keyhole.predictor.context import Features, Groups
from keyhole.predictor.draws import make_draws
from keyhole.predictor.rounds import Round
from keyhole.scores import Case, Region
from keyhole.scores.residuals import Centred
from keyhole.service.store import settings, stream
from keyhole.service.store.chain import make_link
from keyhole.service.store.database import Database, append
from keyhole.service.store.direct import Connection
from keyhole.service.store.opening import is_awaited, open_round, pack_context, read_known
from keyhole.service.store.schema import open_rounds, rounds
from keyhole.service.store.stream import Stream

_CENTRE = 8  # bytes
MOST_METADATA = 1024  # bytes of JSON


class Ask(NamedTuple):
    """A model's output to be turned into a set, what makes a retry recognisable, what is known.

    ``metadata`` is JSON that is kept with the round, and means nothing here.
    """

    output: Any
    key: str | None = None
    features: Features | None = None
    groups: Groups = ()
    metadata: str | None = None


def pack_metadata(metadata: Mapping[str, Any]) -> str:
    """Return metadata as the one text of its JSON, so that it can be sought, or raise if it is long."""
    try:
        text = json.dumps(metadata, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except ValueError:
        raise InvalidError("metadata holds a number that is not finite; JSON has none") from None
    if len(text) > MOST_METADATA:
        raise InvalidError(
            f"metadata of {len(text):,} bytes is longer than {MOST_METADATA:,}; keep it elsewhere, and "
            "here what finds it"
        )
    return text


@dataclass(frozen=True, slots=True)
class Opened:
    """A prediction that waits for its answer; ``repeated`` if an earlier request had made it."""

    id: str
    number: int
    region: Region
    expires: float
    repeated: bool = False


def predict(
    database: Database, name: str, *, asks: Sequence[Ask], now: float, kind: str | None = None
) -> list[Opened]:
    """Open a round for every output, all or none; a key that was seen gives its old round again.

    ``kind`` says for what the caller takes the stream: one of sets, or a gate.
    """
    with database.change() as connection:
        here = stream.lock(connection, name)
        return join(connection, here, asks=asks, now=now, kind=kind)


def join(
    connection: Connection,
    here: Stream,
    *,
    asks: Sequence[Ask],
    now: float,
    kind: str | None = None,
) -> list[Opened]:
    """Open rounds as ``predict`` does, within a transaction that holds the stream."""
    stream.check_open(here)
    _check_kind(here, kind)
    _check_room(here, len(asks))
    read = [_read(here, ask, place if len(asks) > 1 else None) for place, ask in enumerate(asks)]
    known = _by_key(connection, here, [ask.key for ask in asks if ask.key is not None])
    draws = _draw(here, len(asks))
    fresh: list[tuple[dict[str, Any], Any]] = []
    made: list[Opened] = []
    for ask, (case, context) in zip(asks, read, strict=True):
        if ask.key is not None and ask.key in known:
            made.append(_repeat(here, known[ask.key], case, context))
            continue
        draw = draws[len(fresh)]
        opened = open_round(here.setup, here.progress, case, draw=draw, context=context)
        row = _round_row(here, opened, ask, context, now)
        fresh.append((row, opened))
        made.append(_opened(here, opened.prediction, now))
        if ask.key is not None:
            known[ask.key] = row
    if fresh:
        _append(connection, here, fresh, now)
    return made


def _draw(here: Stream, count: int) -> list[float]:
    """Return the draws of the next rounds; of a rule that heeds none, none are made."""
    if not here.setup.learner.rule.draws:
        return [0.5] * count
    return list(make_draws(here.setup.seed, here.tally.predicted, count).tolist())


def _check_kind(here: Stream, kind: str | None) -> None:
    found = here.setup.learner.rule.kind
    if kind is not None and kind != found:
        told, right = ("a gate", "decisions") if found == "gate" else ("no gate", "predictions")
        raise InvalidError(f"stream {here.name!r} is {told}; ask /v1/streams/{here.name}/{right}")


def _check_room(here: Stream, count: int) -> None:
    """Raise if a batch has more rounds than may be open: its first would expire with its last."""
    most = here.setup.open_limit
    if count > most:
        raise InvalidError(
            f"{count} predictions are more than the {most} that may be open in stream {here.name!r}; "
            "send smaller batches"
        )


def _read(here: Stream, ask: Ask, place: int | None) -> tuple[Case[Region], Array]:
    """Return the case and what is known of it, or raise; of a batch, say which of them it is."""
    setup = here.setup
    try:
        case = settings.read_output(setup, here.progress, ask.output)
        return case, read_known(setup, ask.features, ask.groups)
    except InvalidError as error:
        if place is None:
            raise
        raise type(error)(f"prediction {place}: {error}") from None


def _round_row(
    here: Stream, opened: Round[Region], ask: Ask, context: Array, now: float
) -> dict[str, Any]:
    output, labels = settings.pack_case(here.setup, opened.case)
    here.version += 1
    row = {
        "stream": here.id,
        "number": opened.prediction.id,
        "version": here.version,
        "at": now,
        "threshold": opened.prediction.threshold,
        "size": opened.prediction.size,
        "output": output,
        "labels": labels,
        "key": ask.key,
        "context": pack_context(context),
        "metadata": ask.metadata,
    }
    here.link = row["link"] = make_link(here.link, rounds, row)
    return row


def _append(
    connection: Connection, here: Stream, fresh: list[tuple[dict[str, Any], Any]], now: float
) -> None:
    expires = now + here.lifetime
    append(connection, rounds, [row for row, _ in fresh])
    waiting = [
        {
            "stream": here.id,
            "number": row["number"],
            "expires": expires,
            "then": opened.then,
            "memo": here.setup.learner.pack_memo(opened.memo),
        }
        for row, opened in fresh
        if is_awaited(here.setup, opened)
    ]
    if waiting:
        append(connection, open_rounds, waiting)
    here.sweep = min(here.sweep, expires)
    _expire(connection, here, now)
    stream.write(connection, here)


def _expire(connection: Connection, here: Stream, now: float) -> None:
    """Drop the open rounds whose time is over, and the oldest of those that are too many."""
    mine = {"wanted": here.id}
    if here.sweep <= now:
        here.tally.expired += connection.execute(_DROP_EXPIRED, {**mine, "now": now}).rowcount
        here.sweep = connection.execute(_EARLIEST, mine).scalar() or math.inf
    excess = here.open - here.setup.open_limit
    if excess > 0:
        connection.execute(_DROP_OLDEST, {**mine, "excess": excess})
        here.tally.expired += excess


_MINE = open_rounds.c.stream == sql.bindparam("wanted")
_DROP_EXPIRED = open_rounds.delete().where(_MINE, open_rounds.c.expires <= sql.bindparam("now"))
_EARLIEST = sql.select(sql.func.min(open_rounds.c.expires)).where(_MINE)
_DROP_OLDEST = open_rounds.delete().where(
    _MINE,
    open_rounds.c.number.in_(
        sql.select(open_rounds.c.number)
        .where(_MINE)
        .order_by(open_rounds.c.number)
        .limit(sql.bindparam("excess", type_=sql.Integer))
    ),
)


def _by_key(connection: Connection, here: Stream, keys: list[str]) -> dict[str, Any]:
    if not keys:
        return {}
    rows = connection.execute(
        sql.select(rounds).where(rounds.c.stream == here.id, rounds.c.key.in_(keys))
    )
    return {row["key"]: dict(row) for row in rows.mappings()}


def _repeat(here: Stream, row: dict[str, Any], case: Case[Region], context: Array) -> Opened:
    output, labels = settings.pack_case(here.setup, case)
    asked = (output, labels, pack_context(context))
    then = (row["output"], row["labels"], row["context"])
    if isinstance(case, Centred):  # The scale that stands behind the centre may have moved since.
        asked, then = (asked[0][:_CENTRE], *asked[1:]), (then[0][:_CENTRE], *then[1:])
    if asked != then:
        what = "another output" if asked[:2] != then[:2] else "other features or groups"
        raise KeyReusedError(f"Idempotency-Key {row['key']!r} came with {what} before; use a new key")
    stored = settings.unpack_case(here.setup, row["output"], row["labels"])
    region = stored.region(row["number"], row["threshold"])
    return _opened(here, region, row["at"], repeated=True)


def _opened(here: Stream, region: Region, at: float, *, repeated: bool = False) -> Opened:
    expires = at + here.lifetime
    return Opened(here.prediction_id(region.id), region.id, region, expires, repeated)
