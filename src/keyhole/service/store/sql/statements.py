"""Every statement that is not an insert, in the words of ``backend``."""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from keyhole.service.store.sql import schema
from keyhole.service.store.sql.backend import Statement, read_scalar
from keyhole.service.store.sql.schema import AnswerRow, OpenRow, RoundRow, Row, Table

# ruff: noqa: S608 - what is put into these texts are names of tables and columns.


def _select(table: Table[Row], rest: str) -> Statement[Row]:
    return Statement(f"SELECT {table.listed} FROM {table.name} {rest}", table.make_row)


def _scalar(text: str) -> Statement[Any]:
    return Statement(text, read_scalar)


def _change(text: str) -> Statement[None]:
    return Statement(text, read_scalar)


READ_VERSION: Statement[int] = _scalar("SELECT version FROM meta")
STEP_VERSION = _change("UPDATE meta SET version = version + ?")
COUNT_STREAMS: Statement[int] = _scalar("SELECT count(*) FROM streams")
COUNT_ROUNDS: Statement[int] = _scalar("SELECT count(*) FROM rounds")

FIND_STREAM = _select(schema.streams, "WHERE name = ?")
LOCK_STREAM = _select(schema.streams, "WHERE name = ? FOR UPDATE")
LOCK_STREAM_BY_ID = _select(schema.streams, "WHERE id = ? FOR UPDATE")
LIST_STREAMS = _select(schema.streams, "WHERE id > ? ORDER BY id LIMIT ?")
LIST_NAMES: Statement[str] = _scalar("SELECT name FROM streams ORDER BY id")
_BUT_ID = [f'"{column.name}"' for column in schema.streams.columns if column.name != "id"]
ADD_STREAM: Statement[int] = _scalar(
    f"INSERT INTO streams ({', '.join(_BUT_ID)}) VALUES ({', '.join('?' for _ in _BUT_ID)}) "
    "ON CONFLICT (name) DO NOTHING RETURNING id"
)
WRITE_STREAM = _change(f"UPDATE streams SET {' = ?, '.join(_BUT_ID)} = ? WHERE id = ?")
MOVE_STREAM = _change(
    "UPDATE streams SET version = ?, progress = ?, next_expiry = ?, recent = ?, link = ?, shadows = ? "
    "WHERE id = ?"
)
DELETE_STREAM = _change("DELETE FROM streams WHERE id = ?")
DELETE_ROWS = [_change(f"DELETE FROM {table.name} WHERE stream = ?") for table in schema.OF_STREAMS]
FIND_STRAYS: dict[str, Statement[int]] = {
    table.name: _scalar(
        f"SELECT DISTINCT stream FROM {table.name} WHERE stream NOT IN (SELECT id FROM streams)"
    )
    for table in schema.OF_STREAMS
}


class LoggedRound(NamedTuple):
    """A round, what it remembers while it is open, and its answer if it has one."""

    round: RoundRow
    open: Any  # an ``OpenRow``, or None
    answer: AnswerRow | None


_PARTS: dict[str, Table[Any]] = {"r": schema.rounds, "o": schema.open_rounds, "a": schema.answers}
_LISTED = [f'{letter}."{one.name}"' for letter, part in _PARTS.items() for one in part.columns]
_OPEN = len(schema.rounds.columns)  # where the columns of what is open begin
_ANSWER = _OPEN + len(schema.open_rounds.columns)


_new: Any = tuple.__new__  # makes a named tuple in half the time that its class takes


def _join(values: Sequence[object]) -> LoggedRound:
    is_open, is_answered = values[_OPEN] is not None, values[_ANSWER] is not None
    parts = (
        _new(RoundRow, values[:_OPEN]),
        _new(OpenRow, values[_OPEN:_ANSWER]) if is_open else None,
        _new(AnswerRow, values[_ANSWER:]) if is_answered else None,
    )
    found: LoggedRound = _new(LoggedRound, parts)
    return found


def _logged(rest: str) -> Statement[LoggedRound]:
    return Statement(
        f"SELECT {', '.join(_LISTED)} FROM rounds r "
        "LEFT JOIN open_rounds o ON o.stream = r.stream AND o.number = r.number "
        f"LEFT JOIN answers a ON a.stream = r.stream AND a.number = r.number WHERE r.stream = ? {rest}",
        _join,
    )


