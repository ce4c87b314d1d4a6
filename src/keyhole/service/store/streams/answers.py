"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream.

An answer that turns out otherwise is amended: the right one stands beside the first in the log, and in
every account.
"""

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
    FeedbackError,
    KeyholeError,
    ReferredError,
    RefusedError,
    UnknownRoundError,
    UnknownStreamError,
)
from keyhole.feedback import BESIDE, is_miss
from keyhole.predictor.rounds import Round, answer_round
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Outcome
from keyhole.scores.score import write_json
from keyhole.service.store.log.chain import TAG, add_row
from keyhole.service.store.sql import schema, statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import (
    FORMAT,
    AmendmentRow,
    AnswerRow,
    OpenRow,
    RoundRow,
    SnapshotRow,
)
from keyhole.service.store.streams import alarms, shadows
from keyhole.service.store.streams.shadows import Heard
from keyhole.service.store.streams.stream import (
    Stream,
    Task,
    UnitOfWork,
    make_archived_error,
    make_round_error,
    run_tasks,
)
from keyhole.service.store.streams.updates import gather_bits, list_misses
from keyhole.service.wire.responses import Receipt

SNAPSHOT_EVERY = 100
SKIP = "skip"
_NOT_AMENDED = BESIDE | {"judged"}  # what an amendment does not say: it tells the truth
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
    amends: bool = False,
    check: Callable[[str], None] | None = None,
) -> list[Task]:
    """Return what settles the replies, for each stream, or amends those before; some may be to none.

    ``check`` raises if the name of a stream is not to be answered by whoever asks.
    """
    by_stream: dict[int, list[tuple[int, int, Reply]]] = {}
    for place, reply in enumerate(replies):
        if (found := read_id(reply.id)) is not None:
            by_stream.setdefault(found[0], []).append((place, found[1], reply))
    tasks, settle = [], _amend if amends else _settle
    for stream_id, places in by_stream.items():
        positions, numbers, own = zip(*places, strict=True)
        change = partial(_settle_replies, replies=own, settle=settle, now=now, check=check)
        tasks.append(Task(stream_id, change, numbers=numbers, positions=positions))
    return tasks


def read_id(id: str) -> tuple[int, int] | None:
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
        own = stream.progress.watch
        watches = [one.watch for one in shadows.list_levels(stream)] if stream.shadows else [own]
        for level, watch in enumerate(watches):
            if watch.rounds in (watch.raised, watch.cleared):
                new = [row.at for row in work.new[schema.answers] if row.weight > 0.0]
                alarms.note(work.transaction, stream.id, watch, at=now, unwritten=new, level=level)
    if stream.progress.tally.answered % SNAPSHOT_EVERY == 0:
        packed, sums = stream.progress.pack(stream.setup.learner), stream.tally.sum_up()
        taken = (stream.id, stream.version, now, *sums, packed, shadows.dump_shadows(stream.shadows))
        work.new[schema.snapshots].append(SnapshotRow(*taken))
    shown = answered.miss if answered.levels is None else shadows.show_misses(answered)[0]
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
                shadows.check_tells_all(answer)
            heard = shadows.recall_beside(stream.shadows, opened.shadows, kept, waiting, answer)
        scale = copy.deepcopy(stream.progress.scale) if heard else None
        outcome = answer_round(setup, stream.progress, waiting, answer)
        miss, weight = outcome.miss, outcome.weight
        score = outcome.score if outcome.score == outcome.score else None  # NaN: not told
        if weight:  # A loss of a half is a miss, as for ``is_miss``.
            stream.recent = (stream.recent << 1 | (miss >= 0.5)) & ((1 << stream.window) - 1)
        if heard:
            levels = shadows.learn_beside(heard, waiting, outcome, scale=scale)
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
    return Receipt(reply.id, stream.name, is_miss(shadows.show_misses(first)[0]), repeated=True)


def find_round(work: UnitOfWork, id: str) -> RoundRow:
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


def unknown(id: str) -> UnknownRoundError:
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")


def _amend(work: UnitOfWork, reply: Reply, now: float) -> Receipt:
    """Write what an answer turned out to be, or find it written, or raise."""
    stream, row = work.stream, find_round(work, reply.id)
    if stream.archived is not None:
        raise make_archived_error(stream.name)
    number, first = row.number, work.find_answer(row.number)
    if first is None:
        raise AnsweredError(f"prediction {reply.id} has no answer to amend; answer it as any other")
    if first.kind == SKIP:
        raise AnsweredError(
            f"prediction {reply.id} was skipped: it has no answer to amend, and takes none any more"
        )
    work.flush()
    before = work.transaction.fetch(statements.FIND_AMENDMENTS, stream.id, [number])
    last = before[-1] if before else first
    if _leave_out_chance(last) == reply.answer:
        return Receipt(reply.id, stream.name, is_miss(shadows.show_misses(last)[0]), repeated=True)
    amended = add_row(work, amend_reply(stream, row, last, reply.answer, now=now))
    work.flush()
    if amended.weight:
        stream.recent = gather_bits(list_misses(work.transaction, stream.id, most=stream.window))
    return Receipt(reply.id, stream.name, is_miss(shadows.show_misses(amended)[0]))


def amend_reply(
    stream: Stream, kept: RoundRow, last: AnswerRow | AmendmentRow, answer: Any, *, now: float
) -> AmendmentRow:
    """Let a stream's accounts be those of this answer, not of the last; return its row, unlinked."""
    if answer == SKIP or _NOT_AMENDED.intersection(answer):
        raise FeedbackError(
            "an amendment says what was right, and keeps the chance of the first answer; give label, "
            "hit, miss, score, loss or right alone"
        )
    if stream.alphas:
        shadows.check_tells_all(answer)
    results = shadows.list_outcomes(last)
    learners = [(stream.setup, stream.progress, kept, last.miss or 0.0)]
    inner = zip(stream.levels, shadows.unpack_reals(kept.levels), results, strict=True)
    for one, threshold, (miss, size) in inner:
        learners.append((one.setup, one.progress, kept._replace(threshold=threshold, size=size), miss))
    # Before any of them is amended: all can be, or none is.
    read = [
        (setup, progress, _read_amended(setup, row, last, miss=miss, answer=answer))
        for setup, progress, row, miss in learners
    ]
    outcome, *others = [setup.kind.amend(setup, progress, *was) for setup, progress, was in read]
    levels = [part for one, (_, size) in zip(others, results, strict=True) for part in (one.miss, size)]
    score = None if math.isnan(outcome.score) else outcome.score
    result = (outcome.miss, outcome.weight, score, shadows.pack_reals(levels) if levels else None)
    told = (name_answer(answer), write_reply(answer), *result)
    version, format_ = stream.version + 1, FORMAT["amendments"]
    return AmendmentRow(stream.id, version, format_, kept.number, now, *told)


def _read_amended(
    setup: Setup, kept: RoundRow, last: AnswerRow | AmendmentRow, *, miss: float, answer: object
) -> tuple[Round[Any], Outcome, Outcome]:
    """Return a round of a learner, what it came to before, and what it comes to now."""
    answered = setup.kind.recall(setup, kept)
    before = Outcome(miss, math.nan, weight=last.weight)
    if "judged" not in json.loads(last.answer):  # A judge's word counts no truth as out of reach.
        was = setup.kind.read_amended(answered, setup, _leave_out_chance(last))
        before = before._replace(unreachable=was.unreachable)
    return answered, before, setup.kind.read_amended(answered, setup, answer)


def _leave_out_chance(row: AnswerRow | AmendmentRow) -> Any:
    """Return what an answer said, without how likely it was to come.

    How likely it is to be wrong stays, and a judge's word: the truth alone says more.
    """
    answer = json.loads(row.answer)
    if not isinstance(answer, dict):
        return answer
    alone = {name: value for name, value in answer.items() if name != "chance"}
    word = next(iter(alone))
    return word if len(alone) == 1 and word in ("hit", "miss") else alone
