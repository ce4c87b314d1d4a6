"""Forecasts that work without guessing a scale."""

import math

import numpy as np
import pytest

from keyhole import MISS, Interval, Predictor, QuantileBands, ScaledResiduals
from keyhole.errors import ScoreError

ROUNDS = 4000


def play(score: ScaledResiduals, residuals: np.ndarray) -> tuple[Predictor[Interval], np.ndarray]:
    predictor = Predictor(alpha=0.1, score=score)
    widths = np.empty(residuals.size)
    for n, residual in enumerate(residuals.tolist()):
        shown = predictor.predict(50.0)
        widths[n] = shown.width
        predictor.learn(shown, label=50.0 + residual)
    return predictor, widths


@pytest.fixture(scope="module")
def residuals() -> np.ndarray:
    return np.random.default_rng(4).normal(size=ROUNDS)


@pytest.mark.parametrize("scale", [1e6, 1e-6, None])
def test_a_wrong_scale_or_none_ends_within_a_twentieth_of_the_right_width(
    residuals: np.ndarray, scale: float | None
) -> None:
    _, right = play(ScaledResiduals(scale=1.0), residuals)
    predictor, widths = play(ScaledResiduals(scale=scale), residuals)
    assert widths[2000:].mean() == pytest.approx(right[2000:].mean(), rel=0.05)
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


def test_one_outlier_among_the_first_values_does_not_matter(residuals: np.ndarray) -> None:
    spoilt = residuals.copy()
    spoilt[0] = 1e9
    _, widths = play(ScaledResiduals(), spoilt)
    _, clean = play(ScaledResiduals(), residuals)
    assert widths[2000:].mean() == pytest.approx(clean[2000:].mean(), rel=0.05)


def test_until_three_values_are_known_the_interval_is_the_whole_line() -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals())
    for _ in range(3):
        shown = predictor.predict(5.0)
        assert shown.width == math.inf
        predictor.learn(shown, label=6.0)
    assert predictor.predict(5.0).width < math.inf
    assert predictor.mean_size != predictor.mean_size  # NaN: no bounded interval was answered yet
    assert predictor.unbounded_share == 1.0


def test_one_unbounded_interval_leaves_the_mean_of_the_others(residuals: np.ndarray) -> None:
    predictor, widths = play(ScaledResiduals(), residuals[:500])
    bounded = widths[np.isfinite(widths)]
    assert predictor.mean_size == pytest.approx(bounded.mean())
    assert predictor.median_size == pytest.approx(np.median(bounded[-200:]), rel=0.25)
    assert predictor.unbounded_share == pytest.approx(1 - bounded.size / widths.size)


@pytest.mark.parametrize(("side", "sign"), [("upper", 1.0), ("lower", -1.0)])
def test_a_one_sided_bound_is_exceeded_at_the_target_rate(
    residuals: np.ndarray, side: str, sign: float
) -> None:
    predictor, _ = play(ScaledResiduals(side=side), residuals)
    shown = predictor.predict(50.0)
    bound = shown.upper if side == "upper" else shown.lower
    assert bound == pytest.approx(50.0 + sign * 1.2816, abs=0.5)  # the normal's 90 % point
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


def test_bands_are_stretched_until_they_hold(residuals: np.ndarray) -> None:
    predictor = Predictor(alpha=0.1, score=QuantileBands())
    for residual in residuals.tolist():
        shown = predictor.predict((-0.5, 0.5))
        predictor.learn(shown, label=residual)
    assert predictor.predict((-0.5, 0.5)).upper == pytest.approx(1.645, rel=0.2)
    assert abs(predictor.miss_rate - 0.1) < 200 / ROUNDS


@pytest.mark.parametrize("output", [(2.0, 1.0), (1.0, 1.0), 3.0, (1.0, math.nan), (1.0, 2.0, 3.0)])
def test_what_is_no_band_is_named(output: object) -> None:
    with pytest.raises(ScoreError):
        Predictor(alpha=0.1, score=QuantileBands()).predict(output)


@pytest.mark.parametrize("score", [QuantileBands(), ScaledResiduals(), ScaledResiduals(side="upper")])
def test_open_rounds_of_every_kind_are_saved_and_continue(score: ScaledResiduals) -> None:
    output = (1.0, 2.0) if isinstance(score, QuantileBands) else 1.5
    predictor = Predictor(alpha=0.1, score=score)
    for _ in range(5):
        predictor.learn(predictor.predict(output), label=1.75)
    shown = predictor.predict(output)
    loaded: Predictor[Interval] = Predictor.restore(predictor.dump())
    for one in (predictor, loaded):
        one.learn(shown.id, label=1.9)
        one.learn(one.predict(output), MISS)
    assert loaded.dump() == predictor.dump()
