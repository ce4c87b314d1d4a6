"""Many short series: each starts where the others stand, and goes on by itself."""

import math
import pickle
from statistics import fmean, median

import numpy as np
import pandas as pd
import pytest

from keyhole import QuantileBands, ScaledResiduals
from keyhole.integrations._pool import ResidualPool
from keyhole.integrations.frames import SeriesPredictors
from keyhole.scores.residuals import list_shape

ALPHA, SERIES, STEPS = 0.1, 50, 20


def add_widths(table: pd.DataFrame, predictors: SeriesPredictors) -> pd.DataFrame:
    added = predictors.add_intervals(table, "M")
    width = added["M-hi-90"] - added["M-lo-90"]
    return added.assign(width=width, miss=~added["y"].between(added["M-lo-90"], added["M-hi-90"]))


def add(pool: ResidualPool, series: str, residual: float, forecast: float = 0.0) -> None:
    pool.add_all([series], [forecast], [residual])


def find_band(
    pool: ResidualPool, series: str, alpha: float = ALPHA, forecast: float = 0.0
) -> tuple[float, float]:
    (band,) = pool.find_bands([series], np.array([forecast]), alpha)
    return band


def find_half(pool: ResidualPool, series: str, alpha: float = ALPHA, forecast: float = 0.0) -> float:
    return find_band(pool, series, alpha, forecast)[1]


