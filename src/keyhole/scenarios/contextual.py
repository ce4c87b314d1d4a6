"""Forecasts whose errors depend on what is known of a case: features, seasons, groups, or nothing.

All are synthetic. An outcome is the forecast plus an error whose spread the scenario decides; the
score is 1 - |error| / 10, clipped to [0, 1], and a set is an interval around the forecast.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.numeric import Array

BOUND = 10.0  # of errors; their spreads are below 3
_HOURS, _DAYS, _YEAR = 24, 7, 24 * 365
_USELESS = 20
_MISSING = 0.1  # of the useless entries


@dataclass(frozen=True, eq=False)
class ForecastScenario:
    """Errors of a forecast, round by round, with what was known beforehand.

    ``changes`` are the rounds at which the relation between the two becomes another.
    """

    errors: Array
    features: Array
    groups: NDArray[np.bool_] | None = None
    changes: tuple[int, ...] = (0,)

    @property
    def scores(self) -> Array:
        return np.clip(1.0 - np.abs(self.errors) / BOUND, 0.0, 1.0)

    def sizes(self, thresholds: Array) -> Array:
        return 2.0 * BOUND * (1.0 - np.clip(thresholds, 0.0, 1.0))


def heteroscedastic(rounds: int, *, seed: int) -> ForecastScenario:
    """Return errors whose spread grows with the first of three features, whose largest are a group."""
    rng = _generator(rounds, seed)
    values = rng.random((rounds, 3))
    spread = 0.2 + 2.0 * values[:, 0] ** 2
    return ForecastScenario(
        spread * rng.standard_normal(rounds),
        values,
        values[:, :1] > 0.7,
    )


def hourly(rounds: int, *, seed: int) -> ForecastScenario:
    """Return the hours of years: errors follow the hour, the weekend and the season."""
    rng = _generator(rounds, seed)
    time = np.arange(rounds) + int(rng.integers(_YEAR))
    hour, weekday = time % _HOURS, time // _HOURS % _DAYS
    season = 0.5 - 0.5 * np.cos(2.0 * np.pi * time / _YEAR)
    load = season + 0.3 * np.sin(2.0 * np.pi * hour / _HOURS) + 0.1 * rng.standard_normal(rounds)
    spread = (0.3 + 1.2 * season) * np.where(hour < 6, 0.5, 1.0) * np.where(weekday >= 5, 1.4, 1.0)
    return ForecastScenario(
        spread * rng.standard_normal(rounds),
        np.column_stack((hour, weekday, time % _YEAR * 12 // _YEAR, load)).astype(np.float64),
        np.column_stack((hour < 6, weekday >= 5, season > 0.75)),
    )


def overlapping(rounds: int, *, seed: int) -> ForecastScenario:
    """Return rounds in up to four groups at once; each multiplies the spread by a factor of its own."""
    rng = _generator(rounds, seed)
    shares, factors = np.array([0.5, 0.3, 0.15, 0.05]), np.array([1.5, 0.6, 2.0, 1.8])
    members = rng.random((rounds, 4)) < shares
    spread = 0.5 * np.where(members, factors, 1.0).prod(axis=1)
    forecast = 10.0 + rng.standard_normal((rounds, 1))
    return ForecastScenario(
        spread * rng.standard_normal(rounds),
        forecast,
        members,
    )


def useless(rounds: int, *, seed: int) -> ForecastScenario:
    """Return twenty features that say nothing, a tenth of their entries missing."""
    rng = _generator(rounds, seed)
    values = rng.standard_normal((rounds, _USELESS))
    values[rng.random(values.shape) < _MISSING] = np.nan
    return ForecastScenario(rng.standard_normal(rounds), values)


def reversal(rounds: int, *, seed: int) -> ForecastScenario:
    """Return a spread that rises with a feature, and from halfway on falls with it."""
    rng = _generator(rounds, seed)
    values = rng.random((rounds, 2))
    half = rounds // 2
    strained = np.where(np.arange(rounds) < half, values[:, 0], 1.0 - values[:, 0])
    return ForecastScenario(
        (0.2 + 1.8 * strained) * rng.standard_normal(rounds),
        values,
        changes=(0, half),
    )


def _generator(rounds: int, seed: int) -> np.random.Generator:
    if rounds < 2:
        raise InvalidError(f"{rounds} rounds are too few for a scenario; use at least 2")
    return np.random.default_rng(seed)


CONTEXTUAL: dict[str, Callable[..., ForecastScenario]] = {
    "heteroscedastic": heteroscedastic,
    "hourly": hourly,
    "overlapping-groups": overlapping,
    "useless-features": useless,
    "reversal": reversal,
}
