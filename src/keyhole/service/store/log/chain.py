"""The links of the log: each row carries a hash of its own content and of the row's before it.

A row that is changed, taken out or put in breaks the chain there, and so does a log cut off at its
end, because the stream's row holds the last link. The hash needs no secret: whoever may write the
database can forge a whole chain anew. Against that, note the last link (``keyhole verify`` shows it)
where they cannot write.

Of what a round and its answers hold, a link has only a digest, made with a salt of the row's own. Once
both are erased, the digest stays in their place: the chain holds as before, and tells nothing of them.

What is hashed is named beside the tables for every format of their rows, and each row says which format
it has. So a table may get another column: rows that were written without it are hashed as they were,
and those that are written with it have a new format that names it.
"""

import os
import struct
from collections.abc import Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from keyhole.service.store.sql import schema
from keyhole.service.store.sql.schema import AmendmentRow, AnswerRow, ChangeRow, RoundRow, Table

if TYPE_CHECKING:
    from keyhole.service.store.streams.stream import UnitOfWork

FIRST = b""
ErasableRow = RoundRow | AnswerRow | AmendmentRow
LogRow = ErasableRow | ChangeRow
NewRow = TypeVar("NewRow", RoundRow, AnswerRow, AmendmentRow)
_SALT, TAG = 16, 8  # bytes, of an id its last
_SIZE = 16
_pack_real, _pack_whole = struct.Struct("<cd").pack, struct.Struct("<cq").pack

_LOG = schema.rounds, schema.answers, schema.amendments, schema.changes
_TABLES: Mapping[Any, Table[Any]] = {table.row: table for table in _LOG}


def _list_readers(
    hashed: Mapping[tuple[str, int], str],
) -> dict[tuple[str, int], tuple[bytes, Any, tuple[type, ...]]]:
    """Return by name and format what no others are hashed with, what reads the fields, their kinds."""
    kinds = {one.name: {column.name: column.kind for column in one.columns} for one in schema.TABLES}
    return {
        (name, number): (
            f"{name}.{number}".encode(),
            attrgetter(*fields.split()),
            tuple(kinds[name][field] for field in fields.split()),
        )
        for (name, number), fields in hashed.items()
    }


_READERS, _ERASABLE = _list_readers(schema.HASHED), _list_readers(schema.ERASABLE)


def add_row(work: "UnitOfWork", row: NewRow) -> NewRow:
    """Put a row into the log of a stream, whose last one it is now; return it with salt and link."""
    # A salt, no digest and a link come last; ``_replace`` would take three times as long.
    stream, salt = work.stream, os.urandom(_SALT)
    content: tuple[Any, ...] = row[:-3]
    make_row: Any = row._make
    stream.version = row.version
    stream.link = make_link(stream.link, make_row((*content, salt, None, b"")))
    linked: NewRow = make_row((*content, salt, None, stream.link))
    work.new[_TABLES[type(row)]].append(linked)
    return linked


def make_id(row: RoundRow) -> str:
    """Return the public id of a round that has its link.

    A database that was restored, or a standby that took over too early, gives out numbers again, but
    never a link: it is a hash of all that happened in the stream until then, times included. It also
    makes an id hard to guess, and a mistyped one unknown.
    """
    link = b"" + row.link  # or raise: SQLite keeps whatever it is given
    return f"{row.stream}-{row.number}-{link[:TAG].hex()}"


def make_link(before: bytes, row: LogRow) -> bytes:
    """Return the link of a row that follows a link; a format that is not known is a ``LookupError``."""
    what = _TABLES[type(row)].name, row.format
    person, read, kinds = _READERS[what]
    parts = [before, *_write(kinds, read(row))]
    if what in _ERASABLE:
        held: Any = row
        parts.append(make_digest(held) if held.digest is None else held.digest)
    return blake2b(b"".join(parts), digest_size=_SIZE, person=person).digest()


def make_digest(row: ErasableRow) -> bytes:
    """Return the digest of what may be erased of a row, by its salt."""
    person, read, kinds = _ERASABLE[_TABLES[type(row)].name, row.format]
    content = b"".join(_write(kinds, read(row)))
    return blake2b(content, digest_size=_SIZE, key=row.salt, person=person).digest()


def _write(kinds: tuple[type, ...], values: tuple[Any, ...]) -> list[bytes]:
    parts = list[bytes]()
    for kind, value in zip(kinds, values):  # noqa: B905 - of every row: to compare lengths takes time
        if value is None:
            parts.append(b"-")
        elif kind is float:
            parts.append(_pack_real(b"d", value + 0.0))  # SQLite keeps no sign of zero.
        elif kind is int:
            parts.append(_pack_whole(b"q", value))
        else:
            content = value.encode() if kind is str else value
            parts += (_pack_whole(b"s", len(content)), content)
    return parts