def make_panel(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    scales = np.exp(0.7 * rng.normal(size=SERIES))
    truths = rng.normal(size=(SERIES, STEPS)) * scales[:, None]
    series, time = np.repeat(np.arange(SERIES), STEPS), np.tile(np.arange(STEPS), SERIES)
    table = pd.DataFrame({"unique_id": series, "ds": time, "M": 0.0, "y": truths.ravel()})
    return table, scales[series]


def test_before_the_first_residual_nothing_is_known_and_one_gives_a_width() -> None:
    pool = ResidualPool()
    assert math.isnan(find_half(pool, "a"))
    add(pool, "a", -2.0)
    # Five answers of Student's shape with one degree of freedom and one at its median, 2: of 6 answers
    # .1 * 6 / 7 of each may lie above, so that 10 / pi * atan(x) = 6 * (1 - .6 / 7) - 1 and x = 6.14.
    # The shape is in thirds of doublings.
    far = math.tan((6.0 * (1.0 - 0.6 / 7.0) - 1.0) * math.pi / 10.0)
    assert find_half(pool, "a") == pytest.approx(2.0 * far, rel=2 ** (1 / 3) - 1)


def test_a_series_is_half_its_own_after_one_residual_and_a_new_one_like_all() -> None:
    pool = ResidualPool()
    add(pool, "a", 1.0)
    add(pool, "b", math.e**2)
    halves = {name: find_half(pool, name) for name in "abc"}
    # Each series is 1 / (1 + 1) of the way from what all have to what it has, 0 and 2.
    assert halves["b"] / halves["a"] == pytest.approx(math.e)
    # The mean root is (1 + e) / 2, and the logarithm of its square the middle of all.
    middle = 2.0 * math.log((1.0 + math.e) / 2.0)
    assert halves["c"] / halves["a"] == pytest.approx(math.exp(middle / 2.0))


def test_the_shape_is_of_what_lies_beyond_the_offset_of_before() -> None:
    pool = ResidualPool()
    for residual in (1.0, 16.0, 16.0, 2.5e7):
        add(pool, "a", residual)
    # Roots 1, 4, 4, 5000 have the mean 1252.25, by 25/4 the middle of the first three is far below. The
    # offset before the fourth was 3/4 log(9 / 1252.25^2), cut at -4: log(2.5e7) + 4 lies beyond it, and
    # is the largest. Of 9 answers .1 * 9 / 10 may lie above, so that it is the quantile; the offset now
    # is 0, as the middle of the series is that of all.
    assert find_half(pool, "a") == pytest.approx(2.5e7 * math.e**4, rel=0.05)


def test_a_new_series_has_the_width_that_forecasts_of_its_size_have() -> None:
    pool = ResidualPool()
    for n in range(40):
        add(pool, f"small {n}", 1.0, forecast=10.0)
        add(pool, f"large {n}", 100.0, forecast=-1_000.0)
    # Logarithms of forecasts are log(10) on either side of their mean, residuals 2 log(10) apart: 80
    # squares of log(10) on a line of slope 1, with 5 more that say nothing.
    slope = 80 * math.log(10) ** 2 / (80 * math.log(10) ** 2 + 5)
    ratio = find_half(pool, "new", forecast=1_000.0) / find_half(pool, "other", forecast=10.0)
    assert ratio == pytest.approx(100.0**slope)
    middle = find_half(pool, "nothing known", forecast=0.0)
    assert middle == pytest.approx(find_half(pool, "usual", forecast=100.0))
    assert find_half(pool, "tiny", forecast=1e-300) == pytest.approx(middle * math.e**-4)


def test_forecasts_whose_sizes_tell_nothing_leave_widths_as_they_are() -> None:
    rng = np.random.default_rng(3)
    pool, plain = ResidualPool(), ResidualPool()
    for n in range(400):
        residual = rng.normal()
        add(pool, str(n), residual, forecast=math.exp(rng.normal()))
        add(plain, str(n), residual)
    # The slope of 400 pairs has a standard error of 1.1 / 20: so little moves a width.
    ratio = find_half(pool, "new", forecast=math.e) / find_half(plain, "new")
    assert abs(math.log(ratio)) < 4 * 1.1 / 20


def test_a_residual_that_is_amended_counts_as_if_it_had_been_told_so() -> None:
    for asymmetric in (False, True):
        amended, told = ResidualPool(asymmetric=asymmetric), ResidualPool(asymmetric=asymmetric)
        for n in range(60):
            add(amended, "a", 1.0 + n)
            add(told, "a", 900.0 if n == 59 else 1.0 + n)
        amended.amend("a", 60.0, 900.0)
        amended.amend("b", 0.5, 800.0)  # never heard
        for series in ("a", "new"):
            assert find_band(amended, series, 0.01) == find_band(told, series, 0.01)


def test_an_exact_forecast_that_is_amended_counts_as_if_it_had_been_told_so() -> None:
    amended, told = ResidualPool(), ResidualPool()
    for n in range(60):
        add(amended, "a", 0.0 if n == 59 else 1.0 + n)
        add(told, "a", 900.0 if n == 59 else 1.0 + n)
    restored = ResidualPool()
    restored.restore(amended.list_state())
    for pool in (amended, restored):
        pool.amend("a", 0.0, 800.0)
        pool.amend("a", 800.0, 0.0)
        add(pool, "b", 0.5)  # The smallest is another one from here on.
        pool.amend("b", 0.0, 800.0)  # never heard
        pool.amend("a", 0.0, 900.0)
        pool.amend("a", 0.0, 700.0)  # no longer exact
    add(told, "b", 0.5)
    for series in ("a", "b", "new"):
        bands = [find_band(pool, series, 0.01) for pool in (amended, restored, told)]
        assert bands[0] == bands[1] == bands[2]


def test_after_twenty_five_residuals_a_series_goes_on_by_itself() -> None:
    pool = ResidualPool()
    for residual in range(1, 25):
        add(pool, "a", float(residual))
    early = find_half(pool, "a")
    add(pool, "a", 1e6)
    fixed = find_half(pool, "a")
    assert fixed != early
    for _ in range(200):
        add(pool, "a", 1e6)
        add(pool, "b", 1e6)
    assert find_half(pool, "a") == fixed
    assert find_half(pool, "c") > 1e5


def test_a_series_that_is_all_but_exact_is_at_least_e_to_the_minus_4_as_wide_as_a_new_one() -> None:
    pool = ResidualPool()
    for _ in range(5):
        add(pool, "exact", 1e-12)
        for name in "abc":
            add(pool, name, 1.0)
    exact, new = find_half(pool, "exact"), find_half(pool, "new")
    assert exact / new == pytest.approx(math.e**-4)


def test_residuals_of_nothing_leave_the_whole_line() -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": range(5), "M": 7.0, "y": 7.0})
    predictors = SeriesPredictors(alpha=ALPHA)
    assert np.isinf(add_widths(table, predictors)["width"]).all()


def test_fifty_series_of_twenty_points_miss_as_often_as_they_may_and_are_never_endless_again() -> None:
    missed, ratios = [], []
    for seed in range(3):
        table, scales = make_panel(seed)
        added = add_widths(table, SeriesPredictors(alpha=ALPHA, seed=7))
        first = added["ds"] == 0
        assert np.isinf(added.loc[first, "width"]).all()
        assert np.isfinite(added.loc[~first, "width"]).all()
        missed.append(added.loc[~first, "miss"].mean())
        ratios.append((added["width"] / (2 * 1.6449 * scales))[~first].mean())
    # 2,850 rounds: a standard error of .006 if they miss with probability .1.
    assert 0.08 < np.mean(missed) < 0.118
    assert np.mean(ratios) < 1.45


def test_without_the_pool_every_series_starts_alone() -> None:
    table, _ = make_panel(0)
    pooled, alone = SeriesPredictors(alpha=ALPHA), SeriesPredictors(alpha=ALPHA, pool=False)
    second = add_widths(table, pooled)["width"][1], add_widths(table, alone)["width"][1]
    assert second[0] != second[1]
    assert isinstance(pooled[0].setup.score, QuantileBands)
    assert isinstance(alone[0].setup.score, ScaledResiduals)
    assert (pooled[0].rounds, alone[0].rounds) == (STEPS - 1, STEPS)


def test_the_second_day_of_a_table_of_day_ahead_forecasts_misses_no_more_than_it_may() -> None:
    missed, widths = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        hours = pd.date_range("2026-01-01", periods=72, freq="h")
        cutoff = hours.floor("D") - pd.Timedelta("1h")
        truths = rng.normal(0.0, 5.0, 72)
        table = pd.DataFrame(
            {"unique_id": "load", "ds": hours, "cutoff": cutoff, "M": 0.0, "y": truths}
        )
        added = add_widths(table, SeriesPredictors(alpha=ALPHA, seed=1))
        missed.append(added["miss"][24:48].mean())
        widths.append(added["width"][24:48].mean() / (2 * 1.6449 * 5.0))
    # The quantile of 24 residuals has a standard error of .06 in its miss rate, each day of .06: .025.
    assert np.mean(missed) < 0.1 + 3 * 0.025
    assert np.mean(widths) < 2.0


def test_a_calibrated_table_has_widths_from_its_first_row_on_and_counts_no_round() -> None:
    table, scales = make_panel(1)
    past, future = table[table["ds"] < 12], table[table["ds"] >= 12]
    for pool in (True, False):
        predictors = SeriesPredictors(alpha=ALPHA, pool=pool)
        predictors.calibrate(past, "M")
        assert {predictors[name].rounds for name in predictors} == {0}
        added = add_widths(future, predictors)
        assert np.isfinite(added["width"]).all()
        if pool:  # 400 rounds: a standard error of .015.
            assert abs(added["miss"].mean() - ALPHA) < 0.05
            assert (added["width"] / (2 * 1.6449 * scales[table["ds"] >= 12])).mean() < 1.45


def test_features_and_groups_of_history_are_columns_too() -> None:
    table, _ = make_panel(2)
    table = table.assign(load=np.arange(len(table)) % 7, odd=table["ds"] % 2 == 1)
    predictors = SeriesPredictors(alpha=ALPHA, features=["load"], groups=["odd"])
    predictors.calibrate(table[table["ds"] < 10], "M")
    predictors.add_intervals(table[table["ds"] >= 10], "M")
    assert predictors[0].groups["odd"].rounds == 5


def test_outcomes_of_open_rows_reach_the_pool() -> None:
    table, _ = make_panel(0)
    open_rows = table[table["ds"] == 0].assign(y=None)
    predictors = SeriesPredictors(alpha=ALPHA, seed=7)
    predictors.add_intervals(open_rows, "M")
    assert predictors.learn(table[table["ds"] == 0]) == SERIES
    later = table[table["ds"] > 0]
    one = SeriesPredictors(alpha=ALPHA, seed=7)
    whole = one.add_intervals(table, "M")
    pd.testing.assert_frame_equal(predictors.add_intervals(later, "M"), whole[whole["ds"] > 0])


def test_a_pickled_pool_goes_on_bit_for_bit() -> None:
    table, _ = make_panel(0)
    predictors = SeriesPredictors(alpha=ALPHA, seed=7)
    predictors.add_intervals(table[table["ds"] < 10], "M")
    other = pickle.loads(pickle.dumps(predictors))
    later = table[table["ds"] >= 10]
    pd.testing.assert_frame_equal(other.add_intervals(later, "M"), predictors.add_intervals(later, "M"))


def test_a_series_that_was_exact_at_first_gets_a_width_once_it_errs() -> None:
    pool = ResidualPool()
    for _ in range(30):
        add(pool, "a", 0.0)
    assert math.isnan(find_half(pool, "a"))
    for _ in range(30):
        add(pool, "a", 2.0)
        add(pool, "a", 0.0)
    assert 2.0 <= find_half(pool, "a") < 5.0


def find_middle(sizes: list[float]) -> float:
    return 2.0 * math.log(fmean(math.exp(size / 2.0) for size in sizes))


def cut(offset: float) -> float:
    return max(-4.0, min(4.0, offset))


class PlainPool:
    """The pool in plain Python, straight from what its page says: every number from all residuals."""

    def __init__(self) -> None:
        self.own: dict[str, list[float]] = {}
        self.seen: list[tuple[float, float, float, float]] = []
        self.fixed: dict[str, float] = {}
        self.least = math.inf

    def place(self, series: str) -> tuple[float, float]:
        own = self.own.get(series, [])[-25:]
        return (len(own) / (len(own) + 1), find_middle(own)) if own else (0.0, 0.0)

    def add(self, series: str, residual: float, forecast: float) -> None:
        size = math.log(abs(residual)) if residual else self.least
        self.least = min(self.least, size)
        self.seen.append((size, *self.place(series), forecast))
        self.own.setdefault(series, []).append(size)

    def find_half(self, series: str, forecast: float) -> float:
        if series in self.fixed:
            return self.fixed[series]
        memory = max(150, 3 * len(self.own))
        self.seen = self.seen[-8 * memory :]
        middle = find_middle([size for size, *_ in self.seen])
        level = fmean(math.log(abs(one)) for *_, one in self.seen if one)
        above = [math.log(abs(one)) - level if one else 0.0 for *_, one in self.seen]
        drawn = sum(x * size for x, (size, *_) in zip(above, self.seen, strict=True))
        slope = max(0.0, min(1.0, drawn / (sum(x * x for x in above) + 5.0)))

        def find_offset(share: float, own: float, forecast: float) -> float:
            usual = cut(slope * (math.log(abs(forecast)) - level)) if forecast else 0.0
            return usual + cut(share * (own - middle - usual))

        beyond = [size - find_offset(*rest) for size, *rest in self.seen]
        last = len(beyond) - 1
        mass = [(x, math.exp((n - last) / memory)) for n, x in enumerate(beyond)]
        for score, share in zip(*list_shape(), strict=True):
            mass.append((median(beyond) + math.log(1.0 / score - 1.0), share))
        total = sum(share for _, share in mass)
        needed, heard = (1.0 - ALPHA * total / (1.0 + total)) * total, 0.0
        values = []
        for value, share in sorted(mass):
            values += [value] if heard < needed else []
            heard += share
        half = math.exp(values[-1] + find_offset(*self.place(series), forecast))
        if len(self.own.get(series, ())) >= 25:
            self.fixed[series] = half
        return half


def test_the_pool_is_what_its_page_says_residual_by_residual() -> None:
    """Kills: any number or sign in a width, a memory or an offset."""
    rng = np.random.default_rng(4)
    names = ["a", "b", *"cdefgh" * 2, *"xyz" * 3]
    scales = {name: math.exp(3.0 * rng.normal()) for name in names} | {"a": 1e-9, "b": 1e9}
    pool, plain = ResidualPool(), PlainPool()
    for step in range(1_900):
        name = names[rng.integers(len(names))]
        residual = 0.0 if step % 17 == 16 else scales[name] * rng.normal()
        forecast = 0.0 if step % 11 == 10 else 5.0 * scales[name] ** 0.7 * rng.normal()
        add(pool, name, residual, forecast)
        plain.add(name, residual, forecast)
        if step < 60 or step % 150 == 0 or step > 1_880:
            for one in (name, "new"):
                half = find_half(pool, one, forecast=forecast)
                assert half == pytest.approx(plain.find_half(one, forecast), rel=1e-9)


def test_many_series_are_remembered_by_three_residuals_each() -> None:
    pool, plain = ResidualPool(), PlainPool()
    rng = np.random.default_rng(5)
    for step in range(1_600):
        residual = math.exp(rng.normal() + step / 400)
        add(pool, str(step % 80), residual, 2.0 + step)
        plain.add(str(step % 80), residual, 2.0 + step)
    assert find_half(pool, "new") == pytest.approx(plain.find_half("new", 0.0), rel=1e-9)


def test_a_width_that_no_number_holds_is_the_largest_that_one_does() -> None:
    pool = ResidualPool()
    for _ in range(3):
        add(pool, "a", 1e308)
    half = find_half(pool, "a", 0.001)
    assert half == pytest.approx(math.exp(690.0))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
@pytest.mark.parametrize("count", [50, 55, 60])
def test_both_sides_are_the_shortest_span_of_a_share_from_the_fiftieth_residual_on(
    alpha: float, count: int
) -> None:
    residuals = np.random.default_rng(count).exponential(size=count).tolist()
    pool = ResidualPool(asymmetric=True)
    for residual in residuals[:49]:
        add(pool, "a", residual)
    low, high = find_band(pool, "a", alpha)
    assert -low == high
    for residual in residuals[49:]:
        add(pool, "a", residual)
    ordered = sorted(residuals)
    holds = min(count, math.ceil((1 - alpha) * (count + 1)))
    spans = [(ordered[n + holds - 1] - ordered[n], n) for n in range(count - holds + 1)]
    _, first = min(spans)
    assert find_band(pool, "a", alpha) == (ordered[first], ordered[first + holds - 1])
    other = find_band(pool, "b", alpha)
    assert other == (-other[1], other[1])


def test_the_two_sides_forget_what_is_four_hundred_residuals_old() -> None:
    pool = ResidualPool(asymmetric=True)
    add(pool, "a", 1e6)
    for residual in range(399):
        add(pool, "a", float(residual))
    assert find_band(pool, "a", 0.001) == (0.0, 1e6)
    add(pool, "a", 0.0)
    assert find_band(pool, "a", 0.001) == (0.0, 398.0)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_pool_that_was_kept_goes_on_bit_for_bit(*, asymmetric: bool) -> None:
    rng = np.random.default_rng(8)
    one = ResidualPool(asymmetric=asymmetric)
    for step in range(450):
        add(one, "a", 0.0 if step in (3, 4) else rng.normal())
    find_band(one, "a")
    other = ResidualPool(asymmetric=asymmetric)
    other.restore(one.list_state())
    for step in range(60):
        for name in ("a", "b"):
            residual = 0.0 if step == 50 else rng.normal()
            add(one, name, residual, forecast=float(step))
            add(other, name, residual, forecast=float(step))
            assert find_band(one, name) == find_band(other, name)
            assert find_band(one, name, 0.2) == find_band(other, name, 0.2)


def test_the_two_sides_are_equally_far_unless_told() -> None:
    pool = ResidualPool()
    for residual in range(1, 61):
        add(pool, "a", float(residual))
    low, high = find_band(pool, "a")
    assert -low == high
