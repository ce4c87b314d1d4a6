"""How wide the intervals of many series must be, from the residuals of all of them."""

import math
from array import array
from collections import defaultdict, deque
from collections.abc import Hashable, MutableSequence, Sequence
from typing import Any

import numpy as np

from keyhole.numeric import Array
from keyhole.scores.residuals import list_shape

_MOST = 25  # residuals of a series from which its own offset is found
_RESIDUALS, _STEPS = 150, 3  # memory of the pool: so many residuals, or as many from each series
_LEAST_SIGNED, _MOST_SIGNED = 50, 400  # signed residuals of a series that tell its two sides apart
_NOWHERE = (0.0, 0.0)  # where a series stands that nothing is known of
_FARTHEST, _LARGEST = 4.0, 690.0  # logarithms: of a part of an offset, of any size
_RIDGE = 5.0  # squares of logarithms that forecasts must differ by before their sizes tell anything


class ResidualPool:
    """Forecasts how wide the interval of a series must be, from the residuals of all series.

    The logarithm of a residual is the series' own offset and a shape that all have in common. The
    offset of a new series is what a forecast of such a size usually has: a line through the logarithms
    of all forecasts and residuals. After n residuals it has moved n / (n + 1) of the way from there to
    how far the middle of the series' last n is above that of all. The middle is the square of the mean
    root: of few residuals it varies less than their median, and a large one moves it less than it does
    their mean. The shape is a quantile of what residuals had beyond the offset of before, recent ones
    counting most, and of the shape that is assumed of few residuals. From the twenty-fifth residual of
    a series on its width is fixed: by then its own predictor knows better.
    """

    def __init__(self, *, asymmetric: bool = False) -> None:
        self._signed: dict[Hashable, deque[float]] | None = {} if asymmetric else None
        self._own: dict[Hashable, deque[float]] = {}  # roots of residuals, the last ones
        self._exact: dict[Hashable, list[float]] = {}  # logarithms that stand for residuals of 0
        self._fixed: dict[float, dict[Hashable, float]] = defaultdict(dict)  # by alpha and series
        # Of residuals: the logarithm; n / (n + 1), and the middle of the series, as they were before;
        # and the size of the forecast.
        self._seen = array("d"), array("d"), array("d"), array("d")
        self._middle, self._least = 0.0, math.inf  # sizes: that of the middle, the smallest above 0
        self._slope, self._level = 0.0, 0.0  # of the line, and the forecasts' mean logarithm
        self._shapes: dict[float, float] = {}  # by alpha; none after a residual has come
        # By series: how far it stands by itself, n / (n + 1), and the middle of its n.
        self._places: dict[Hashable, tuple[float, float]] = {}

    def find_bands(
        self, each: Sequence[Hashable], forecasts: Array, alpha: float
    ) -> list[tuple[float, float]]:
        """Return how far below and above its forecast the truth of each series may be.

        No residual comes between them; NaN if nothing is known.
        """
        halves = self._find_halves(each, forecasts, alpha)
        if self._signed is None:
            return [(-half, half) for half in halves]
        bands = []
        for series, half in zip(each, halves, strict=True):
            signed = self._signed.get(series, ())
            enough = len(signed) >= _LEAST_SIGNED
            bands.append(find_shortest(np.array(signed), alpha) if enough else (-half, half))
        return bands

    def _find_halves(self, each: Sequence[Hashable], forecasts: Array, alpha: float) -> list[float]:
        fixed, own = self._fixed[alpha], self._own
        halves = [fixed.get(series, math.nan) for series in each]
        new = [place for place, half in enumerate(halves) if half != half]  # NaN
        if not new or not self._seen[0]:
            return halves
        if alpha not in self._shapes:
            self._shapes[alpha] = self._find_shape(alpha)
        shares, middles = np.array([self._places.get(each[place], _NOWHERE) for place in new]).T
        offsets = self._find_offsets(shares, middles, forecasts[new])
        found = np.exp(np.minimum(offsets + self._shapes[alpha], _LARGEST)).tolist()
        for place, half in zip(new, found, strict=True):
            halves[place] = half
            if len(own.get(each[place], ())) == _MOST:
                fixed[each[place]] = half
        return halves

    def _find_offsets(self, shares: Array, middles: Array, forecasts: Array) -> Array:
        usual = np.clip(self._slope * self._compare_levels(forecasts), -_FARTHEST, _FARTHEST)
        return usual + np.clip(shares * (middles - self._middle - usual), -_FARTHEST, _FARTHEST)

    def _compare_levels(self, forecasts: Array) -> Array:
        """Return how far the logarithms of forecasts are above the mean; 0 says nothing."""
        sizes = np.abs(forecasts)
        return np.log(sizes, out=np.full(sizes.shape, self._level), where=sizes > 0.0) - self._level

    def add_all(
        self, each: Sequence[Hashable], forecasts: Sequence[float], residuals: Sequence[float]
    ) -> None:
        places, (sizes, shares, middles, heard) = self._places, self._seen
        for series, forecast, residual in zip(each, forecasts, residuals, strict=True):
            if self._signed is not None:
                self._signed.setdefault(series, deque(maxlen=_MOST_SIGNED)).append(residual)
            if residual == 0.0 and not self._seen[0]:
                continue  # From forecasts that were all exact nothing is known of the width.
            size = self._measure(series, residual)
            share, middle = places.get(series, _NOWHERE)
            sizes.append(size)
            shares.append(share)
            middles.append(middle)
            heard.append(forecast)
            own = self._own.get(series)
            if own is None:
                own = self._own[series] = deque(maxlen=_MOST)
            own.append(math.exp(0.5 * size))
            places[series] = _place(own)
        self._shapes.clear()

    def _measure(self, series: Hashable, residual: float) -> float:
        """Return the logarithm of a residual, of 0 that of the smallest other."""
        if residual == 0.0:
            exact = self._exact.setdefault(series, [])
            exact.append(self._least)
            del exact[:-_MOST]
            return self._least
        size = math.log(abs(residual))
        self._least = min(self._least, size)
        return size

    def amend(self, series: Hashable, before: float, after: float) -> None:
        """Correct a residual that was heard, as far as it still counts."""
        if self._signed is not None:
            _replace(self._signed.get(series, deque()), before, after)
        exact = self._exact.get(series, [])
        if self._seen[0] and (before or exact):
            old = math.log(abs(before)) if before else exact.pop()
            new = self._measure(series, after)
            own = self._own.get(series, deque())
            if _replace(own, math.exp(0.5 * old), math.exp(0.5 * new)):
                self._places[series] = _place(own)
            _replace(self._seen[0], old, new)
            self._shapes.clear()

    def list_state(self) -> list[Any]:
        return [
            [(series, list(own)) for series, own in self._own.items()],
            [(series, list(signed)) for series, signed in (self._signed or {}).items()],
            [(alpha, list(fixed.items())) for alpha, fixed in self._fixed.items()],
            [list(column) for column in self._seen],
            self._least,
            [(series, list(sizes)) for series, sizes in self._exact.items()],
        ]

    def restore(self, state: list[Any]) -> None:
        owns, signed, fixed, seen, self._least, *exact = state  # Older files lack the last.
        self._exact = dict(*exact)
        for series, roots in owns:
            own = self._own[series] = deque(roots, maxlen=_MOST)
            self._places[series] = _place(own)
        if self._signed is not None:
            self._signed = {series: deque(values, maxlen=_MOST_SIGNED) for series, values in signed}
        self._fixed.update((alpha, dict(halves)) for alpha, halves in fixed)
        for column, values in zip(self._seen, seen, strict=True):
            column.extend(values)

    def _find_shape(self, alpha: float) -> float:
        memory = max(_RESIDUALS, _STEPS * len(self._own))
        for column in self._seen:
            del column[: -8 * memory]
        sizes, shares, owns, forecasts = (np.array(column) for column in self._seen)
        self._middle = 2.0 * math.log(np.exp(0.5 * sizes).mean())
        known = np.abs(forecasts[forecasts != 0.0])
        self._level = float(np.log(known).mean()) if known.size else 0.0
        levels = self._compare_levels(forecasts)
        self._slope = min(max(float(levels @ sizes / (levels @ levels + _RIDGE)), 0.0), 1.0)
        beyond = sizes - self._find_offsets(shares, owns, forecasts)
        weights = np.exp((np.arange(beyond.size) + 1.0 - beyond.size) / memory)
        scores, masses = np.array(list_shape())
        values = np.concatenate((beyond, np.median(beyond) + np.log(1.0 / scores - 1.0)))
        weights = np.concatenate((weights, masses))
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        level = 1.0 - alpha * sums[-1] / (1.0 + sums[-1])
        return float(values[order][np.searchsorted(sums, level * sums[-1])])


def _place(own: deque[float]) -> tuple[float, float]:
    """Return how far a series stands by itself, and the middle of its residuals: of their roots."""
    return len(own) / (len(own) + 1.0), 2.0 * math.log(sum(own) / len(own))


def _replace(values: MutableSequence[float], before: float, after: float) -> bool:
    for place in range(len(values) - 1, -1, -1):
        if values[place] == before:
            values[place] = after
            return True
    return False


def find_shortest(residuals: Array, alpha: float) -> tuple[float, float]:
    """Return the ends of the shortest span that holds a share 1 - alpha of these and one more."""
    ordered = np.sort(residuals)
    count = min(math.ceil((1.0 - alpha) * (ordered.size + 1)), ordered.size)
    widths = ordered[count - 1 :] - ordered[: ordered.size - count + 1]
    first = int(np.argmin(widths))
    return float(ordered[first]), float(ordered[first + count - 1])
