"""Streams by the million: the fold's events a second, a key's bytes, a million keys; and Spark.

``python benchmarks/keyed.py`` measures the fold in one process. ``.venv-spark/bin/python
benchmarks/keyed.py --spark`` measures Spark on two cores beside the same query with a processor that
only counts. Times are the best of many short repeats: the machine may be busy.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.keyed import Answered, Asked, Event, Fold, make_fold

ROUNDS, REPEATS, MILLION = 100, 500, 1_000_000
MANY = 100_000  # rounds of a batch of many keys
SPARK_ROWS, SPARK_BATCHES = 5_000, 4
KEYS = (2, 5_000, 100_000)


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
    print(f"\n{events:,} events a batch; events a second of processor time")
    print(f"{'keys':>8}{'run_many':>12}{'run, by key':>13}{'Counter of keys':>17}")
    for keys in KEYS:
        table = make_table(MANY, keys)
        states, _ = fold.run_many({}, table)
        calls = (
            lambda: fold.run_many(states, table),  # noqa: B023
            lambda: run_each(fold, states, table),  # noqa: B023
            lambda: Counter(table["key"]),  # noqa: B023
        )
        many, each, counted = (events / best(one, 3, clock=time.process_time) for one in calls)
        print(f"{keys:8,}{many:12,.0f}{each:13,.0f}{counted:17,.0f}", flush=True)


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


def measure_spark(only: list[int]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print(f"{'keys':>8} {'ours, rows/s':>14} {'counting, rows/s':>18} {'time, ours / counting':>22}")
    for keys in only or KEYS:
        ours, counting = (run_query(spark, keys, counts=counts) for counts in (False, True))
        rows = 2 * SPARK_ROWS
        ratio = ours / counting
        print(f"{keys:8,} {rows / ours:14,.0f} {rows / counting:18,.0f} {ratio:22.2f}", flush=True)
    spark.stop()


def run_query(spark: Any, keys: int, *, counts: bool) -> float:
    """Return the least seconds of a batch, after the first, which warms up."""
    from keyhole.integrations.spark import streams

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for batch in range(SPARK_BATCHES):
            write_batch(spark, folder, batch, keys)
        source = spark.readStream.option("maxFilesPerTrigger", 1)
        asks = source.schema("shop STRING, id STRING, at TIMESTAMP, output ARRAY<DOUBLE>").parquet(
            str(folder / "asks")
        )
        answers = source.schema("shop STRING, id STRING, at TIMESTAMP, label INT").parquet(
            str(folder / "answers")
        )
        table = count_rows(asks, answers) if counts else streams(asks, answers, key="shop", alpha=0.1)
        writer = table.writeStream.format("noop").option(
            "checkpointLocation", str(folder / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took = [
            one.durationMs["addBatch"] / 1000
            for one in query.recentProgress
            if one.numInputRows > SPARK_ROWS
        ]
        return float(min(took[1:]))


def count_rows(asks: Any, answers: Any) -> Any:
    """Return the same query with a processor that only counts, and says as many rows."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    from keyhole.integrations.spark import join_inputs

    class Counting(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._value = handle.getValueState("count", "count BIGINT")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            held = self._value.get()
            count = 0 if held is None else held[0]
            for row in rows:
                count += 1
                if row[3] is not None:
                    yield Row(shop=key[0], count=count)
            self._value.update((count,))

        def close(self) -> None:
            pass

    rows = join_inputs(asks, answers, keys=["shop"], delay="10 minutes")
    return rows.groupBy("shop").transformWithState(
        statefulProcessor=Counting(),
        outputStructType="shop STRING, count BIGINT",
        outputMode="append",
        timeMode="eventTime",
    )


def write_batch(spark: Any, folder: Path, batch: int, keys: int) -> None:  # noqa: ARG001
    """Write a file of asks and one of their answers, in the order of Spark's taking."""
    from datetime import UTC, datetime, timedelta

    import pyarrow as arrow
    import pyarrow.parquet

    rng = random.Random(batch)
    start = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(minutes=batch)
    at = [start + timedelta(milliseconds=number) for number in range(SPARK_ROWS)]
    common = {
        "shop": [str(rng.randrange(keys)) for _ in at],
        "id": [f"{batch}-{n}" for n in range(SPARK_ROWS)],
        "at": at,
    }
    outputs = [[rng.random() for _ in range(10)] for _ in at]
    for name, column in (
        ("asks", {"output": outputs}),
        ("answers", {"label": arrow.array([rng.randrange(10) for _ in at], arrow.int32())}),
    ):
        (folder / name).mkdir(exist_ok=True)
        path = folder / name / f"{batch}.parquet"
        arrow.parquet.write_table(arrow.table({**common, **column}), path)
        os.utime(path, (1_900_000_000 + batch, 1_900_000_000 + batch))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--keys", type=int, nargs="*", default=[])
    given = parser.parse_args()
    if given.spark:
        measure_spark(given.keys)
    else:
        measure_fold()
        measure_many()
        if given.million:
            measure_million()
