"""Rounds opened: a set for every model output, in one transaction that holds the stream."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from keyhole.errors import InvalidError, RefusedError, ScoreError
from keyhole.numeric import Array
from keyhole.predictor.context import NOTHING_KNOWN, Features, Groups, pack_context, read_context
from keyhole.predictor.draws import make_draws
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Predicted, Region, find_labels
from keyhole.scores.score import write_json
from keyhole.service.store.log.chain import add_row, make_id
from keyhole.service.store.sql import schema, statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import FORMAT, MetadataRow, OpenRow, RoundRow
from keyhole.service.store.streams.shadows import open_beside, show_regions
from keyhole.service.store.streams.stream import Stream, Task, UnitOfWork, make_archived_error, run_task
from keyhole.service.wire.responses import Prediction, Verdict, show_decision, show_prediction

_BYTES = 8  # of a score
_BLOCK = 64  # rounds whose draws are made at once
MOST_METADATA = 1024  # bytes of JSON


class Query(NamedTuple):
    """A model's output to be turned into a set, what makes a retry recognisable, what is known.

    ``metadata`` is JSON that is kept with the round, and is not interpreted.
    """

    output: object
    key: str | None = None
    features: Features | None = None
    groups: Groups = ()
    metadata: str | None = None


def pack_metadata(metadata: object) -> str:
    """Return metadata as the one text of its JSON, so that it can be sought, or raise if it is long."""
    try:
        text = write_json(metadata, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except ValueError:
        raise InvalidError("metadata holds a number that is not finite; JSON has none") from None
    if (size := len(text.encode())) > MOST_METADATA:
        raise InvalidError(
            f"metadata of {size:,} bytes is longer than {MOST_METADATA:,}; store it elsewhere, "
            "and send a reference"
        )
    return text


class Opened(NamedTuple):
    """Rounds as they are sent, and of each whether an earlier request had opened it.

    They are each a ``Prediction``, in a stream of decisions a ``Verdict``.
    """

    shown: list[Any]
    repeated: list[bool]


def predict(
    database: Database, name: str, *, asks: Sequence[Query], now: float, makes: str | None = None
) -> list[Any]:
    """Open a round for every output, all or none; a key that was seen gives its old round again.

    ``makes`` is what the caller takes the stream's rounds for: predictions or decisions.
    """
    made: Opened = run_task(database, make_task(name, asks=asks, now=now, makes=makes))
    return made.shown


def make_task(name: str, *, asks: Sequence[Query], now: float, makes: str | None = None) -> Task:
    """Return what does as ``predict`` does, within a transaction that holds the stream."""
    change = partial(open_rounds, asks=asks, now=now, makes=makes)
    return Task(name, change, keys=[ask.key for ask in asks if ask.key is not None])


def open_rounds(work: UnitOfWork, *, asks: Sequence[Query], now: float, makes: str | None) -> Opened:
    stream = work.stream
    # What was made before is shown again for ever; an archived stream makes no more.
    if stream.archived is not None and not all(ask.key in work.keyed for ask in asks):
        raise make_archived_error(stream.name)
    _check(stream, len(asks), makes)
    tally, draws, made = stream.progress.tally, draw_next(stream, len(asks)), Opened([], [])
    first = tally.predicted
    for place, ask in enumerate(asks):
        before = tally.predicted
        try:
            made.shown.append(_open_round(work, ask, draw=draws[before - first], now=now))
        except InvalidError as error:
            if len(asks) == 1:
                raise
            raise type(error)(f"prediction {place}: {error}") from None
        made.repeated.append(tally.predicted == before)
    if tally.predicted > first:
        stream.next_expiry = min(stream.next_expiry, now + stream.lifetime)
        # No more can be open than were made and not answered.
        may_be_many = tally.predicted - tally.answered > stream.setup.open_limit
        if stream.next_expiry <= now or (may_be_many and stream.open > stream.setup.open_limit):
            _expire(work, now)
    return made


def _open_round(work: UnitOfWork, ask: Query, *, draw: float, now: float) -> Prediction | Verdict:
    """Put a round into the log, and among those that wait; or find the one of its key, or raise."""
    stream, row = work.stream, None if ask.key is None else work.keyed.get(ask.key)
    setup, (case, context) = stream.setup, _read(stream, ask, row)
    regions: Any
    if row is not None:
        regions = _show_again(stream, row, case, context)
    else:
        output, labels = case.pack()
        opened = setup.kind.open(setup.learner, stream.progress, case, draw=draw, context=context)
        shown, memories, levels = opened.prediction, None, None
        if stream.shadows:
            memories, levels = open_beside(stream, opened, draw=draw, context=context)
        if not setup.kind.decides or setup.kind.is_awaited(setup, shown):
            memo = setup.learner.layout.pack_memo(opened.memo)
            waiting = (now + stream.lifetime, opened.then, memo, memories)
            work.new[schema.open_rounds].append(OpenRow(stream.id, shown.id, *waiting))
        row = RoundRow(
            stream=stream.id,
            number=shown.id,
            format=FORMAT["rounds"],
            version=stream.version + 1,
            at=now,
            threshold=shown.threshold,
            size=shown.size,
            output=output,
            labels=labels,
            key=ask.key,
            context=pack_context(context) if context.size else None,
            metadata=ask.metadata,
            levels=levels,
        )
        row = add_row(work, row)
        if ask.key is not None:
            work.keyed[ask.key] = row
        if ask.metadata is not None:
            work.new[schema.metadata] += list_metadata(row)
        regions = (shown,) if levels is None else show_regions(case, row)
    id_, expires = make_id(row), row.at + stream.lifetime
    if setup.kind.decides:
        return show_decision(id_, regions[0], expires=expires)
    alphas = () if row.levels is None else stream.alphas
    return show_prediction(id_, regions, expires=expires, alphas=alphas)


def draw_next(stream: Stream, count: int) -> list[float]:
    """Return the draws of the next rounds; of a rule that uses none, none are made."""
    if not stream.setup.learner.reads_ask and not stream.shadows:
        return [0.5] * count
    first = stream.progress.tally.predicted
    if count == 1:
        place = first % _BLOCK
        return _draw_block(stream.setup.seed, first - place)[place : place + 1]
    return list(make_draws(stream.setup.seed, first, count).tolist())


@lru_cache(maxsize=1024)
def _draw_block(seed: int, first: int) -> list[float]:
    """Return some draws at once, as one takes as long."""
    return list(make_draws(seed, first, _BLOCK).tolist())


def _check(stream: Stream, count: int, makes: str | None) -> None:
    """Raise if a stream makes no such rounds, or fewer of them may be open: the first would expire."""
    found = stream.setup.kind.makes
    if makes is not None and makes != found:
        raise InvalidError(
            f"stream {stream.name!r} makes {found}, not {makes}; ask /v1/streams/{stream.name}/{found}"
        )
    most = stream.setup.open_limit
    if count > most:
        raise InvalidError(
            f"{count} predictions are more than the {most} that may be open in stream {stream.name!r}; "
            "send smaller batches"
        )


def _read(stream: Stream, ask: Query, row: RoundRow | None) -> tuple[Case[Predicted], Array]:
    """Return the case and what is known of it, or raise; a row is what it was asked for with before."""
    setup, progress = stream.setup, stream.progress
    try:
        case = setup.kind.read(setup, progress, ask.output)
    except ScoreError:
        # Asked for before labels were added, it has a score for those that there were.
        then = _find_setup(setup, row)
        case = then.kind.read(then, progress, ask.output)
    if ask.features is None and not ask.groups and not setup.context:
        return case, NOTHING_KNOWN
    return case, read_context(setup, ask.features, ask.groups)


def _find_setup(setup: Setup, row: RoundRow | None) -> Setup:
    """Return a stream's setup with the labels that it had when the round of this row was asked for."""
    score: Any = setup.score
    if row is None or row.labels is not None or find_labels(score) is None:
        return setup
    return replace(setup, score=replace(score, labels=score.labels[: len(row.output) // _BYTES]))


def list_filters(stream_id: int, metadata: Mapping[str, object] | None) -> list[object]:
    """Return what finds the rounds of a stream with this metadata: three values for each thing."""
    found = (metadata or {}).items()
    return [part for one in found for part in (stream_id, *map(pack_metadata, one))]


def list_metadata(row: RoundRow) -> list[MetadataRow]:
    """Return what finds a round by each thing of its metadata, name and value as JSON."""
    found = json.loads(row.metadata or "{}").items()
    return [
        MetadataRow(row.stream, pack_metadata(name), pack_metadata(value), row.number)
        for name, value in found
    ]


def _expire(work: UnitOfWork, now: float) -> None:
    """Drop the open rounds whose time is over, and the oldest of those that are too many."""
    stream, transaction = work.stream, work.transaction
    work.flush()
    if stream.next_expiry <= now:
        stream.tally.expired += len(transaction.fetch(statements.DROP_EXPIRED, stream.id, now))
        (earliest,) = transaction.fetch(statements.FIND_NEXT_EXPIRY, stream.id)
        stream.next_expiry = earliest or math.inf
    excess = stream.open - stream.setup.open_limit
    if excess > 0:
        dropped = transaction.fetch(statements.DROP_OLDEST, stream.id, stream.id, excess)
        stream.tally.expired += len(dropped)
    if work.open:
        left = transaction.fetch(statements.FIND_OPEN, stream.id, list(work.open))
        work.open = {row.number: row for row in left}


def _show_again(
    stream: Stream, row: RoundRow, case: Case[Predicted], context: Array
) -> tuple[Region, ...]:
    stored = stream.setup.score.unpack(row.output, row.labels)
    is_same = case.output == stored.output
    if not is_same or pack_context(context) != row.context:
        what = "other features or groups" if is_same else "another output"
        raise RefusedError(
            f"Idempotency-Key {row.key!r} came with {what} before; use a new key", code="key_reused"
        )
    return show_regions(stored, row)
