"""Rows as Arrow tables: events in, outputs out, and what a finished table would have been shown."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keyhole.errors import InvalidError
from keyhole.integrations.rows import KNOWN, read_index
from keyhole.keyed import Fold, Kind, OutputColumns

ANSWERS = ("skipped", "label", "hit", "right", "score", "loss")
OUTPUT = pa.schema(
    [
        ("key", pa.string()),
        ("id", pa.string()),
        ("kind", pa.string()),
        ("number", pa.int64()),
        ("threshold", pa.float64()),
        ("labels", pa.list_(pa.string())),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("size", pa.float64()),
        ("miss", pa.float64()),
        ("note", pa.string()),
    ]
)
LEVELS = OUTPUT.append(pa.field("alpha", pa.float64()))
PLAYED = pa.schema([OUTPUT.field(name) for name in OUTPUT.names[4:10]])


def read_events(tables: Sequence[Any], *, indexed: bool) -> dict[str, Any]:
    """Return tables of asks, which have an ``output``, and of answers as one table of events.

    Rows without a key are left out. The others are in the order of their times, and at equal times asks
    come first, or their answers would find no round.
    """
    asks = [one for one in tables if "output" in one.column_names]
    answers = [one for one in tables if "output" not in one.column_names]
    table = pa.concat_tables([*asks, *answers], promote_options="permissive")
    if table["key"].null_count:
        table = table.filter(pc.is_valid(table["key"]))
    times = pc.fill_null(table["at"], 0).to_numpy()
    table = table.take(np.argsort(times, kind="stable")).combine_chunks()
    columns = {name: list_cells(table[name]) for name in table.column_names}
    if not table["at"].null_count:
        columns["at"] = table["at"].to_numpy()
    if indexed and "label" in columns and not pa.types.is_integer(table["label"].type):
        cells = columns["label"]
        columns["label"] = [None if cell is None else read_index(cell) for cell in cells]
    _keep_first(columns)
    return columns


def tell_time(keys: Sequence[str], now: int) -> dict[str, Any]:
    count = len(keys)
    return {"key": keys, "id": [""] * count, "at": [now] * count, "elapsed": [True] * count}


def _keep_first(columns: dict[str, Any]) -> None:
    """Of several answers in a row leave the first."""
    given = [name for name in ANSWERS if name in columns]
    for place, name in enumerate(given[:-1]):
        cells = enumerate(columns[name])
        there = [row for row, cell in cells if (cell if name == "skipped" else cell is not None)]
        for later in given[place + 1 :]:
            for row in there:
                columns[later][row] = None


def list_cells(column: Any) -> Any:
    """Return the cells of a column, nulls as None: lists of as many numbers each as a table of them."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_map(column.type):
        keys, values = column.keys.to_pylist(), column.items.to_pylist()
        cells = [dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in _list_ends(column)]
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        if not pa.types.is_floating(column.type.value_type):
            return column.to_pylist()
        flat = column.values.to_numpy(zero_copy_only=False)
        starts = column.offsets.to_numpy()
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        widths = np.unique(np.diff(starts)[valid])
        if len(widths) == 1:
            table = np.full((len(valid), *widths.tolist()), np.nan)
            table[valid] = flat[starts[:-1][valid, np.newaxis] + np.arange(widths[0])]
            return table
        cells = [flat[a:b] for a, b in _list_ends(column)]
    else:
        return column.to_pylist()
    there = column.is_valid().to_pylist()
    return [cell if is_there else None for is_there, cell in zip(there, cells, strict=True)]


def _list_ends(column: Any) -> Any:
    return pairwise(column.offsets.to_pylist())


