"""Answers that turn out otherwise: the right one beside the first in the log, and in every account."""

import json
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from keyhole.errors import AnsweredError, FeedbackError
from keyhole.feedback import BESIDE, is_miss
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Outcome
from keyhole.service.store.log.chain import add_row
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.schema import FORMAT, AmendmentRow, AnswerRow, RoundRow
from keyhole.service.store.streams import answers
from keyhole.service.store.streams.answers import SKIP, Reply, name_answer, write_reply
from keyhole.service.store.streams.shadows import (
    check_tells_all,
    list_outcomes,
    pack_reals,
    show_misses,
    unpack_reals,
)
from keyhole.service.store.streams.stream import Stream, Task, UnitOfWork, make_archived_error
from keyhole.service.store.streams.updates import gather_bits, list_misses
from keyhole.service.wire.responses import Receipt


def make_tasks(
    replies: Sequence[Reply], *, now: float, check: Callable[[str], None] | None = None
) -> list[Task]:
    """Return what amends the answers that were given before to these."""
    return answers.make_tasks(replies, now=now, settle=_amend, check=check)


def _amend(work: UnitOfWork, reply: Reply, now: float) -> Receipt:
    """Write what an answer turned out to be, or find it written, or raise."""
    stream, row = work.stream, answers.find_round(work, reply.id)
    if stream.archived is not None:
        raise make_archived_error(stream.name)
    number, first = row.number, work.find_answer(row.number)
    if first is None or first.kind == SKIP:
        raise AnsweredError(f"prediction {reply.id} has no answer to amend; answer it as any other")
    work.flush()
    before = work.transaction.fetch(statements.FIND_AMENDMENTS, stream.id, [number])
    last = before[-1] if before else first
    if _leave_out_beside(last) == reply.answer:
        return Receipt(reply.id, stream.name, is_miss(show_misses(last)[0]), repeated=True)
    outcome, levels = apply(stream, row, last, reply.answer)
    kind, text, score = name_answer(reply.answer), write_reply(reply.answer), list_score(outcome)
    result = (kind, text, outcome.miss, outcome.weight, score, levels)
    version, format_ = stream.version + 1, FORMAT["amendments"]
    amended = AmendmentRow(stream.id, version, format_, number, now, *result)
    add_row(work, amended)
    work.flush()
    if outcome.weight:
        stream.recent = gather_bits(list_misses(work.transaction, stream.id, most=stream.window))
    return Receipt(reply.id, stream.name, is_miss(show_misses(amended)[0]))


# What is to be amended of a learner: its round, what that came to before, and what it comes to now.
_Amended = tuple[Setup, Progress, Round[Any], Outcome, Outcome]


def apply(
    stream: Stream, kept: RoundRow, last: AnswerRow | AmendmentRow, answer: Any
) -> tuple[Outcome, bytes | None]:
    """Let a stream's accounts be those of this answer instead of the last one that was counted.

    Return what it came to; and on the inner levels, as the log keeps it.
    """
    if answer == SKIP or BESIDE.intersection(answer):
        raise FeedbackError(
            "an amendment says what was right, and keeps the chance of the first answer; give label, "
            "hit, miss, score, loss or right alone"
        )
    if stream.alphas:
        check_tells_all(answer)
    thresholds, results = unpack_reals(kept.levels), list_outcomes(last)
    learners = [(stream.setup, stream.progress, kept, last.miss or 0.0)]
    for one, threshold, (miss, size) in zip(stream.levels, thresholds, results, strict=True):
        learners.append((one.setup, one.progress, kept._replace(threshold=threshold, size=size), miss))
    # Before any of them is amended: all can be, or none is.
    outer, *inner = [
        _read_amended(*one[:2], one[2], last, miss=one[3], answer=answer) for one in learners
    ]
    outcome = stream.setup.kind.amend(*outer)
    amended = [stream.setup.kind.amend(*one) for one in inner]
    pairs = [(one.miss, size) for one, (_, size) in zip(amended, results, strict=True)]
    return outcome, pack_reals(list(chain.from_iterable(pairs))) if pairs else None


def _read_amended(
    setup: Setup,
    progress: Progress,
    kept: RoundRow,
    last: AnswerRow | AmendmentRow,
    *,
    miss: float,
    answer: object,
) -> _Amended:
    answered = setup.kind.recall(setup, kept)
    before = Outcome(miss, math.nan, weight=last.weight)
    if "judged" not in json.loads(last.answer):  # A judge's word counts no truth as out of reach.
        was = setup.kind.read_amended(answered, setup, _leave_out_beside(last))
        before = before._replace(unreachable=was.unreachable)
    after = setup.kind.read_amended(answered, setup, answer)
    return setup, progress, answered, before, after


def _leave_out_beside(row: AnswerRow | AmendmentRow) -> Any:
    """Return what an answer said, without how likely it was to come or to be wrong."""
    answer = json.loads(row.answer)
    if not isinstance(answer, dict):
        return answer
    alone = {name: value for name, value in answer.items() if name not in BESIDE}
    word = next(iter(alone))
    return word if word in ("hit", "miss") else alone


def list_score(outcome: Outcome) -> float | None:
    return None if math.isnan(outcome.score) else outcome.score
