"""History with its labels, played before the first round of a stream: sent, from a file, or from a log.

A calibration is an event of the log. It holds what the learner had become by it, and a digest of the
history, not the history itself.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from keyhole.errors import InvalidError, LabelError
from keyhole.predictor.context import (
    NOTHING_KNOWN,
    Features,
    Groups,
    Known,
    read_context,
    show_context,
    unpack_context,
)
from keyhole.scores import find_labels
from keyhole.service.store.sql import pages, statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import changes
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.shadows import dump_shadows
from keyhole.service.store.streams.stream import Stream, change_stream, find_stream

if TYPE_CHECKING:
    from keyhole.service.store.sql.schema import AmendmentRow, AnswerRow

AT_ONCE = 10_000
_FEW_HITS = 0.1  # of all hits: so many without a label hardly change what history says


class Past(NamedTuple):
    """A round of history: the output of the model, and what was true, or whether it was right."""

    output: Any
    label: Any
    features: Features | None = None
    groups: Groups = ()


def calibrate(
    database: Database, name: str, history: Sequence[Past], *, now: float, after: int | None = None
) -> Stream:
    """Teach a stream its history, before its first round.

    ``after`` is how many rounds of history are there already; what comes again is then not played.
    """
    with change_stream(database, name) as work:
        stream, there = work.stream, work.stream.tally.calibrated
        if after is not None and after + len(history) <= there:
            return stream
        if after is not None and after != there:
            raise InvalidError(
                f"{there:,} rounds of history are there, not {after:,}; go on after those"
            )
        changes.note(work, learn(stream, history, now=now))
    return stream


def learn(stream: Stream, history: Sequence[Past], *, now: float, of: str = "") -> Change:
    if stream.tally.predicted:
        raise InvalidError(
            f"stream {stream.name!r} has had {stream.tally.predicted:,} rounds, and history comes "
            "before the first; make a new stream for it"
        )
    setup, before = stream.setup, stream.tally.calibrated_excess
    outputs, labels = [past.output for past in history], [past.label for past in history]
    names = find_labels(setup.score)
    for number, past in enumerate(history, start=stream.tally.calibrated):
        try:
            setup.kind.read(setup, stream.progress, past.output)
        except InvalidError as error:
            raise type(error)(f"round {number} of the history: {error}") from None
        if names is not None and past.label not in names:
            raise LabelError(
                f"round {number} of the history: label {past.label!r:.80} is not one of the stream's "
                f"{len(names):,} labels; add it to them, or leave the round out"
            )
    contexts = [read_context(setup, past.features, past.groups) for past in history]
    scale = copy.deepcopy(stream.progress.scale)
    stream.progress.calibrate(setup, outputs, labels, contexts=contexts)
    for shadow in stream.shadows:
        own, progress = shadow.setup, shadow.progress
        known = contexts if own.context else [NOTHING_KNOWN] * len(outputs)
        progress.scale = copy.deepcopy(scale)
        progress.calibrate(own, outputs, labels, contexts=known)
        progress.scale = None
    digest = blake2b(json.dumps(history, default=repr).encode(), digest_size=16).hexdigest()
    content = {"rounds": len(history), "digest": digest, "of": of}
    content["excess"] = stream.tally.calibrated_excess - before
    if stream.shadows:
        content["shadows"] = json.loads(dump_shadows(stream.shadows) or "[]")
    return Change(now, changes.CALIBRATED, content, stream.progress.pack(setup.learner))


def learn_log(transaction: Transaction, stream: Stream, old: str, *, now: float) -> list[Change]:
    """Teach a new stream what another one's log tells, or raise if that would mislead it."""
    source = find_stream(transaction, old)
    if source.setup.kind.decides or stream.setup.kind.decides:
        raise InvalidError(
            f"the log of stream {old!r} cannot calibrate decisions, or be calibrated by them: it "
            "holds outcomes of accepted answers only; calibrate with judged history instead"
        )
    for missed, count, silent in transaction.fetch(statements.COUNT_UNLABELLED, source.id):
        if silent > (0 if missed else count * _FEW_HITS):
            what, size = ("misses", "small") if missed else ("hits", "large")
            raise InvalidError(
                f"{silent:,} {what} of stream {old!r} were answered without the true label: history "
                f"without them would make sets too {size}; calibrate with labelled history instead"
            )
    kept = stream.setup.names == source.setup.names
    history, learnt = _read_log(transaction, source, kept=kept), list[Change]()
    while block := list(islice(history, AT_ONCE)):
        learnt.append(learn(stream, block, now=now, of=old))
    if not learnt:
        raise InvalidError(
            f"the log of stream {old!r} holds no labelled round (its own history is not kept in it); "
            "calibrate with labelled history instead, or leave calibrate_from out"
        )
    return learnt


def _read_log(transaction: Transaction, source: Stream, *, kept: bool) -> Iterator[Past]:
    end = source.tally.predicted
    rounds = pages.list_rounds(transaction, statements.PAGE_LOG, source.id, end=end)
    while page := list(islice(rounds, pages.ROUNDS)):
        final: dict[int, AnswerRow | AmendmentRow] = {
            row.number: answer for row, _, answer in page if answer and row.digest is None
        }
        amended = transaction.fetch(statements.FIND_AMENDMENTS, source.id, list(final))
        final.update((amendment.number, amendment) for amendment in amended)  # The last one stands.
        for row, _, _ in page:
            answer = final.get(row.number)
            if answer is not None and answer.kind == "label":
                case = source.setup.score.unpack(row.output, row.labels)
                known = Known()
                if kept:
                    known = show_context(source.setup, unpack_context(source.setup, row.context))
                label = json.loads(answer.answer)["label"]
                yield Past(case.output, label, known.features, known.groups)