def write_outputs(keys: Sequence[str], outputs: OutputColumns, kinds: Collection[str]) -> Any:
    """Return the outputs of these kinds as a table; ``keys`` are those of the events."""
    labels = outputs.labels
    texts = pa.array(labels if labels.dtype != object else [str(label) for label in labels])
    is_none = ~np.isnan(outputs.lower) | np.isnan(outputs.threshold)
    offsets = pa.array(outputs.offsets, pa.int32())
    columns = {
        "key": pa.array(keys, pa.string()).take(pa.array(outputs.row)),
        "id": outputs.id,
        "kind": pa.array(outputs.kind, pa.string()),
        "number": pa.array(outputs.number, mask=outputs.number < 0),
        "labels": pa.ListArray.from_arrays(offsets, texts.cast(pa.string()), mask=pa.array(is_none)),
        "note": outputs.note,
        **{
            name: pa.array(getattr(outputs, name), from_pandas=True)  # NaN is null
            for name in ("threshold", "lower", "upper", "size", "miss")
        },
    }
    table = pa.Table.from_pydict({name: columns[name] for name in OUTPUT.names}, schema=OUTPUT)
    is_wanted = pc.is_in(table["kind"], value_set=pa.array(list(kinds), pa.string()))
    return table if pc.all(is_wanted).as_py() else table.filter(is_wanted)


def write_levels(
    keys: Sequence[str], outputs: Mapping[float, OutputColumns], kinds: Collection[str]
) -> Any:
    """Return the outputs of several levels as a table: sets and misses by alpha, the others once."""
    tables = []
    for place, (alpha, own) in enumerate(outputs.items()):
        table = write_outputs(keys, own, kinds)
        of_level = pc.or_(pc.is_valid(table["threshold"]), pc.is_valid(table["miss"]))
        alphas = pc.if_else(of_level, alpha, pa.scalar(None, pa.float64()))
        table = pa.table([*table.columns, alphas], schema=LEVELS)
        tables.append(table.filter(of_level) if place else table)
    return pa.concat_tables(tables)


def refuse_rows(table: Any) -> Any:
    """Return the outputs about the rows of a table that have no key."""
    lost = table.filter(pc.is_null(table["key"]))
    columns = {name: pa.nulls(lost.num_rows, OUTPUT.field(name).type) for name in OUTPUT.names}
    columns["id"] = lost["id"].combine_chunks()
    columns["kind"] = [Kind.REFUSED.value] * lost.num_rows
    columns["note"] = ["its key is null"] * lost.num_rows
    return pa.Table.from_pydict(columns, schema=OUTPUT)


def play_table(fold: Fold, table: Any, *, indexed: bool) -> Any:
    """Return what every row of a finished table would have been shown, each answered at once.

    The table has ``key``, ``at``, ``output``, ``label`` and what is known of cases; each key is played
    by itself, in the order of its times.
    """
    count = table.num_rows
    order = pc.sort_indices(table["at"]).to_numpy()
    ordered = table.take(order)
    row = pa.array(np.arange(count))
    common = {"key": ordered["key"].cast(pa.string()), "id": row.cast(pa.string()), "at": row}
    known = {name: ordered[name] for name in ("output", *KNOWN) if name in ordered.column_names}
    unanswered = pc.is_null(ordered["label"], nan_is_null=True)
    answers = {"label": ordered["label"], "skipped": pc.fill_null(unanswered, False)}  # noqa: FBT003
    events = read_events([pa.table(common | known), pa.table(common | answers)], indexed=indexed)
    _, outputs = fold.run_many({}, events)
    _check_outputs(events["key"], outputs, order)
    written = write_outputs(events["key"], outputs, (Kind.SHOWN, Kind.COUNTED))
    shown = written.filter(pc.equal(written["kind"], "shown"))
    counted = written.filter(pc.equal(written["kind"], "counted"))
    miss = np.full(count, np.nan)
    miss[counted["id"].cast(pa.int64()).to_numpy()] = counted["miss"].to_numpy()
    place = PLAYED.get_field_index("miss")
    played = shown.select(PLAYED.names).set_column(
        place, "miss", pa.array(miss[shown["id"].cast(pa.int64()).to_numpy()], from_pandas=True)
    )
    back = np.empty(count, dtype=np.int64)
    back[order[shown["id"].cast(pa.int64()).to_numpy()]] = np.arange(count)
    return played.take(pa.array(back))


def _check_outputs(keys: Sequence[str], outputs: OutputColumns, order: Any) -> None:
    for row, kind, id, note in zip(  # noqa: A001
        outputs.row, outputs.kind, outputs.id, outputs.note, strict=True
    ):
        if kind is Kind.REFUSED:
            raise InvalidError(f"row {order[int(id)]}, of key {keys[row]!r}: {note}")
