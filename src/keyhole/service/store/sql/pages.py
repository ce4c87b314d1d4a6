"""Pages of a log: so few rounds at a time that they take little room, however long each of them is."""

from collections.abc import Iterator, Sequence

from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Statement, Transaction
from keyhole.service.store.sql.schema import Row
from keyhole.service.store.sql.statements import MeasuredRound

ROUNDS, BYTES = 500, 1_000_000


def fit(measured: Sequence[MeasuredRound]) -> list[int]:
    """Return the first numbers of these rounds that make a page: one at the least."""
    numbers, total = list[int](), 0
    for number, size in measured:
        total += size
        if numbers and total > BYTES:
            break
        numbers.append(number)
    return numbers


def find_end(transaction: Transaction, stream_id: int, *, after: int, end: int) -> int:
    """Return before which round the page ends that begins after one; without any, the end itself."""
    found = transaction.fetch(statements.MEASURE_LOG, stream_id, after, end, ROUNDS)
    return fit(found)[-1] + 1 if found else end


def list_rounds(
    transaction: Transaction, query: Statement[Row], stream_id: int, *, end: int
) -> Iterator[Row]:
    """Yield what a query of rounds, after one and before another, finds before an end, page by page."""
    after = -1
    while after < end - 1:
        page = find_end(transaction, stream_id, after=after, end=end)
        yield from transaction.fetch(query, stream_id, after, page)
        after = page - 1
