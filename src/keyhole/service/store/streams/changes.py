"""What happens to a stream that is no round and no answer: made, changed, calibrated, archived, erased.

Each is an event of the log with a version and a link, so that a replay knows what held when.
"""

import json
from typing import Any, NamedTuple

from keyhole.scores.score import write_json
from keyhole.service.store.log.chain import make_link
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.schema import FORMAT, ChangeRow, changes
from keyhole.service.store.streams.stream import Stream, UnitOfWork

CREATED, ARCHIVED, CHANGED, CALIBRATED = "created", "archived", "changed", "calibrated"
ERASED = "erased"
SHADOWED, UNSHADOWED, PROMOTED = "shadowed", "unshadowed", "promoted"


class Change(NamedTuple):
    """One of them: when, of which kind, and what is other since."""

    at: float
    kind: str
    content: dict[str, Any]
    progress: bytes | None = None  # what a calibration made of the learner


def list_changes(transaction: Transaction, stream: Stream, *, most: int) -> list[Change]:
    """Return the newest changes of the settings and calibrations, the oldest of them first."""
    rows = transaction.fetch(statements.LIST_CHANGES, stream.id, most)
    return [Change(row.at, row.kind, json.loads(row.content)) for row in reversed(rows)]


def note(work: UnitOfWork, change: Change) -> None:
    stream, (at, kind, content, progress) = work.stream, change
    stream.version += 1
    what = (at, kind, write_json(content), progress)
    row = ChangeRow(stream.id, stream.version, FORMAT["changes"], *what)
    stream.link = make_link(stream.link, row)
    work.new[changes].append(row._replace(link=stream.link))
