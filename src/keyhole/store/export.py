"""The whole log as a file: one row per round, for people, spreadsheets and ``keyhole compare``.

Labels are written as JSON, so that the number 3 and the text "3" stay apart and no label can be taken
for a formula: text begins with a quotation mark. ``score`` is the true label's, empty where the answer
did not tell it.
"""

import csv
import io
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import sqlalchemy as sql

from keyhole.errors import MissingExtraError
from keyhole.scores import Interval, Region
from keyhole.store import standing
from keyhole.store.database import Database
from keyhole.store.history import Entry, log
from keyhole.store.schema import feedback

_ROWS_AT_ONCE = 5000
COLUMNS = (
    "round",
    "id",
    "predicted_at",
    "threshold",
    "size",
    "lower",
    "upper",
    "labels",
    "answer",
    "label",
    "missed",
    "score",
    "answered_at",
)


class Format(StrEnum):
    """What kind of file."""

    CSV = "csv"
    PARQUET = "parquet"


def csv_lines(database: Database, name: str) -> Iterator[str]:
    """Yield the log as CSV, a line at a time."""
    yield ",".join(COLUMNS) + "\r\n"
    for entry in log(database, name):
        buffer = io.StringIO()
        csv.writer(buffer).writerow("" if cell is None else cell for cell in _row(entry))
        yield buffer.getvalue()


def parquet(database: Database, name: str) -> bytes:
    """Return the log as a Parquet file."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet needs pyarrow; pip install 'keyhole[parquet]'") from None
    text, real = arrow.string(), arrow.float64()
    kinds = (
        arrow.int64(),
        text,
        real,
        real,
        real,
        real,
        real,
        text,
        text,
        text,
        arrow.bool_(),
        real,
        real,
    )
    schema = arrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    buffer = arrow.BufferOutputStream()
    with arrow.parquet.ParquetWriter(buffer, schema) as writer:
        for rows in _blocks(database, name):
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
    return bytes(buffer.getvalue())


def told(database: Database, name: str) -> str:
    """Return how far the log tells what another threshold would have brought."""
    with database.read() as connection:
        here = standing.found(connection, name)
        known = sql.func.count(feedback.c.score)
        scores = connection.execute(sql.select(known).where(feedback.c.stream == here.id)).scalar_one()
    predicted = here.tally.predicted
    share = scores / predicted if predicted else 0.0
    return f"{predicted:,} rounds; the true label's score is known in {scores:,} of them ({share:.1%})"


def _blocks(database: Database, name: str) -> Iterator[list[dict[str, Any]]]:
    block: list[dict[str, Any]] = []
    for entry in log(database, name):
        block.append(dict(zip(COLUMNS, _row(entry), strict=True)))
        if len(block) == _ROWS_AT_ONCE:
            yield block
            block = []
    yield block


def _row(entry: Entry) -> tuple[Any, ...]:
    told = entry.answer
    return (
        entry.number,
        entry.id,
        entry.at,
        entry.threshold,
        entry.size,
        *_shown(entry.region),
        "label" if isinstance(told, dict) else told,
        json.dumps(told["label"]) if isinstance(told, dict) else None,
        entry.missed,
        entry.score,
        entry.answered_at,
    )


def _shown(region: Region) -> tuple[float | None, float | None, str | None]:
    if isinstance(region, Interval):
        return region.lower, region.upper, None
    return None, None, json.dumps(region.labels)
