"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from keyhole.errors import (
    AnsweredError,
    ExpiredError,
    FeedbackError,
    KeyholeError,
    UnknownRoundError,
    UnknownStreamError,
)
from keyhole.feedback import HIT, MISS
from keyhole.rounds import Outcome, Round, settle
from keyhole.scores import Region
from keyhole.store import standing
from keyhole.store.database import Database, append
from keyhole.store.schema import feedback, marks, open_rounds, rounds
from keyhole.store.standing import Standing

MARK_EVERY = 100
_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{10})", re.ASCII)


class Reply(NamedTuple):
    """An answer to a round: ``"hit"``, ``"miss"`` or ``{"label": ...}``."""

    id: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Counted:
    """An answer that is durable; ``repeated`` if it was there before."""

    id: str
    stream: str
    missed: bool
    repeated: bool = False


def answer(database: Database, replies: Sequence[Reply], *, now: float) -> list[Counted | KeyholeError]:
    """Settle every reply that can be; each comes to what was counted, or to why it was not."""
    results: dict[int, Counted | KeyholeError] = {}
    by_stream: dict[int, list[tuple[int, int, Reply]]] = {}
    for place, reply in enumerate(replies):
        match = _ID.fullmatch(reply.id)
        if match is None:
            results[place] = _unknown(reply.id)
        else:
            by_stream.setdefault(int(match[1]), []).append((place, int(match[2]), reply))
    for stream, group in by_stream.items():
        results.update(_answer_stream(database, stream, group, now))
    return [results[place] for place in range(len(replies))]


def _answer_stream(
    database: Database, stream: int, group: list[tuple[int, int, Reply]], now: float
) -> dict[int, Counted | KeyholeError]:
    results: dict[int, Counted | KeyholeError] = {}
    try:
        with database.write() as connection:
            desk = _Desk(connection, standing.locked(connection, stream), now)
            desk.fetch(number for _, number, _ in group)
            for place, number, reply in group:
                try:
                    results[place] = desk.settle(number, reply)
                except KeyholeError as error:
                    results[place] = error
            desk.write()
    except UnknownStreamError:
        return {place: _unknown(reply.id) for place, _, reply in group}
    except KeyholeError as error:
        return {place: error for place, _, _ in group}
    return results


class _Desk:
    """Where the replies to one stream are settled within a transaction."""

    def __init__(self, connection: sql.Connection, here: Standing, now: float) -> None:
        self._connection, self._here, self._now = connection, here, now
        self._rows: dict[int, Any] = {}
        self._answers: dict[int, tuple[str, bool]] = {}
        self._feedback: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []

    def fetch(self, numbers: Iterable[int]) -> None:
        """Read the rounds, with what is known of their answers."""
        for row in self._connection.execute(*_FETCH(self._here.id, sorted(set(numbers)))):
            self._rows[row.number] = row
            if row.answer is not None:
                self._answers[row.number] = (row.answer, row.missed)

    def settle(self, number: int, reply: Reply) -> Counted:
        """Count the reply, or find it counted, or raise."""
        here, row = self._here, self._rows.get(number)
        if row is None or reply.id != here.prediction_id(number):
            raise _unknown(reply.id)
        if number in self._answers:
            return self._again(number, reply)
        if row.expires is None or row.expires <= self._now:
            raise ExpiredError(
                f"prediction {reply.id} has expired: its {here.blueprint.lifetime:g} seconds are "
                f"over, or more than {here.blueprint.open_limit} were open; predict again"
            )
        waiting = _waiting(here, row)
        outcome = settle_reply(here, waiting, reply.answer)
        here.count(outcome)
        here.version += 1
        self._note(number, reply, outcome)
        return Counted(reply.id, here.name, outcome.missed)

    def _again(self, number: int, reply: Reply) -> Counted:
        first, missed = self._answers[number]
        if json.loads(first) != reply.answer:
            raise AnsweredError(
                f"prediction {reply.id} has another answer already; the first one stands"
            )
        return Counted(reply.id, self._here.name, missed, repeated=True)

    def _note(self, number: int, reply: Reply, outcome: Outcome) -> None:
        text = json.dumps(reply.answer)
        self._answers[number] = (text, outcome.missed)
        common = {"stream": self._here.id, "version": self._here.version, "at": self._now}
        told = {"score": outcome.score, "missed": outcome.missed, "size": outcome.size}
        self._feedback.append({**common, "number": number, "answer": text, **told})
        tally = self._here.tally
        if tally.answered % MARK_EVERY == 0:
            sums = {"answered": tally.answered, "misses": tally.misses, "size": tally.size}
            self._marks.append({**common, **sums, "state": standing.pack_state(self._here.state)})

    def write(self) -> None:
        """Append what was counted and put the stream back."""
        if not self._feedback:
            return
        numbers = [row["number"] for row in self._feedback]
        append(self._connection, feedback, self._feedback)
        self._connection.execute(*_CLOSE(self._here.id, numbers))
        if self._marks:
            append(self._connection, marks, self._marks)
        standing.write_answered(self._connection, self._here)


def _numbered(
    statement: Any, table: sql.Table
) -> Callable[[int, list[int]], tuple[Any, dict[str, Any]]]:
    """Return what restricts a statement to rounds of a stream; for one alone it stays simple."""
    mine = statement.where(table.c.stream == sql.bindparam("stream"))
    one = mine.where(table.c.number == sql.bindparam("one"))
    many = mine.where(table.c.number.in_(sql.bindparam("many", expanding=True)))

    def restricted(stream: int, numbers: list[int]) -> tuple[Any, dict[str, Any]]:
        if len(numbers) == 1:
            return one, {"stream": stream, "one": numbers[0]}
        return many, {"stream": stream, "many": numbers}

    return restricted


_FETCH = _numbered(
    sql.select(
        rounds.c.number,
        rounds.c.threshold,
        rounds.c.output,
        rounds.c.labels,
        open_rounds.c.memo,
        open_rounds.c.expires,
        feedback.c.answer,
        feedback.c.missed,
    ).select_from(
        rounds.outerjoin(
            open_rounds,
            sql.and_(open_rounds.c.stream == rounds.c.stream, open_rounds.c.number == rounds.c.number),
        ).outerjoin(
            feedback,
            sql.and_(feedback.c.stream == rounds.c.stream, feedback.c.number == rounds.c.number),
        )
    ),
    rounds,
)
_CLOSE = _numbered(open_rounds.delete(), open_rounds)


def settle_reply(here: Standing, waiting: Round[Region], reply: Any) -> Outcome:
    """Teach the stream's state what a reply tells, or raise."""
    learner = here.blueprint.learner
    if reply in ("hit", "miss"):
        return settle(learner, here.state, waiting, HIT if reply == "hit" else MISS)
    if not isinstance(reply, dict) or set(reply) != {"label"}:
        raise FeedbackError(f"{reply!r} is not an answer; give a label, a hit or a miss")
    return settle(learner, here.state, waiting, label=reply["label"])


def _waiting(here: Standing, row: Any) -> Round[Region]:
    case = here.blueprint.unpack(row.output, row.labels)
    return Round(case.region(row.number, row.threshold), case, np.frombuffer(row.memo).copy())


def _unknown(id: str) -> UnknownRoundError:  # noqa: A002
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")
