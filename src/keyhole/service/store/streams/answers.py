"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream."""

import copy
import json
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
from keyhole.scores.score import write_json
from keyhole.service.store.log.chain import TAG, add_row
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import FORMAT, AnswerRow, OpenRow, RoundRow, SnapshotRow
from keyhole.service.store.streams import alarms
from keyhole.service.store.streams.shadows import (
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
    make_round_error,
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
    stream, row = work.stream, find_round(work, reply.id)
    opened = work.open.get(row.number)
    if opened is None and (first := work.find_answer(row.number)) is not None:
        return _repeat(stream, reply, first)
    if opened is None or opened.expires <= now or stream.archived is not None:
        raise _explain_closed(stream, row, opened, reply)
    answered = add_row(work, settle_reply(stream, row, opened, reply.answer, now=now))
    work.answers[row.number] = answered
    work.closed.append(row.number)
    del work.open[row.number]
    if answered.miss is None:
        return Receipt(reply.id, stream.name, None)
    if answered.weight and stream.progress.watch is not None:
        watches = list_watches(stream) if stream.shadows else [stream.progress.watch]
        for level, watch in enumerate(watches):
            if watch.rounds in (watch.raised, watch.cleared):
                _note_alarm(work, watch, now, level=level)
    if stream.progress.tally.answered % SNAPSHOT_EVERY == 0:
        packed, sums = stream.progress.pack(stream.setup.learner), stream.tally.sum_up()
        taken = (stream.id, stream.version, now, *sums, packed, dump_shadows(stream.shadows))
        work.new[schema.snapshots].append(SnapshotRow(*taken))
    shown = answered.miss if answered.levels is None else show_misses(answered)[0]
    return Receipt(reply.id, stream.name, shown is not None and shown >= 0.5)


def settle_reply(
    stream: Stream, kept: RoundRow, opened: OpenRow, answer: object, *, now: float
) -> AnswerRow:
    """Teach the stream's state what an answer tells, or raise; return its row, without a link."""
    setup, kind, text = stream.setup, name_answer(answer), write_reply(answer)
    try:
        waiting = setup.kind.recall(setup, kept, then=opened.then, memo=opened.memo)
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise make_round_error(stream.name, kept.number, error) from None
    miss, weight, score, levels = None, 0.0, None, None
    if answer == SKIP:
        stream.tally.skipped += 1
    else:
        heard = list[Heard]()
        if stream.shadows and opened.shadows is not None:
            if stream.alphas:
                check_tells_all(answer)
            heard = recall_beside(stream.shadows, opened.shadows, kept, waiting, answer)
        scale = copy.deepcopy(stream.progress.scale) if heard else None
        outcome = setup.kind.answer(setup, stream.progress, waiting, answer)
        miss, weight = outcome.miss, outcome.weight
        score = outcome.score if outcome.score == outcome.score else None  # NaN: not told
        if weight:  # A loss of a half is a miss, as for ``is_miss``.
            stream.recent = (stream.recent << 1 | (miss >= 0.5)) & ((1 << stream.window) - 1)
        if heard:
            levels = learn_beside(heard, waiting, outcome, scale=scale)
    result = (kind, text, miss, weight, score, waiting.prediction.size, levels)
    version, format_ = stream.version + 1, FORMAT["answers"]
    return AnswerRow(stream.id, version, format_, kept.number, now, *result)


def write_reply(reply: object) -> str:
    if type(reply) is str:
        return f'"{reply}"'  # a word of ours
    if type(reply) is dict and len(reply) == 1:
        ((name, value),) = reply.items()
        if type(value) is int or (type(value) is str and value.isascii()):
            # As ``write_json`` does, which for an object takes five times as long.
            return f'{{"{name}": {json.dumps(value)}}}'
    return write_json(reply)


def name_answer(answer: Any) -> str:
    """Return what an answer says: label, hit, miss, score, loss, right, judged or skip."""
    if not isinstance(answer, dict):
        return str(answer)  # If it is not a word of ours, it is no answer, and is refused.
    if len(answer) == 1:
        return str(next(iter(answer)))
    (*names,) = answer.keys() - BESIDE - {"judged"}
    return str(names[0]) if names else "judged"


def _explain_closed(
    stream: Stream, kept: RoundRow, opened: OpenRow | None, reply: Reply
) -> KeyholeError:
    """Return why a round takes no answer."""
    if stream.archived is not None:
        return make_archived_error(stream.name)
    setup = stream.setup
    try:
        if opened is None:
            case = setup.score.unpack(kept.output, kept.labels)
            setup.kind.check_awaited(setup, case.region(kept.number, kept.threshold))
    except ReferredError as error:
        return error
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        return make_round_error(stream.name, kept.number, error)
    return ExpiredError(
        f"prediction {reply.id} has expired: its {stream.lifetime:g} seconds are "
        f"over, or more than {setup.open_limit} were open; predict again"
    )


def _repeat(stream: Stream, reply: Reply, first: AnswerRow) -> Receipt:
    if json.loads(first.answer) != reply.answer:
        raise AnsweredError(f"prediction {reply.id} has another answer already; the first one stands")
    return Receipt(reply.id, stream.name, is_miss(show_misses(first)[0]), repeated=True)


def _note_alarm(work: UnitOfWork, watch: Watch, now: float, *, level: int) -> None:
    new = [row.at for row in work.new[schema.answers] if row.weight > 0.0]
    alarms.note(work.transaction, work.stream.id, watch, at=now, unwritten=new, level=level)


def find_round(work: UnitOfWork, id: str) -> RoundRow:  # noqa: A002
    """Return a round as it is in the log, or raise if there is none, or what it held is erased."""
    _, number, tag = id.split("-")
    row = work.rounds.get(int(number))
    try:
        # A link that is no bytes raises: SQLite keeps whatever it is given.
        if row is None or (b"" + row.link)[:TAG].hex() != tag:
            raise unknown(id)
    except TypeError as error:
        raise make_round_error(work.stream.name, number, error) from None
    if row.digest is not None:
        raise RefusedError(f"prediction {id} was erased; it takes no answer any more", code="erased")
    return row


def unknown(id: str) -> UnknownRoundError:  # noqa: A002
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")
