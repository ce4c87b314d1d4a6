"""A stream is a fold of its log: play the log again and name the first difference."""

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import sqlalchemy as sql

from keyhole.draws import draw_of
from keyhole.errors import KeyholeError
from keyhole.rounds import Round, propose
from keyhole.scores import Region
from keyhole.store import standing
from keyhole.store.answers import settle_reply
from keyhole.store.database import Database
from keyhole.store.schema import feedback, marks, open_rounds, rounds
from keyhole.store.standing import Standing

_PAGE = 1000


@dataclass(frozen=True)
class Replay:
    """How much of the log was played, and the first difference if there is one."""

    stream: str
    rounds: int
    answers: int
    difference: str | None


class _Difference(Exception):  # noqa: N818
    """The log and its replay part here."""


@dataclass
class _Player:
    """The stream as it would be if the log so far were all of it."""

    here: Standing
    waiting: dict[int, Round[Region]] = field(default_factory=dict)

    def predict(self, row: Any) -> None:
        """Predict a round again."""
        here = self.here
        _expect(f"round {here.tally.predicted}", "number", row.number, here.tally.predicted)
        case = here.blueprint.unpack(row.output, row.labels)
        opened = propose(
            here.blueprint.learner,
            here.state,
            case,
            number=row.number,
            draw=draw_of(here.blueprint.seed, row.number),
        )
        _expect(f"round {row.number}", "threshold", row.threshold, opened.prediction.threshold)
        _expect(f"round {row.number}", "size", row.size, opened.prediction.size)
        here.tally.predicted += 1
        if row.answered:
            self.waiting[row.number] = opened

    def answer(self, row: Any) -> None:
        """Answer a round again."""
        where = f"the answer to round {row.number}"
        if row.number not in self.waiting:
            raise _Difference(f"{where} comes before the round was predicted, or a second time")
        try:
            outcome = settle_reply(self.here, self.waiting.pop(row.number), json.loads(row.answer))
        except KeyholeError as error:
            raise _Difference(f"{where} cannot be used: {error}") from None
        _expect(where, "miss", bool(row.missed), outcome.missed)
        _expect(where, "score", row.score, outcome.score)
        _expect(where, "size", row.size, outcome.size)
        self.here.count(outcome)

    def mark(self, row: Any) -> None:
        """Compare a snapshot."""
        where = f"the snapshot after {row.answered} answers"
        _expect(where, "number of misses", row.misses, self.here.tally.misses)
        _expect(where, "sum of sizes", row.size, self.here.tally.size)
        _expect(where, "state of the learner", row.state, standing.pack_state(self.here.state))


def replay(database: Database, name: str) -> Replay:
    """Play the log of a stream from its first round to where it stands."""
    with database.read() as connection:
        stored = standing.found(connection, name)
        player = _Player(standing.afresh(stored))
        tally = player.here.tally
        try:
            for kind, row in _events(connection, stored):
                _expect("the log", "version", row.version, player.here.version + (kind != "mark"))
                player.here.version = row.version
                getattr(player, kind)(row)
            _compare_end(connection, stored, player.here)
        except _Difference as difference:
            return Replay(name, tally.predicted, tally.answered, str(difference))
    return Replay(name, tally.predicted, tally.answered, None)


def _events(connection: sql.Connection, here: Standing) -> Iterator[tuple[str, Any]]:
    """Yield rounds, answers and snapshots in the order in which they were written."""
    answered = sql.exists().where(
        feedback.c.stream == rounds.c.stream, feedback.c.number == rounds.c.number
    )
    predicted = _pages(connection, sql.select(rounds, answered.label("answered")), rounds, here)
    answers = _pages(connection, sql.select(feedback), feedback, here)
    snapshots = _pages(connection, sql.select(marks), marks, here)
    # Where versions are equal, merge keeps this order: a snapshot comes after its answer.
    sources = (
        zip(repeat("predict"), predicted),
        zip(repeat("answer"), answers),
        zip(repeat("mark"), snapshots),
    )
    yield from heapq.merge(*sources, key=lambda event: event[1].version)


def _pages(connection: sql.Connection, query: Any, table: sql.Table, here: Standing) -> Iterator[Any]:
    order = table.c.number if table is rounds else table.c.version
    after = -1
    while True:
        page = connection.execute(
            query.where(table.c.stream == here.id, order > after, table.c.version <= here.version)
            .order_by(order)
            .limit(_PAGE)
        ).all()
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].number if table is rounds else page[-1].version


def _compare_end(connection: sql.Connection, stored: Standing, played: Standing) -> None:
    where = "the stream's row"
    _expect(where, "version", stored.version, played.version)
    for name in ("predicted", "answered", "misses", "size", "bound_broken"):
        _expect(where, name, getattr(stored.tally, name), getattr(played.tally, name))
    _expect(where, "recent window", stored.recent, played.recent)
    _expect(
        where,
        "state of the learner",
        standing.pack_state(stored.state),
        standing.pack_state(played.state),
    )
    waiting = connection.execute(
        sql.select(sql.func.count()).select_from(open_rounds).where(open_rounds.c.stream == stored.id)
    ).scalar_one()
    _expect(where, "number of open rounds", waiting, stored.open)


def _expect(where: str, what: str, stored: Any, played: Any) -> None:
    if stored == played:
        return
    if isinstance(stored, bytes):
        place = _first_difference(stored, played)
        raise _Difference(f"{where}: the {what} differs from byte {place} on")
    raise _Difference(f"{where}: the {what} is {stored!r}, and the replay gives {played!r}")


def _first_difference(stored: bytes, played: bytes) -> int:
    length = min(len(stored), len(played))
    unequal = np.frombuffer(stored[:length], np.uint8) != np.frombuffer(played[:length], np.uint8)
    return int(np.argmax(unequal)) if unequal.any() else length