FIND_ROUNDS = _logged("AND r.number = ANY(?)")
# The same, part by part: each is found by the whole of a key, however a server plans that, while a join
# may come to read a whole stream.
_BY_NUMBER = "WHERE stream = ? AND number = ANY(?)"
FIND_ASKED, FIND_OPEN = _select(schema.rounds, _BY_NUMBER), _select(schema.open_rounds, _BY_NUMBER)
FIND_ANSWERS = _select(schema.answers, _BY_NUMBER)
LIST_OPEN_ROUNDS = _logged("AND o.number IS NOT NULL ORDER BY r.number")
REMEMBER_ROUND = _change("UPDATE open_rounds SET memo = ? WHERE stream = ? AND number = ?")
FIND_AMENDMENTS = _select(schema.amendments, "WHERE stream = ? AND number = ANY(?) ORDER BY version")
FIND_KEYS = _select(schema.rounds, 'WHERE stream = ? AND "key" = ANY(?)')
FIND_KEYED = _select(
    schema.rounds, 'WHERE stream = (SELECT id FROM streams WHERE name = ?) AND "key" = ANY(?)'
)
CLOSE_ROUNDS = _change("DELETE FROM open_rounds WHERE stream = ? AND number = ANY(?)")
DROP_EXPIRED: Statement[int] = _scalar(
    "DELETE FROM open_rounds WHERE stream = ? AND expires <= ? RETURNING number"
)
DROP_OLDEST: Statement[int] = _scalar(
    "DELETE FROM open_rounds WHERE stream = ? AND number IN "
    "(SELECT number FROM open_rounds WHERE stream = ? ORDER BY number LIMIT ?) RETURNING number"
)
FIND_NEXT_EXPIRY: Statement[float | None] = _scalar(
    "SELECT min(expires) FROM open_rounds WHERE stream = ?"
)
COUNT_OVERDUE: Statement[tuple[int, int]] = Statement(
    "SELECT stream, count(*) FROM open_rounds WHERE expires <= ? AND stream = ANY(?) GROUP BY stream",
    tuple,
)
LIST_OPEN = _select(schema.open_rounds, "WHERE stream = ? ORDER BY number")

# A log is read in pages: after which number or version, and before which number or how many rows.
PAGE_ROUNDS = _select(schema.rounds, "WHERE stream = ? AND number > ? AND number < ? ORDER BY number")
PAGES = [
    _select(table, "WHERE stream = ? AND version > ? ORDER BY version LIMIT ?")
    for table in (schema.answers, schema.amendments, schema.changes, schema.snapshots)
]

PAGE_LOG = _logged("AND r.number > ? AND r.number < ? ORDER BY r.number")
_HAS_METADATA = (
    "AND r.number IN (SELECT number FROM metadata WHERE stream = ? AND name = ? AND value = ?) "
)


class MeasuredRound(NamedTuple):
    """How much a round takes: about as many bytes as its longest columns."""

    number: int
    size: int


def _measure(rest: str) -> Statement[MeasuredRound]:
    return Statement(
        "SELECT r.number, length(r.output) + coalesce(length(r.labels), 0) "
        f"+ coalesce(length(r.metadata), 0) FROM rounds r WHERE r.stream = ? {rest}",
        MeasuredRound._make,
    )


MEASURE_LOG = _measure("AND r.number > ? AND r.number < ? ORDER BY r.number LIMIT ?")


@cache  # few: metadata is short
def measure_last(filters: int) -> Statement[MeasuredRound]:
    """Return what lists the newest rounds before a number, with so many things of their metadata."""
    return _measure(f"AND r.number < ? {_HAS_METADATA * filters}ORDER BY r.number DESC LIMIT ?")


@cache
def find_erasable(filters: int) -> Statement[int]:
    """Return what lists rounds from a number on that were made before a time, with such metadata."""
    return _scalar(
        "SELECT r.number FROM rounds r WHERE r.stream = ? AND r.number >= ? AND r.at < ? "
        f"AND r.digest IS NULL {_HAS_METADATA * filters}ORDER BY r.number LIMIT ?"
    )


def _erase(table: Table[Any]) -> tuple[Statement[None], Callable[[Any], Any]]:
    """Return what leaves of a row nothing but its digest, without the salt, and what reads its key."""
    held = {
        name for (of, _), names in schema.ERASABLE.items() if of == table.name for name in names.split()
    }
    # No text, and no bytes as both kinds of database write it.
    none: dict[type, str] = {str: "''", bytes: "substr(salt, 1, 0)"}
    left = [
        f'"{name}" = {"NULL" if nullable else none[kind]}'
        for name, kind, nullable in table.columns
        if name in {*held, "salt"}
    ]
    key = " = ? AND ".join(table.key)
    erase = f"UPDATE {table.name} SET {', '.join(left)}, digest = ? WHERE {key} = ?"
    return _change(erase), attrgetter(*table.key)


