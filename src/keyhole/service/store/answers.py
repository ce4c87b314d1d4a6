"""Rounds answered: each reply is counted or refused, in one transaction that holds the stream."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sql

from keyhole.errors import (
    AnsweredError,
    ExpiredError,
    KeyholeError,
    ReferredError,
    UnknownRoundError,
    UnknownStreamError,
)
from keyhole.predictor.setup import Setup
from keyhole.service.store import alarms, stream
from keyhole.service.store.chain import make_link
from keyhole.service.store.database import Database, append
from keyhole.service.store.direct import Connection
from keyhole.service.store.opening import check_awaited, recall_round
from keyhole.service.store.replies import Settled, is_miss, settle_reply
from keyhole.service.store.schema import SUMS, feedback, marks, open_rounds, rounds
from keyhole.service.store.stream import Stream

MARK_EVERY = 100
Result = TypeVar("Result")
_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{10})", re.ASCII)


class Reply(NamedTuple):
    """An answer to a round, in a form that ``keyhole.service.store.replies`` reads."""

    id: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Counted:
    """An answer that is durable; ``repeated`` if it was there before.

    ``missed`` is None where the round was skipped.
    """

    id: str
    stream: str
    missed: bool | None
    repeated: bool = False


def answer(database: Database, replies: Sequence[Reply], *, now: float) -> list[Counted | KeyholeError]:
    """Settle every reply that can be; each comes to what was counted, or to why it was not."""
    results: dict[int, Counted | KeyholeError] = {}
    by_stream: dict[int, list[tuple[int, Reply]]] = {}
    for place, reply in enumerate(replies):
        wanted = find_stream(reply.id)
        if wanted is None:
            results[place] = _unknown(reply.id)
        else:
            by_stream.setdefault(wanted, []).append((place, reply))
    for wanted, group in by_stream.items():
        told = _answer_stream(database, wanted, [reply for _, reply in group], now)
        results.update(zip((place for place, _ in group), told, strict=True))
    return [results[place] for place in range(len(replies))]


def find_stream(id: str) -> int | None:  # noqa: A002
    """Return which stream a prediction's id belongs to, None if it is no such id."""
    match = _ID.fullmatch(id)
    return None if match is None else int(match[1])


def _answer_stream(
    database: Database, wanted: int, replies: list[Reply], now: float
) -> list[Counted | KeyholeError]:
    try:
        with database.change() as connection:
            return join(connection, stream.lock_any(connection, wanted), replies, now=now)
    except UnknownStreamError:
        return [_unknown(reply.id) for reply in replies]
    except KeyholeError as error:
        return [error] * len(replies)


def join(
    connection: Connection, here: Stream, replies: Sequence[Reply], *, now: float
) -> list[Counted | KeyholeError]:
    """Settle replies to one stream as ``answer`` does, within a transaction that holds it."""
    results: list[Counted | KeyholeError] = []
    settling = _Settling(connection, here, now)
    numbers = [int(reply.id.split("-")[1]) for reply in replies]
    settling.fetch(numbers)
    for number, reply in zip(numbers, replies, strict=True):
        try:
            results.append(settling.settle(number, reply))
        except KeyholeError as error:
            results.append(error)
    settling.write()
    return results


class _Settling:
    """Where the replies to one stream are settled within a transaction."""

    def __init__(self, connection: Connection, here: Stream, now: float) -> None:
        self._connection, self._here, self._now = connection, here, now
        self._rows: dict[int, Any] = {}
        self._answers: dict[int, tuple[str, float | None]] = {}
        self._feedback: list[dict[str, Any]] = []
        self._marks: list[dict[str, Any]] = []

    def fetch(self, numbers: Iterable[int]) -> None:
        """Read the rounds, with what is known of their answers."""
        for row in self._connection.execute(*_FETCH(self._here.id, sorted(set(numbers)))):
            self._rows[row.number] = row
            if row.answer is not None:
                self._answers[row.number] = (row.answer, row.miss)

    def settle(self, number: int, reply: Reply) -> Counted:
        """Count the reply, or find it counted, or raise."""
        here, row = self._here, self._rows.get(number)
        if row is None or reply.id != here.prediction_id(number):
            raise _unknown(reply.id)
        if number in self._answers:
            return self._again(number, reply)
        stream.check_open(here)
        if row.expires is None:
            _read(check_awaited, here, row)
        if row.expires is None or row.expires <= self._now:
            raise ExpiredError(
                f"prediction {reply.id} has expired: its {here.lifetime:g} seconds are "
                f"over, or more than {here.setup.open_limit} were open; predict again"
            )
        waiting = _read(recall_round, here, row)
        settled = settle_reply(here, waiting, reply.answer)
        here.version += 1
        self._note(number, reply, settled)
        return Counted(reply.id, here.name, settled.missed)

    def _again(self, number: int, reply: Reply) -> Counted:
        first, miss = self._answers[number]
        if json.loads(first) != reply.answer:
            raise AnsweredError(
                f"prediction {reply.id} has another answer already; the first one stands"
            )
        return Counted(reply.id, self._here.name, is_miss(miss), repeated=True)

    def _note(self, number: int, reply: Reply, settled: Settled) -> None:
        text = json.dumps(reply.answer)
        self._answers[number] = (text, settled.miss)
        common = {"stream": self._here.id, "version": self._here.version, "at": self._now}
        row: dict[str, Any] = {**common, "number": number, "answer": text, **settled._asdict()}
        self._here.link = row["link"] = make_link(self._here.link, feedback, row)
        self._feedback.append(row)
        here, tally = self._here, self._here.tally
        if settled.weight:  # Nothing else is watched.
            unwritten = sum(one["weight"] > 0.0 for one in self._feedback)
            alarms.note(self._connection, here.id, here.watch, at=self._now, unwritten=unwritten)
        if settled.miss is not None and tally.answered % MARK_EVERY == 0:
            sums = {name: getattr(tally, name) for name in SUMS}
            self._marks.append(
                {**common, **sums, "progress": self._here.progress.pack(self._here.setup.learner)}
            )

    def write(self) -> None:
        """Append what was counted and put the stream back."""
        if not self._feedback:
            return
        numbers = [row["number"] for row in self._feedback]
        append(self._connection, feedback, self._feedback)
        self._connection.execute(*_CLOSE(self._here.id, numbers))
        if self._marks:
            append(self._connection, marks, self._marks)
        stream.write(self._connection, self._here)


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
        rounds.c.context,
        open_rounds.c.then,
        open_rounds.c.memo,
        open_rounds.c.expires,
        feedback.c.answer,
        feedback.c.miss,
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


def _read(read: Callable[[Setup[Any], Any], Result], here: Stream, row: Any) -> Result:
    """Return what a function makes of a row; one that cannot be read puts its stream in quarantine."""
    try:
        return read(here.setup, row)
    except ReferredError:
        raise
    except (KeyholeError, LookupError, TypeError, ValueError) as error:
        raise stream.quarantine(here.name, f"its round {row.number} cannot be read: {error}") from None


def _unknown(id: str) -> UnknownRoundError:  # noqa: A002
    return UnknownRoundError(f"there is no prediction {id[:80]!r}; check the id")
