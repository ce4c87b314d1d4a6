"""A stream is a fold of its log: play the log again and name the first difference.

Every row is held to its place in the chain and to what the replay makes of it; at the end the stream's
row, its open rounds and its snapshots are held to what the log comes to.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import sqlalchemy as sql

from keyhole.errors import QuarantinedError
from keyhole.service.store.log.chain import make_link
from keyhole.service.store.log.player import Difference, Player, expect
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import alarms as raised
from keyhole.service.store.sql.schema import changes, feedback, marks, open_rounds, rounds, streams
from keyhole.service.store.streams import alarms, stream

_PAGE = 1000
_TABLES = {"predict": rounds, "answer": feedback, "change": changes, "mark": marks}
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class StreamReplay:
    """How much of the log was played, and the first difference if there is one.

    ``unplayed`` rounds came from a Keyhole whose rules were others: of them only the chain was checked.
    """

    stream: str
    rounds: int
    answers: int
    difference: str | None
    unplayed: int
    link: bytes


def replay(database: Database, name: str) -> StreamReplay:
    """Play the log of a stream from its first row to where it stands."""
    player = Player()
    with database.read() as connection:
        row = stream.find_row(connection, name)
        try:
            _play(connection, row, player)
            _compare_end(connection, row, player)
        except Difference as difference:
            return _report(name, player, str(difference))
        except sql.exc.DatabaseError as error:
            where = f"the database cannot be read after version {player.version}"
            return _report(name, player, f"{where}: {error.orig}")
    return _report(name, player, None)


def find_strays(database: Database) -> list[str]:
    """Return, for every stream whose row is gone while its log is there, what is left of it."""
    left: dict[int, list[str]] = {}
    with database.read() as connection:
        known = sql.select(streams.c.id)
        for table in (rounds, feedback, changes, marks, open_rounds, raised):
            strays = sql.select(table.c.stream).where(table.c.stream.not_in(known)).distinct()
            for wanted in connection.execute(strays).scalars():
                left.setdefault(wanted, []).append(table.name)
    return [
        f"stream {wanted}: its row is gone, and rows of {', '.join(names)} are left"
        for wanted, names in sorted(left.items())
    ]


def _report(name: str, player: Player, difference: str | None) -> StreamReplay:
    tally = None if player.here is None else player.here.tally
    predicted, answered = (0, 0) if tally is None else (tally.predicted, tally.answered)
    return StreamReplay(name, predicted, answered, difference, player.unplayed, player.link)


def _play(connection: sql.Connection, stored: Any, player: Player) -> None:
    for kind, row in _events(connection, stored):
        where = _name(kind, row)
        if kind == "mark":
            expect(where, "version", row.version, player.version)
        else:
            player.check_mark()
            expect("the log", f"version of {where}", row.version, player.version + 1)
            player.version = row.version
        try:
            getattr(player, kind)(where, row)
            if kind != "mark":
                link = make_link(player.link, _TABLES[kind], row._mapping)  # noqa: SLF001
        except Difference:
            raise
        except _UNREADABLE as error:
            raise Difference(f"{where} cannot be read: {type(error).__name__}: {error}") from None
        if kind != "mark":
            if link != row.link:
                raise Difference(f"{where} is not what was written, or a row before it is gone")
            player.link = link


def _name(kind: str, row: Any) -> str:
    match kind:
        case "predict":
            return f"round {row.number}"
        case "answer":
            return f"the answer to round {row.number}"
        case "mark":
            return f"the snapshot after {row.answered} answers"
    return f"the change {row.kind!r} of version {row.version}"


def _events(connection: sql.Connection, stored: Any) -> Iterator[tuple[str, Any]]:
    """Yield the rows of the log and its snapshots in the order in which they were written."""
    # Where versions are equal, merge keeps the order of the table: a snapshot comes after its answer.
    sources = (
        zip(repeat(kind), _pages(connection, table, stored.id)) for kind, table in _TABLES.items()
    )
    yield from heapq.merge(*sources, key=lambda event: event[1].version)


def _pages(connection: sql.Connection, table: sql.Table, wanted: int) -> Iterator[Any]:
    order, after = (table.c.number if table is rounds else table.c.version), -1
    query = sql.select(table).where(table.c.stream == wanted).order_by(order).limit(_PAGE)
    while True:
        page = connection.execute(query.where(order > after)).all()
        yield from page
        if len(page) < _PAGE:
            return
        after = getattr(page[-1], order.name)


def _compare_end(connection: sql.Connection, stored: Any, player: Player) -> None:
    player.check_mark()
    where, played = "the stream's row", player.stream
    played.link = player.link
    try:
        kept = stream.read_row(stored)
    except QuarantinedError as error:
        raise Difference(str(error)) from None
    expect(where, "version", stored.version, player.version)
    for name, value in played.tally.sum_up()._asdict().items():
        expect(where, name, getattr(kept.tally.sum_up(), name), value)
    for name in ("unreachable", "expired", "skipped"):
        expect(where, name, getattr(kept.tally, name), getattr(played.tally, name))
    learner = played.setup.learner
    expect(
        where,
        "state of the learner",
        learner.pack(kept.progress.state),
        learner.pack(played.progress.state),
    )
    columns = stream.list_columns(played)
    for column in streams.c:
        expect(where, column.name, getattr(stored, column.name), columns.get(column.name))
    _compare_open(connection, stored.id, player)
    listed = alarms.list_alarms(connection, stored.id, most=len(player.alarmed) + 1)
    expect("the stream", "list of alarms", listed, player.alarmed)


def _compare_open(connection: sql.Connection, wanted: int, player: Player) -> None:
    """Hold what waits for an answer to the rounds that the replay left open."""
    rows = connection.execute(
        sql.select(open_rounds).where(open_rounds.c.stream == wanted).order_by(open_rounds.c.number)
    )
    stored = {row.number: row for row in rows}
    for number in sorted(stored.keys() ^ player.open.keys()):
        wrong = "is gone" if number in player.open else "is there, and should be closed"
        raise Difference(f"round {number}: what it must remember until its answer {wrong}")
    for number, played in player.open.items():
        for column, value in played.list_columns(player.learner).items():
            expect(f"open round {number}", column, getattr(stored[number], column), value)
