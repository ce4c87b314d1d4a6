"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from keyhole.errors import (
    AnsweredError,
    DatabaseError,
    ExpiredError,
    KeyholeError,
    ReferredError,
    UnknownRoundError,
    UnknownStreamError,
)
from keyhole.predictor.setup import Setup
from keyhole.service.store import alarms, draft, stream
from keyhole.service.store.database import Database
from keyhole.service.store.draft import Draft, Job
from keyhole.service.store.playing import (
    check_awaited,
    is_miss,
    recall_round,
    settle_reply,
    write_reply,
)
from keyhole.service.store.schema import SUMS, feedback
from keyhole.service.store.stream import Stream

MARK_EVERY = 100
Result = TypeVar("Result")
_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{10})", re.ASCII)


class Reply(NamedTuple):
    """An answer to a round, in a form that ``keyhole.service.store.playing`` reads."""

    id: str
    answer: Any


class Counted(NamedTuple):
    """An answer that is durable; ``repeated`` if it was there before.

    ``missed`` is None where the round was skipped.
    """

    id: str
    stream: str
    missed: bool | None
    repeated: bool = False


def answer(database: Database, replies: Sequence[Reply], *, now: float) -> list[Counted | KeyholeError]:
    """Settle every reply that can be; each comes to what was counted, or to why it was not."""
    jobs = make_jobs(replies, now=now)
    outcomes = [draft.carry_out(database, [job]).outcomes[0] for job in jobs]
    return gather_results(replies, jobs, outcomes)


def make_jobs(replies: Sequence[Reply], *, now: float) -> list[Job]:
    """Return what settles the replies, for each stream; some may be to none."""
    by_stream: dict[int, list[tuple[int, int]]] = {}
    for place, reply in enumerate(replies):
        match = _ID.fullmatch(reply.id)
        if match is not None:
            by_stream.setdefault(int(match[1]), []).append((place, int(match[2])))
    jobs = []
    for wanted, found in by_stream.items():
        places, numbers = zip(*found, strict=True)
        change = partial(_settle_replies, replies=[replies[place] for place in places], now=now)
        jobs.append(Job(wanted, change, numbers=numbers, places=places))
    return jobs


def gather_results(
    replies: Sequence[Reply], jobs: Sequence[Job], outcomes: Sequence[Any]
) -> list[Counted | KeyholeError]:
    """Return what each reply came to; raise if the database is away.

    What was counted stays counted then, and will be found so by a retry.
    """
    results: list[Any] = [None] * len(replies)
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, UnknownStreamError):
            continue
        if isinstance(outcome, DatabaseError) or not isinstance(outcome, (list, KeyholeError)):
            raise outcome
        for k, place in enumerate(job.places):
            results[place] = outcome[k] if isinstance(outcome, list) else outcome
    return [
        unknown(reply.id) if result is None else result
        for reply, result in zip(replies, results, strict=True)
    ]


def _settle_replies(
    draft: Draft, *, replies: Sequence[Reply], now: float
) -> list[Counted | KeyholeError]:
    results: list[Counted | KeyholeError] = []
    for reply in replies:
        try:
            results.append(_settle(draft, reply, now))
        except KeyholeError as error:
            results.append(error)
    return results


def _settle(draft: Draft, reply: Reply, now: float) -> Counted:
    """Count the reply, or find it counted, or raise."""
    here, row = draft.here, draft.found.get(reply.id)
    if row is None:
        raise unknown(reply.id)
    before = draft.answered.get(reply.id) or (row.answer, row.miss)
    if before[0] is not None:
        return _repeat(here, reply, *before)
    _check_waiting(here, row, reply, now)
    settled = settle_reply(here, _read(recall_round, here, row), reply.answer)
    missed, text = is_miss(settled.miss), write_reply(reply.answer)
    tally, watch = here.progress.tally, here.progress.watch
    here.version += 1
    draft.answered[reply.id] = (text, settled.miss)
    draft.closed.append(row.number)
    draft.log.append((feedback, (here.id, here.version, row.number, now, text, *settled)))
    if settled.weight and watch is not None and watch.rounds in (watch.raised, watch.cleared):
        _note_alarm(draft, now)
    if settled.miss is not None and tally.answered % MARK_EVERY == 0:
        sums = [getattr(tally, name) for name in SUMS]
        packed = here.progress.pack(here.setup.learner)
        draft.marks.append((here.id, here.version, now, *sums, packed))
    return Counted(reply.id, here.name, missed)


def _check_waiting(here: Stream, row: Any, reply: Reply, now: float) -> None:
    """Raise unless the round of a row can be answered now."""
    if here.archived is not None:
        raise stream.archived(here.name)
    if row.expires is None:
        _read(check_awaited, here, row)
    if row.expires is None or row.expires <= now:
        raise ExpiredError(
            f"prediction {reply.id} has expired: its {here.lifetime:g} seconds are "
            f"over, or more than {here.setup.open_limit} were open; predict again"
        )


def _repeat(here: Stream, reply: Reply, first: str, miss: float | None) -> Counted:
    if json.loads(first) != reply.answer:
        raise AnsweredError(f"prediction {reply.id} has another answer already; the first one stands")
    return Counted(reply.id, here.name, is_miss(miss), repeated=True)


def _note_alarm(draft: Draft, now: float) -> None:
    unwritten = [row[_AT] for table, row in draft.log if table is feedback and row[_WEIGHT] > 0.0]
    alarms.note(draft.connection, draft.here.id, draft.here.watch, at=now, unwritten=unwritten)


_AT, _WEIGHT = (feedback.c.keys().index(name) for name in ("at", "weight"))


def _read(read: Callable[[Setup[Any], Any], Result], here: Stream, row: Any) -> Result:
    """Return what a function makes of a row; one that cannot be read puts its stream in quarantine."""
    try:
        return read(here.setup, row)
    except ReferredError:
        raise
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise stream.quarantine(here.name, f"its round {row.number} cannot be read: {error}") from None


def unknown(id: str) -> UnknownRoundError:  # noqa: A002
    """Return the error that says that there is no such round."""
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")