ERASE: dict[Any, Any] = {
    one.row: _erase(one) for one in (schema.rounds, schema.answers, schema.amendments)
}
DELETE_METADATA = _change(
    "DELETE FROM metadata WHERE stream = ? AND name = ? AND value = ? AND number = ?"
)
LIST_ERASED: Statement[str] = _scalar(
    "SELECT content FROM changes WHERE stream = ? AND kind = 'erased' ORDER BY version"
)
LIST_RETAINING: Statement[str] = _scalar("SELECT name FROM streams WHERE retention IS NOT NULL")
LIST_METADATA: Statement[tuple[str, str, int]] = Statement(
    "SELECT name, value, number FROM metadata WHERE stream = ?", tuple
)


class RecentRound(NamedTuple):
    size: float
    answered: float
    asked: float
    output_bytes: int | None  # None where it is erased


LIST_RECENT: Statement[RecentRound] = Statement(
    "SELECT a.size, a.at, r.at, CASE WHEN r.digest IS NULL THEN length(r.output) END FROM answers a "
    "JOIN rounds r ON r.stream = a.stream AND r.number = a.number "
    "WHERE a.stream = ? AND a.miss IS NOT NULL ORDER BY a.version DESC LIMIT ?",
    RecentRound._make,
)


def _find_final(column: str) -> str:
    """Return what an answer came to in the end."""
    return (
        f"coalesce((SELECT {column} FROM amendments m WHERE m.stream = answers.stream "
        f"AND m.number = answers.number ORDER BY m.version DESC LIMIT 1), {column})"
    )


_NEWEST = "FROM answers WHERE stream = ? AND weight > 0.0 ORDER BY version DESC LIMIT ?"
LIST_MISSES: Statement[float] = _scalar(f"SELECT {_find_final('miss')} {_NEWEST}")
LIST_LEVELS: Statement[bytes | None] = _scalar(f"SELECT {_find_final('levels')} {_NEWEST}")
FIND_ANSWER_TIME: Statement[float] = _scalar(f"SELECT at {_NEWEST} OFFSET ?")
FIND_LAST_TIME: Statement[float] = _scalar(
    "SELECT at FROM answers WHERE stream = ? ORDER BY version DESC LIMIT 1"
)
COUNT_SCORES: Statement[int] = _scalar("SELECT count(score) FROM answers WHERE stream = ?")
# Of misses and of the others: whether they are misses, how many there are, how many have no label.
COUNT_UNLABELLED: Statement[tuple[int, int, int]] = Statement(
    "SELECT missed, count(*), sum(unlabelled) FROM (SELECT "
    f"CASE WHEN {_find_final('miss')} > 0.0 THEN 1 ELSE 0 END AS missed, "
    f"CASE WHEN {_find_final('kind')} <> 'label' THEN 1 ELSE 0 END AS unlabelled "
    "FROM answers WHERE stream = ? AND miss IS NOT NULL) AS final GROUP BY missed",
    tuple,
)


LIST_ANSWERS: Statement[tuple[Any, ...]] = Statement(
    f"SELECT at, version, {_find_final('miss')}, weight, size, {_find_final('levels')} FROM answers "
    "WHERE stream = ? AND miss IS NOT NULL ORDER BY version",
    tuple,
)
LIST_SIZES: Statement[tuple[int, float]] = Statement(
    "SELECT version, size FROM rounds WHERE stream = ? ORDER BY number", tuple
)
FIND_SNAPSHOTS = _select(schema.snapshots, "WHERE stream = ? AND answered = ANY(?) ORDER BY answered")
LIST_CHANGES = _select(
    schema.changes,
    "WHERE stream = ? AND kind IN ('changed', 'calibrated', 'promoted') ORDER BY version DESC LIMIT ?",
)
LIST_ALARMS = _select(schema.alarms, "WHERE stream = ? ORDER BY raised DESC, level DESC LIMIT ?")
FIND_ALARM = _select(schema.alarms, "WHERE stream = ? AND level = ? ORDER BY raised DESC LIMIT 1")
LIST_ALARMS_OF = _select(schema.alarms, "WHERE stream = ANY(?) ORDER BY raised")
DELETE_ALARM = _change("DELETE FROM alarms WHERE stream = ? AND raised = ? AND level = ?")

FIND_TOKEN = _select(schema.tokens, "WHERE id = ?")
LIST_TOKENS = _select(schema.tokens, "ORDER BY created")
FIND_TOKEN_IN_USE: Statement[str] = _scalar("SELECT id FROM tokens WHERE revoked IS NULL LIMIT 1")
REVOKE_TOKEN: Statement[str] = _scalar(
    "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id"
)
