"""Rows of tables, played in order of time, and what is kept of them."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keyhole
from keyhole.errors import InvalidError, KeyholeError
from keyhole.integrations.frames import SeriesPredictors, backtest

BANDS = keyhole.QuantileBands()


def make(**options: Any) -> SeriesPredictors:
    return SeriesPredictors(**{"alpha": 0.1, "seed": 7, "features": None, **options})


def make_table(rows: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"unique_id": "a", "ds": range(rows), "M": 0.0, "y": rng.normal(size=rows)})


def play(events: list[tuple[str, int]], truths: Any) -> dict[int, tuple[float, float]]:
    """Return what a predictor alone shows of these rows where it is asked and told in this order."""
    alone: Any = keyhole.Predictor(alpha=0.1, score=keyhole.ScaledResiduals(scale=1.0), seed=7)
    shown: dict[int, Any] = {}
    for what, row in events:
        if what == "ask":
            shown[row] = alone.predict(0.0)
        else:
            alone.learn(shown[row], label=truths[row])
    return {row: (one.lower, one.upper) for row, one in shown.items()}


@pytest.mark.parametrize("lag", [None, 0, 3])
@pytest.mark.parametrize("ahead", [None, 1, 2])
def test_an_outcome_is_told_when_it_is_known_and_not_before(lag: Any, ahead: Any) -> None:
    """Kills: an outcome that comes a step early or late, with a lag or a cutoff."""
    table = make_table()
    if ahead is not None:
        table["cutoff"] = table["ds"] - ahead
    events = []
    for row in table["ds"]:
        known = row if ahead is None else row - ahead  # outcomes of then are known, where then is told
        due = [n for n in range(row) if ("tell", n) not in events]
        events += [
            ("tell", n)
            for n in due
            if (n + (lag or 0) < known) or (ahead is not None and n + (lag or 0) == known)
        ]
        events.append(("ask", row))
    added = make(score=keyhole.ScaledResiduals(scale=1.0)).add_intervals(
        table.sample(frac=1.0, random_state=1), "M", lag=lag
    )
    expected = play(events, table["y"])
    for row in table["ds"]:
        assert (added["M-lo-90"][row], added["M-hi-90"][row]) == expected[row]


def test_rows_of_one_cutoff_are_asked_in_order_of_their_time() -> None:
    table = make_table(6).assign(cutoff=[0, 0, 0, 3, 3, 3], ds=[3, 1, 2, 6, 5, 4])
    predictors = make(score=keyhole.ScaledResiduals(scale=1.0))
    predictors.add_intervals(table, "M")
    assert predictors.history()["ds"].tolist() == [1, 2, 3, 4, 5, 6]


def test_outcomes_of_another_table_answer_rows_that_waited_and_then_its_own() -> None:
    table = make_table(4)
    predictors = make(score=keyhole.ScaledResiduals(scale=1.0))
    predictors.add_intervals(table.assign(y=None), "M")
    again = table.assign(cutoff=table["ds"] - 2)
    predictors.add_intervals(again, "M")
    assert (predictors["a"].rounds, predictors["a"].open_rounds) == (8, 0)
    assert predictors.history()["y"].tolist() == [*table["y"]] * 2
    assert predictors.learn(table) == 0


def test_equal_outcomes_answer_all_open_rows_of_one_time() -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": [1, 1, 2], "M": [0.0, 1.0, 2.0]})
    predictors = make(pool=False)
    predictors.add_intervals(table, "M")
    known = pd.DataFrame({"unique_id": "a", "ds": [1, 1, 2, 9], "y": [4.0, 4.0, 5.0, 6.0]})
    assert predictors.learn(known) == 3
    assert predictors.history()["y"].tolist() == [4.0, 4.0, 5.0]
    with pytest.raises(InvalidError, match="no order"):
        predictors.add_intervals(table.assign(ds=["x", 1, 2]), "M")


def test_a_row_without_a_round_is_corrected_in_the_history_alone() -> None:
    table = make_table()
    predictors = make(amend_limit=100)
    predictors.add_intervals(table, "M")
    assert np.isinf(predictors.history()["M-hi-90"][0])
    before = predictors["a"].miss_rate
    assert predictors.amend(table.assign(y=table["y"].where(table["ds"] > 0, 9.0))) == 1
    assert predictors.history()["y"][0] == 9.0
    assert predictors["a"].miss_rate == before
    waiting = predictors.add_intervals(pd.DataFrame({"unique_id": "a", "ds": [30], "M": [0.0]}), "M")
    assert len(waiting) == 1
    assert predictors.amend(pd.DataFrame({"unique_id": "a", "ds": [30], "y": [1.0]})) == 0


@pytest.mark.parametrize(
    ("wrong", "options", "fault"),
    [
        (
            {"ds": [4, 3], "y": [9.0, 9.0]},
            {"amend_limit": 8},
            r"row 1 .*: round 2 cannot be amended",
        ),
        ({"ds": [4, 3], "y": [9.0, np.inf]}, {}, r"row 1 .*: true value inf is not a finite"),
        ({"ds": [4, 3], "y": [9.0, "x"]}, {"pool": False}, r"row 1 .*: true value .x. is not"),
        ({"ds": [4, 4], "y": [9.0, 8.0]}, {}, r"row 1 .* has the outcomes 9.0 and 8.0 in"),
    ],
)
def test_outcomes_are_amended_all_or_none(wrong: Any, options: Any, fault: str) -> None:
    """Kills: the outcomes before the one that is refused amended, and those behind it not."""
    table, other = make_table(6), make_table(20).assign(unique_id="b")
    predictors = make(**{"amend_limit": 100, **options})
    predictors.add_intervals(pd.concat([table, other]), "M")
    before, series = predictors.history(), ["a", "a" if "outcomes" in fault else "b"]
    misses = predictors["a"].progress.tally.misses
    with pytest.raises(KeyholeError, match=fault):
        predictors.amend(pd.DataFrame({"unique_id": series, **wrong}))
    assert predictors["a"].progress.tally.misses == misses
    pd.testing.assert_frame_equal(predictors.history(), before)


def test_revised_outcomes_of_rows_that_were_never_seen_are_ignored() -> None:
    predictors = make(amend_limit=100)
    predictors.add_intervals(make_table(), "M")
    unseen = pd.DataFrame({"unique_id": ["z", "z", "a"], "ds": [1, 1, 99], "y": [1.0, 2.0, 3.0]})
    assert predictors.amend(unseen) == 0


@pytest.mark.parametrize("known", [False, True])
def test_history_without_outcomes_is_refused(*, known: bool) -> None:
    table, fault = make_table().drop(columns="y"), "there is no column 'y'"
    if known:
        table, fault = table.assign(y=np.nan), "no row of this history has an outcome; fill the column"
    predictors = make()
    with pytest.raises(InvalidError, match=fault):
        predictors.calibrate(table, "M")
    assert not predictors.models


def test_only_rows_that_have_their_outcome_are_let_go_and_the_oldest_first() -> None:
    table = make_table(10)
    predictors = make(pool=False, keep=4)
    predictors.add_intervals(table.assign(y=table["y"].where(table["ds"] > 1)), "M")
    assert predictors.history()["ds"].tolist() == [0, 1, 8, 9]
    assert predictors.learn(table) == 2
    other = table.assign(unique_id="b", ds=table["ds"] + 20)
    predictors.add_intervals(other, "M")
    assert predictors.history()["ds"].tolist() == [*range(22, 30)]  # eight of two series


def test_a_history_has_the_columns_that_were_given() -> None:
    table = make_table(6).assign(shop=["x", "y"] * 3, low=-1.0, high=1.0, cutoff=range(-1, 5))
    table = table.rename(columns={"ds": "day", "y": "sold", "cutoff": "made"})
    predictors = make(series=["unique_id", "shop"], time="day", truth="sold", cutoff="made")
    added = predictors.add_intervals(table, {"band": ("low", "high"), "mean": "M"})
    kept = predictors.history("band")
    assert list(kept.columns) == [
        "unique_id", "shop", "day", "made", "band-0", "band-1", "sold", "band-lo-90", "band-hi-90",
    ]  # fmt: skip
    assert kept["band-0"].tolist() == [-1.0] * 6
    assert kept["band-1"].tolist() == [1.0] * 6
    for name in ("shop", "day", "made", "sold", "band-lo-90", "band-hi-90"):
        assert kept[name].tolist() == added[name].tolist()
    assert list(predictors) == [("a", "x"), ("a", "y")]
    assert len(predictors) == 2
    assert predictors[("a", "x"), "mean"].rounds == 2  # all but the first, whose width nobody knew
    with pytest.raises(InvalidError, match="no model 'median'; those that were seen: 'band', 'mean'"):
        predictors.history("median")
    with pytest.raises(InvalidError, match="none yet"):
        make().history()
    assert make().predictors() == {}


def test_sets_of_several_levels_have_a_column_each(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"unique_id": "u", "ds": [1, 2, 3], "p": [0.5, 0.9, 0.4], "q": [0.5, 0.1, 0.6], "y": [7, 8, 7]}
    )
    predictors = make(alpha=[0.3, 0.1])
    added = predictors.add_sets(table, {"p": 7, "q": 8})
    assert list(added.columns)[-2:] == ["set-90", "set-70"]
    assert all(set(b) <= set(a) for a, b in zip(added["set-90"], added["set-70"], strict=True))
    assert added["set-90"][0] == [7, 8]
    assert predictors.history()["set-70"].tolist() == added["set-70"].tolist()
    predictors.save(tmp_path / "kept")
    again = SeriesPredictors.load(tmp_path / "kept")
    assert again.history()["set-90"].tolist() == added["set-90"].tolist()
    assert again.alphas == (0.1, 0.3)


@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.3]])
@pytest.mark.parametrize("models", ["M", ("low", "high")])
def test_history_teaches_every_level_as_a_predictor_alone(alpha: Any, models: Any) -> None:
    table = make_table(40).assign(low=-1.0, high=1.0, load=np.arange(40) % 3, odd=[0, 1] * 20)
    options = {"features": ["load"], "groups": ["odd"], "pool": False}
    past, later = table[:30], table[30:]
    predictors = make(alpha=alpha, **options)
    predictors.calibrate(past.sample(frac=1.0, random_state=3), models)
    shown = predictors.add_intervals(later, models)
    score = keyhole.ScaledResiduals() if models == "M" else BANDS
    outputs = past["M"] if models == "M" else [*zip(past["low"], past["high"], strict=True)]
    alone: Any = keyhole.Predictor(alpha=0.1, score=score, features=["load"], groups=["odd"], seed=7)
    groups = [["odd"] if odd else [] for odd in past["odd"]]
    alone.calibrate(list(outputs), list(past["y"]), features=past[["load"]].to_numpy(), groups=groups)
    row = later.iloc[0]
    first = alone.predict(0.0 if models == "M" else (-1.0, 1.0), features=[row["load"]], groups=[])
    name = "M" if models == "M" else "low-high"
    assert shown[f"{name}-lo-90"][30] == first.lower


def test_a_backtest_measures_what_it_was_told_to() -> None:
    table = make_table(60).rename(columns={"unique_id": "who", "ds": "day", "y": "sold"})
    table["made"] = table["day"] - 1 - table["day"] % 2
    names: Any = {"series": "who", "time": "day", "truth": "sold", "cutoff": "made"}
    found = backtest(table, "M", alpha=0.1, seed=7, by=["series", "horizon"], window=5, **names)
    assert found.scores[["model", "who", "horizon"]].to_numpy().tolist() == [
        ["M", "a", 1],
        ["M", "a", 2],
    ]
    assert found.scores["worst_window"].notna().all()
    assert backtest(table, "M", alpha=0.1, seed=7, **names).scores["worst_window"].isna().all()
    assert found.table.equals(found.predictors.add_intervals(table, "M"))


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (("a b.lo", "a b.hi"), "a b"),
        (("net-v2_lo", "net-v2_hi"), "net-v2"),
        (("lo", "hi"), "lo-hi"),
        (("x_lo", "y_lo"), "x_lo-y_lo"),
    ],
)
def test_a_pair_is_named_by_the_words_that_both_begin_with(columns: Any, name: str) -> None:
    table = make_table(3).rename(columns={"M": columns[0]})
    table[columns[1]] = 1.0
    assert f"{name}-hi-90" in make().add_intervals(table, [columns]).columns


@pytest.mark.parametrize("level", [0, 100, -5, 100.5, 0.9])
def test_a_level_is_between_nought_and_a_hundred_percent(level: Any) -> None:
    with pytest.raises(InvalidError, match="is not in percent"):
        SeriesPredictors(levels=[90, level])
    assert SeriesPredictors(levels=[99.5, 0.5 + 60]).alphas == (0.005, 0.395)


def test_what_is_no_number_in_one_model_is_refused_before_any_is_played() -> None:
    table = make_table(3).assign(N=["1.0", "much", "2.0"])
    predictors = make(features="table")
    with pytest.raises(KeyholeError, match=r"row 0 .*'1.0'"):
        predictors.add_intervals(table, ["M", "N"])
    assert len(predictors) == 0


def test_ten_thousand_rows_of_a_series_are_kept_unless_told() -> None:
    assert make().keep == 10_000


class Plain:
    """A predictor for each series, asked and told row by row as an outcome comes to be known."""

    def __init__(self) -> None:
        self.predictors: dict[str, Any] = {}
        self.seen: dict[tuple[Any, ...], Any] = {}
        self.told: dict[tuple[Any, ...], float] = {}

    def tell(self, key: tuple[Any, ...], truth: float, table: list[tuple[Any, ...]]) -> None:
        others = [one for one in self.seen if one[:2] == key[:2] and one not in table]
        for one in [*others, key]:
            if one not in self.told:
                self.predictors[one[0]].learn(self.seen[one].id, label=truth)
                self.told[one] = truth

    def play(self, table: pd.DataFrame, lag: int) -> list[tuple[float, float]]:
        rows = table.to_dict("records")
        keys = [(row["unique_id"], row["ds"], row["cutoff"]) for row in rows]
        truths = {
            key: (row["ds"] + lag, row["y"])
            for key, row in zip(keys, rows, strict=True)
            if row["y"] == row["y"]
        }
        waiting = [key for key in keys if key in self.seen and key in truths and key not in self.told]
        new = [row for row, key in enumerate(keys) if key not in self.seen]
        for row in sorted(new, key=lambda row: (keys[row][2], keys[row][1])):
            name, _, cutoff = keys[row]
            for key in sorted(waiting, key=lambda key: truths[key][0]):
                if truths[key][0] <= cutoff:
                    waiting.remove(key)
                    self.tell(key, truths[key][1], keys)
            if name not in self.predictors:
                seed = 7 + len(self.predictors)
                self.predictors[name] = keyhole.Predictor(alpha=0.2, score=BANDS, seed=seed)
            band = rows[row]["low"], rows[row]["high"]
            self.seen[keys[row]] = self.predictors[name].predict(band)
            waiting += [keys[row]] if keys[row] in truths else []
        for key in sorted(waiting, key=lambda key: truths[key][0]):
            self.tell(key, truths[key][1], keys)
        return [(self.seen[key].lower, self.seen[key].upper) for key in keys]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 3))
def test_tables_of_many_series_are_played_as_row_by_row(seed: int, count: int, lag: int) -> None:
    """Kills: an order of events, a round or a number that is another one where rows go together."""
    random = Random(seed)  # noqa: S311
    places = {(random.choice("abcde"), random.randrange(9), random.randint(1, 3)) for _ in range(count)}
    columns: dict[str, list[Any]] = {"unique_id": [], "ds": [], "cutoff": [], "low": [], "y": []}
    for name, time, ahead in random.sample(sorted(places), len(places)):
        row = (name, time, time - ahead, random.gauss(0, 1), random.gauss(0, 1))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    whole = pd.DataFrame(columns)
    whole["high"] = whole["low"] + 1.0
    # An outcome is of a series and a time: all rows of these have the same.
    whole["y"] = whole.groupby(["unique_id", "ds"])["y"].transform("first")
    hidden = whole.assign(y=whole["y"].where([random.random() < 0.5 for _ in range(len(whole))]))
    plain, predictors = Plain(), make(alpha=0.2)
    for table in (hidden[: len(hidden) // 2], hidden, whole):
        shown = predictors.add_intervals(table, {"M": ("low", "high")}, lag=lag)
        ends = list(zip(shown["M-lo-80"], shown["M-hi-80"], strict=True))
        assert ends == plain.play(table, lag)
    assert [one.dump() for one in predictors.predictors().values()] == [
        one.dump() for one in plain.predictors.values()
    ]
