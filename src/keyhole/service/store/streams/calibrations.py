"""History with its labels, played before the first round of a stream: sent, from a file, or from a log.

A calibration is an event of the log. It holds what the learner had become by it, and a digest of the
history, not the history itself.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from keyhole.errors import InvalidError
from keyhole.predictor.calibration import calibrate as play
from keyhole.predictor.context import (
    Features,
    Groups,
    Known,
    read_context,
    show_context,
    unpack_context,
)
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import changes, stream
from keyhole.service.store.streams.stream import Stream

AT_ONCE = 10_000


class Past(NamedTuple):
    """A round of history: what the model said, and what was true."""

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
    with database.write() as transaction:
        here = stream.lock(transaction, name)
        there = here.tally.calibrated
        if after is not None and after + len(history) <= there:
            return here
        if after is not None and after != there:
            raise InvalidError(
                f"{there:,} rounds of history are there, not {after:,}; go on after those"
            )
        learn(here, history).note(transaction, here, now=now)
        stream.write(transaction, here)
        return here


class Lesson(NamedTuple):
    """A calibration as the log keeps it: of how much, and what the learner had become by it."""

    content: dict[str, Any]
    progress: bytes

    def note(self, transaction: Transaction, here: Stream, *, now: float) -> None:
        """Append it to the log; the stream's row is the caller's to write."""
        changes.note(
            transaction,
            here,
            kind=changes.CALIBRATED,
            content=self.content,
            now=now,
            progress=self.progress,
        )


def learn(here: Stream, history: Sequence[Past], *, of: str = "") -> Lesson:
    """Teach a stream its history, and return what is to be noted of that."""
    if here.setup.kind.decides:
        raise InvalidError(
            f"stream {here.name!r} is a gate, which learns from its own decisions; 'keyhole gate' says "
            "what it would have done with a log"
        )
    if here.tally.predicted:
        raise InvalidError(
            f"stream {here.name!r} has had {here.tally.predicted:,} rounds, and history comes before "
            "the first; make a new stream for it"
        )
    outputs = [past.output for past in history]
    for output in outputs:
        here.setup.kind.read(here.setup, here.progress, output)
    learner, before = here.setup.learner, here.tally.calibrated_excess
    contexts = [read_context(here.setup, past.features, past.groups) for past in history]
    play(here.setup, here.progress, outputs, [past.label for past in history], contexts=contexts)
    digest = blake2b(json.dumps(history, default=repr).encode(), digest_size=16).hexdigest()
    content = {"rounds": len(history), "digest": digest, "of": of}
    content["excess"] = here.tally.calibrated_excess - before
    return Lesson(content, here.progress.pack(learner))


def learn_log(transaction: Transaction, here: Stream, old: str) -> list[Lesson]:
    """Teach a new stream what another one's log tells, or raise if that would mislead it."""
    source = stream.find(transaction, old)
    (silent,) = transaction.fetch(statements.COUNT_UNLABELLED_MISSES, source.id)
    if silent:
        raise InvalidError(
            f"{silent:,} misses of stream {old!r} were told without the true label: history without "
            "them would make sets too small; calibrate with labelled history instead"
        )
    kept = here.setup.names == source.setup.names
    told = _gather(_read_log(transaction, source, kept=kept), AT_ONCE)
    return [learn(here, some, of=old) for some in told]


def _read_log(transaction: Transaction, source: Stream, *, kept: bool) -> Iterator[Past]:
    """Yield the rounds of a log whose true label was told, in order, with what was known if kept."""
    after, end = -1, source.tally.predicted
    while page := transaction.fetch(statements.PAGE_LOG, source.id, after, end, 1000):
        for row in page:
            if row.kind == "label" and row.answer is not None:
                case = source.setup.score.unpack(row.output, row.labels)
                known = Known()
                if kept:
                    known = show_context(source.setup, unpack_context(source.setup, row.context))
                label = json.loads(row.answer)["label"]
                yield Past(case.output, label, known.features, known.groups)
        after = page[-1].number


def _gather(history: Iterator[Past], most: int) -> Iterator[list[Past]]:
    some: list[Past] = []
    for past in history:
        some.append(past)
        if len(some) == most:
            yield some
            some = []
    if some:
        yield some
