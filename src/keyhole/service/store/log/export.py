"""The whole log as a file: one row per round, for people, spreadsheets and ``keyhole compare``.

Labels are written as JSON, so that the number 3 and the text "3" stay apart and no label can be taken
for a formula: text begins with a quotation mark. ``score`` is the true label's, empty where the answer
did not tell it; ``scores`` are those of all ``candidates``. Of decisions, ``scores`` is the one that
was decided on, judged or not.
"""

import csv
import io
import json
import os
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from keyhole.errors import MissingExtraError
from keyhole.feedback import is_miss
from keyhole.scores import Case, Decision, Region
from keyhole.service.store.log.history import LogEntry, log
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams.stream import find_stream
from keyhole.service.wire.responses import show_time

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
    "candidates",
    "scores",
    "features",
    "groups",
    "answer",
    "true_label",
    "missed",
    "miss",
    "weight",
    "score",
    "answered_at",
    "amended_at",
    "first_answer",
    "key",
    "metadata",
)


_REALS = ("threshold", "size", "lower", "upper", "miss", "weight", "score")
_KINDS = {"round": "int64", "missed": "bool", **dict.fromkeys(_REALS, "float64")}  # else text


class Format(StrEnum):
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
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "Parquet needs pyarrow; pip install 'keyhole-conformal[parquet]'"
        ) from None
    kinds = [_KINDS.get(name, "string") for name in COLUMNS]
    columns = [(name, arrow.type_for_alias(kind)) for name, kind in zip(COLUMNS, kinds, strict=True)]
    schema = arrow.schema(columns)
    buffer = arrow.BufferOutputStream()
    with arrow.parquet.ParquetWriter(buffer, schema) as writer:
        rows = (dict(zip(COLUMNS, _row(entry), strict=True)) for entry in log(database, name))
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(arrow.Table.from_pylist(block, schema=schema))
    return bytes(buffer.getvalue())


def write(database: Database, name: str, path: Path) -> None:
    """Write the log to a file, Parquet if it is called so; until it is whole the old one stays."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as aside:
        try:
            if path.suffix == ".parquet":
                aside.write(parquet(database, name))
            else:
                aside.writelines(line.encode() for line in csv_lines(database, name))
            aside.flush()
            os.fsync(aside.fileno())
            Path(aside.name).replace(path)
        except BaseException:
            Path(aside.name).unlink()
            raise


def describe_scores(database: Database, name: str) -> str:
    """Return how far the log tells what another threshold would have brought."""
    with database.read() as transaction:
        stream = find_stream(transaction, name)
        (scores,) = transaction.fetch(statements.COUNT_SCORES, stream.id)
    predicted = stream.tally.predicted
    share = scores / predicted if predicted else 0.0
    return f"{predicted:,} rounds; the true label's score is known in {scores:,} of them ({share:.1%})"


def _row(entry: LogEntry) -> tuple[object, ...]:
    row = entry.row
    return (
        row.number,
        entry.id,
        show_time(row.at),
        row.threshold,
        row.size,
        *_list_contents(entry.region),
        *_list_candidates(entry.case),
        None if entry.known.features is None else json.dumps(entry.known.features),
        json.dumps(entry.known.groups) if entry.known.groups else None,
        *_list_answer(entry),
        None if row.key is None else json.dumps(row.key),
        None if entry.metadata is None else json.dumps(entry.metadata),
    )


def _list_answer(entry: LogEntry) -> tuple[object, ...]:
    """Return what the answer came to in the end, and the first one where that was another."""
    found, answered, amended = entry.final, entry.answered, entry.amended
    if found is None or answered is None:
        return (None,) * 9
    label = json.dumps(json.loads(found.answer)["label"]) if found.kind == "label" else None
    miss, at = found.miss, show_time(answered.at)
    first = (None, None) if amended is None else (show_time(amended.at), answered.answer)
    return found.kind, label, is_miss(miss), miss, found.weight, found.score, at, *first


def _list_candidates(case: Case[Any]) -> tuple[str | None, str | None]:
    """Return all labels that could have been in the set, and their scores; positions need no names."""
    labels, scores = getattr(case, "candidates", (None, None))
    named = None if labels is None else json.dumps(list(labels))
    return named, None if scores is None else json.dumps(scores)


def _list_contents(region: Region | Decision) -> tuple[float | None, float | None, str | None]:
    labels, ends, _ = region.contents
    return *(ends or (None, None)), None if labels is None else json.dumps(labels)
