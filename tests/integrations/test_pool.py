"""Many short series: each starts where the others stand, and goes on by itself."""

import math
import pickle
from statistics import fmean, median, pvariance, variance

import numpy as np
import pandas as pd
import pytest

from keyhole import QuantileBands, ScaledResiduals
from keyhole.errors import SnapshotError
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


def test_of_a_series_one_root_counts_beside_the_mean_of_all_as_roots_vary() -> None:
    pool = ResidualPool()
    add(pool, "a", 1.0)
    add(pool, "b", math.e**2)
    halves = {name: find_half(pool, name) for name in "abc"}
    # Roots of 1 and e: within a series they vary by .27 squares of their mean, which is all assumed.
    mean = (1.0 + math.e) / 2.0
    within, overall = 0.27 * mean**2, 2.0 * (mean - 1.0) ** 2
    between = (2.0 * (overall - within) + 10.0 * 0.54 * mean**2) / (2.0 + 10.0)
    credit = within / between
    own, other = ((root + credit * mean) / (1.0 + credit) for root in (1.0, math.e))
    assert halves["b"] / halves["a"] == pytest.approx((other / own) ** 2)
    assert halves["c"] / halves["a"] == pytest.approx((mean / own) ** 2)


def test_a_new_series_is_as_wide_as_one_of_unknown_scale_must_be_and_the_others_as_their_own() -> None:
    pool = ResidualPool()
    for _ in range(10):
        for n in range(20):
            add(pool, str(n), math.exp(n / 2.0))
    assert math.exp(17 / 2) <= find_half(pool, "new") <= math.exp(19 / 2)
    assert 1.0 <= find_half(pool, "19") / math.exp(19 / 2) < 1.5


def test_a_new_series_has_the_width_that_forecasts_of_its_size_have() -> None:
    pool = ResidualPool()
    for n in range(40):
        add(pool, f"small {n}", 1.0, forecast=10.0)
        add(pool, f"large {n}", 100.0, forecast=-1_000.0)
    # Logarithms of forecasts are log(10) on either side of their mean, residuals too: 80 squares of
    # log(10) on a line of slope 1, with 5 more that say nothing, and what is beyond the line as chance.
    squares = 80 * math.log(10) ** 2 + 5
    slope = 80 * math.log(10) ** 2 / squares
    slope -= ((1 - slope) * math.log(10)) ** 2 / squares / slope
    ratio = find_half(pool, "new", forecast=1_000.0) / find_half(pool, "other", forecast=10.0)
    assert ratio == pytest.approx(100.0**slope)
    middle = find_half(pool, "nothing known", forecast=0.0)
    assert middle == pytest.approx(find_half(pool, "usual", forecast=100.0))
    assert find_half(pool, "tiny", forecast=1e-300) == pytest.approx(middle * math.e**-8)


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


def test_a_series_that_was_all_but_exact_is_wider_than_it_was() -> None:
    pool = ResidualPool()
    for _ in range(5):
        add(pool, "exact", 1e-12)
        for name in "abc":
            add(pool, name, 1.0)
    assert 1e-4 < find_half(pool, "exact") < 0.1 * find_half(pool, "new")


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


