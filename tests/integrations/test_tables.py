"""A table with a key, in pandas, polars or Arrow: backtested, and evaluated by key."""

from typing import Any

import pandas
import polars
import pyarrow
import pytest

from keyhole import Predictor
from keyhole.errors import InvalidError
from keyhole.integrations.tables import backtest, evaluate
from keyhole.keyed import make_fold

COUNT = 90
COLUMNS: dict[str, list[Any]] = {
    "shop": [n % 3 for n in range(COUNT)],
    "at": [COUNT - n for n in range(COUNT)],
    "keep": [0.3 + n * 7 % 13 / 20 for n in range(COUNT)],
    "return": [0.7 - n * 7 % 13 / 20 for n in range(COUNT)],
    "label": [None if n % 10 == 0 else ["keep", "return"][n % 7 > 4] for n in range(COUNT)],
}
MAKERS = [pandas.DataFrame, polars.DataFrame, pyarrow.table]


def play_beside() -> list[tuple[list[str], float | None]]:
    """Return the set and the miss of every row, by a predictor for each key."""
    found: list[Any] = [None] * COUNT
    for shop in range(3):
        seed = make_fold(alpha=0.2, seed=5).seed_of(str(shop))
        predictor = Predictor(alpha=0.2, seed=seed)
        for n in reversed(range(shop, COUNT, 3)):
            truth = COLUMNS["label"][n]
            shown = predictor.predict({name: COLUMNS[name][n] for name in ("keep", "return")})
            if truth is None:
                predictor.skip(shown)
            else:
                predictor.learn(shown, label=truth)
            found[n] = list(shown.labels), None if truth is None else float(truth not in shown)
    return found


@pytest.mark.parametrize("make", MAKERS)
def test_every_key_of_a_table_is_played_as_its_predictor_would(make: Any) -> None:
    played = backtest(make(COLUMNS), key="shop", output=["keep", "return"], alpha=0.2, seed=5)
    rows = polars.DataFrame(played) if make is not polars.DataFrame else played
    misses = [None if miss is None or miss != miss else miss for miss in rows["miss"].to_list()]
    found = list(zip([list(one) for one in rows["labels"].to_list()], misses, strict=True))
    assert found == play_beside()
    assert rows["size"].to_list() == [len(labels) for labels, _ in found]
    assert type(played) is type(make(COLUMNS))
    assert rows.columns[: len(COLUMNS)] == list(COLUMNS)


@pytest.mark.parametrize("make", MAKERS)
def test_misses_and_sizes_are_summed_up_by_key_and_overall(make: Any) -> None:
    played = backtest(make(COLUMNS), key="shop", output=["keep", "return"], alpha=0.2, seed=5)
    beside = play_beside()
    for by in ("shop", ()):
        rows = polars.DataFrame(evaluate(played, by=by)).to_dicts()
        assert len(rows) == (3 if by else 1)
        for row in rows:
            mine = [one for n, one in enumerate(beside) if not by or n % 3 == row["shop"]]
            misses = [miss for _, miss in mine if miss is not None]
            assert (row["rounds"], row["answered"]) == (len(mine), len(misses))
            assert row["miss_rate"] == pytest.approx(sum(misses) / len(misses))
            assert row["size"] == pytest.approx(sum(len(labels) for labels, _ in mine) / len(mine))
            assert row["unbounded"] == 0.0


def test_unbounded_intervals_are_counted_apart_from_the_mean_size() -> None:
    table = polars.DataFrame({"size": [1.0, 3.0, float("inf"), 2.0], "miss": [0.0, 1.0, None, 1.0]})
    (row,) = evaluate(table).to_dicts()
    assert row == {
        "rounds": 4, "answered": 3, "miss_rate": pytest.approx(2 / 3), "size": 2.0, "unbounded": 0.25,
    }  # fmt: skip


def test_a_key_of_several_columns_is_a_stream_of_its_own() -> None:
    table = polars.DataFrame(COLUMNS).with_columns(city=polars.lit("b"))
    played = backtest(table, key=["shop", "city"], output=["keep", "return"], alpha=0.2, seed=5)
    assert evaluate(played, by=["shop", "city"]).height == 3


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidError, match="no column 'output'"):
        backtest(polars.DataFrame(COLUMNS), key="shop", alpha=0.1)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"alpha": [0.05, 0.2]}, "run one of each"),
        ({"learner": "gate-tracker", "alpha": 0.1}, "gate-tracker decides"),
    ],
)
def test_what_rows_cannot_tell_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        backtest(polars.DataFrame(COLUMNS), key="shop", output=["keep", "return"], **given)


def test_a_relation_of_duckdb_is_played_and_its_result_queried() -> None:
    duckdb = pytest.importorskip("duckdb")
    columns = "'a' AS shop, n AS at, [0.6, 0.4]::DOUBLE[] AS output, n % 2 AS label"
    relation = duckdb.sql(f"SELECT {columns} FROM range(10) AS rounds(n)")  # noqa: S608
    played = backtest(relation, key="shop", alpha=0.1)
    assert played.num_rows == 10  # DuckDB finds it by its name.
    (found,) = duckdb.sql("SELECT count(*), sum(miss) FROM played").fetchall()
    rows = {"shop": ["a"] * 10, "at": range(10), "output": [[0.6, 0.4]] * 10, "label": [0, 1] * 5}
    assert found == (10, sum(backtest(polars.DataFrame(rows), key="shop", alpha=0.1)["miss"]))
