"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream."""

import copy
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from keyhole.errors import (
    AnsweredError,
    DatabaseError,
    ExpiredError,
    KeyholeError,
    ReferredError,
    RefusedError,
    UnknownRoundError,
    UnknownStreamError,
)
from keyhole.feedback import BESIDE, is_miss
from keyhole.predictor.monitor import Watch
from keyhole.predictor.rounds import Round
from keyhole.predictor.tally import Outcome
from keyhole.scores import Predicted
from keyhole.scores.score import write_json
from keyhole.service.store.log.chain import add_row
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import FORMAT, AnswerRow, SnapshotRow
from keyhole.service.store.sql.statements import LoggedRound
from keyhole.service.store.streams import alarms
from keyhole.service.store.streams.shadows import (
    Beside,
    Heard,
    check_tells_all,
    dump_shadows,
    learn_beside,
    list_watches,
    recall_beside,
    show_misses,
)
from keyhole.service.store.streams.stream import (
    Stream,
    Task,
    UnitOfWork,
    make_archived_error,
    make_quarantine_error,
    run_tasks,
)
from keyhole.service.wire.responses import Receipt

SNAPSHOT_EVERY = 100
SKIP = "skip"
_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})", re.ASCII)


class Reply(NamedTuple):
    """An answer to a round, in a form that ``keyhole.predictor.kinds`` reads, or ``SKIP``."""

    id: str
    answer: Any


def answer(database: Database, replies: Sequence[Reply], *, now: float) -> list[Receipt | KeyholeError]:
    """Settle every reply that can be; each comes to what was counted, or to why it was not."""
    tasks = make_tasks(replies, now=now)
    outcomes = [run_tasks(database, [task]).outcomes[0] for task in tasks]
    return gather_results(replies, tasks, outcomes)


def make_tasks(
    replies: Sequence[Reply],
    *,
    now: float,
    settle: "Callable[[UnitOfWork, Reply, float], Receipt] | None" = None,
    check: Callable[[str], None] | None = None,
) -> list[Task]:
    """Return what settles the replies, for each stream; some may be to none.

    ``check`` raises if the name of a stream is not to be answered by whoever asks.
    """
    by_stream: dict[int, list[tuple[int, int, Reply]]] = {}
    for place, reply in enumerate(replies):
        if (found := read_id(reply.id)) is not None:
            by_stream.setdefault(found[0], []).append((place, found[1], reply))
    tasks = []
    for stream_id, places in by_stream.items():
        positions, numbers, own = zip(*places, strict=True)
        change = partial(_settle_replies, replies=own, settle=settle or _settle, now=now, check=check)
        tasks.append(Task(stream_id, change, numbers=numbers, positions=positions))
    return tasks


def read_id(id: str) -> tuple[int, int] | None:  # noqa: A002
    """Return of which stream an id is and of which round, if it has the form of one."""
    match = _ID.fullmatch(id)
    return None if match is None else (int(match[1]), int(match[2]))


def gather_results(
    replies: Sequence[Reply], tasks: Sequence[Task], outcomes: Sequence[Any]
) -> list[Receipt | KeyholeError]:
    """Return what each reply came to; raise if the database is away.

    What was counted stays counted then, and will be found so by a retry.
    """
    results: list[Any] = [None] * len(replies)
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, UnknownStreamError):
            continue
        if isinstance(outcome, DatabaseError) or not isinstance(outcome, (list, KeyholeError)):
            raise outcome
        for k, place in enumerate(task.positions):
            results[place] = outcome[k] if isinstance(outcome, list) else outcome
    for place, result in enumerate(results):
        if result is None:
            results[place] = unknown(replies[place].id)
    return results


def _settle_replies(
    work: UnitOfWork,
    *,
    replies: Sequence[Reply],
    settle: Callable[[UnitOfWork, Reply, float], Receipt],
    now: float,
    check: Callable[[str], None] | None,
) -> list[Receipt | KeyholeError]:
    if check is not None:
        check(work.stream.name)
    results: list[Receipt | KeyholeError] = []
    for reply in replies:
        try:
            results.append(settle(work, reply, now))
        except KeyholeError as error:
            results.append(error)
    return results


def _settle(work: UnitOfWork, reply: Reply, now: float) -> Receipt:
    """Count the reply, or find it counted, or raise."""
    stream, row = work.stream, find_logged(work, reply.id)
    answered = work.answered.get(reply.id) or row.answer
    if answered is not None:
        return _repeat(stream, reply, answered)
    waiting = _recall(stream, row, reply, now)
    beside = None
    if stream.shadows and row.open is not None and row.open.shadows is not None:
        beside = Beside(row.open.shadows, row.round)
    outcome, levels = settle_reply(stream, waiting, reply.answer, beside)
    result = list_result(outcome, waiting)
    kind, text = name_answer(reply.answer), write_reply(reply.answer)
    stream.version += 1
    number = row.round.number
    answered = AnswerRow(stream.id, stream.version, FORMAT, number, now, kind, text, *result)
    answered = answered._replace(levels=levels)
    work.answered[reply.id] = answered
    work.closed.append(number)
    add_row(work, answered)
    if outcome is None:
        return Receipt(reply.id, stream.name, None)
    if outcome.weight and stream.progress.watch is not None:
        watches = list_watches(stream) if stream.shadows else [stream.progress.watch]
        for level, watch in enumerate(watches):
            if watch.rounds in (watch.raised, watch.cleared):
                _note_alarm(work, watch, now, level=level)
    if stream.progress.tally.answered % SNAPSHOT_EVERY == 0:
        packed = stream.progress.pack(stream.setup.learner)
        sums = stream.tally.sum_up()
        taken = SnapshotRow(stream.id, stream.version, now, *sums, progress=packed)
        work.snapshots.append(taken._replace(shadows=dump_shadows(stream.shadows)))
    shown = outcome.miss if levels is None else show_misses(answered)[0]
    return Receipt(reply.id, stream.name, is_miss(shown))


