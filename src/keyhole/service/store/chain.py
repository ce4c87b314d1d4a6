"""The links of the log: each row carries a hash of its own content and of the row's before it.

A row that is changed, taken out or put in breaks the chain there, and so does a log cut off at its
end, because the stream's row holds the last link. The hash needs no secret: whoever may write the
database can forge a whole chain anew. Against that, note the last link (``keyhole verify`` shows it)
where they cannot write.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

FIRST = b""
_SIZE = 16
_MISSING = b"-"
_REAL, _WHOLE, _LENGTH = struct.Struct("<cd"), struct.Struct("<cq"), struct.Struct("<cq")


def make_link(before: bytes, table: sql.Table, row: Mapping[str, Any]) -> bytes:
    """Return the link of a row, which every column of its table goes into but the link itself."""
    parts = [before]
    for name, pack in _columns(table):
        value = row.get(name)
        parts.append(_MISSING if value is None else pack(value))
    person = table.name.encode()  # Rows of two tables never have one link.
    return blake2b(b"".join(parts), digest_size=_SIZE, person=person).digest()


@cache
def _columns(table: sql.Table) -> tuple[tuple[str, Callable[[Any], bytes]], ...]:
    return tuple(
        (column.name, _PACK[column.type.python_type]) for column in table.c if column.name != "link"
    )


def _pack_real(value: float) -> bytes:
    return _REAL.pack(b"d", value + 0.0)  # SQLite keeps no sign of zero.


def _pack_whole(value: int) -> bytes:
    return _WHOLE.pack(b"q", value)


def _pack_text(value: str) -> bytes:
    return _pack_bytes(value.encode())


def _pack_bytes(value: bytes) -> bytes:
    return _LENGTH.pack(b"s", len(value)) + value


_PACK: dict[type, Callable[[Any], bytes]] = {
    float: _pack_real,
    int: _pack_whole,
    bool: _pack_whole,
    str: _pack_text,
    bytes: _pack_bytes,
}
