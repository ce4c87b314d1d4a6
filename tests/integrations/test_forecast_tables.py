"""What a forecaster does with a table: quantiles, levels, models, horizons, again, and looking back."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import keyhole
from keyhole.errors import InvalidError, SnapshotError
from keyhole.integrations.frames import SeriesPredictors, backtest, evaluate
from keyhole.predictor.levels import LevelPredictor

DAYS = pd.date_range("2026-01-01", periods=60)


def make_table(rows: int = 60, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for name, spread in (("calm", 1.0), ("wild", 30.0)):
        truths = 100 + rng.normal(scale=spread, size=rows)
        days = pd.date_range("2026-01-01", periods=rows)
        part = pd.DataFrame({"unique_id": name, "ds": days, "A": 100.0, "B": 101.0, "y": truths})
        parts.append(part.assign(q10=100 - 1.28 * spread, q90=100 + 1.28 * spread))
    return pd.concat(parts, ignore_index=True)


def make(**options: Any) -> SeriesPredictors:
    return SeriesPredictors(**{"alpha": 0.1, "seed": 7, **options})


def test_two_quantiles_are_corrected_as_a_band() -> None:
    table = make_table()
    added = make(features=None).add_intervals(table, ("q10", "q90"))
    assert list(added.columns)[-2:] == ["q10-q90-lo-90", "q10-q90-hi-90"]
    alone = keyhole.Predictor(alpha=0.1, score=keyhole.QuantileBands(), seed=7)
    for row in table[:60].itertuples():
        shown = alone.predict((row.q10, row.q90))
        alone.learn(shown, label=row.y)
    assert added["q10-q90-lo-90"][59] == shown.lower


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        (("TFT-q10", "TFT-q90"), "TFT"),
        (("my_net_lo", "my_net_hi"), "my_net"),
        (("q10", "q90"), "q10-q90"),
    ],
)
def test_quantiles_are_named_by_what_their_columns_have_in_common(
    columns: tuple[str, str], name: str
) -> None:
    table = make_table().rename(columns=dict(zip(("q10", "q90"), columns, strict=True)))
    assert f"{name}-lo-90" in make().add_intervals(table, columns).columns


@pytest.mark.parametrize("models", ["A", ("q10", "q90")])
@pytest.mark.parametrize("options", [{}, {"asymmetric": True}, {"pool": False}])
def test_levels_give_nested_columns_and_each_keeps_its_rate(models: Any, options: Any) -> None:
    table = make_table(700)
    added = make(alpha=None, levels=[80, 95, 90], **options).add_intervals(table, models)
    name = "A" if models == "A" else "q10-q90"
    names = [f"{name}-lo-95", f"{name}-lo-90", f"{name}-lo-80",
             f"{name}-hi-80", f"{name}-hi-90", f"{name}-hi-95"]  # fmt: skip
    ends = added[names].to_numpy()
    assert (ends[:, :-1] <= ends[:, 1:]).all()
    coverage = evaluate(added).set_index("level")["coverage"]
    for level in (80, 90, 95):
        alpha = 1 - level / 100
        # Nearer than independent misses at that rate would come to their mean, three times over.
        assert abs(coverage[level] - level / 100) < 3 * np.sqrt(alpha * (1 - alpha) / 1_400)


def test_levels_down_to_a_fifth_are_nested_and_keep_their_rates() -> None:
    table = make_table(600)
    added = make(alpha=None, levels=[25, 50, 90]).add_intervals(table, "A")
    names = ["A-lo-90", "A-lo-50", "A-lo-25", "A-hi-25", "A-hi-50", "A-hi-90"]
    ends = added[names].to_numpy()
    assert (ends[:, :-1] <= ends[:, 1:]).all()
    coverage = evaluate(added).set_index("level")["coverage"]
    for level in (25, 50, 90):
        assert abs(coverage[level] - level / 100) < 3 * np.sqrt(level * (100 - level) / 1e4 / 1_200)
    with pytest.raises(InvalidError, match=r"alpha 0\.8 is not a number between 0 and 0\.8"):
        make(alpha=None, levels=[20, 90])


def test_alpha_and_levels_are_two_ways_to_say_the_same() -> None:
    table = make_table()
    one = make(alpha=[0.2, 0.1]).add_intervals(table, "A")
    pd.testing.assert_frame_equal(one, make(alpha=None, levels=[80, 90]).add_intervals(table, "A"))
    assert make(alpha=None, levels=90).alpha == 0.1
    for wrong in ({}, {"alpha": 0.1, "levels": [90]}, {"levels": [100]}, {"levels": [0]}):
        with pytest.raises(InvalidError, match="percent"):
            SeriesPredictors(**wrong)


def test_several_models_have_predictors_of_their_own() -> None:
    table = make_table()
    both = make(features=None)
    added = both.add_intervals(table, ["A", "B", ("q10", "q90")])
    assert both.models == ["A", "B", "q10-q90"]
    assert added["A-hi-90"].equals(make(features=None).add_intervals(table, "A")["A-hi-90"])
    assert added["B-hi-90"].equals(make(features=None).add_intervals(table, "B")["B-hi-90"])
    assert both["calm", "A"].rounds == 59  # before the first outcome there is no round
    with pytest.raises(KeyError, match=r"give \(series, model\); the models are 'A', 'B'"):
        both["calm"]


def test_models_may_be_named() -> None:
    added = make().add_intervals(make_table(), {"net": ("q10", "q90"), "mean": "A"})
    assert {"net-lo-90", "mean-lo-90"} <= set(added.columns)


def test_a_cell_that_runs_again_counts_no_round_again_and_shows_the_same() -> None:
    table, predictors = make_table(), make()
    first = predictors.add_intervals(table, "A")
    state = predictors["calm"].dump()
    again = predictors.add_intervals(table.sample(frac=1.0, random_state=2), "A").sort_index()
    pd.testing.assert_frame_equal(first, again)
    assert predictors["calm"].dump() == state


def test_an_outcome_that_has_come_since_is_told_once() -> None:
    table = make_table()
    late = table["ds"] >= "2026-02-20"
    predictors = make()
    shown = predictors.add_intervals(table.assign(y=table["y"].where(~late)), "A")
    assert predictors["calm"].open_rounds == 10
    predictors.add_intervals(table, "A")
    predictors.add_intervals(table, "A")
    assert (predictors["calm"].rounds, predictors["calm"].open_rounds) == (59, 0)
    outside = ~table["y"].between(shown["A-lo-90"], shown["A-hi-90"])
    assert predictors["calm"].miss_rate == outside[:60].sum() / 59


def test_a_table_that_goes_on_is_played_as_if_it_had_come_at_once() -> None:
    table = make_table().sort_values("ds", kind="stable")
    whole, parts = make(), make()
    expected = whole.add_intervals(table, "A")
    parts.add_intervals(table[:70], "A")
    pd.testing.assert_frame_equal(parts.add_intervals(table, "A"), expected)
    assert parts["wild"].dump() == whole["wild"].dump()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"A": 99.0}, "predicted before from 100.0, now from 99.0"),
        ({"y": 0.0}, "give the table to amend"),
    ],
)
def test_a_row_that_is_another_now_is_refused_before_any_is_played(changed: Any, fault: str) -> None:
    table, predictors = make_table(), make()
    predictors.add_intervals(table[:50], "A")
    state = predictors["calm"].dump()
    with pytest.raises(InvalidError, match=fault):
        predictors.add_intervals(table.assign(**changed), "A")
    assert predictors["calm"].dump() == state


@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.3]])
def test_revised_outcomes_are_amended(alpha: Any) -> None:
    table, predictors = make_table(), make(alpha=alpha, amend_limit=100)
    added = predictors.add_intervals(table, "A")
    revised = table.assign(y=table["y"].where(table["ds"] != "2026-02-01", 1e6))
    assert predictors.amend(revised) == 2
    assert predictors.amend(revised) == 0
    own: Any = predictors["calm"]
    tally = own.progress.tally if alpha == 0.1 else own.levels[0.1]
    inside = revised["y"].between(added["A-lo-90"], added["A-hi-90"])
    assert tally.misses == (~inside[1:60]).sum()
    assert (predictors.history()["y"] == 1e6).sum() == 2


def test_the_two_sides_of_skewed_residuals_are_told_apart() -> None:
    truths = np.random.default_rng(1).exponential(size=1_500)
    table = pd.DataFrame({"unique_id": "a", "ds": range(1_500), "Zero": 0.0, "y": truths})
    plain, split = (backtest(table, "Zero", alpha=0.1, seed=1, asymmetric=a) for a in (False, True))
    # The shortest nine tenths of it are 2.303 wide, those around its forecast twice that.
    assert split.scores["width"][0] < 0.7 * plain.scores["width"][0]
    assert abs(split.scores["coverage"][0] - 0.9) < 3 * np.sqrt(0.09 / 1_500)
    assert split.table["Zero-lo-90"][500:].mean() > -0.3


def test_asymmetric_intervals_need_the_residuals_of_the_pool() -> None:
    for options in ({"score": keyhole.ScaledResiduals()}, {"pool": False}):
        with pytest.raises(InvalidError, match="asymmetric intervals come from"):
            make(asymmetric=True, **options)


def make_steps(rounds: int = 120) -> pd.DataFrame:
    """One step ahead errs by 1, two steps by 10."""
    rng = np.random.default_rng(2)
    cutoffs = np.repeat(np.arange(rounds), 2)
    steps = np.tile([1, 2], rounds)
    errors = np.where(steps == 1, 1.0, 10.0) * rng.normal(size=2 * rounds)
    return pd.DataFrame(
        {"unique_id": "a", "ds": cutoffs + steps, "cutoff": cutoffs, "M": 0.0, "y": errors}
    )


def test_each_step_ahead_may_have_predictors_of_its_own() -> None:
    predictors = make(per_horizon=True, pool=False)
    added = predictors.add_intervals(make_steps(), "M")
    assert set(predictors) == {("a", 1), ("a", 2)}
    scores = evaluate(added, by=["horizon"]).set_index("horizon")
    assert scores["width"][2] > 5 * scores["width"][1]
    with pytest.raises(InvalidError, match="has no cutoff"):
        make(per_horizon=True).add_intervals(make_table(), "A")


def test_outcomes_of_one_time_answer_every_step_and_model() -> None:
    table = make_steps(20).assign(N=1.0)
    predictors = make(pool=False)
    predictors.add_intervals(table.drop(columns="y"), ["M", "N"])
    assert predictors.learn(pd.DataFrame({"unique_id": ["a"], "ds": [5], "y": [0.3]})) == 4


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("options", [{}, {"levels": [80, 90], "alpha": None}, {"asymmetric": True}])
def test_what_was_saved_goes_on_bit_for_bit(kind: str, options: Any, tmp_path: Path) -> None:
    table = make_table(130).sort_values("ds")
    early = table["ds"] < "2026-05-01"
    given: Any = [table[early].assign(y=table["y"].where(table["ds"] < "2026-04-20")), table]
    if kind == "polars":
        given = [pl.from_pandas(one) for one in given]
    one = make(**options)
    one.add_intervals(given[0], ["A", ("q10", "q90")])
    one.save(tmp_path / "series")
    other = SeriesPredictors.load(tmp_path / "series")
    expected = one.add_intervals(given[1], ["A", ("q10", "q90")])
    found = other.add_intervals(given[1], ["A", ("q10", "q90")])
    assert found.equals(expected)
    assert one["wild", "A"].dump() == other["wild", "A"].dump()


def test_sets_and_scores_of_the_users_are_saved_too(tmp_path: Path) -> None:
    tickets = pl.DataFrame(
        {"unique_id": [1, 1, 2], "ds": [1, 2, 2], "a": [0.9, 0.6, 0.2], "b": [0.1, 0.4, 0.8],
         "y": ["a", "b", None]}
    )  # fmt: skip
    sets = SeriesPredictors(alpha=0.1, seed=1)
    shown = sets.add_sets(tickets, ["a", "b"])
    sets.save(tmp_path / "sets")
    assert SeriesPredictors.load(tmp_path / "sets").add_sets(tickets, ["a", "b"]).equals(shown)
    own = make(score=keyhole.ScaledResiduals(scale=3.0))
    own.save(tmp_path / "own")
    assert SeriesPredictors.load(tmp_path / "own").score == own.score
    keyhole.Predictor(alpha=0.1).save(tmp_path / "one")
    with pytest.raises(SnapshotError, match="single predictor"):
        SeriesPredictors.load(tmp_path / "one")


def test_a_series_that_no_file_can_name_is_refused(tmp_path: Path) -> None:
    predictors = make(pool=False)
    table = pd.DataFrame({"unique_id": [frozenset("a")], "ds": [1], "A": [1.0], "y": [2.0]})
    predictors.add_intervals(table, "A")
    with pytest.raises(SnapshotError, match="frozenset, which is not saved"):
        predictors.save(tmp_path / "series")
    assert not list(tmp_path.iterdir())


def test_the_history_is_the_table_as_it_was_shown() -> None:
    table, predictors = make_table(), make()
    added = predictors.add_intervals(table, "A")
    kept = predictors.history().sort_values(["unique_id", "ds"], ignore_index=True)
    pd.testing.assert_frame_equal(kept, added[kept.columns])


def test_figures_of_intervals_are_those_worked_by_hand() -> None:
    table = pd.DataFrame(
        {"unique_id": ["a", "a", "b", "b"], "ds": [1, 2, 1, 2], "y": [0.0, 5.0, 2.0, None],
         "M-lo-80": [-1.0, -1.0, -np.inf, 0.0], "M-hi-80": [1.0, 1.0, 9.0, 1.0], "other": 0.0}
    )  # fmt: skip
    scores = evaluate(table, window=2)
    assert scores.to_dict("records") == [
        {"model": "M", "level": 80.0, "rows": 3, "coverage": 2 / 3, "width": 2.0,
         # 2, and 2 + 2 / .2 * 4
         "interval_score": pytest.approx(22.0), "unbounded": 1 / 3,
         # in order of time a miss comes last: of the last two one missed
         "worst_window": pytest.approx(0.3)}
    ]  # fmt: skip
    by_series = evaluate(pl.from_pandas(table), by=["series"])
    assert isinstance(by_series, pl.DataFrame)
    assert by_series["unique_id"].to_list() == ["a", "b"]
    assert by_series["coverage"].to_list() == [0.5, 1.0]
    assert np.isnan(evaluate(table)["worst_window"][0])


@pytest.mark.parametrize(
    ("options", "fault"),
    [({"models": ["N"]}, "no columns N-lo"), ({"by": ["hour"]}, "by"), ({"window": 0}, "window 0"),
     ({"truth": "z"}, "no column 'z'")],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_named(options: Any, fault: str) -> None:
    table = make().add_intervals(make_table(), "A")
    with pytest.raises(InvalidError, match=fault):
        evaluate(table, **options)
    with pytest.raises(InvalidError, match="MODEL-lo-LEVEL"):
        evaluate(make_table())


def test_a_backtest_knows_outcomes_only_after_their_lag() -> None:
    table = make_table()
    prompt = backtest(table, "A", alpha=0.1, seed=7)
    late = backtest(table, "A", alpha=0.1, seed=7, lag=pd.Timedelta(days=7))
    assert prompt.table.equals(make().add_intervals(table, "A"))
    unknown = ~np.isfinite(late.table["A-hi-90"])
    assert unknown.groupby(late.table["unique_id"]).sum().tolist() == [8, 8]
    assert late.predictors["calm"].rounds == 52


def test_a_fan_chart_shows_every_level_and_the_misses() -> None:
    from matplotlib import pyplot as plt

    predictors = make(alpha=None, levels=[80, 95])
    added = predictors.add_intervals(make_table(), "A")
    axes = predictors.plot("wild", last=40)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["95 %", "80 %", "forecast", "outcome", "outside 95 %"]
    wild = added[added["unique_id"] == "wild"].tail(40)
    missed = (~wild["y"].between(wild["A-lo-95"], wild["A-hi-95"])).sum()
    assert [len(dots.get_offsets()) for dots in axes.collections[-2:]] == [40 - missed, missed]
    plt.close(axes.figure)
    with pytest.raises(InvalidError, match="no row of series 'tame'"):
        predictors.plot("tame")


def test_features_are_what_the_first_table_knows() -> None:
    table = make_table()
    predictors = make()
    assert "features: to be found" in repr(predictors)
    predictors.add_intervals(table, ["A", "B"])
    assert predictors.features == ("weekday", "forecast", "spread")
    assert "features: weekday, forecast, spread>" in repr(predictors)
    assert predictors["calm", "A"].learner.name == "contextual-tracker"


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"features": None}, {}),
        ({"learner": "logit-tracker"}, {}),
        ({}, {"ds": range(120)}),
    ],
    ids=["none asked for", "a learner by name", "times that are numbers"],
)
def test_there_are_no_features(options: dict[str, Any], change: dict[str, Any]) -> None:
    predictors = make(**options)
    predictors.add_intervals(make_table().assign(**change), "A")
    assert predictors.features == ()
    assert predictors["calm"].learner.features == 0


def test_the_month_is_known_in_a_table_of_more_than_a_year() -> None:
    predictors = make()
    predictors.add_intervals(make_table(rows=400), "A")
    assert predictors.features == ("weekday", "month", "forecast")


def test_hours_and_steps_ahead_are_known() -> None:
    hours = pd.date_range("2026-01-28", periods=24 * 7, freq="h")
    table = pd.DataFrame({"unique_id": "a", "ds": hours, "A": 0.0, "y": 1.0})
    predictors = make()
    predictors.add_intervals(table.assign(cutoff=hours.normalize()), "A")
    assert predictors.features == ("hour", "weekday", "horizon", "forecast")


def test_known_features_can_be_named_beside_columns_and_are_saved(tmp_path: Path) -> None:
    table = make_table().assign(warmth=1.5)
    predictors = make(features=["warmth", "weekday"])
    predictors.add_intervals(table[:60], "A")
    predictors.save(tmp_path / "kept")
    again = SeriesPredictors.load(tmp_path / "kept")
    assert again.features == predictors.features == ("warmth", "weekday")
    one, other = (each.add_intervals(table[60:], "A")["A-hi-90"] for each in (predictors, again))
    assert one.tolist() == other.tolist()


def test_a_feature_that_tells_the_spread_makes_intervals_fit_both_halves() -> None:
    """Kills: features that are found and not given, or given to the wrong row."""
    rng, hours = np.random.default_rng(1), pd.date_range("2026-01-01", periods=3_000, freq="h")
    spread = np.where(hours.hour < 12, 1.0, 5.0)
    table = pd.DataFrame(
        {"unique_id": "a", "ds": hours, "A": 0.0, "y": spread * rng.normal(size=hours.size)}
    )
    late, wide = slice(1_000, None), spread[1_000:] > 1.0
    for options, apart in (({}, 0.04), ({"features": None}, 0.2)):
        half = make(**options).add_intervals(table, "A")["A-hi-90"].to_numpy()[late]
        missed = np.abs(table["y"].to_numpy()[late]) > half
        far = max(abs(missed[wide].mean() - 0.1), abs(missed[~wide].mean() - 0.1))
        assert far < apart
        assert far > 0.05 or not options  # a standard error is 0.01


def make_panel() -> pd.DataFrame:
    """Three series of 40 rows each, forecast four at a time, some of which are never answered."""
    rng = np.random.default_rng(8)
    times = np.tile(pd.date_range("2026-01-01", periods=40, freq="6h"), 3)
    spread = np.repeat([1.0, 5.0, 30.0], 40)
    forecast = rng.normal(100, 10, size=120)
    table = pd.DataFrame({"unique_id": np.repeat(["a", "b", "c"], 40), "ds": times, "A": forecast})
    table["y"] = (forecast + spread * rng.normal(size=120)).round(1)
    table.loc[[17, 60, 90], "y"] = None
    table["cutoff"] = table["ds"].dt.floor("D") - pd.Timedelta("1h")
    lower, upper = forecast - spread * rng.random(120), forecast + spread
    return table.assign(q10=lower, q90=upper, weekend=table["ds"].dt.day_of_week > 4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": None},
        {"asymmetric": True},
        {"alpha": [0.1, 0.3]},
        {"groups": ["weekend"], "amend_limit": 50},
        {"per_horizon": True},
    ],
)
def test_rounds_that_are_played_at_once_are_those_played_one_by_one(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_panel()
    found = []
    for is_at_once in (True, False):
        if not is_at_once:
            monkeypatch.setattr(keyhole.Predictor, "_play", lambda *_: None)
            monkeypatch.setattr(LevelPredictor, "_play", lambda *_: None)
        predictors = make(**options)
        early = table[table["ds"] < "2026-01-08"]
        early = early.assign(y=early["y"].where(early["ds"] < "2026-01-06"))
        shown = [predictors.add_intervals(early, ["A", ("q10", "q90")], lag=pd.Timedelta("2D"))]
        predictors.learn(table[table["ds"] == "2026-01-07"])
        shown.append(predictors.add_intervals(table, ["A", ("q10", "q90")]))
        if "amend_limit" in options:
            assert predictors.amend(table.assign(y=table["y"] + 50.0)) > 100
        states = [
            one.dump() for name in predictors.models for one in predictors.predictors(name).values()
        ]
        found.append((shown, predictors.history("A"), states))
    (at_once, kept, states), (one_by_one, expected, others) = found
    for one, other in zip([*at_once, kept], [*one_by_one, expected], strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert states == others