def settle_reply(
    stream: Stream, waiting: Round[Predicted], reply: object, beside: Beside | None = None
) -> tuple[Outcome | None, bytes | None]:
    """Teach the stream's state what a reply tells, or raise; None comes of a round that is skipped.

    With it comes what the reply came to on the inner levels, as the log keeps it.
    """
    if reply == SKIP:
        stream.tally.skipped += 1
        return None, None
    heard = list[Heard]()
    if beside is not None:
        if stream.alphas:
            check_tells_all(reply)
        heard = recall_beside(stream.shadows, beside, waiting, reply)
    scale = copy.deepcopy(stream.progress.scale) if heard else None
    outcome = stream.setup.kind.answer(stream.setup, stream.progress, waiting, reply)
    if outcome.weight:
        stream.note_recent(outcome.miss)
    return outcome, learn_beside(heard, waiting, outcome, scale=scale) if heard else None


RESULT = ("miss", "weight", "score", "size")  # columns of the log


def list_result(
    outcome: Outcome | None, waiting: Round[Predicted]
) -> tuple[float | None, float, float | None, float]:
    """Return what a reply came to, as the columns ``RESULT`` of the log keep it."""
    size = waiting.prediction.size
    if outcome is None:
        return None, 0.0, None, size
    score = None if math.isnan(outcome.score) else outcome.score
    return outcome.miss, outcome.weight, score, size


def write_reply(reply: object) -> str:
    if type(reply) is str:
        return f'"{reply}"'  # a word of ours
    if type(reply) is dict and len(reply) == 1:
        ((name, value),) = reply.items()
        if type(value) is int or type(value) is str:
            # As ``json.dumps`` does, which for an object takes five times as long.
            return f'{{"{name}": {value if type(value) is int else write_json(value)}}}'
    return write_json(reply)


def name_answer(answer: Any) -> str:
    """Return what an answer says: label, hit, miss, score, loss, right, judged or skip."""
    if isinstance(answer, str):
        return answer
    if len(answer) == 1:
        return str(next(iter(answer)))
    (*names,) = answer.keys() - BESIDE - {"judged"}
    return str(names[0]) if names else "judged"


def _recall(stream: Stream, row: LoggedRound, reply: Reply, now: float) -> Round[Predicted]:
    """Return the round that waits for an answer, or raise if it does not."""
    setup, kept = stream.setup, row.round
    if stream.archived is not None:
        raise make_archived_error(stream.name)
    try:
        if row.open is not None and row.open.expires > now:
            return setup.kind.recall(setup, kept, then=row.open.then, memo=row.open.memo)
        if row.open is None:
            case = setup.score.unpack(kept.output, kept.labels)
            setup.kind.check_awaited(setup, case.region(kept.number, kept.threshold))
    except ReferredError:
        raise
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise make_quarantine_error(
            stream.name, f"its round {kept.number} cannot be read: {error}"
        ) from None
    raise ExpiredError(
        f"prediction {reply.id} has expired: its {stream.lifetime:g} seconds are "
        f"over, or more than {setup.open_limit} were open; predict again"
    )


def _repeat(stream: Stream, reply: Reply, first: AnswerRow) -> Receipt:
    if json.loads(first.answer) != reply.answer:
        raise AnsweredError(f"prediction {reply.id} has another answer already; the first one stands")
    return Receipt(reply.id, stream.name, is_miss(show_misses(first)[0]), repeated=True)


def _note_alarm(work: UnitOfWork, watch: Watch, now: float, *, level: int) -> None:
    new = [row.at for row in work.log if isinstance(row, AnswerRow) and row.weight > 0.0]
    alarms.note(work.transaction, work.stream.id, watch, at=now, unwritten=new, level=level)


def find_logged(work: UnitOfWork, id: str) -> LoggedRound:  # noqa: A002
    """Return a round as it is in the log, or raise if there is none, or what it held is erased."""
    row = work.found.get(id)
    if row is None:
        raise unknown(id)
    if row.round.digest is not None:
        raise RefusedError(f"prediction {id} was erased; it takes no answer any more", code="erased")
    return row


def unknown(id: str) -> UnknownRoundError:  # noqa: A002
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")
