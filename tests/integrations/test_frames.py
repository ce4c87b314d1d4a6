"""Tables keep their kind and order; answers come in order of time, and never from the future."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import keyhole
from keyhole.errors import InvalidError, KeyholeError, LabelError
from keyhole.integrations.frames import SeriesPredictors

RESIDUALS = keyhole.ScaledResiduals(scale=5.0)


def _forecasts(rounds: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    made = []
    for name, spread in (("calm", 1.0), ("wild", 30.0)):
        truth = 100 + rng.normal(scale=spread, size=rounds)
        days = pd.date_range("2026-01-01", periods=rounds)
        made.append(pd.DataFrame({"unique_id": name, "ds": days, "Mean": 100.0, "y": truth}))
    return pd.concat(made, ignore_index=True)


def _made(**options: Any) -> SeriesPredictors:
    return SeriesPredictors(alpha=0.1, score=RESIDUALS, seed=7, **options)


def test_the_table_is_the_same_with_two_columns_more() -> None:
    table = _forecasts()
    added = _made().add_intervals(table, "Mean")
    assert list(added.columns) == [*table.columns, "Mean-lo-90", "Mean-hi-90"]
    pd.testing.assert_frame_equal(added[table.columns], table)


def test_pandas_and_polars_get_the_same_numbers() -> None:
    table = _forecasts()
    one = _made().add_intervals(table, "Mean")
    other = _made().add_intervals(pl.from_pandas(table), "Mean")
    assert isinstance(other, pl.DataFrame)
    assert one["Mean-hi-90"].tolist() == other["Mean-hi-90"].to_list()


def test_rows_in_any_order_get_the_numbers_of_their_time() -> None:
    table = _forecasts()
    shuffled = table.sample(frac=1.0, random_state=3)
    one, other = _made().add_intervals(table, "Mean"), _made().add_intervals(shuffled, "Mean")
    assert other.index.tolist() == shuffled.index.tolist()
    assert other.sort_index()["Mean-hi-90"].tolist() == one["Mean-hi-90"].tolist()


def test_every_series_is_its_own_predictor() -> None:
    predictors = _made()
    added = predictors.add_intervals(_forecasts(400), "Mean")
    width = (added["Mean-hi-90"] - added["Mean-lo-90"]).groupby(added["unique_id"]).last()
    assert width["wild"] > 10 * width["calm"]
    assert [predictors[name].rounds for name in predictors] == [400, 400]


def test_an_interval_knows_nothing_of_outcomes_at_its_time_or_later() -> None:
    table = _forecasts()
    changed = table.copy()
    changed.loc[changed["ds"] >= "2026-01-20", "y"] = 1e6
    one, other = _made().add_intervals(table, "Mean"), _made().add_intervals(changed, "Mean")
    early = table["ds"] <= "2026-01-20"
    assert one[early]["Mean-hi-90"].tolist() == other[early]["Mean-hi-90"].tolist()
    assert one[~early]["Mean-hi-90"].tolist() != other[~early]["Mean-hi-90"].tolist()


def test_forecasts_of_a_cutoff_know_what_was_told_by_then() -> None:
    table = _forecasts()
    table["cutoff"] = table["ds"].map(lambda day: day - pd.Timedelta(days=1 + (day.day - 1) % 5))
    added = _made(features=None).add_intervals(table, "Mean")
    batches = added.groupby(["unique_id", "cutoff"])["Mean-hi-90"].nunique()
    assert batches.max() == 1  # nothing is told between the rows of one cutoff
    assert added["Mean-hi-90"].nunique() > 10


def test_outcomes_may_come_in_a_table_of_their_own() -> None:
    table = _forecasts()
    known = table["ds"] < "2026-02-01"
    open_rows = table.assign(y=table["y"].where(known))
    predictors = _made()
    predictors.add_intervals(open_rows, "Mean")
    assert predictors["calm"].open_rounds == 9
    assert predictors.learn(table.loc[~known, ["unique_id", "ds", "y"]]) == 18
    assert predictors.learn(table.loc[~known, ["unique_id", "ds", "y"]]) == 0
    assert predictors["calm"].open_rounds == 0


def test_probabilities_become_a_column_of_sets() -> None:
    table = pl.DataFrame(
        {"unique_id": ["u"] * 3, "ds": [1, 2, 3], "cat": [0.9, 0.6, 0.2], "dog": [0.1, 0.4, 0.8],
         "y": ["cat", "dog", None]}
    )  # fmt: skip
    predictors = SeriesPredictors(alpha=0.1, seed=7)
    added = predictors.add_sets(table, ["cat", "dog"])
    assert added["set"].to_list()[0] == ["cat"]
    assert predictors["u"].rounds == 2


def test_a_number_is_never_taken_for_the_column_that_is_named_like_it() -> None:
    table = pd.DataFrame(
        {"unique_id": "u", "ds": [1, 2], "1": [0.9, 0.5], "2": [0.1, 0.5], "y": [1, 2]}
    )
    predictors = SeriesPredictors(alpha=0.1, seed=7)
    with pytest.raises(LabelError, match="mapping from column to label"):
        predictors.add_sets(table, ["1", "2"])
    assert len(predictors) == 0
    assert predictors.add_sets(table, {"1": 1, "2": 2})["set"].tolist()[0] == [1]


def test_a_missing_column_is_named_beside_those_that_are_there() -> None:
    with pytest.raises(InvalidError, match=r"no column 'Prophet'.*Mean"):
        _made().add_intervals(_forecasts(), "Prophet")


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidError, match="pandas or polars"):
        _made().add_intervals({"unique_id": []}, "Mean")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_features_and_groups_are_columns(kind: str) -> None:
    table = _forecasts()
    table["load"] = np.random.default_rng(6).random(len(table))
    table["weekend"] = table["ds"].dt.day_of_week >= 5
    given: Any = pl.from_pandas(table) if kind == "polars" else table
    predictors = _made(features=["load"], groups=["weekend"])
    added = predictors.add_intervals(given, "Mean")
    calm = keyhole.Predictor(alpha=0.1, score=RESIDUALS, features=1, groups=1, seed=7)
    for row in table[table["unique_id"] == "calm"].itertuples():
        shown = calm.predict(row.Mean, features=[row.load], groups=[0] if row.weekend else [])
        calm.learn(shown, label=row.y)
    assert added["Mean-lo-90"].to_list()[39] == shown.lower
    assert predictors["calm"].groups["weekend"] == calm.groups[0]
    assert predictors["calm"].groups["weekend"].rounds == table["weekend"][:40].sum()
    later = pd.DataFrame({"unique_id": ["calm"], "ds": [pd.Timestamp("2027-01-01")], "y": [1.0]})
    assert predictors.learn(later) == 0  # outcomes need no features


def test_a_feature_that_is_no_column_is_named() -> None:
    with pytest.raises(InvalidError, match="there is no column 'load'; the table has unique_id"):
        _made(features=["load"]).add_intervals(_forecasts(), "Mean")


def test_a_table_with_other_names_is_refused_with_the_word_that_takes_them() -> None:
    renamed = _forecasts().rename(columns={"ds": "day"})
    with pytest.raises(InvalidError, match=r"no column 'ds'.*if yours has another name, write time="):
        _made().add_intervals(renamed, "Mean")


def test_every_series_keeps_its_rounds_as_columns_where_told_to() -> None:
    predictors = _made(keep=5)
    table = _forecasts()
    predictors.add_intervals(table, "Mean")
    predictors.add_intervals(table[:0], "Mean")
    kept = predictors.history()
    assert list(kept.columns) == ["unique_id", "ds", "Mean", "y", "Mean-lo-90", "Mean-hi-90"]
    assert kept["ds"].tolist() == [*table["ds"][35:40].repeat(2)]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"Mean": np.nan}, "row 5 .*'calm', 2026-01-06.*nan is not a finite number"),
        ({"y": "much"}, "row 5 .*'calm', 2026-01-06.*'much' is not a finite number"),
        ({"ds": pd.NaT}, "row 5 has no time; fill the column 'ds'"),
        ({"ds": "Monday"}, "the times in 'ds' have no order"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_before_any_is_played(
    changed: dict[str, Any], fault: str
) -> None:
    table, predictors = _forecasts(), _made()
    for name, value in changed.items():
        table[name] = table[name].astype(object)
        table.loc[5, name] = value
    with pytest.raises(KeyholeError, match=fault):
        predictors.add_intervals(table, "Mean")
    assert len(predictors) == 0


def _tickets(**changed: Any) -> pd.DataFrame:
    columns = {"unique_id": "mail", "ds": [1, 1, 2], "spam": [0.9, 0.2, 0.3], "ham": [0.1, 0.8, 0.7],
               "y": ["spam", "ham", "ham"]}  # fmt: skip
    return pd.DataFrame({**columns, **changed})


def test_rows_of_one_time_are_each_answered_by_their_own_truth() -> None:
    """Kills: the first row's truth for all of its time."""
    predictors = SeriesPredictors(alpha=0.1)
    predictors.add_sets(_tickets(), ["spam", "ham"])
    assert predictors["mail"].miss_rate == 0.0
    assert predictors.history()["y"].tolist() == ["spam", "ham", "ham"]


