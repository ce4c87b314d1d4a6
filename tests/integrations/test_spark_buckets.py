"""Queries on a real Spark: buckets, gates and levels."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is tested by: make test-spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java 17; install openjdk-17-jre-headless", allow_module_level=True)

from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import array_max, col

from keyhole.integrations.spark import evaluate, read_states, streams
from keyhole.keyed import Answered, Asked, Event, make_fold

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark and pandas warn of each other
START = datetime(2030, 1, 1)
ASKS = "shop STRING, id STRING, at TIMESTAMP, output ARRAY<DOUBLE>"
ANSWERS = "shop STRING, id STRING, at TIMESTAMP, label INT"
SHOPS, ROUNDS = 7, 20
OUTPUTS = [[0.1 * (n % 8), 0.3, 0.2] for n in range(2 * ROUNDS)]


def write_day(spark: Any, folder: Path, day: int) -> None:
    """Write rounds of every shop, and the answers to all but the last of them."""
    first = day * ROUNDS
    rows = [(f"shop {shop}", n) for n in range(first, first + ROUNDS) for shop in range(SHOPS)]
    asks = [(shop, str(n), START + timedelta(seconds=n), OUTPUTS[n]) for shop, n in rows]
    last = first + ROUNDS - 1
    answers = [(shop, str(n), START + timedelta(seconds=n), n % 3) for shop, n in rows if n < last]
    spark.createDataFrame(asks, ASKS).coalesce(1).write.parquet(str(folder / f"asks {day}"))
    spark.createDataFrame(answers, ANSWERS).coalesce(1).write.parquet(str(folder / f"answers {day}"))


def play(spark: Any, folder: Path, day: int, checkpoint: Path, **given: Any) -> None:
    source = spark.readStream
    asks = source.schema(ASKS).parquet(str(folder / f"asks {day}"))
    answers = source.schema(ANSWERS).parquet(str(folder / f"answers {day}"))
    if given.get("learner") == "gate-tracker":  # which is asked with the best score
        asks = asks.withColumn("output", array_max("output"))
        answers = answers.withColumn("right", col("label") > 0).drop("label")
    sets = streams(asks, answers, key="shop", **{"alpha": 0.1, "seed": 3, **given})
    writer = sets.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.option("path", str(folder / f"sets {day}")).trigger(availableNow=True).start()
    try:
        query.awaitTermination(300)
    finally:
        query.stop()


def test_keys_go_on_in_another_number_of_buckets(spark: Any, tmp_path: Path) -> None:
    for day in (0, 1):
        write_day(spark, tmp_path, day)
    play(spark, tmp_path, 0, tmp_path / "first", buckets=3)
    states = read_states(spark, str(tmp_path / "first"))
    assert states.count() == SHOPS
    play(spark, tmp_path, 1, tmp_path / "second", buckets=5, states=states)
    found = spark.read.parquet(str(tmp_path / "sets 1")).where("kind = 'shown'").collect()
    fold = make_fold(alpha=0.1, seed=3)
    expected: dict[tuple[str, str], float] = {}
    for shop in (f"shop {n}" for n in range(SHOPS)):
        events: list[Event] = []
        for n, output in enumerate(OUTPUTS):
            events.append(Asked(str(n), output, at=n))
            events += [Answered(str(n), label=n % 3, at=n)] if n % ROUNDS < ROUNDS - 1 else []
        shown = [one for one in fold.run(shop, b"", events)[1] if one.kind == "shown"]
        expected |= {(shop, one.id): one.region.threshold for one in shown[ROUNDS:]}  # type: ignore[union-attr]
    assert {(row.shop, row.id): row.threshold for row in found} == expected


def test_another_number_of_buckets_is_refused_with_the_remedy(spark: Any, tmp_path: Path) -> None:
    write_day(spark, tmp_path, 0)
    play(spark, tmp_path, 0, tmp_path / "first", buckets=3)
    write_day(spark, tmp_path, 1)
    for name in ("asks", "answers"):
        (part,) = (tmp_path / f"{name} 1").glob("*.parquet")
        part.rename(tmp_path / f"{name} 0" / part.name)
    with pytest.raises(StreamingQueryException, match=r"has 3 buckets.*states=read_states"):
        play(spark, tmp_path, 0, tmp_path / "first", buckets=2)


def list_events(*, is_gate: bool) -> list[Event]:
    """Return the events of a shop on the first day."""
    events: list[Event] = []
    for n, output in enumerate(OUTPUTS[:ROUNDS]):
        events.append(Asked(str(n), max(output) if is_gate else output, at=n))
        known: Any = {"right": n % 3 > 0} if is_gate else {"label": n % 3}
        events += [Answered(str(n), at=n, **known)] if n < ROUNDS - 1 else []
    return events


def test_several_levels_have_a_row_each_and_are_summed_up_by_alpha(spark: Any, tmp_path: Path) -> None:
    write_day(spark, tmp_path, 0)
    play(spark, tmp_path, 0, tmp_path / "checkpoint", alpha=[0.05, 0.4])
    written = spark.read.parquet(str(tmp_path / "sets 0"))
    found = {row.alpha: row for row in evaluate(written, by="alpha").collect()}
    fold = make_fold(alpha=[0.05, 0.4], seed=3)
    runs: Any = [fold.run(f"shop {n}", b"", list_events(is_gate=False))[1] for n in range(SHOPS)]
    assert set(found) == {0.05, 0.4}
    for alpha, row in found.items():
        sizes = [one.region[alpha].size for run in runs for one in run if one.region is not None]
        misses = [one.misses[alpha] for run in runs for one in run if one.misses is not None]
        assert (row.rounds, row.answered) == (len(sizes), len(misses)) == (140, 133)
        assert row.miss_rate == pytest.approx(sum(misses) / len(misses))
        assert row["size"] == pytest.approx(sum(sizes) / len(sizes))
    assert found[0.05]["size"] > found[0.4]["size"]


def test_a_gate_writes_what_it_accepts_and_is_summed_up(spark: Any, tmp_path: Path) -> None:
    write_day(spark, tmp_path, 0)
    play(spark, tmp_path, 0, tmp_path / "checkpoint", learner="gate-tracker", alpha=0.4)
    written = spark.read.parquet(str(tmp_path / "sets 0"))
    names = "shop id kind number threshold accepted miss note"
    assert written.columns == names.split()
    fold = make_fold("gate-tracker", alpha=0.4, seed=3)
    runs: Any = {
        f"shop {n}": fold.run(f"shop {n}", b"", list_events(is_gate=True))[1] for n in range(SHOPS)
    }
    expected = {
        (key, one.id): one.region for key, run in runs.items() for one in run if one.kind == "shown"
    }
    shown = written.where("kind = 'shown'").collect()
    assert {(row.shop, row.id): (row.threshold, row.accepted) for row in shown} == {
        case: (decision.threshold, decision.accepted) for case, decision in expected.items()
    }
    misses = [one.miss for run in runs.values() for one in run if one.kind == "counted"]
    (row,) = evaluate(written).collect()
    assert (row.rounds, row.answered) == (140, len(misses))
    assert row.miss_rate == pytest.approx(sum(misses) / len(misses))
    assert row.accepted == pytest.approx(sum(one.accepted for one in expected.values()) / 140)
    assert 0 < row.accepted < 1