def make_related_panel(
    seed: int, *, power: float, spread: float, steps: int, swing: float = 0.0
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table whose errors go with a power of its forecasts, and the scales of its errors."""
    rng = np.random.default_rng(seed)
    forecasts = np.exp(
        rng.normal(5.0, 1.5, size=(SERIES, 1)) + swing * rng.normal(size=(SERIES, steps))
    )
    scales = 0.1 * forecasts**power * np.exp(spread * rng.normal(size=(SERIES, 1)))
    truths = forecasts + scales * rng.normal(size=scales.shape)
    series, time = np.repeat(np.arange(SERIES), steps), np.tile(np.arange(steps), SERIES)
    columns = {"unique_id": series, "ds": time, "M": forecasts.ravel(), "y": truths.ravel()}
    return pd.DataFrame(columns), scales.ravel()


@pytest.mark.parametrize("spread", [0.0, 0.7])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_second_step_misses_as_often_as_it_may_however_errors_go_with_forecasts(
    power: float, spread: float
) -> None:
    missed, ratios = [], []
    for seed in range(40):
        table, scales = make_related_panel(seed, power=power, spread=spread, steps=2)
        added, second = add_widths(table, SeriesPredictors(alpha=ALPHA, seed=1)), table["ds"] == 1
        missed.append(added.loc[second, "miss"].mean())
        ratios.append((added["width"] / (2 * 1.6449 * scales))[second].mean())
    # A quantile of 50 residuals has a standard error of .042 in its miss rate, and so have 50 outcomes:
    # .06 a panel, .0095 of 40. Where scales differ, one residual tells little of them.
    assert np.mean(missed) < ALPHA + 3 * 0.0095
    assert np.mean(ratios) < (1.3 if spread == 0.0 else 2.0)


def test_series_that_come_later_miss_as_often_as_they_may_at_first() -> None:
    missed = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scales, pool = np.exp(1.5 * rng.normal(size=2 * SERIES)), ResidualPool()
        for _ in range(10):
            for name in range(SERIES):
                add(pool, str(name), scales[name] * rng.normal())
        outcomes = scales[SERIES:] * rng.normal(size=SERIES)
        missed.append(np.mean(np.abs(outcomes) > find_half(pool, "new")))
    # As above: the scales of 50 series tell the quantile.
    assert abs(np.mean(missed) - ALPHA) < 3 * 0.0095


def test_widths_go_with_the_forecasts_of_a_series_for_good() -> None:
    table, scales = make_related_panel(0, power=1.0, spread=0.0, steps=60, swing=0.5)
    added = add_widths(table, SeriesPredictors(alpha=ALPHA, seed=1))
    ratios = added["width"] / (2 * 1.6449 * scales)
    assert 1.0 < ratios[table["ds"] >= 30].mean() < 1.2
    # 1,500 rounds: a standard error of .008.
    assert abs(added.loc[table["ds"] >= 30, "miss"].mean() - ALPHA) < 3 * 0.008


def test_forecasts_near_zero_that_tell_nothing_leave_a_series_its_width() -> None:
    ratios = []
    for seed in range(100):
        rng, pool = np.random.default_rng(seed), ResidualPool()
        for _ in range(25):
            add(pool, "a", rng.normal(), forecast=rng.normal())
        ratios.append(find_half(pool, "a", forecast=0.01) / find_half(pool, "a", forecast=1.0))
    # The slope of 25 such pairs has a standard error of .2, and ln(100) times a tenth is .46: chance
    # makes no such line out of them more often than one standard error is exceeded, on one side.
    assert np.mean(np.log(ratios) < -0.46) < 0.16 + 3 * 0.037


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


class PlainPool:
    """The pool in plain Python, straight from what its page says: every number from all residuals."""

    def __init__(self) -> None:
        self.own: dict[str, list[tuple[float, float, int]]] = {}
        self.fixed: dict[str, tuple[float, float, float]] = {}
        self.heard = 0

    def add(self, series: str, residual: float, forecast: float) -> None:
        own = self.own.setdefault(series, [])
        own.append((abs(residual), abs(forecast), self.heard))
        del own[:-25]
        self.heard += 1

    def find_half(self, series: str, forecast: float) -> float:
        line = self.fixed.get(series) or self.find_line(series)
        if len(self.own.get(series, ())) == 25:
            self.fixed[series] = line
        return math.exp(line[0] + follow(abs(forecast), *line[1:]))

    def find_line(self, series: str) -> tuple[float, float, float]:
        every = [one for own in self.own.values() for one in own]
        least = min(residual for residual, *_ in every if residual)
        level = fmean(math.log(forecast) for _, forecast, _ in every if forecast)
        above = [(math.log(one) - level if one else 0.0) for _, one, _ in every]
        drawn = sum(x * math.log(max(one[0], least)) for x, one in zip(above, every, strict=True))
        squares = sum(x * x for x in above) + 5.0
        slope = drawn / squares
        left = [math.log(max(one[0], least)) - slope * x for x, one in zip(above, every, strict=True)]
        slope = max(0.0, min(1.0, slope - pvariance(left) / squares / slope)) if slope > 0.0 else 0.0

        def find_root(residual: float, forecast: float) -> float:
            return math.exp((math.log(max(residual, least)) - follow(forecast, slope, level)) / 2.0)

        roots = {name: [find_root(*one[:2]) for one in own] for name, own in self.own.items()}
        together = [root for own in roots.values() for root in own]
        count, total, mean = len(roots), len(together), fmean(together)
        squares = sum((root - fmean(own)) ** 2 for own in roots.values() for root in own)
        within = (squares + 10.0 * 0.27 * mean**2) / (total - count + 10.0)
        overall = variance(together) if total > 1 else 0.0
        between = (count * max(overall - within, 0.0) + 10.0 * 0.54 * mean**2) / (count + 10.0)
        credit = within / between

        def find_offset(known: list[float]) -> float:
            return 2.0 * math.log((sum(known) + credit * mean) / (len(known) + credit))

        known = roots.get(series, [])
        memory, mass = max(150, 3 * count), []
        for name, own in self.own.items():
            for place, (*_, when) in enumerate(own):
                before = roots[name][max(place - len(known), 0) : place]
                beyond = 2.0 * math.log(roots[name][place]) - find_offset(before)
                mass.append((beyond, math.exp((when + 1 - self.heard) / memory)))
        middle = median(beyond for beyond, _ in mass)
        for score, share in zip(*list_shape(), strict=True):
            mass.append((middle + math.log(1.0 / score - 1.0), share))
        weight = sum(share for _, share in mass)
        needed, passed, values = (1.0 - ALPHA * weight / (1.0 + weight)) * weight, 0.0, []
        for value, share in sorted(mass):
            values += [value] if passed < needed else []
            passed += share
        return values[-1] + find_offset(known), slope, level


def follow(forecast: float, slope: float, level: float) -> float:
    return max(-8.0, min(8.0, slope * (math.log(forecast) - level))) if forecast else 0.0


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


def test_a_state_of_another_version_is_refused() -> None:
    state = ResidualPool().list_state()
    for other in ({**state, "version": 2}, {}):
        with pytest.raises(SnapshotError, match="format version"):
            ResidualPool().restore(other)


def test_the_two_sides_are_equally_far_unless_told() -> None:
    pool = ResidualPool()
    for residual in range(1, 61):
        add(pool, "a", float(residual))
    low, high = find_band(pool, "a")
    assert -low == high
