"""Streams by the million on Apache Spark: keys in buckets, a value and a timer each (extra ``spark``).

``streams`` runs the fold of ``keyhole.keyed`` as a Structured Streaming query: asks and answers in,
sets out, exactly once. ``read_states`` carries the keys of a stopped query over to another.
``backtest`` plays a finished table, every key by itself, and ``evaluate`` says how the sets of either
have fared. Workers import this module, so that Keyhole must be installed where they run.

Spark hands Python one cell at a time what a stateful query keeps and reads. Rows therefore pass through
that query as Arrow tables, one value for the rows of a bucket, and so do the outputs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, MissingExtraError
from keyhole.keyed import Fold, Kind, LevelFold, make_fold
from keyhole.keyed.columns import KNOWN
from keyhole.keyed.state import NEVER
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.scores import Score

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.streaming import StatefulProcessor
except ImportError:
    raise MissingExtraError(
        "Spark needs pyspark 4.1 or later; pip install 'keyhole-conformal[spark]'"
    ) from None

from keyhole.integrations._arrow import (
    ANSWERS,
    MOST_BUCKETS,
    PLAYED,
    Bucket,
    find_schema,
    has_indexes,
    make_row_fold,
    play_table,
    read_events,
    refuse_rows,
    tell_time,
    write_outputs,
)
from keyhole.integrations._cases import list_names

__all__ = ["backtest", "evaluate", "read_states", "streams"]

WEEK = timedelta(days=7)
WRITTEN = (Kind.SHOWN, Kind.COUNTED, Kind.EXPIRED, Kind.REFUSED)
BUCKETS_A_PARTITION = 32
NO_ROWS = -1  # a bucket of every batch, without keys: it refuses another number of buckets
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MS = timedelta(milliseconds=1)
_STATE = "state BINARY, timer BIGINT"
_PACKED = "bucket INT, at TIMESTAMP, rows BINARY"
_PACKED_TYPES = (pa.int32(), pa.timestamp("us", tz="UTC"), pa.binary())
_MOST_ROWS = 2**17  # that are packed together
_TEXT_TYPES = (T.StringType, T.IntegralType, T.BooleanType, T.DateType)  # there and back unchanged


class BucketProcessor(StatefulProcessor):
    """The fold as a processor of Spark's: a bucket is one value, and its next expiry one timer."""

    def __init__(
        self,
        fold: Fold | LevelFold,
        *,
        buckets: int,
        kinds: Iterable[Kind] = WRITTEN,
        indexed: bool = False,
    ) -> None:
        self._fold, self._buckets = fold, buckets
        self._kinds, self._indexed = frozenset(kinds), indexed

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._value = handle.getValueState("keyhole", _STATE)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, N802, N803
        bucket = Bucket.unpack(bytes(initialState.rows))
        bucket.is_changed = True
        self._write(bucket, 0, self._find_due(bucket), timerValues.getCurrentWatermarkInMs())

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Yield the output of a batch of the bucket's rows, which come in no order."""
        tables = [read_table(packed) for _, _, packed in rows if packed is not None]
        return self._fold_in(tables, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Yield what expires now that the watermark has passed the bucket's timer."""
        return self._fold_in([], timerValues.getCurrentWatermarkInMs(), fired=True)

    def close(self) -> None:
        pass

    def _fold_in(self, tables: list[Any], watermark: int, *, fired: bool = False) -> Iterator[Any]:
        bucket, timer = self._read()
        due, written = timer or NEVER, []
        if tables:
            written.append(self._play(bucket, read_events(tables, indexed=self._indexed)))
            if Kind.REFUSED in self._kinds:
                written += [refuse_rows(one) for one in tables if one["key"].null_count]
            due = min(due, self._find_earliest(tables))
        if due <= watermark:
            over = [key for key, due in bucket.find_dues(self._fold).items() if due <= watermark]
            written.append(self._play(bucket, tell_time(over, watermark)))
            due = self._find_due(bucket)
        self._write(bucket, timer, due, watermark, fired=fired)
        if any(one.num_rows for one in written):
            empty = find_schema(self._fold).empty_table()
            table = pa.concat_tables([empty, *written], promote_options="default")
            yield Row("rows")(write_table(table))

    def _play(self, bucket: Bucket, events: dict[str, Any]) -> Any:
        return write_outputs(events["key"], bucket.play(self._fold, events), self._kinds)

    def _find_earliest(self, tables: list[Any]) -> int:
        asked = [pc.min(one["at"]).as_py() for one in tables if "output" in one.column_names]
        lifetime = self._fold.first.lifetime
        times = [] if lifetime is None else [at + lifetime for at in asked if at is not None]
        return min(times, default=NEVER)

    def _find_due(self, bucket: Bucket) -> int:
        return min(bucket.find_dues(self._fold).values(), default=NEVER)

    def _read(self) -> tuple[Bucket, int]:
        held = self._value.get()
        if held is None:
            return Bucket({}), 0
        return Bucket.unpack(bytes(held[0]), buckets=self._buckets), held[1]

    def _write(
        self, bucket: Bucket, timer: int, due: int, watermark: int, *, fired: bool = False
    ) -> None:
        """Store the bucket if it has changed, with a timer at or before its next expiry, if any.

        One that fires too early costs less than to look for the next expiry in every batch.
        """
        waiting = timer
        if fired or timer <= watermark or due < timer:
            if timer and not fired:  # Spark forgets one that has fired.
                self._handle.deleteTimer(timer)
            waiting = 0
        if due != NEVER and not waiting:
            waiting = max(due, watermark + 1)
            self._handle.registerTimer(waiting)
        if bucket.is_changed or waiting != timer:
            self._value.update((bucket.pack(buckets=self._buckets), waiting))


def streams(
    asks: DataFrame,
    answers: DataFrame,
    *,
    key: str | Sequence[str],
    learner: str | Learner | None = None,
    alpha: float | Sequence[float] | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str | None = None,
    seed: int = 0,
    open_limit: int = 100,
    lifetime: timedelta = WEEK,
    delay: str = "10 minutes",
    recall: int = 2,
    start: Progress | Mapping[float, Progress] | None = None,
    kinds: Iterable[str] = WRITTEN,
    buckets: int | None = None,
    states: DataFrame | None = None,
) -> DataFrame:
    """Return the sets of a stream of asks, every key learning from its own answers.

    Parameters
    ----------
    asks
        Columns: the key's, ``id`` (text), ``at`` (timestamp), and ``output``: an array of scores, a
        map from labels to scores, or a number, as the score kind takes it. Where the learner takes
        them also ``features`` (an array, or a map from names) and ``groups`` (an array).
    answers
        Columns: the key's, ``id``, ``at``, and one or more of ``skipped`` (boolean), ``label``,
        ``hit`` (boolean), ``right`` (boolean, of decisions), ``score`` and ``loss``: in every row the
        first that is there counts.
    key
        The column or columns that tell streams apart: text, whole numbers, booleans or dates.
    learner, alpha, features, groups, score, feedback, seed, open_limit, recall, start
        As for ``keyhole.keyed.make_fold``: a rule that accepts or refers answers lets every key
        decide, several alphas give nested sets or intervals.
    lifetime
        How long a round may wait for its answer, by the times in the rows.
    delay
        How far the time by which rounds expire, Spark's watermark, stays behind the latest row of the
        slower input. Rows that come later still are not dropped: the fold uses or refuses them.
    kinds
        The kinds of rows to write: "shown", "counted", "skipped", "expired", "repeated", "refused".
    buckets
        How many values the states are kept in, by default 32 for each shuffle partition. A checkpoint
        keeps its number: a query with another is refused.
    states
        With which states the keys of a new checkpoint begin, as ``read_states`` returns them.

    Returns
    -------
    DataFrame
        The key's columns, ``id``, ``kind``, ``number``, ``threshold``, ``labels``, ``lower``,
        ``upper``, ``size``, ``miss`` and ``note``. Of several alphas there is a row for each, which
        is in ``alpha``; decisions have ``accepted`` instead of the set. Write it in append mode.
    """
    given: Any = alpha  # one or several
    fold: Fold | LevelFold = make_fold(
        learner, alpha=given, features=features, groups=groups, score=score, feedback=feedback,
        seed=seed, open_limit=open_limit, lifetime=lifetime // _MS, recall=recall, start=start,
    )  # fmt: skip
    keys = list_names(key)
    count = count_buckets(asks, buckets)
    is_array = isinstance(asks.schema["output"].dataType, T.ArrayType)
    processor = BucketProcessor(
        fold, buckets=count, kinds=map(Kind, kinds), indexed=is_array and has_indexes(fold)
    )
    inputs = pack_inputs(asks, answers, keys=keys, delay=delay, buckets=count)
    begun = None if states is None else _pack_states(states, count)
    packed = process(inputs, processor, begun)
    output = packed.mapInArrow(unpack_rows, from_arrow_schema(find_schema(fold)))
    return output.select(*read_keys(asks, keys), *list_columns(fold))


def list_columns(fold: Fold | LevelFold) -> list[Any]:
    if fold.first.decides:
        accepted = (F.col("size") == 1.0).alias("accepted")
        return ["id", "kind", "number", "threshold", accepted, "miss", "note"]
    return list(find_schema(fold).names[1:])


def process(inputs: DataFrame, processor: StatefulProcessor, states: DataFrame | None) -> DataFrame:
    _use_rocks_db(inputs.sparkSession)
    return inputs.groupBy("bucket").transformWithState(
        statefulProcessor=processor,
        outputStructType="rows BINARY",
        outputMode="append",
        timeMode="eventTime",
        initialState=None if states is None else states.groupBy("bucket"),
    )


def _use_rocks_db(spark: SparkSession) -> None:
    if spark.conf.get(_PROVIDER, "") != _ROCKS_DB:
        spark.conf.set(_PROVIDER, _ROCKS_DB)  # the only provider that transformWithState works with


def read_states(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the states of all keys of a stopped query: columns ``key`` and ``state``.

    Give them to ``streams(..., states=...)`` to go on in a new checkpoint with another number of
    buckets or of shuffle partitions, or keep them as a table; ``Fold.read`` reads one. The new query
    must read its inputs from where the old one ended.
    """
    _use_rocks_db(spark)
    reader = spark.read.format("statestore").option("stateVarName", "keyhole")
    buckets = reader.load(checkpoint).select("value.state")
    return buckets.mapInArrow(list_states, "key STRING, state BINARY")


def list_states(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for content in batch["state"].to_pylist():
            held = Bucket.unpack(content).states
            columns = [pa.array(list(held), pa.string()), pa.array(list(held.values()), pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["key", "state"])


def _pack_states(states: DataFrame, buckets: int) -> DataFrame:
    def pack(group: Any) -> Any:
        held = dict(zip(group["key"].to_pylist(), group["state"].to_pylist(), strict=True))
        content = Bucket(held).pack(buckets=buckets)
        return pa.table({"bucket": group["bucket"][:1], "rows": pa.array([content], pa.binary())})

    bucketed = states.select("key", "state").withColumn("bucket", _find_bucket(buckets))
    return bucketed.groupBy("bucket").applyInArrow(pack, "bucket INT, rows BINARY")


def pack_inputs(
    asks: DataFrame, answers: DataFrame, *, keys: Sequence[str], delay: str, buckets: int
) -> DataFrame:
    """Return the rows of each bucket as one value, each input with its own watermark."""
    common = [name_rows(keys), "id", F.unix_millis(F.col("at").cast("timestamp")).alias("at")]
    known = [name for name in KNOWN if name in asks.columns]
    asked = _pack(asks.select(*common, "output", *known), buckets)
    told = [name for name in ANSWERS if name in answers.columns]
    if not told:
        raise InvalidError(f"answers have none of the columns {', '.join(ANSWERS)}; add one")
    answered = _pack(answers.select(*common, *told), buckets)
    return asked.withWatermark("at", delay).unionByName(answered.withWatermark("at", delay))


def name_rows(keys: Sequence[str]) -> Any:
    """Return the column ``key``, the text that stands for a key, as ``name_key`` writes it."""
    texts = [F.col(name).cast("string") for name in keys]
    return (texts[0] if len(keys) == 1 else F.to_json(F.array(*texts))).alias("key")


def read_keys(table: DataFrame, keys: Sequence[str]) -> list[Any]:
    """Return the columns of a key from the text that stands for it, or raise if that cannot be."""
    for name in keys:
        if not isinstance(table.schema[name].dataType, _TEXT_TYPES):
            raise InvalidError(
                f"the key {name!r} is {table.schema[name].dataType.simpleString()}; cast it to text"
            )
    parts = F.from_json("key", "ARRAY<STRING>")
    texts = [F.col("key")] if len(keys) == 1 else [parts[place] for place in range(len(keys))]
    return [
        text.cast(table.schema[name].dataType).alias(name)
        for name, text in zip(keys, texts, strict=True)
    ]


def _pack(table: DataFrame, buckets: int) -> DataFrame:
    return table.withColumn("bucket", _find_bucket(buckets)).mapInArrow(pack_rows, _PACKED)


def _find_bucket(buckets: int) -> Any:
    return F.pmod(F.xxhash64("key"), F.lit(buckets)).cast("int")


def count_buckets(table: DataFrame, buckets: int | None) -> int:
    """Return how many buckets there are, by default so many for each partition of a shuffle."""
    if buckets is None:
        conf = table.sparkSession.conf
        return BUCKETS_A_PARTITION * int(conf.get("spark.sql.shuffle.partitions", "200"))
    if not is_whole(buckets, least=1, most=MOST_BUCKETS):
        raise InvalidError(f"buckets {buckets!r} is not a whole number from 1 to {MOST_BUCKETS}")
    return buckets


def pack_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of each bucket as one value, then the latest time, by which Spark's moves on.

    The rows themselves have no time that Spark knows of, lest it drop them as late.
    """
    for table in _gather(batches):
        buckets = table["bucket"].to_numpy()
        order = np.argsort(buckets, kind="stable")
        buckets = buckets[order]
        ordered = table.drop_columns("bucket").take(order).combine_chunks()
        starts = np.flatnonzero(np.diff(buckets, prepend=-1))
        packed = [
            write_table(ordered[start:end]) for start, end in pairwise([*starts.tolist(), len(buckets)])
        ]
        latest = pc.max(table["at"]).as_py()
        columns = [
            [*buckets[starts].tolist(), NO_ROWS],
            [*(None for _ in packed), None if latest is None else 1000 * latest],
            [*packed, None],
        ]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _PACKED_TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["bucket", "at", "rows"])


def _gather(batches: Iterator[Any]) -> Iterator[Any]:
    held = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(one.num_rows for one in held) >= _MOST_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def unpack_rows(batches: Iterator[Any]) -> Iterator[Any]:
    packed = (rows for batch in batches for rows in batch["rows"].to_pylist())
    for table in _gather(one for rows in packed for one in read_table(rows).to_batches()):
        yield from table.combine_chunks().to_batches()


def write_table(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue().to_pybytes()


def read_table(content: bytes) -> Any:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def evaluate(sets: DataFrame, *, by: str | Sequence[str] = ()) -> DataFrame:
    """Return how sets have fared, overall or by columns such as the key's.

    ``sets`` is what ``streams`` has written, its counted rounds included, or what ``backtest`` returns.
    The result has ``rounds``, how many were shown; ``answered``; ``miss_rate``, of those answered;
    ``size``, the mean of the bounded sets; and ``unbounded``, the share of those that are not. For
    decisions it is the share of ``accepted`` answers instead of the last two; for several levels let
    ``alpha`` be one of the columns.
    """
    if missing := [name for name in ("miss", *list_names(by)) if name not in sets.columns]:
        raise InvalidError(
            f"the table lacks {', '.join(missing)}; write it as Parquet, with the counted rows (JSON "
            "leaves out what is null everywhere)"
        )
    if "alpha" in sets.columns:
        sets = sets.where(F.col("alpha").isNotNull())
    shown = F.col("kind") == Kind.SHOWN.value if "kind" in sets.columns else F.lit(True)  # noqa: FBT003
    if "accepted" in sets.columns:
        figures = [F.avg(F.when(shown, F.col("accepted").cast("double"))).alias("accepted")]
    else:
        size = F.when(shown, F.col("size"))
        bounded = size < F.lit(float("inf"))
        figures = [
            F.avg(F.when(bounded, size)).alias("size"),
            F.avg((~bounded).cast("double")).alias("unbounded"),
        ]
    return sets.groupBy(*list_names(by)).agg(
        F.count(F.when(shown, 1)).alias("rounds"),
        F.count("miss").alias("answered"),
        F.avg("miss").alias("miss_rate"),
        *figures,
    )


def backtest(
    table: DataFrame,
    *,
    key: str | Sequence[str],
    learner: str | Learner | None = None,
    alpha: float | None = None,
    features: int | Iterable[str] | None = None,
    groups: int | Iterable[str] | None = None,
    score: Score[Any] | None = None,
    feedback: str = "semi-bandit",
    seed: int = 0,
    start: Progress | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """Return the sets of a finished table, every key played by itself, each round answered at once.

    The table has the key's columns, ``at`` by which rounds are ordered, ``output``, where the learner
    takes them ``features`` and ``groups``, and ``label``, null where no answer came. The result has
    ``threshold``, ``labels`` or ``lower`` and ``upper``, ``size`` and ``miss`` beside key and ``at``;
    ``evaluate`` sums it up. Each of the ``buckets`` is played in one piece, in memory; by default there
    are 32 for each shuffle partition.
    """
    fold = make_row_fold(
        learner, alpha=alpha, features=features, groups=groups, score=score, feedback=feedback,
        seed=seed, start=start,
    )  # fmt: skip
    keys = list_names(key)
    known = [name for name in KNOWN if name in table.columns]
    rows = table.select(name_rows(keys), "at", "output", *known, "label")

    def play(group: Any) -> Any:
        played = play_table(fold, group)
        at = group["at"]
        if pa.types.is_timestamp(at.type) and at.type.tz:  # Spark gives its own zone, and takes UTC.
            at = at.cast(pa.timestamp("us", tz="UTC"))
        return pa.table([group["key"], at, *played.columns], names=["key", "at", *PLAYED.names])

    kept = [T.StructField("key", T.StringType()), table.schema["at"]]
    schema = T.StructType([*kept, *from_arrow_schema(PLAYED).fields])
    bucketed = rows.withColumn("bucket", _find_bucket(count_buckets(table, buckets)))
    played = bucketed.groupBy("bucket").applyInArrow(play, schema)
    return played.select(*read_keys(table, keys), "at", *PLAYED.names)
