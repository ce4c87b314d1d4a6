"""Rounds erased: what they, their answers and their metadata hold is gone, what they count for stays.

Of each row the link, the times, the threshold, the size and the miss stay, and a digest that nobody can
read anything from. That a round was erased is an event of the log.
"""

import json
import math
from collections.abc import Mapping, Sequence

from keyhole.errors import InvalidError, UnknownRoundError
from keyhole.service.store.log.chain import add_row, make_digest, make_id
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import FORMAT, AnswerRow
from keyhole.service.store.sql.statements import LoggedRound
from keyhole.service.store.streams import answers, changes
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.proposals import list_filters, list_metadata
from keyhole.service.store.streams.stream import Stream, UnitOfWork, change_stream, find_stream

_AT_ONCE = 500  # rounds in one transaction


def erase_round(database: Database, name: str, id: str, *, now: float) -> int:
    """Erase what a round holds, by its id; return 1, or 0 if it was erased before."""
    with database.read() as transaction:
        stream, found = find_stream(transaction, name), answers.read_id(id)
        number = found[1] if found is not None and found[0] == stream.id else -1
        rows = transaction.fetch(statements.FIND_ROUNDS, stream.id, [number])
    if not rows or make_id(rows[0].round) != id:
        raise UnknownRoundError(f"stream {stream.name!r} has no prediction {id[:80]!r}; check the id")
    erased = _erase(database, name, [number], now=now)
    database.scrub()
    return erased


def erase_matching(
    database: Database,
    name: str,
    *,
    now: float,
    metadata: Mapping[str, object] | None = None,
    before: float = math.inf,
) -> int:
    """Erase what rounds hold that were made before a time, with this metadata; return how many.

    They go a few hundred at a time: what fails half-way may be asked for again.
    """
    if not metadata and before == math.inf:
        raise InvalidError('empty metadata would erase every round; give {"user": "42"}')
    with database.read() as transaction:
        stream = find_stream(transaction, name)
    return _erase_all(database, stream, first=0, before=before, metadata=metadata, now=now)[0]


def erase_old(database: Database, name: str, *, first: int, now: float) -> int:
    """Erase what rounds from a number on hold for longer than the stream keeps it; return the next."""
    with database.read() as transaction:
        stream = find_stream(transaction, name)
    if stream.retention is None:
        return first
    before = now - stream.retention
    return _erase_all(database, stream, first=first, before=before, metadata=None, now=now)[1]


def _erase_all(
    database: Database,
    stream: Stream,
    *,
    first: int,
    before: float,
    metadata: Mapping[str, object] | None,
    now: float,
) -> tuple[int, int]:
    """Erase such rounds from a number on; return how many, and the number after the last of them."""
    erased, start, filters = 0, first, list_filters(stream.id, metadata)
    query = statements.find_erasable(len(metadata or ()))
    while True:
        with database.read() as transaction:
            numbers = transaction.fetch(query, stream.id, first, before, *filters, _AT_ONCE)
        if not numbers:
            break
        erased += _erase(database, stream.name, numbers, now=now)
        first = numbers[-1] + 1
    if first > start:
        database.scrub()
    return erased, first


def list_retaining(database: Database) -> list[str]:
    with database.read() as transaction:
        return transaction.fetch(statements.LIST_RETAINING)


def _erase(database: Database, name: str, numbers: Sequence[int], *, now: float) -> int:
    with change_stream(database, name, takes_archived=True) as work:
        rows = work.transaction.fetch(statements.FIND_ROUNDS, work.stream.id, list(numbers))
        found = [row for row in rows if row.round.digest is None]
        if not found:
            return 0
        _close(work, found, now=now)
        erased = sorted(row.round.number for row in found)
        _overwrite(work.transaction, work.stream, erased)
        changes.note(work, Change(now, changes.ERASED, {"rounds": gather_ranges(erased)}))
    return len(found)


def _close(work: UnitOfWork, rows: Sequence[LoggedRound], *, now: float) -> None:
    """Skip the rounds that are open: nobody can answer what nobody knows any more."""
    stream = work.stream
    for row in rows:
        if row.open is not None:
            stream.tally.skipped += 1
            number, size = row.round.number, row.round.size
            what = (answers.SKIP, answers.write_reply(answers.SKIP), None, 0.0, None, size)
            add_row(
                work, AnswerRow(stream.id, stream.version + 1, FORMAT["answers"], number, now, *what)
            )
            work.closed.append(number)
    work.flush()


def _overwrite(transaction: Transaction, stream: Stream, numbers: list[int]) -> None:
    found = transaction.fetch(statements.FIND_ROUNDS, stream.id, numbers)
    rows = [part for row, _, answer in found for part in (row, answer) if part is not None]
    for row in (*rows, *transaction.fetch(statements.FIND_AMENDMENTS, stream.id, numbers)):
        erase, find_key = statements.ERASE[type(row)]
        transaction.execute(erase, make_digest(row), *find_key(row))
    for one in found:
        for entry in list_metadata(one.round):
            transaction.execute(statements.DELETE_METADATA, *entry)


def gather_ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Return the first and the last of each run of numbers that follow one another.

    Examples
    --------
    >>> gather_ranges([0, 1, 2, 7])
    [[0, 2], [7, 7]]
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def list_erased(transaction: Transaction, stream_id: int) -> set[int]:
    told: set[int] = set()
    for content in transaction.fetch(statements.LIST_ERASED, stream_id):
        for first, last in json.loads(content)["rounds"]:
            told.update(range(first, last + 1))
    return told
