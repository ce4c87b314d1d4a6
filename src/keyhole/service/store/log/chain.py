"""The links of the log: each row carries a hash of its own content and of the row's before it.

A row that is changed, taken out or put in breaks the chain there, and so does a log cut off at its
end, because the stream's row holds the last link. The hash needs no secret: whoever may write the
database can forge a whole chain anew. Against that, note the last link (``keyhole verify`` shows it)
where they cannot write.

What is hashed is named beside the tables for every format of their rows, and each row says which format
it has. So a table may get another column: rows that were written without it are hashed as they were,
and those that are written with it have a new format that names it.
"""

import struct
from collections.abc import Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from keyhole.service.store.sql.schema import HASHED, AmendmentRow, AnswerRow, ChangeRow, RoundRow

FIRST = b""
LogRow = RoundRow | AnswerRow | AmendmentRow | ChangeRow
_SIZE = 16
_REAL, _WHOLE = struct.Struct("<cd"), struct.Struct("<cq")

_NAMES: Mapping[type[LogRow], str] = {
    RoundRow: "rounds",
    AnswerRow: "answers",
    AmendmentRow: "amendments",
    ChangeRow: "changes",
}
# By name and format: what no other rows are hashed with, what reads the fields, and their kinds.
_READERS = {
    (name, number): (f"{name}.{number}".encode(), attrgetter(*fields), tuple(fields.values()))
    for (name, number), fields in HASHED.items()
}


def make_link(before: bytes, row: LogRow) -> bytes:
    """Return the link of a row that follows a link; a format that is not known is a ``LookupError``."""
    person, read, kinds = _READERS[_NAMES[type(row)], row.format]
    parts: list[Any] = [before]
    for kind, value in zip(kinds, read(row), strict=True):
        if value is None:
            parts.append(b"-")
        elif kind is float:
            parts.append(_REAL.pack(b"d", value + 0.0))  # SQLite keeps no sign of zero.
        elif kind is int:
            parts.append(_WHOLE.pack(b"q", value))
        else:
            content = value.encode() if kind is str else value
            parts += (_WHOLE.pack(b"s", len(content)), content)
    return blake2b(b"".join(parts), digest_size=_SIZE, person=person).digest()
