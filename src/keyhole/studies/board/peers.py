"""Other libraries, as each of them plays: an interval around 0 for the next error, then the errors.

An error lies in [-1, 1]: of a forecast it is signed, in units of the scenario's bound; of a label it is
1 - score, so that only the upper end of an interval counts. Every peer is told every error that comes
back, missed or not, and begins knowing nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np

from keyhole.numeric import Array

Ends = tuple[float, float]
EVERYTHING = (-1.0, 1.0)
_FEWEST, _RECENT = 50, 500  # errors


class Peer(Protocol):
    """A rule of another library at work."""

    def ask(self) -> Ends:
        """Return the interval of the next error; an end that is NaN is as wide as can be."""

    def learn(self, errors: list[float]) -> None:
        """Take the errors that have come back since."""


@dataclass(frozen=True)
class PeerRule:
    """A rule of another library by the package that brings it.

    ``labels`` is whether it can bound 1 - score; a rule for signed errors has two ends to place, and
    would spend half of its misses on labels that fit too well.
    """

    package: str
    make: Callable[[float], Peer]
    labels: bool = True

    @property
    def installed(self) -> str | None:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


class _Residuals:
    """A rule of online-conformal's."""

    def __init__(self, module: str, name: str, alpha: float) -> None:
        rule = getattr(import_module(f"online_conformal.{module}"), name)
        self._rule = rule(None, None, coverage=1.0 - alpha, max_scale=1.0)
        self._series = import_module("pandas").Series

    def ask(self) -> Ends:
        lower, upper = self._rule.predict(1)
        return float(lower), float(upper)

    def learn(self, errors: list[float]) -> None:
        self._rule.update(self._series(errors), self._series(np.zeros(len(errors))), 1)


class _Adaptive:
    """Adaptive conformal inference of the package of that name.

    Where its level has fallen to 0 it counts a round as covered: it means the set of everything.
    """

    def __init__(self, alpha: float) -> None:
        self._rule = import_module("aci").ACI(alpha=alpha, gamma=0.005, lookback=_RECENT)
        self._ends = self._rule.issue(0.0)

    def ask(self) -> Ends:
        if self._rule.alpha_t <= 0.0:
            return EVERYTHING
        return float(self._ends[0]), float(self._ends[1])

    def learn(self, errors: list[float]) -> None:
        for error in errors:
            self._rule.observe(error)
            self._ends = self._rule.issue(0.0)


class _Split:
    """Split conformal by crepes, fitted anew to the errors so far, or to the last of them."""

    def __init__(self, recent: int | None, alpha: float) -> None:
        self._errors: list[float] = []
        self._recent, self._confidence = recent, 1.0 - alpha
        self._regressor = import_module("crepes").ConformalRegressor

    def ask(self) -> Ends:
        if not self._errors:
            return EVERYTHING
        known = np.array(self._errors if self._recent is None else self._errors[-self._recent :])
        fitted = self._regressor().fit(known)
        lower, upper = fitted.predict_int(np.zeros(1), confidence=self._confidence)[0]
        return float(lower), float(upper)

    def learn(self, errors: list[float]) -> None:
        self._errors += errors


class _Series:
    """MAPIE's regressor for time series, around a forecast that is always 0.

    It keeps as many errors as it was fitted to, so that it is fitted twice: to the first 50, and
    again when there are 500.
    """

    def __init__(self, method: str, alpha: float) -> None:
        make = import_module("mapie.regression").TimeSeriesRegressor
        self._regressor = make(_make_zero_model(), method=method, cv="prefit")
        self._adapts, self._confidence = method == "aci", 1.0 - alpha
        self._first: list[float] = []

    def ask(self) -> Ends:
        if len(self._first) < _FEWEST:
            return EVERYTHING
        _, ends = self._regressor.predict(
            np.zeros((1, 1)), confidence_level=self._confidence, allow_infinite_bounds=True
        )
        return float(ends[0, 0, 0]), float(ends[0, 1, 0])

    def learn(self, errors: list[float]) -> None:
        known = len(self._first)
        if known < _RECENT:
            self._first += errors
        if any(known < size <= len(self._first) for size in (_FEWEST, _RECENT)):
            self._regressor.fit(np.zeros((len(self._first), 1)), np.array(self._first))
        elif known >= _FEWEST:
            for start in range(0, len(errors), _FEWEST):  # it takes no more at a time than it keeps
                self._take(np.array(errors[start : start + _FEWEST]))

    def _take(self, errors: Array) -> None:
        features = np.zeros((errors.size, 1))
        if self._adapts:
            self._regressor.adapt_conformal_inference(
                features, errors, gamma=0.01, confidence_level=self._confidence
            )
        self._regressor.update(features, errors)


def _make_zero_model() -> Any:
    """Return a fitted model of scikit-learn's kind whose forecast is 0."""
    dummy = import_module("sklearn.dummy").DummyRegressor(strategy="constant", constant=0.0)
    return dummy.fit(np.zeros((2, 1)), np.zeros(2))


class _Jackknife:
    """River's jackknife around a model that is always 0."""

    def __init__(self, window: int | None, alpha: float) -> None:
        make = import_module("river.conf").RegressionJackknife
        self._rule = make(_Zero(), confidence_level=1.0 - alpha, window_size=window)

    def ask(self) -> Ends:
        interval = self._rule.predict_one({}, with_interval=True)
        return _read_end(interval.lower), _read_end(interval.upper)

    def learn(self, errors: list[float]) -> None:
        for error in errors:
            self._rule.learn_one({}, error)


class _Zero:
    """A model of river's kind whose forecast is 0."""

    def predict_one(self, _case: object) -> float:
        return 0.0

    def learn_one(self, _case: object, _outcome: float) -> None:
        pass


def _read_end(value: float | None) -> float:
    return math.nan if value is None else float(value)


PEERS: dict[str, PeerRule] = {
    "online-conformal SAOCP": PeerRule("online-conformal", partial(_Residuals, "saocp", "SAOCP")),
    "online-conformal SF-OGD": PeerRule("online-conformal", partial(_Residuals, "ogd", "ScaleFreeOGD")),
    "online-conformal FACI": PeerRule("online-conformal", partial(_Residuals, "faci", "FACI")),
    "ACI (aci)": PeerRule("adaptive-conformal-inference", _Adaptive),
    "crepes, all": PeerRule("crepes", partial(_Split, None)),
    f"crepes, last {_RECENT}": PeerRule("crepes", partial(_Split, _RECENT)),
    "MAPIE EnbPI": PeerRule("mapie", partial(_Series, "enbpi"), labels=False),
    "MAPIE ACI": PeerRule("mapie", partial(_Series, "aci"), labels=False),
    "river jackknife": PeerRule("river", partial(_Jackknife, None), labels=False),
    f"river, last {_RECENT}": PeerRule("river", partial(_Jackknife, _RECENT), labels=False),
}
