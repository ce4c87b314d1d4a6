"""Keyed rounds as Arrow tables: events in, outputs out, and the states of many keys as one value."""

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keyhole.errors import InvalidError, SnapshotError
from keyhole.keyed import Fold, Kind, LevelFold, OutputColumns, make_fold
from keyhole.keyed.columns import KNOWN
from keyhole.learners import DEFAULT, Learner, find
from keyhole.learners.rule import FOR_SETS
from keyhole.scores import find_labels

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
VERSION = 1
MOST_BUCKETS = 2**31 - 1
_HEAD = struct.Struct("<BIIQ")  # version, number of buckets, of keys, and bytes before compression
_CODEC = "zstd"  # a tenth to a quarter of the bytes, at 350 MB a second and more


def make_row_fold(learner: str | Learner | None, *, alpha: Any, **parameters: Any) -> Fold:
    """Return the fold of a table's rounds, or raise if its rows would not tell what it shows."""
    if isinstance(alpha, Iterable):
        raise InvalidError(
            "a row has one set or interval, and several alphas give several; run one of each",
            field="alpha",
        )
    rule = learner.rule if isinstance(learner, Learner) else find(learner or DEFAULT)
    if rule.kind != FOR_SETS:
        raise InvalidError(
            f"{rule.name} decides, and these rows have sets or intervals; play it by key with "
            "keyhole.keyed.make_fold, or streams on Spark or Bytewax",
            field="learner",
        )
    return make_fold(learner, alpha=alpha, **parameters)


def name_key(key: Sequence[object]) -> str:
    """Return the text that stands for a key: a column's own, or of several a JSON list."""
    if len(key) == 1:
        return str(key[0])
    return json.dumps([str(part) for part in key], ensure_ascii=False, separators=(",", ":"))


def has_indexes(fold: Fold | LevelFold) -> bool:
    """Return whether the labels of a list of scores are its indexes."""
    return not find_labels(fold.first.setup.score)


def read_index(label: Any) -> Any:
    """Return a label as the index of a score if it is one; others stay, to be refused by name."""
    try:
        index = int(label)
    except (TypeError, ValueError, OverflowError):
        return label
    return index if isinstance(label, str) or index == label else label


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


def write_outputs(
    keys: Sequence[str],
    outputs: OutputColumns | Mapping[float, OutputColumns],
    kinds: Collection[str],
) -> Any:
    """Return the outputs of these kinds as a table; ``keys`` are those of the events.

    Of several levels there are sets and misses by alpha, and other outputs once.
    """
    if isinstance(outputs, OutputColumns):
        return _write_level(keys, outputs, kinds)
    tables = []
    for place, (alpha, own) in enumerate(outputs.items()):
        table = _write_level(keys, own, kinds)
        of_level = pc.or_(pc.is_valid(table["threshold"]), pc.is_valid(table["miss"]))
        alphas = pc.if_else(of_level, alpha, pa.scalar(None, pa.float64()))
        table = pa.table([*table.columns, alphas], schema=LEVELS)
        tables.append(table.filter(of_level) if place else table)
    return pa.concat_tables(tables)


def find_schema(fold: Fold | LevelFold) -> Any:
    return LEVELS if fold.has_levels else OUTPUT


def _write_level(keys: Sequence[str], outputs: OutputColumns, kinds: Collection[str]) -> Any:
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
    }
    for name in ("threshold", "lower", "upper", "size", "miss"):
        columns[name] = pa.array(getattr(outputs, name), from_pandas=True)  # NaN is null
    table = pa.Table.from_pydict({name: columns[name] for name in OUTPUT.names}, schema=OUTPUT)
    is_wanted = pc.is_in(table["kind"], value_set=pa.array(list(kinds), pa.string()))
    return table if pc.all(is_wanted).as_py() else table.filter(is_wanted)


def refuse_rows(table: Any) -> Any:
    """Return an output for each row without a key, by the columns that say something."""
    lost = table.filter(pc.is_null(table["key"]))
    kinds, notes = ([text] * lost.num_rows for text in (Kind.REFUSED.value, "its key is null"))
    return pa.table({"id": lost["id"], "kind": kinds, "note": notes})