def test_outcomes_that_differ_for_open_rows_of_one_time_are_refused() -> None:
    predictors, table = SeriesPredictors(alpha=0.1), _tickets()
    predictors.add_sets(table.drop(columns="y"), ["spam", "ham"])
    with pytest.raises(InvalidError, match="2 rows are open, and outcomes differ"):
        predictors.learn(table)
    assert predictors["mail"].rounds == 0
    assert predictors.learn(table[table["ds"] == 2]) == 1


def test_outcomes_that_differ_for_the_one_open_row_of_a_time_are_refused_too() -> None:
    predictors, table = SeriesPredictors(alpha=0.1), _tickets(y=["spam", None, "ham"])
    predictors.add_sets(table, ["spam", "ham"])
    with pytest.raises(InvalidError, match="1 rows are open, and outcomes differ"):
        predictors.learn(_tickets())
    assert predictors["mail"].rounds == 2
    assert predictors.learn(_tickets()[1:]) == 1


@pytest.mark.parametrize("dtype", ["string", "category", "object"])
def test_a_truth_that_is_missing_leaves_its_row_open_whatever_the_column_is_made_of(dtype: str) -> None:
    table = _tickets(y=pd.Series(["spam", None, "ham"], dtype=dtype))
    predictors = SeriesPredictors(alpha=0.1)
    predictors.add_sets(table, ["spam", "ham"])
    assert (predictors["mail"].rounds, predictors["mail"].open_rounds) == (2, 1)


