"""The processor of Spark's, without Spark: pyspark's own tester holds its state and its timers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is tested by: make test-spark")
tester = pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="the tester came with pyspark 4.2"
)

from pyspark.sql import Row  # noqa: E402

from keyhole import HIT, MISS  # noqa: E402
from keyhole.integrations.rows import name_key  # noqa: E402
from keyhole.integrations.spark import StreamsProcessor  # noqa: E402
from keyhole.keyed import Answered, Asked, Event, Fold, Kind, make_fold  # noqa: E402

START = datetime(2030, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
COLUMNS = Row("shop", "id", "at", "output", "label", "hit")
FOLD = make_fold(alpha=0.1, seed=3, lifetime=60_000)


def ask(id: str, second: float, output: Any = (0.6, 0.3, 0.1)) -> Any:  # noqa: A002
    return COLUMNS("a", id, START + timedelta(seconds=second), list(output), None, None)


def answer(id: str, second: float, label: Any = None, hit: bool | None = None) -> Any:  # noqa: A002, FBT001
    return COLUMNS("a", id, START + timedelta(seconds=second), None, label, hit)


def start(fold: Fold = FOLD, **more: Any) -> Any:
    processor = StreamsProcessor(fold, keys=["shop"], answers=["label", "hit"], indexed=True, **more)
    return tester.TwsTester(
        processor,
        timeMode="EventTime",
        eventTimeExtractor=lambda row: 1 if row.at is None else int(row.at.timestamp() * 1000),
    )


def test_rows_of_a_batch_are_folded_in_the_order_of_their_times() -> None:
    spark = start(kinds=Kind)
    rows = [answer("1", 2, "0"), ask("2", 1), answer("2", 1, "2"), ask("1", 0)]
    written = spark.test("a", rows)
    events: list[Event] = [
        Asked("1", [0.6, 0.3, 0.1], at=START_MS),
        Asked("2", [0.6, 0.3, 0.1], at=START_MS + 1000),
        Answered("2", label=2, at=START_MS + 1000),
        Answered("1", label=0, at=START_MS + 2000),
    ]
    state, outputs = FOLD.run("a", b"", events)
    assert [(row.id, row.kind, row.miss) for row in written] == [
        (o.id, o.kind, o.miss) for o in outputs
    ]
    assert spark.peekValueState("keyhole", "a")[0] == state


def test_a_set_is_told_with_its_threshold_and_labels() -> None:
    (row,) = start().test("a", [ask("1", 0)])
    _, (shown,) = FOLD.step("a", b"", Asked("1", [0.6, 0.3, 0.1], at=START_MS))
    assert shown.region is not None
    threshold = shown.region.threshold
    assert 0.1 <= threshold < 0.3  # What the model says leaves a tenth to the last label.
    assert row.asDict() == {
        "shop": "a", "id": "1", "kind": "shown", "number": 0, "threshold": threshold,
        "labels": ["0", "1"], "lower": None, "upper": None, "miss": None, "note": None,
    }  # fmt: skip


def test_a_map_of_scores_is_read() -> None:
    spark = start()
    (row,) = spark.test("a", [COLUMNS("a", "1", START, [("x", 0.9), ("y", 0.1)], None, None)])
    assert row.labels == ["x"]


def test_a_hit_answers_as_well_as_a_label() -> None:
    spark = start(kinds=[Kind.COUNTED])
    written = spark.test(
        "a", [ask("1", 0), ask("2", 1), answer("1", 2, hit=True), answer("2", 3, hit=False)]
    )
    assert [(row.id, row.miss) for row in written] == [("1", 0.0), ("2", 1.0)]


@pytest.mark.parametrize(
    "row", [answer("1", 1, "none of these"), COLUMNS("a", "1", None, None, "0", None)]
)
def test_a_row_that_cannot_be_used_is_refused_and_stops_nothing(row: Any) -> None:
    spark = start(kinds=[Kind.REFUSED, Kind.COUNTED])
    written = spark.test("a", [ask("1", 0), row, answer("1", 2, "0")])
    assert sorted(row.kind for row in written) == ["counted", "refused"]


def test_unanswered_rounds_expire_when_the_watermark_passes() -> None:
    spark = start()
    spark.test("a", [ask("1", 0), ask("2", 30)])
    assert [row.id for row in spark.setWatermark(START_MS + 60_000)] == ["1"]
    assert [row.id for row in spark.setWatermark(START_MS + 90_000)] == ["2"]


def test_a_key_has_one_timer_and_none_once_nothing_is_open() -> None:
    spark = start()
    for second in range(5):
        spark.test("a", [ask(str(second), second)])
        assert len(list(spark.handle._timers.listTimers("a"))) == 1
    spark.setWatermark(START_MS + 70_000)
    assert list(spark.handle._timers.listTimers("a")) == []


def test_a_replayed_row_leaves_the_value_as_it_was() -> None:
    spark = start()
    rows = [ask("1", 0), answer("1", 1, "0"), ask("2", 2)]
    spark.test("a", rows)
    before = spark.peekValueState("keyhole", "a")
    assert spark.test("a", rows) == []
    assert spark.peekValueState("keyhole", "a") == before


def test_a_key_of_several_columns_is_told_from_every_other() -> None:
    assert name_key(("a",)) == "a"
    assert name_key(("a", "b")) != name_key(("a b", ""))


@pytest.mark.filterwarnings("ignore::keyhole.errors.SpeedWarning")  # numba is an extra of its own
def test_features_and_groups_of_a_row_reach_the_rule() -> None:
    fold = make_fold(alpha=0.1, features=["load"], groups=["night"], seed=3, lifetime=60_000)
    columns = Row("shop", "id", "at", "output", "features", "groups", "label", "hit")
    processor = StreamsProcessor(
        fold, keys=["shop"], known=["features", "groups"], answers=["label", "hit"], indexed=True
    )
    spark = tester.TwsTester(
        processor,
        timeMode="EventTime",
        eventTimeExtractor=lambda row: int(row.at.timestamp() * 1000),
    )
    rows, events = [], list[Event]()
    for second, (load, groups) in enumerate([(0.9, ["night"]), (0.1, []), (None, None)] * 20):
        at, ms = START + timedelta(seconds=second), START_MS + 1000 * second
        features = None if load is None else [("load", load)]
        rows.append(columns("a", str(second), at, [0.6, 0.3, 0.1], features, groups, None, None))
        rows.append(columns("a", str(second), at, None, None, None, None, second % 3 > 0))
        known = {} if load is None else {"load": load}
        events.append(Asked(str(second), [0.6, 0.3, 0.1], ms, known or None, tuple(groups or ())))
        events.append(Answered(str(second), HIT if second % 3 else MISS, at=ms))
    written = spark.test("a", rows)
    state, outputs = fold.run("a", b"", events)
    assert spark.peekValueState("keyhole", "a")[0] == state
    shown = [one.region.threshold for one in outputs if one.region is not None]
    assert [row.threshold for row in written] == shown
    assert len(set(shown)) > 20
