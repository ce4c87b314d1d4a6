"""Intervals of the libraries that PyPI has, on forecasts in batches; run by forecasts.py.

Reads streams as JSON on standard input, ``{name: {"truth": [...], "forecast": [...], "batch": 24}}``.
Writes for each stream and peer the intervals, the forecast where the peer makes its own, and seconds.
An argument names the peers to run.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

ALPHA, START = 0.1, 56  # batches that every peer has to calibrate on before the first interval
RECENT = 56  # batches of the rolling window of crepes
Ends = tuple[list[float], list[float], list[float] | None]


def play(stream: dict[str, Any], step: Callable[[int, int], Any]) -> Ends:
    """Return the ends of the intervals of every batch after the start; NaN before."""
    size, batch = len(stream["truth"]), stream["batch"]
    lower, upper = np.full(size, np.nan), np.full(size, np.nan)
    for first in range(START * batch, size, batch):
        last = min(first + batch, size)
        lower[first:last], upper[first:last] = step(first, last)
    return lower.tolist(), upper.tolist(), None


def crepes(stream: dict[str, Any], *, recent: int | None) -> Ends:
    """Split conformal, fitted anew before every batch, to all residuals or to the last ones."""
    from crepes import ConformalRegressor

    forecast = np.array(stream["forecast"])
    residuals = np.array(stream["truth"]) - forecast

    def step(first: int, last: int) -> Any:
        begin = 0 if recent is None else max(0, first - recent * stream["batch"])
        fitted = ConformalRegressor().fit(residuals[begin:first])
        return fitted.predict_int(forecast[first:last], confidence=1 - ALPHA).T

    return play(stream, step)


def mapie(stream: dict[str, Any], *, method: str) -> Ends:
    """MAPIE's time-series regressor around the forecasts, told every batch."""
    from mapie.regression import TimeSeriesRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Given(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        """A model whose forecast is its one feature."""

        def fit(self, features: Any, _: Any) -> Any:
            self.is_fitted_ = True
            self.n_features_in_ = features.shape[1]
            return self

        def predict(self, features: Any) -> Any:
            return np.asarray(features)[:, 0]

    features, truth = np.array(stream["forecast"])[:, None], np.array(stream["truth"])
    begin = START * stream["batch"]
    model = Given().fit(features, truth)
    regressor = TimeSeriesRegressor(model, method=method, cv="prefit")
    regressor.fit(features[:begin], truth[:begin])

    def step(first: int, last: int) -> Any:
        given = features[first:last]
        _, ends = regressor.predict(given, confidence_level=1 - ALPHA, allow_infinite_bounds=True)
        told = given, truth[first:last]
        if method == "aci":
            regressor.adapt_conformal_inference(*told, gamma=0.01, confidence_level=1 - ALPHA)
        regressor.update(*told)
        return ends[:, 0, 0], ends[:, 1, 0]

    return play(stream, step)


def online_conformal(stream: dict[str, Any], *, name: str) -> Ends:
    """Salesforce's rules on the residuals, asked before every batch and told each of its truths."""
    import pandas as pd
    from online_conformal.faci import FACI
    from online_conformal.ogd import ScaleFreeOGD
    from online_conformal.saocp import SAOCP

    rule = {"SAOCP": SAOCP, "SF-OGD": ScaleFreeOGD, "FACI": FACI}[name]
    forecast, truth = np.array(stream["forecast"]), np.array(stream["truth"])
    begin = START * stream["batch"]
    scale = float(np.abs(truth - forecast)[:begin].max())
    predictor = rule(None, None, coverage=1 - ALPHA, max_scale=scale)

    def tell(first: int, last: int) -> None:
        for one in range(first, last):
            predictor.predict(1)
            predictor.update(pd.Series([truth[one]]), pd.Series([forecast[one]]), 1)

    tell(0, begin)

    def step(first: int, last: int) -> Any:
        low, high = predictor.predict(1)
        tell(first, last)
        return forecast[first:last] + low, forecast[first:last] + high

    return play(stream, step)


def statsforecast(stream: dict[str, Any]) -> Ends:
    """Nixtla's conformal intervals of a seasonal naive model, fitted anew before every batch."""
    import pandas as pd
    from statsforecast import StatsForecast
    from statsforecast.models import SeasonalNaive
    from statsforecast.utils import ConformalIntervals

    truth, batch = np.array(stream["truth"]), stream["batch"]
    batches = truth.size // batch - START
    table = pd.DataFrame({"unique_id": "a", "ds": np.arange(truth.size), "y": truth})
    done = StatsForecast(models=[SeasonalNaive(7 * batch)], freq=1).cross_validation(
        h=batch, df=table, n_windows=batches, step_size=batch, level=[90],
        prediction_intervals=ConformalIntervals(n_windows=28, h=batch),
    )  # fmt: skip
    return _place(truth.size, done["ds"], done["SeasonalNaive-lo-90"], done["SeasonalNaive-hi-90"],
                  done["SeasonalNaive"])  # fmt: skip


def darts(stream: dict[str, Any], *, symmetric: bool) -> Ends:
    """Darts' conformal model around a regression on the same hours of the week before."""
    from darts import TimeSeries
    from darts.models import ConformalNaiveModel, LinearRegressionModel

    truth, batch = np.array(stream["truth"]), stream["batch"]
    series, begin = TimeSeries.from_values(truth), START * batch
    base = LinearRegressionModel(
        lags=list(range(-7 * batch, -6 * batch)), output_chunk_length=batch
    ).fit(series[:begin])
    model = ConformalNaiveModel(
        base, quantiles=[ALPHA / 2, 0.5, 1 - ALPHA / 2], symmetric=symmetric, cal_length=28,
        cal_stride=batch,
    )  # fmt: skip
    done = model.historical_forecasts(
        series, forecast_horizon=batch, stride=batch, start=begin, start_format="value",
        last_points_only=False, retrain=False, predict_likelihood_parameters=True, verbose=False,
    )  # fmt: skip
    times = np.concatenate([one.time_index.to_numpy() for one in done])
    low, middle, high = np.concatenate([one.values() for one in done]).T
    return _place(truth.size, times, low, high, middle)


def _place(size: int, times: Any, lower: Any, upper: Any, forecast: Any) -> Ends:
    columns = []
    for values in (lower, upper, forecast):
        column = np.full(size, np.nan)
        column[np.asarray(times, dtype=int)] = np.asarray(values)
        columns.append(column.tolist())
    return columns[0], columns[1], columns[2]


PEERS: dict[str, Callable[[dict[str, Any]], Ends]] = {
    "crepes, all residuals": lambda stream: crepes(stream, recent=None),
    f"crepes, last {RECENT} batches": lambda stream: crepes(stream, recent=RECENT),
    "MAPIE EnbPI": lambda stream: mapie(stream, method="enbpi"),
    "MAPIE ACI": lambda stream: mapie(stream, method="aci"),
    "online-conformal SAOCP": lambda stream: online_conformal(stream, name="SAOCP"),
    "online-conformal SF-OGD": lambda stream: online_conformal(stream, name="SF-OGD"),
    "online-conformal FACI": lambda stream: online_conformal(stream, name="FACI"),
    "statsforecast": statsforecast,
    "darts": lambda stream: darts(stream, symmetric=True),
    "darts, asymmetric": lambda stream: darts(stream, symmetric=False),
}


def main() -> None:
    warnings.simplefilter("ignore")
    streams = json.load(sys.stdin)
    for name, stream in streams.items():
        for peer in sys.argv[1:]:
            began = time.perf_counter()
            try:
                lower, upper, own = PEERS[peer](stream)
            except Exception as error:  # noqa: BLE001 - a peer that fails is a row that says so
                said = {"stream": name, "peer": peer, "failed": f"{type(error).__name__}: {error}"}
                print(json.dumps(said), flush=True)
                continue
            seconds = time.perf_counter() - began
            said = {"stream": name, "peer": peer, "lower": lower, "upper": upper, "forecast": own}
            print(json.dumps({**said, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
