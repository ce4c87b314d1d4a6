"""The open rounds of one key of many, as bytes one behind the other, in the order of their numbers."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from keyhole.errors import InvalidError
from keyhole.predictor.rounds import Round

NEVER = 2**63 - 1  # when a round is due that may wait for ever
LONGEST_ID = 2**16 - 1  # bytes of a round's id, whose length takes two
_ROUND = struct.Struct("<IHIqQQdd")  # its length, its id's, its output's, and what Waiting has next
_HEAD = struct.Struct("<IH")


class Waiting(NamedTuple):
    """An open round, its case and memo still packed, and where in the bytes it begins and ends."""

    id: str
    number: int
    then: int
    due: int
    threshold: float
    size: float
    memo: bytes
    output: bytes
    labels: str | None
    start: int
    end: int


def check_lengths(waiting: bytes, count: int) -> None:
    """Raise unless so many rounds, one behind the other, fill the bytes."""
    start = 0
    for _ in range(count):
        length, _ = _HEAD.unpack_from(waiting, start)
        if length < _ROUND.size:
            raise InvalidError(f"an open round has {length} bytes")
        start += length
    if start != len(waiting):
        raise InvalidError(f"{count} open rounds have {start} bytes, not {len(waiting)}")


def pack_round(
    opened: Round[Any],
    id: str,  # noqa: A002
    *,
    due: int,
    memo: bytes,
    case: bytes,
    labels: str | None,
) -> bytes:
    """Return an open round as bytes."""
    name, rest = id.encode(), b"" if labels is None else labels.encode()
    shown, length = opened.prediction, len(case)
    whole = _ROUND.size + len(name) + len(memo) + length + len(rest)
    head = _ROUND.pack(
        whole, len(name), length, due, shown.id, opened.then, shown.threshold, shown.size
    )
    return b"".join((head, name, memo, case, rest))


def find_round(waiting: bytes, id: str, *, memory: int) -> Waiting | None:  # noqa: A002
    """Return the open round of this id, if there is one."""
    name = id.encode()
    if name not in waiting:  # a fast look; what it finds may be part of something else
        return None
    start, end, size = 0, len(waiting), len(name)
    while start < end:
        length, name_length = _HEAD.unpack_from(waiting, start)
        if name_length == size and waiting.startswith(name, start + _ROUND.size):
            return _read_round(waiting, start, memory=memory)
        start += length
    return None


def split_due(waiting: bytes, clock: int, *, memory: int) -> tuple[list[Waiting], bytes, int]:
    """Return the rounds that are due, the bytes of the others, and the earliest time of those."""
    over: list[Waiting] = []
    kept: list[bytes] = []
    earliest = NEVER
    for start, end, due in _walk(waiting):
        if due <= clock:
            over.append(_read_round(waiting, start, memory=memory))
        else:
            kept.append(waiting[start:end])
            earliest = min(earliest, due)
    return over, b"".join(kept), earliest


def find_oldest(waiting: bytes, *, memory: int) -> Waiting:
    """Return the round that has waited longest: rounds are kept in the order of their numbers."""
    return _read_round(waiting, 0, memory=memory)


def find_earliest(waiting: bytes) -> int:
    """Return the earliest time at which an open round is due."""
    return min((due for _, _, due in _walk(waiting)), default=NEVER)


def _walk(waiting: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each round begins and ends, and when it is due."""
    start, last = 0, len(waiting)
    while start < last:
        length, _, _, due, *_ = _ROUND.unpack_from(waiting, start)
        yield start, start + length, due
        start += length


def _read_round(waiting: bytes, start: int, *, memory: int) -> Waiting:
    length, name, output, due, number, then, threshold, size = _ROUND.unpack_from(waiting, start)
    begin, end = start + _ROUND.size, start + length
    memo = begin + name
    case = memo + 8 * memory
    labels = case + output
    return Waiting(
        waiting[begin:memo].decode(),
        number,
        then,
        due,
        threshold,
        size,
        waiting[memo:case],
        waiting[case:labels],
        waiting[labels:end].decode() if labels < end else None,
        start,
        end,
    )
