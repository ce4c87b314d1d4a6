"""The processor of Spark's, without Spark: pyspark's own tester holds its state and its timers."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is tested by: make test-spark")
tester = pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="the tester came with pyspark 4.2"
)

import pyarrow as arrow  # noqa: E402
from pyspark.sql import Row  # noqa: E402

from keyhole import HIT, MISS  # noqa: E402
from keyhole.errors import InvalidError  # noqa: E402
from keyhole.integrations._arrow import Bucket, name_key  # noqa: E402
from keyhole.integrations.spark import (  # noqa: E402
    BucketProcessor,
    backtest,
    pack_rows,
    read_table,
    write_table,
)
from keyhole.keyed import Answered, Asked, Event, Fold, Kind, LevelFold, make_fold  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::keyhole.errors.SpeedWarning")  # numba is an extra
START = 1_893_456_000_000
FOLD = make_fold(alpha=0.1, seed=3, lifetime=60_000)
BUCKETS = 8
FIELDS = {
    "asks": {"output": arrow.list_(arrow.float64())},
    "answers": {"label": arrow.string(), "hit": arrow.bool_()},
}
NO_ROWS = Row("bucket", "at", "rows")(1, None, None)  # which only moves Spark's time on
Fields = dict[str, Any]


def ask(id: str, second: float, output: Any = (0.6, 0.3, 0.1), key: str | None = "a") -> Fields:
    return {"key": key, "id": id, "at": START + int(1000 * second), "output": list(output)}


def answer(id: str, second: float | None, label: Any = None, hit: bool | None = None) -> Fields:  # noqa: FBT001
    at = None if second is None else START + int(1000 * second)
    return {"key": "a", "id": id, "at": at, "label": label, "hit": hit}


def start(fold: Fold | LevelFold = FOLD, **more: Any) -> Any:
    processor = BucketProcessor(fold, buckets=BUCKETS, indexed=True, **more)
    return tester.TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda _: 2**60)


def pack(rows: list[Fields], more: Fields) -> Any:
    """Return rows as the query hands them to the processor."""
    fields = {"key": arrow.string(), "id": arrow.string(), "at": arrow.int64(), **more}
    table = arrow.Table.from_pylist(rows, arrow.schema(list(fields.items())))
    return Row("bucket", "at", "rows")(1, None, write_table(table))


def play(spark: Any, rows: list[Fields], known: Fields | None = None) -> list[Fields]:
    asks = [row for row in rows if "output" in row]
    answers = [row for row in rows if "output" not in row]
    packed = [NO_ROWS]
    packed += [pack(asks, FIELDS["asks"] | (known or {}))] if asks else []
    packed += [pack(answers, FIELDS["answers"])] if answers else []
    return list_rows(spark.test(1, packed))


def list_rows(written: list[Any]) -> list[Fields]:
    return [row for one in written for row in read_table(one.rows).to_pylist()]


def read_bucket(spark: Any) -> Bucket:
    return Bucket.unpack(spark.peekValueState("keyhole", 1)[0], buckets=BUCKETS)


def test_rows_of_a_batch_are_folded_in_the_order_of_their_times() -> None:
    spark = start(kinds=Kind)
    rows = [answer("1", 2, "0"), ask("2", 1), answer("2", 1, "2"), ask("1", 0)]
    written = play(spark, rows)
    events: list[Event] = [
        Asked("1", [0.6, 0.3, 0.1], at=START),
        Asked("2", [0.6, 0.3, 0.1], at=START + 1000),
        Answered("2", label=2, at=START + 1000),
        Answered("1", label=0, at=START + 2000),
    ]
    state, outputs = FOLD.run("a", b"", events)
    assert [(row["id"], row["kind"], row["miss"]) for row in written] == [
        (o.id, o.kind, o.miss) for o in outputs
    ]
    assert read_bucket(spark).states == {"a": state}


def test_keys_of_a_bucket_are_folded_each_by_itself() -> None:
    spark = start()
    rows = [ask(str(n), n, (0.5 + 0.01 * n, 0.2), key=f"key {n % 3}") for n in range(12)]
    play(spark, rows)
    expected = {}
    for key in ("key 0", "key 1", "key 2"):
        events = [Asked(r["id"], r["output"], r["at"]) for r in rows if r["key"] == key]
        expected[key], _ = FOLD.run(key, b"", events)
    assert read_bucket(spark).states == expected


def test_a_set_is_written_with_its_threshold_labels_and_size() -> None:
    (row,) = play(start(), [ask("1", 0)])
    _, (shown,) = FOLD.step("a", b"", Asked("1", [0.6, 0.3, 0.1], at=START))
    assert shown.region is not None
    threshold = shown.region.threshold
    assert 0.1 <= threshold < 0.3  # What the model says leaves a tenth to the last label.
    assert row == {
        "key": "a", "id": "1", "kind": "shown", "number": 0, "threshold": threshold,
        "labels": ["0", "1"], "lower": None, "upper": None, "size": 2.0, "miss": None, "note": None,
    }  # fmt: skip


def test_a_hit_answers_as_well_as_a_label() -> None:
    written = play(
        start(kinds=[Kind.COUNTED]),
        [ask("1", 0), ask("2", 1), answer("1", 2, hit=True), answer("2", 3, hit=False)],
    )
    assert [(row["id"], row["miss"]) for row in written] == [("1", 0.0), ("2", 1.0)]


@pytest.mark.parametrize(
    "row",
    [answer("1", 1, "none of these"), answer("1", None, "0"), answer("1", 1), ask("9", 1, key=None)],
    ids=["no label", "no time", "no answer", "no key"],
)
def test_a_row_that_cannot_be_used_is_refused_and_stops_nothing(row: Fields) -> None:
    spark = start(kinds=[Kind.REFUSED, Kind.COUNTED])
    written = play(spark, [ask("1", 0), row, answer("1", 2, "0")])
    assert sorted(row["kind"] for row in written) == ["counted", "refused"]


def test_unanswered_rounds_expire_when_the_watermark_passes() -> None:
    spark = start()
    play(spark, [ask("1", 0), ask("2", 30), ask("3", 30, key="b")])
    assert [row["id"] for row in list_rows(spark.setWatermark(START + 60_000))] == ["1"]
    assert [row["id"] for row in list_rows(spark.setWatermark(START + 90_000))] == ["2", "3"]


def test_a_timer_that_fires_for_an_answered_round_is_set_to_the_next() -> None:
    spark = start()
    play(spark, [ask("1", 0), answer("1", 1, "0"), ask("2", 30)])
    assert list_rows(spark.setWatermark(START + 60_000)) == []
    assert list(spark.handle._timers.listTimers(1)) == [START + 90_000]
    assert spark.peekValueState("keyhole", 1)[1] == START + 90_000
    assert [row["id"] for row in list_rows(spark.setWatermark(START + 90_000))] == ["2"]


def test_a_bucket_has_one_timer_and_none_once_nothing_is_open() -> None:
    spark = start()
    for second in range(5):
        play(spark, [ask(str(second), 5 - second, key=str(second))])
        assert len(list(spark.handle._timers.listTimers(1))) == 1
    spark.setWatermark(START + 70_000)
    assert list(spark.handle._timers.listTimers(1)) == []


def test_what_expires_with_a_batch_needs_no_timer_of_its_own() -> None:
    spark = start()
    play(spark, [ask("1", 0)])
    spark._currentWatermarkMs = START + 60_000  # as a batch finds it, before timers fire
    written = play(spark, [ask("2", 100, key="b")])
    assert [(row["id"], row["kind"]) for row in written] == [("2", "shown"), ("1", "expired")]
    assert list(spark.handle._timers.listTimers(1)) == [START + 160_000]


def test_a_replayed_row_writes_no_value() -> None:
    spark = start()
    rows = [ask("1", 0), answer("1", 1, "0"), ask("2", 2)]
    play(spark, rows)
    before = spark.peekValueState("keyhole", 1)
    assert play(spark, rows) == []
    assert spark.peekValueState("keyhole", 1) is before


def test_another_number_of_buckets_is_refused_and_says_what_to_do() -> None:
    spark = start()
    play(spark, [ask("1", 0)])
    processor = BucketProcessor(FOLD, buckets=2 * BUCKETS)
    processor.init(spark.handle)
    spark.handle.setGroupingKey(1)
    fault = r"has 8 buckets, the query 16.*buckets=8, or begin a new checkpoint with states="
    for rows in ([pack([ask("2", 1)], FIELDS["asks"])], [NO_ROWS]):
        with pytest.raises(InvalidError, match=fault):
            list(processor.handleInputRows((1,), iter(rows), spark._getTimerValues()))


def test_a_bucket_without_rows_keeps_how_many_buckets_there_are() -> None:
    spark = start()
    spark.test(1, [NO_ROWS])
    assert read_bucket(spark).states == {}


def test_a_key_of_several_columns_is_told_from_every_other() -> None:
    assert name_key(("a",)) == "a"
    assert name_key(("a", "b")) != name_key(("a b", ""))


def test_packed_rows_are_those_of_their_buckets_and_come_back_in_order() -> None:
    table = arrow.table({"key": list("abcdef"), "at": [5, 9, 1, 2, 3, 4], "bucket": [2, 0, 2, 1, 0, 2]})
    (packed,) = pack_rows(iter(table.to_batches(max_chunksize=2)))
    *rows, clock = packed.to_pylist()
    assert [row["bucket"] for row in rows] == [0, 1, 2]
    assert [read_table(row["rows"])["key"].to_pylist() for row in rows] == [
        ["b", "e"],
        ["d"],
        list("acf"),
    ]
    assert all(row["at"] is None for row in rows)
    assert (clock["bucket"], clock["rows"]) == (-1, None)
    assert clock["at"].timestamp() == 0.009


def test_features_and_groups_of_a_row_reach_the_rule() -> None:
    fold = make_fold(alpha=0.1, features=["load"], groups=["night"], seed=3, lifetime=60_000)
    spark = start(fold, kinds=[Kind.SHOWN])
    rows, events = [], list[Event]()
    for second, (load, groups) in enumerate([(0.9, ["night"]), (0.1, []), (None, None)] * 20):
        name, ms = str(second), START + 1000 * second
        features = None if load is None else {"load": load}
        rows += [ask(name, second) | {"features": features, "groups": groups}]
        rows += [answer(name, second, hit=second % 3 > 0)]
        events.append(Asked(name, [0.6, 0.3, 0.1], ms, features, tuple(groups or ())))
        events.append(Answered(name, HIT if second % 3 else MISS, at=ms))
    maps = {
        "features": arrow.map_(arrow.string(), arrow.float64()),
        "groups": arrow.list_(arrow.string()),
    }
    written = play(spark, rows, maps)
    state, outputs = fold.run("a", b"", events)
    assert read_bucket(spark).states == {"a": state}
    shown = [one.region.threshold for one in outputs if one.region is not None]
    assert [row["threshold"] for row in written] == shown
    assert len(set(shown)) > 20


def test_every_key_may_have_a_gate() -> None:
    fold = make_fold("gate-tracker", alpha=0.1, seed=3, lifetime=60_000)
    spark = start(fold)
    scores = [0.9, 0.2, 0.8, 0.1] * 10
    rows, events = [], list[Event]()
    for second, score in enumerate(scores):
        ms = START + 1000 * second
        rows += [ask(str(second), second) | {"output": score}]
        rows += [answer(str(second), second) | {"right": second % 3 > 0}]
        events.append(Asked(str(second), score, ms))
        events.append(Answered(str(second), right=second % 3 > 0, at=ms))
    asks = pack([row for row in rows if "output" in row], {"output": arrow.float64()})
    answers = pack([row for row in rows if "output" not in row], {"right": arrow.bool_()})
    written = list_rows(spark.test(1, [asks, answers]))
    state, outputs = fold.run("a", b"", events)
    assert read_bucket(spark).states == {"a": state}
    regions = [(one.id, one.region) for one in outputs if one.region is not None]
    shown = [(id, region.threshold, region.size) for id, region in regions]
    assert {size for _, _, size in shown} == {0.0, 1.0}
    found = [row for row in written if row["kind"] == "shown"]
    assert [(row["id"], row["threshold"], row["size"]) for row in found] == shown
    counted = [(row["id"], row["miss"]) for row in written if row["kind"] == "counted"]
    assert counted == [(one.id, one.miss) for one in outputs if one.kind is Kind.COUNTED]
    assert counted


def test_of_several_levels_each_has_its_row_and_what_concerns_all_has_one() -> None:
    fold = make_fold(alpha=[0.05, 0.3], seed=3, lifetime=60_000)
    spark = start(fold)
    rows = [row for n in range(20) for row in (ask(str(n), n), answer(str(n), n, str(n % 3)))]
    rows += [ask("open", 30), answer("unknown", 30, "0"), ask("lost", 30, key=None)]
    written = play(spark, rows)
    shown = [row for row in written if row["kind"] == "shown"]
    assert [(row["id"], row["alpha"]) for row in shown] == [
        (id, alpha) for alpha in (0.05, 0.3) for id in [*map(str, range(20)), "open"]
    ]
    wide, narrow = ([row["labels"] for row in shown if row["alpha"] == alpha] for alpha in (0.05, 0.3))
    assert all(set(inner) <= set(outer) for inner, outer in zip(narrow, wide, strict=True))
    assert narrow != wide
    counted = {(row["id"], row["alpha"]): row["miss"] for row in written if row["kind"] == "counted"}
    assert counted == {
        (row["id"], row["alpha"]): float(str(int(row["id"]) % 3) not in row["labels"])
        for row in shown
        if row["id"] != "open"
    }
    refused = [(row["id"], row["alpha"]) for row in written if row["kind"] == "refused"]
    assert sorted(refused) == [("lost", None), ("unknown", None)]
    (expired,) = list_rows(spark.setWatermark(START + 90_000))
    assert (expired["id"], expired["kind"], expired["alpha"]) == ("open", "expired", None)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"alpha": [0.05, 0.2]}, "run one of each"),
        ({"learner": "gate-tracker", "alpha": 0.1}, "gate-tracker decides"),
    ],
)
def test_a_table_that_cannot_tell_what_is_shown_is_refused(given: Fields, fault: str) -> None:
    nothing: Any = None  # No table is looked at before.
    with pytest.raises(InvalidError, match=fault):
        backtest(nothing, key="shop", **given)
