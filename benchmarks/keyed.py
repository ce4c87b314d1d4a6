"""Streams by the million: the fold's events a second, a key's bytes, a million keys; and Spark.

``python benchmarks/keyed.py`` measures the fold in one process. ``.venv-spark/bin/python
benchmarks/keyed.py --spark`` measures Spark on two cores: keys in buckets, a key a bucket, and the same
query with a processor that only counts. It keeps what it has measured in ``--out``, goes on where it
was stopped, and measures a part where ``--keys``, ``--rows`` and ``--ways`` say so. ``--backtest``
plays a finished table: of polars and pandas, or with ``--spark`` of Spark. Times are the best of
several repeats: the machine may be busy.
"""

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keyhole import ScaledResiduals
from keyhole.keyed import Answered, Asked, Event, Fold, make_fold

ROUNDS, REPEATS, MILLION = 100, 500, 1_000_000
MANY = 100_000  # rounds of a batch of many keys
KEYS, BATCHES, WAYS = (2, 5_000, 100_000, 1_000_000), (10_000, 100_000), ("buckets", "keys", "counting")
SPARK_BATCHES, FILL = 4, 50_000


def best(
    call: Callable[[], object],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds, the least of a few."""
    seconds = []
    for _ in range(repeats):
        began = clock()
        call()
        seconds.append(clock() - began)
    return min(seconds)


def make_rounds(count: int) -> list[tuple[Event, Event]]:
    """Return asks of ten scores with their answers."""
    rng = random.Random(1)
    rounds: list[tuple[Event, Event]] = []
    for number in range(count):
        output = [rng.random() for _ in range(10)]
        rounds.append(
            (
                Asked(str(number), output, at=number),
                Answered(str(number), label=rng.randrange(10), at=number),
            )
        )
    return rounds


def fold_one_by_one(fold: Fold, rounds: list[tuple[Event, Event]]) -> bytes:
    state = b""
    for ask, answer in rounds:
        state, _ = fold.step("key", state, ask)
        state, _ = fold.step("key", state, answer)
    return state


def fold_in_batches(fold: Fold, batches: list[list[Event]]) -> bytes:
    state = b""
    for events in batches:
        state, _ = fold.run("key", state, events)
    return state


def measure_fold() -> None:
    fold = make_fold(alpha=0.1, lifetime=10**9)
    rounds = make_rounds(ROUNDS)
    events = 2 * ROUNDS
    rate = events / best(lambda: fold_one_by_one(fold, rounds))
    print(f"one event at a time, bytes in and bytes out: {rate:10,.0f} events a second")
    flat = [event for pair in rounds for event in pair]
    for size in (2, 20, 200):
        batches = [flat[start : start + size] for start in range(0, len(flat), size)]
        rate = events / best(lambda batches=batches: fold_in_batches(fold, batches))  # type: ignore[misc]
        print(f"{size:4} events of a key at a time:              {rate:10,.0f} events a second")
    closed = fold_one_by_one(fold, rounds)
    opened, _ = fold.step("key", closed, Asked("a round of mine", [0.1] * 10, at=ROUNDS))
    print(f"a key with nothing open: {len(closed)} bytes; with one round of ten scores: {len(opened)}")


def make_table(rounds: int, keys: int) -> dict[str, Any]:
    """Return asks of ten probabilities, each with its answer behind it, as columns."""
    rng = np.random.default_rng(1)
    outputs, labels = np.full((2 * rounds, 10), np.nan), np.zeros(2 * rounds, dtype=np.int64)
    outputs[::2], labels[1::2] = rng.dirichlet(np.ones(10), rounds), rng.integers(0, 10, rounds)
    names = [f"key {number}" for number in rng.integers(0, keys, rounds)]
    return {
        "key": [name for name in names for _ in range(2)],
        "id": [str(number) for number in range(rounds) for _ in range(2)],
        "at": np.arange(2 * rounds),
        "output": outputs,
        "label": labels,
    }


def measure_many() -> None:
    """Many keys at once, beside a key at a time and beside only counting, in processor time."""
    fold, events = make_fold(alpha=0.1, lifetime=10**9), 2 * MANY
    other = make_fold(alpha=0.1, lifetime=10**9, score=ScaledResiduals())
    print(f"\n{events:,} events a batch; events a second of processor time")
    print(f"{'keys':>9}{'labels':>12}{'intervals':>12}{'labels by key':>15}{'Counter of keys':>17}")
    for keys in KEYS:
        table = make_table(MANY, keys)
        values = {**table, "output": table["output"][:, 0], "label": table["label"] / 10}
        states, _ = fold.run_many({}, table)
        others, _ = other.run_many({}, values)
        calls = (
            lambda: fold.run_many(states, table),  # noqa: B023
            lambda: other.run_many(others, values),  # noqa: B023
            lambda: run_each(fold, states, table),  # noqa: B023
            lambda: Counter(table["key"]),  # noqa: B023
        )
        rates = [events / best(one, 3, clock=time.process_time) for one in calls]
        print((f"{keys:9,}" + "{:12,.0f}{:12,.0f}{:15,.0f}{:17,.0f}").format(*rates), flush=True)


def run_each(fold: Fold, states: dict[str, bytes], table: dict[str, Any]) -> None:
    """Fold the events of a table, those of one key after the other."""
    found: dict[str, list[Event]] = {}
    rows = zip(*(list(column) for column in table.values()), strict=True)
    for place, (key, name, at, output, label) in enumerate(rows):
        event = Answered(name, label=int(label), at=at) if place % 2 else Asked(name, output, at=at)
        found.setdefault(key, []).append(event)
    for key, events in found.items():
        fold.run(key, states[key], events)


def measure_million() -> None:
    fold = make_fold(alpha=0.1, lifetime=10**9)
    output = [0.1 * index for index in range(10)]
    states: dict[str, bytes] = {}
    began = time.perf_counter()
    for number in range(MILLION):
        events: list[Event] = [Asked("1", output), Answered("1", label=number % 10)]
        key = str(number)
        states[key], _ = fold.run(key, b"", events)
    seconds = time.perf_counter() - began
    size = sum(map(len, states.values()))
    print(f"a million keys, a round each: {seconds:.0f} s, {size / 1e6:.0f} MB of states")


def measure_backtest(*, on_spark: bool) -> None:
    """A finished table of two hundred thousand rows, by those who hold it; seconds on the wall."""
    import pyarrow as arrow

    names = ("Spark",) if on_spark else ("polars", "pandas")
    print(f"a backtest of {2 * MANY:,} rows; rows a second")
    print(f"{'keys':>9}" + "".join(f"{name:>12}" for name in names))
    for keys in KEYS[1:]:
        rng = np.random.default_rng(1)
        outputs = arrow.array(rng.dirichlet(np.ones(10), 2 * MANY).ravel())
        columns = {
            "shop": arrow.array(rng.integers(0, keys, 2 * MANY)),
            "at": arrow.array(np.arange(2 * MANY)),
            "output": arrow.ListArray.from_arrays(np.arange(0, 20 * MANY + 1, 10), outputs),
            "label": arrow.array(rng.integers(0, 10, 2 * MANY)),
        }
        table = arrow.table(columns)
        calls = [play_on_spark(table)] if on_spark else play_in_memory(table)
        rates = [2 * MANY / best(one, 3) for one in calls]
        print(f"{keys:9,}" + "".join(f"{rate:12,.0f}" for rate in rates), flush=True)


def play_in_memory(table: Any) -> list[Callable[[], object]]:
    import polars

    from keyhole.integrations.tables import backtest

    frames = (polars.from_arrow(table), table.to_pandas())
    return [partial(backtest, one, key="shop", alpha=0.1) for one in frames]


def play_on_spark(table: Any) -> Callable[[], object]:
    from keyhole.integrations.spark import backtest

    held = start_spark().createDataFrame(table).cache()
    held.count()
    return lambda: backtest(held, key="shop", alpha=0.1).write.format("noop").mode("overwrite").save()


def measure_spark(given: argparse.Namespace) -> None:
    """Measure the cells that the file does not have yet, then print them all."""
    done: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    cells = list(itertools.product(given.keys or KEYS, given.rows or BATCHES, given.ways or WAYS))
    missing = [cell for cell in cells if given.again or name_cell(*cell) not in done]
    if missing:
        spark = start_spark()
        for cell in missing:
            done[name_cell(*cell)] = run_query(spark, *cell, seconds=given.seconds)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(done, indent=1))
            print(name_cell(*cell), done[name_cell(*cell)], flush=True)
        spark.stop()
    print_cells(done)


def name_cell(keys: int, rows: int, way: str) -> str:
    return f"{keys} {rows} {way}"


def print_cells(done: dict[str, Any]) -> None:
    head = "keys", "rows a batch", "way", "/ counting", "rows/s", "commit ms", "bytes a key", "first, s"
    print(("{:>9} {:>12} {:>8} {:>10}" + " {:>11}" * 4).format(*head))
    for name, cell in sorted(done.items(), key=lambda one: [*map(int, one[0].split()[:2]), one[0]]):
        keys, rows, way = name.split()
        if cell["seconds"] is None:
            print(f"{int(keys):9,} {int(rows):12,} {way:>8} no batch in time")
            continue
        counting = done.get(f"{keys} {rows} counting", {}).get("seconds")
        ratio = f"{cell['seconds'] / counting:.2f}" if counting else ""
        numbers = int(rows) / cell["seconds"], cell["commit"], cell["held"] / int(keys), cell["fill"]
        print(f"{int(keys):9,} {int(rows):12,} {way:>8} {ratio:>10}", end="")
        print((" {:>11,.0f}" * 4).format(*numbers))


def start_spark() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", 50_000)
        .config("spark.sql.streaming.minBatchesToRetain", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run_query(spark: Any, keys: int, rows: int, way: str, *, seconds: float) -> dict[str, Any]:
    """Return the least seconds of a batch, what its commit took, and the bytes in the store.

    Before the batches that are measured others ask and answer every key once.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fills = [np.arange(start, min(start + FILL, keys)) for start in range(0, keys, FILL)]
        rng = np.random.default_rng(1)
        draws = [rng.integers(keys, size=rows // 2) for _ in range(SPARK_BATCHES)]
        for batch, shops in enumerate([*fills, *draws]):
            write_batch(folder, batch, shops)
        query = start_query(spark, folder, way)
        try:
            query.awaitTermination(seconds)
        finally:
            query.stop()
        progress = [one for one in query.recentProgress if one.numInputRows]
        took = [one for one in progress if one.batchId >= len(fills)][1:]  # the first warms up
        filled = [one.durationMs["addBatch"] / 1000 for one in progress if one.batchId < len(fills)]
        found: dict[str, Any] = {"fill": sum(filled) if len(filled) == len(fills) else None}
        if not took:
            return {**found, "seconds": None}
        best_one = min(took, key=lambda one: one.durationMs["addBatch"])
        operator = best_one.stateOperators[0]
        return {
            **found,
            "seconds": best_one.durationMs["addBatch"] / 1000,
            "commit": operator.commitTimeMs,
            "held": operator.customMetrics["rocksdbSstFileSize"],
            "copied": operator.customMetrics["rocksdbBytesCopied"],
        }


def start_query(spark: Any, folder: Path, way: str) -> Any:
    from keyhole.integrations.spark import streams

    source = spark.readStream.option("maxFilesPerTrigger", 1)
    asks = source.schema("shop STRING, id STRING, at TIMESTAMP, output ARRAY<DOUBLE>").parquet(
        str(folder / "asks")
    )
    answers = source.schema("shop STRING, id STRING, at TIMESTAMP, label INT").parquet(
        str(folder / "answers")
    )
    if way == "counting":
        table = count_rows(asks, answers)
    else:  # So many buckets have a key each.
        buckets = 2**31 - 1 if way == "keys" else None
        table = streams(asks, answers, key="shop", alpha=0.1, buckets=buckets)
    writer = table.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def count_rows(asks: Any, answers: Any) -> Any:
    """Return the same query with a processor that only counts, and writes a row for each ask."""
    import pyarrow as arrow
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    from keyhole.integrations import spark

    class Counting(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._value = handle.getValueState("counts", "counts BINARY")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            held = self._value.get()
            counts: dict[str, int] = {} if held is None else json.loads(held[0])
            shown = []
            for _, _, packed in rows:
                table = None if packed is None else spark.read_table(packed)
                if table is not None and "output" in table.column_names:
                    for shop in table["key"].to_pylist():
                        counts[shop] = counts.get(shop, 0) + 1
                        shown.append((shop, counts[shop]))
            self._value.update((json.dumps(counts).encode(),))
            if shown:
                columns = zip(("key", "count"), zip(*shown, strict=True), strict=True)
                yield Row("rows")(spark.write_table(arrow.table(dict(columns))))

        def close(self) -> None:
            pass

    buckets = spark.count_buckets(asks, None)
    inputs = spark.pack_inputs(asks, answers, keys=["shop"], delay="10 minutes", buckets=buckets)
    return spark.process(inputs, Counting(), None).mapInArrow(
        spark.unpack_rows, "key STRING, count BIGINT"
    )


def write_batch(folder: Path, batch: int, shops: Any) -> None:
    """Write a file of asks of these shops and one of their answers, in the order of Spark's taking."""
    import pyarrow as arrow
    import pyarrow.parquet

    rng = np.random.default_rng(batch)
    count = len(shops)
    start = 1_893_456_000_000 + 60_000 * batch
    common = {
        "shop": arrow.array(shops).cast("string"),
        "id": [f"{batch}-{number}" for number in range(count)],
        "at": arrow.array(start + np.arange(count) % 60_000).cast(arrow.timestamp("ms", tz="UTC")),
    }
    outputs = arrow.FixedSizeListArray.from_arrays(rng.random(10 * count), 10).cast(
        arrow.list_(arrow.float64())
    )
    labels = arrow.array(rng.integers(10, size=count), arrow.int32())
    for name, column in (("asks", {"output": outputs}), ("answers", {"label": labels})):
        (folder / name).mkdir(exist_ok=True)
        path = folder / name / f"{batch}.parquet"
        arrow.parquet.write_table(arrow.table({**common, **column}), path)
        os.utime(path, (1_900_000_000 + batch, 1_900_000_000 + batch))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--backtest", action="store_true", help="of a finished table")
    parser.add_argument("--keys", type=int, nargs="*", help="how many, for Spark")
    parser.add_argument("--rows", type=int, nargs="*", help="a batch, for Spark")
    parser.add_argument("--ways", choices=WAYS, nargs="*", help="of keeping states, for Spark")
    parser.add_argument("--seconds", type=float, default=240.0, help="the most that a query may take")
    parser.add_argument("--out", type=Path, default=Path("out/keyed.json"), help="measured before")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    given = parser.parse_args()
    if given.backtest:
        measure_backtest(on_spark=given.spark)
    elif given.spark:
        measure_spark(given)
    else:
        measure_fold()
        measure_many()
        if given.million:
            measure_million()