def test_whole_numbers_that_may_be_missing_are_truths() -> None:
    table = _tickets(y=pd.array([1, None, 2], dtype="Int64"))
    predictors = SeriesPredictors(alpha=0.1)
    predictors.add_sets(table, {"spam": 1, "ham": 2})
    assert (predictors["mail"].rounds, predictors["mail"].unreachable) == (2, 0)


@pytest.mark.parametrize("nobody", [None, np.nan, pd.NA])
def test_a_row_that_does_not_say_whose_it_is_is_refused(nobody: Any) -> None:
    table = _tickets(unique_id=pd.Series(["mail", nobody, "mail"], dtype=object))
    with pytest.raises(InvalidError, match="row 1 has no series; fill the column 'unique_id'"):
        SeriesPredictors(alpha=0.1).add_sets(table, ["spam", "ham"])


def test_a_label_that_has_no_column_is_out_of_reach() -> None:
    predictors = SeriesPredictors(alpha=0.1)
    predictors.add_sets(_tickets(y=["spam", "phishing", "ham"]), ["spam", "ham"])
    assert (predictors["mail"].rounds, predictors["mail"].unreachable) == (3, 1)


def test_outcomes_whose_times_are_of_another_type_are_refused_not_passed_over() -> None:
    predictors, table = SeriesPredictors(alpha=0.1), _tickets(ds=[1, 2, 3])
    predictors.add_sets(table.drop(columns="y"), ["spam", "ham"])
    with pytest.raises(InvalidError, match="the times in 'ds' have no order"):
        predictors.learn(table.assign(ds=table["ds"].astype(str)))


def test_what_was_refused_can_be_told_again() -> None:
    predictors, table = SeriesPredictors(alpha=0.1), _tickets(ds=[1, 2, 3], y=[1, 2, 2])
    predictors.add_sets(table.drop(columns="y"), {"spam": 1, "ham": 2})
    with pytest.raises(LabelError, match="convert it"):
        predictors.learn(table.assign(y=table["y"].astype(str)))
    assert predictors.learn(table) == 3


def test_a_row_without_a_cutoff_was_forecast_just_before_its_time() -> None:
    table = _forecasts()
    plain = _made().add_intervals(table, "Mean")
    table["cutoff"] = pd.Series([pd.NaT] * len(table))
    assert _made().add_intervals(table, "Mean")["Mean-lo-90"].equals(plain["Mean-lo-90"])


def test_what_happened_at_the_cutoff_itself_is_known_by_then() -> None:
    def show(first: float) -> list[float]:
        table = pd.DataFrame(
            {"unique_id": "u", "ds": [1, 2], "cutoff": [0, 1], "Mean": 0.0, "y": [first, 0.0]}
        )
        return _made().add_intervals(table, "Mean")["Mean-hi-90"].tolist()

    assert show(0.0)[1] != show(1e6)[1]


def test_series_n_has_the_seed_plus_n() -> None:
    predictors = _made()
    predictors.add_intervals(_forecasts(), "Mean")
    assert [predictors[name].seed for name in predictors] == [7, 8]