def play_table(fold: Fold, table: Any) -> Any:
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
    indexed = pa.types.is_list(table["output"].type) and has_indexes(fold)
    answers = {"label": ordered["label"], "skipped": pc.fill_null(unanswered, False)}  # noqa: FBT003
    events = read_events([pa.table(common | known), pa.table(common | answers)], indexed=indexed)
    _, outputs = fold.run_many({}, events)
    _check_outputs(events["key"], outputs, order)
    written = write_outputs(events["key"], outputs, (Kind.SHOWN, Kind.COUNTED))
    shown, counted = (written.filter(pc.equal(written["kind"], kind)) for kind in ("shown", "counted"))
    asked, answered = (one["id"].cast(pa.int64()).to_numpy() for one in (shown, counted))
    miss, back = np.full(count, np.nan), np.empty(count, dtype=np.int64)
    miss[answered] = counted["miss"].to_numpy()
    back[order[asked]] = np.arange(count)
    misses = pa.array(miss[asked], from_pandas=True)
    played = shown.set_column(shown.column_names.index("miss"), "miss", misses)
    return played.select(PLAYED.names).take(pa.array(back))


def _check_outputs(keys: Sequence[str], outputs: OutputColumns, order: Any) -> None:
    refused = np.flatnonzero(outputs.kind == Kind.REFUSED)
    if refused.size:
        first = refused[0]
        row, key = order[int(outputs.id[first])], keys[outputs.row[first]]
        raise InvalidError(f"row {row}, of key {key!r}: {outputs.note[first]}")


class Bucket:
    """The states of the keys of a bucket.

    As bytes it is a head, which names its version, and compressed: the lengths of the keys, those of
    the states, then the keys and the states themselves, each one behind the other.
    """

    def __init__(self, states: dict[str, bytes]) -> None:
        self.states, self.is_changed = states, True

    def play(self, fold: Any, events: Mapping[str, Any]) -> Any:
        """Return the outputs of a table of events of the bucket's keys, which go on from there."""
        states, outputs = fold.run_many(self.states, events)
        before = self.states
        self.is_changed |= any(state != before.get(key, b"") for key, state in states.items())
        before.update((key, state) for key, state in states.items() if state)
        return outputs

    def find_dues(self, fold: Fold | LevelFold) -> dict[str, int]:
        dues = ((key, fold.next_due(state)) for key, state in self.states.items())
        return {key: due for key, due in dues if due is not None}

    def pack(self, *, buckets: int) -> bytes:
        names = [key.encode() for key in self.states]
        states = list(self.states.values())
        lengths = np.fromiter(map(len, [*names, *states]), "<u4", 2 * len(names))
        body = b"".join([lengths.tobytes(), *names, *states])
        head = _HEAD.pack(VERSION, buckets, len(names), len(body))
        return head + pa.compress(body, codec=_CODEC, asbytes=True)

    @classmethod
    def unpack(cls, content: bytes, *, buckets: int | None = None) -> Self:
        """Return what ``pack`` wrote, or raise if there were then not so many buckets."""
        try:
            version, had, count, size = _HEAD.unpack_from(content)
        except struct.error as error:
            raise _refuse(content, error) from None
        _check_head(version, had, buckets)
        try:
            body = pa.decompress(content[_HEAD.size :], size, codec=_CODEC, asbytes=True)
            lengths = np.frombuffer(body, "<u4", 2 * count)
            begin = lengths.nbytes
            places = [begin, *(begin + np.cumsum(lengths, dtype=np.int64)).tolist()]
            states = [body[start:end] for start, end in pairwise(places[count:])]
            names = _cut_text(body, places[: count + 1])
        except (ValueError, OSError) as error:  # pyarrow's are of these
            raise _refuse(content, error) from None
        if places[-1] != len(body):
            raise _refuse(content, f"{len(body)} where {places[-1]} are named")
        bucket = cls(dict(zip(names, states, strict=True)))
        bucket.is_changed = False
        return bucket


def _cut_text(body: bytes, places: list[int]) -> list[str]:
    text = body[places[0] : places[-1]]
    if not text.isascii():
        return [body[start:end].decode() for start, end in pairwise(places)]
    begin, whole = places[0], text.decode()
    return [whole[start - begin : end - begin] for start, end in pairwise(places)]


def _refuse(content: bytes, fault: object) -> SnapshotError:
    return SnapshotError(f"{len(content)} bytes are no bucket of keys ({fault}); restore a copy")


def _check_head(version: int, had: int, buckets: int | None) -> None:
    if version != VERSION:
        raise SnapshotError(
            f"a bucket of keys has format version {version}, this Keyhole reads {VERSION}; go on with "
            "the keyhole-conformal that wrote it"
        )
    if buckets is not None and had != buckets:
        raise InvalidError(
            f"the checkpoint has {had} buckets, the query {buckets}: a key would be looked for in the "
            f"wrong one; go on with buckets={had}, or begin a new checkpoint with "
            "states=read_states(spark, checkpoint)",
            field="buckets",
        )
