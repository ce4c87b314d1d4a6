"""What happens to a stream that is no round and no answer: made, changed, calibrated, archived.

Each is an event of the log with a version and a link, so that a replay knows what held when.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.service.store.log.chain import make_link
from keyhole.service.store.sql.schema import changes
from keyhole.service.store.streams.stream import Stream

CREATED, CARRIED, ARCHIVED = "created", "carried over", "archived"
CHANGED, CALIBRATED = "changed", "calibrated"


_ANSWERS = "answers"  # of a new target: how many had come before it
_AT_ONCE = 500  # streams in a query


class Change(NamedTuple):
    """One of them: when, of which kind, and what is other since."""

    at: float
    kind: str
    content: dict[str, Any]


def list_changes(connection: sql.Connection, here: Stream, *, most: int) -> list[Change]:
    """Return the newest changes of the settings and calibrations, the oldest of them first."""
    rows = connection.execute(
        sql.select(changes.c.at, changes.c.kind, changes.c.content)
        .where(changes.c.stream == here.id, changes.c.kind.in_((CHANGED, CALIBRATED)))
        .order_by(changes.c.version.desc())
        .limit(most)
    ).all()
    return [Change(row.at, row.kind, _read_content(row.content)) for row in reversed(rows)]


def _read_content(text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name != _ANSWERS}


def note_target(here: Stream, content: dict[str, Any]) -> None:
    """Write into a change of the target how many answers came before it."""
    content[_ANSWERS] = here.watch.rounds


# Within a text of the content, every quotation mark would follow a backslash.
_RETARGETED = sql.and_(
    changes.c.kind == CHANGED, changes.c.content.contains('"alpha": ', autoescape=True)
)


def find_targets(connection: sql.Connection, here: Sequence[Stream]) -> None:
    """Let streams know how many of their answers came before their present target."""
    wanted = {one.id: one for one in here if one.watch.rounds}
    ids = list(wanted)
    for start in range(0, len(ids), _AT_ONCE):
        query = sql.select(changes.c.stream, changes.c.content).where(
            changes.c.stream.in_(ids[start : start + _AT_ONCE]), _RETARGETED
        )
        for row in connection.execute(query.order_by(changes.c.version)):
            wanted[row.stream].retargeted = json.loads(row.content).get(_ANSWERS, 0)


def has_other_targets(connection: sql.Connection, here: Stream) -> bool:
    """Return whether a stream's alpha was ever changed."""
    mine = (changes.c.stream == here.id, _RETARGETED)
    return connection.execute(sql.select(changes.c.version).where(*mine).limit(1)).first() is not None


def note(
    connection: sql.Connection,
    here: Stream,
    *,
    kind: str,
    content: dict[str, Any],
    now: float,
    progress: bytes | None = None,
) -> None:
    """Append a change to the log; the stream's row is the caller's to write."""
    here.version += 1
    row = make_row(here.id, here.version, kind=kind, content=content, now=now, progress=progress)
    here.link = row["link"] = make_link(here.link, changes, row)
    connection.execute(changes.insert(), row)


def make_row(
    stream: int,
    version: int,
    *,
    kind: str,
    content: dict[str, Any],
    now: float,
    progress: bytes | None = None,
) -> dict[str, Any]:
    """Return a change as a row that has no link yet."""
    text = json.dumps(content)
    known = {"stream": stream, "version": version, "at": now}
    return {**known, "kind": kind, "content": text, "progress": progress}
