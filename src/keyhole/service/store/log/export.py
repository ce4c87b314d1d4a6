"""The whole log as a file: one row per round, for people, spreadsheets and ``keyhole compare``.

Labels are written as JSON, so that the number 3 and the text "3" stay apart and no label can be taken
for a formula: text begins with a quotation mark. ``score`` is the true label's, empty where the answer
did not tell it; ``scores`` are those of all ``candidates``. Of decisions, ``scores`` is the one that
was decided on, judged or not.
"""

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from keyhole.errors import MissingExtraError
from keyhole.feedback import is_miss
from keyhole.service.store.log.history import LogEntry, log
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import ERASABLE, FORMAT
from keyhole.service.store.streams.stream import find_stream
from keyhole.service.wire.responses import show_time

_PIECE = 65_536  # characters of lines that are sent at once
_ROWS_AT_ONCE, _GROUP = 5000, 4_000_000  # rows, and characters of text, of a row group of Parquet
_Cells = tuple[object, ...]
T = TypeVar("T")
# What was sent with a round and is neither its output nor read by us, as the log keeps it.
_DECODED = {"output", "labels", "context", "metadata"}
_SENT = [name for name in ERASABLE["rounds", FORMAT["rounds"]].split() if name not in _DECODED]


def _dump(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def _dump_label(entry: LogEntry) -> str | None:
    final = entry.final
    if final is None or final.kind != "label" or entry.is_erased:
        return None
    return json.dumps(json.loads(final.answer)["label"])


def _dump_levels(entry: LogEntry) -> str | None:
    """Return what was shown on each of several levels, and whether it missed."""
    if not (entry.alphas and entry.regions):
        return None
    shown = list[dict[str, object]]()
    for alpha, region, miss in zip(entry.alphas, entry.regions, entry.misses, strict=True):
        labels, ends, _ = region.contents
        finite = [end if math.isfinite(end) else None for end in ends or ()]
        what = dict(zip(("lower", "upper"), finite, strict=True)) if finite else {"labels": labels}
        shown.append({"alpha": alpha, "threshold": region.threshold, **what, "missed": is_miss(miss)})
    return json.dumps(shown)


def _read_sent(name: str) -> Callable[[LogEntry], object]:
    return lambda entry: _dump(getattr(entry.row, name))


_TEXT, _REAL, _JSON = "string", "float64", "JSON"
_NO_ENDS = None, None
# The columns: what each holds, and what reads it; JSON is text, but for JSON lines.
_COLUMNS: dict[str, tuple[str, Callable[[LogEntry], object]]] = {
    "round": ("int64", attrgetter("row.number")),
    "id": (_TEXT, attrgetter("id")),
    "predicted_at": (_TEXT, lambda entry: show_time(entry.row.at)),
    "threshold": (_REAL, lambda entry: entry.shown[0]),
    "size": (_REAL, lambda entry: entry.shown[1]),
    "lower": (_REAL, lambda entry: (entry.contents.ends or _NO_ENDS)[0]),
    "upper": (_REAL, lambda entry: (entry.contents.ends or _NO_ENDS)[1]),
    "labels": (_JSON, lambda entry: _dump(entry.contents.labels)),
    # Positions need no names.
    "candidates": (_JSON, lambda entry: _dump(entry.candidates[0] and list(entry.candidates[0]))),
    "scores": (_JSON, lambda entry: _dump(entry.candidates[1])),
    "features": (_JSON, lambda entry: _dump(entry.known.features)),
    "groups": (_JSON, lambda entry: _dump(entry.known.groups or None)),
    "answer": (_TEXT, lambda entry: getattr(entry.final, "kind", None)),
    "true_label": (_JSON, _dump_label),
    "missed": ("bool", lambda entry: is_miss(entry.misses[0])),
    "miss": (_REAL, lambda entry: entry.misses[0]),
    "weight": (_REAL, lambda entry: getattr(entry.final, "weight", None)),
    "score": (_REAL, lambda entry: getattr(entry.final, "score", None)),
    "answered_at": (_TEXT, lambda entry: entry.answered and show_time(entry.answered.at)),
    "amended_at": (_TEXT, lambda entry: entry.amended and show_time(entry.amended.at)),
    "first_answer": (
        _JSON,
        lambda entry: (entry.amended and getattr(entry.answered, "answer", "")) or None,
    ),
    **{name: (_JSON, _read_sent(name)) for name in _SENT},
    "metadata": (_JSON, lambda entry: _dump(entry.metadata)),
    "erased": ("bool", attrgetter("is_erased")),
    "levels": (_JSON, _dump_levels),
}
COLUMNS = tuple(_COLUMNS)


def _row(entry: LogEntry) -> _Cells:
    return tuple([read(entry) for _, read in _COLUMNS.values()])


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


MEDIA = {
    Format.CSV: "text/csv; charset=utf-8",
    Format.JSONL: "application/x-ndjson",
    Format.PARQUET: "application/vnd.apache.parquet",
}


def pieces(database: Database, name: str, format: Format) -> Iterator[bytes]:
    """Return what yields the log as a file, a piece at a time: no more than a few rounds are held."""
    match format:
        case Format.CSV:
            return _join_lines(csv_lines(database, name))
        case Format.JSONL:
            return _join_lines(_write_json(_row(entry)) for entry in log(database, name))
        case Format.PARQUET:
            return _write_parquet(map(_row, log(database, name)), _find_parquet())


def csv_lines(database: Database, name: str) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\r\n"
    for entry in log(database, name):
        buffer = io.StringIO()
        csv.writer(buffer).writerow(_row(entry))
        yield buffer.getvalue()


def _join_lines(lines: Iterator[str]) -> Iterator[bytes]:
    """Yield lines many at a time: each piece that is sent takes a turn of a thread."""
    for held in _gather(lines, len, room=_PIECE):
        yield "".join(held).encode()


def _gather(items: Iterator[T], measure: Callable[[T], int], *, room: int) -> Iterator[list[T]]:
    """Yield items in groups, of so many, or of so much text."""
    held, size = list[T](), 0
    for item in items:
        held.append(item)
        size += measure(item)
        if len(held) == _ROWS_AT_ONCE or size >= room:
            yield held
            held, size = [], 0
    if held:
        yield held


def _write_json(row: _Cells) -> str:
    """Return a row as an object; what is JSON in the columns of the other formats is so here too."""
    cells = [
        f"{json.dumps(name)}: {cell if kind is _JSON and cell is not None else _write_cell(cell)}"
        for (name, (kind, _)), cell in zip(_COLUMNS.items(), row, strict=True)
    ]
    return f"{{{', '.join(cells)}}}\n"


def _write_cell(cell: object) -> str:
    # JSON has no word for NaN and the infinities.
    return json.dumps(None if isinstance(cell, float) and not math.isfinite(cell) else cell)


def _find_parquet() -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "Parquet needs pyarrow; pip install 'keyhole-conformal[parquet]'"
        ) from None
    return arrow


def _write_parquet(rows: Iterator[_Cells], arrow: Any) -> Iterator[bytes]:
    kinds = [(name, _TEXT if kind is _JSON else kind) for name, (kind, _) in _COLUMNS.items()]
    columns = [(name, arrow.type_for_alias(kind)) for name, kind in kinds]
    schema, written = arrow.schema(columns), io.BytesIO()
    with arrow.parquet.ParquetWriter(arrow.PythonFile(written, "w"), schema) as writer:
        for block in _gather(rows, _measure_text, room=_GROUP):
            writer.write_table(arrow.Table.from_arrays([*zip(*block, strict=True)], schema=schema))
            yield _take(written)
    yield _take(written)


def _take(written: io.BytesIO) -> bytes:
    content = written.getvalue()
    written.seek(0)
    written.truncate()
    return content


def _measure_text(row: _Cells) -> int:
    return sum(len(cell) for cell in row if isinstance(cell, str))


def write(database: Database, name: str, path: Path) -> None:
    """Write the log to a file, in the format of its ending; until it is whole the old one stays."""
    ending = path.suffix.removeprefix(".").lower()
    format_ = Format(ending) if ending in set(Format) else Format.CSV
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as aside:
        try:
            aside.writelines(pieces(database, name, format_))
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
