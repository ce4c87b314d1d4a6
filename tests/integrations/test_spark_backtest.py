"""Tables on a real Spark: every key is played as a predictor of its seed would, and summed up."""

import shutil
from datetime import datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="Spark is tested by: make test-spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java 17; install openjdk-17-jre-headless", allow_module_level=True)

from keyhole import Predictor, ScaledResiduals
from keyhole.errors import InvalidError
from keyhole.integrations.spark import backtest, evaluate
from keyhole.keyed import make_fold

START = datetime(2030, 1, 1)
SCHEMA = "shop STRING, at TIMESTAMP, output MAP<STRING, DOUBLE>, label STRING"


@pytest.mark.filterwarnings("ignore")  # pyspark and pandas warn of each other
def test_every_key_is_played_as_its_predictor_would(spark: Any) -> None:
    rows = [
        (f"shop {n % 3}", START + timedelta(seconds=n), {"x": 0.1 + 0.02 * n, "y": 0.5}, label)
        for n, label in enumerate(["x", "y", None, "x", "y"] * 6)
    ]
    table = spark.createDataFrame(rows[::-1], SCHEMA)
    found = backtest(table, key="shop", alpha=0.1, seed=3).collect()
    played = {(row.shop, row.at): (row.threshold, row.labels, row.miss) for row in found}
    fold = make_fold(alpha=0.1, seed=3)
    expected = {}
    for shop in sorted({row[0] for row in rows}):
        predictor = Predictor(alpha=0.1, seed=fold.seed_of(shop))
        for _, at, output, label in (row for row in rows if row[0] == shop):
            shown, miss = predictor.predict(output), None
            if label is None:
                predictor.skip(shown)
            else:
                predictor.learn(shown, label=label)
                miss = float(label not in shown)
            expected[shop, at] = (shown.threshold, list(shown.labels), miss)
    assert played == expected


@pytest.mark.filterwarnings("ignore")  # pyspark and pandas warn of each other
def test_features_and_groups_are_columns_of_the_table(spark: Any) -> None:
    schema = "at TIMESTAMP, output DOUBLE, features ARRAY<DOUBLE>, groups ARRAY<STRING>, label DOUBLE"
    rows = [
        (START + timedelta(seconds=n), 0.0, [n % 7 / 7], ["odd"] if n % 2 else [], n % 7 / 3)
        for n in range(60)
    ]
    table = spark.createDataFrame([("a", *row) for row in rows], "shop STRING, " + schema)
    given: dict[str, Any] = {"features": ["x"], "groups": ["odd"], "score": ScaledResiduals(scale=1.0)}
    found = backtest(table, key="shop", alpha=0.1, seed=3, **given).collect()
    predictor = Predictor(alpha=0.1, seed=make_fold(alpha=0.1, seed=3).seed_of("a"), **given)
    expected = []
    for _, output, features, groups, label in rows:
        shown = predictor.predict(output, features=features, groups=groups)
        predictor.learn(shown, label=label)
        expected.append((shown.threshold, shown.lower, shown.upper))
    ordered = sorted(found, key=lambda row: row.at)
    assert [(row.threshold, row.lower, row.upper) for row in ordered] == expected


@pytest.mark.filterwarnings("ignore")  # pyspark and pandas warn of each other
def test_misses_and_sizes_are_summed_up_by_key_and_overall(spark: Any) -> None:
    rows: list[Any] = [(f"shop {n % 2}", "shown", 1.0 + n, None) for n in range(6)]
    rows += [(f"shop {n % 2}", "counted", None, float(n == 1)) for n in range(4)]
    rows += [("shop 0", "repeated", 50.0, None), ("shop 1", "shown", float("inf"), None)]
    table = spark.createDataFrame(rows, "shop STRING, kind STRING, size DOUBLE, miss DOUBLE")
    by_shop = {row.shop: tuple(row)[1:] for row in evaluate(table, by="shop").collect()}
    assert by_shop == {"shop 0": (3, 2, 0.0, 3.0, 0.0), "shop 1": (4, 2, 0.5, 4.0, 0.25)}
    assert tuple(evaluate(table).first()) == (7, 4, 0.25, 3.5, pytest.approx(1 / 7))
    assert tuple(evaluate(table.drop("kind")).first())[:2] == (12, 4)
    levels = table.selectExpr("*", "IF(kind = 'repeated', NULL, 0.1D) AS alpha")
    assert [row.alpha for row in evaluate(levels, by="alpha").collect()] == [0.1]
    with pytest.raises(InvalidError, match=r"lacks miss, day; write it as Parquet"):
        evaluate(table.drop("miss"), by=["shop", "day"])


def test_a_key_that_text_does_not_carry_is_refused(spark: Any) -> None:
    schema = "shop DOUBLE, at TIMESTAMP, output ARRAY<DOUBLE>, label INT"
    with pytest.raises(InvalidError, match="'shop' is double; cast it to text"):
        backtest(spark.createDataFrame([], schema), key="shop", alpha=0.1)
