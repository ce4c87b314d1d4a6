"""The links of the log: each row carries a hash of its own content and of the row's before it.

A row that is changed, taken out or put in breaks the chain there, and so does a log cut off at its
end, because the stream's row holds the last link. The hash needs no secret: whoever may write the
database can forge a whole chain anew. Against that, note the last link (``keyhole verify`` shows it)
where they cannot write.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

FIRST = b""
_SIZE = 16
_REAL, _WHOLE = struct.Struct("<cd"), struct.Struct("<cq")


def make_link(before: bytes, table: sql.Table, row: Mapping[str, Any]) -> bytes:
    """Return the link of a row, which every column of its table goes into but the link itself."""
    return link_rows(before, [(table, tuple([row.get(name) for name in _list_names(table)]))])[0]


def link_rows(
    before: bytes, log: Iterable[tuple[sql.Table, tuple[Any, ...]]]
) -> tuple[bytes, dict[sql.Table, list[tuple[Any, ...]]]]:
    """Return the last link, and by table the rows of a log in its order, each with its link last."""
    linked: dict[sql.Table, list[tuple[Any, ...]]] = {}
    for table, row in log:
        person, kinds = _describe(table)
        parts = [before]
        for kind, value in zip(kinds, row, strict=True):
            if value is None:
                parts.append(b"-")
            elif kind is float:
                parts.append(_REAL.pack(b"d", value + 0.0))  # SQLite keeps no sign of zero.
            elif kind is int:
                parts.append(_WHOLE.pack(b"q", value))
            else:
                content = value.encode() if kind is str else value
                parts += (_WHOLE.pack(b"s", len(content)), content)
        before = blake2b(b"".join(parts), digest_size=_SIZE, person=person).digest()
        linked.setdefault(table, []).append((*row, before))
    return before, linked


@cache
def _describe(table: sql.Table) -> tuple[bytes, tuple[type, ...]]:
    """Return a table's name, which no other's rows are linked with, and the kinds of its values."""
    return table.name.encode(), tuple(table.c[name].type.python_type for name in _list_names(table))


@cache
def _list_names(table: sql.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.c if column.name != "link")
