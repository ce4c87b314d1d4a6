"""How wide the intervals of many series must be, from the residuals of all of them."""

import math
from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np

from keyhole.numeric import Array
from keyhole.scores.residuals import list_shape

_MOST = 25  # residuals of a series from which its own offset is found
_RESIDUALS, _STEPS = 150, 3  # memory of the pool: so many residuals, or as many from each series
_LEAST_SIGNED, _MOST_SIGNED = 50, 400  # signed residuals of a series that tell its two sides apart
_FARTHEST, _LARGEST = 4.0, 690.0  # logarithms: of an offset, of any size


class Pool:
    """Forecasts how wide the interval of a series must be, from the residuals of all series.

    The logarithm of a residual is the series' own offset and a shape that all have in common. The
    offset is n / (n + 1) times how far the median of the series' last n is above that of all. The shape
    is a quantile of what residuals had beyond the offset of before, recent ones counting most, and
    of the shape that is assumed of few residuals. From the twenty-fifth residual of a series on
    its width is fixed: by then its own predictor knows better.
    """

    def __init__(self, *, asymmetric: bool = False) -> None:
        self._signed: dict[Hashable, deque[float]] | None = {} if asymmetric else None
        self._own: dict[Hashable, deque[float]] = {}  # logarithms of residuals, the last ones
        self._fixed: dict[tuple[Hashable, float], float] = {}  # by series and alpha
        # Of residuals: the logarithm; n / (n + 1), and the median of the series, as they were before.
        self._seen: list[tuple[float, float, float]] = []
        self._middle, self._least = 0.0, math.inf  # sizes: that of the middle, the smallest above 0
        self._shapes: dict[float, float] = {}  # by alpha; none after a residual has come
        self._places: dict[Hashable, tuple[float, float]] = {}  # by series: what ``_place`` returns

    def find_band(self, series: Hashable, alpha: float) -> tuple[float, float] | None:
        """Return how far below and above its forecast a truth may be; None if nothing is known."""
        signed = None if self._signed is None else self._signed.get(series)
        if signed is not None and len(signed) >= _LEAST_SIGNED:
            return find_shortest(np.array(signed), alpha)
        half = self.find_half(series, alpha)
        return None if half is None else (-half, half)

    def find_half(self, series: Hashable, alpha: float) -> float | None:
        """Return half the width of the next interval; None if nothing is known."""
        if not self._seen:
            return None
        if (series, alpha) in self._fixed:
            return self._fixed[series, alpha]
        if alpha not in self._shapes:
            self._shapes[alpha] = self._find_shape(alpha)
        share, own = self._place(series)
        offset = min(max(share * (own - self._middle), -_FARTHEST), _FARTHEST)
        half = math.exp(min(offset + self._shapes[alpha], _LARGEST))
        if len(self._own.get(series, ())) == _MOST:
            self._fixed[series, alpha] = half
        return half

    def add(self, series: Hashable, residual: float) -> None:
        if self._signed is not None:
            self._signed.setdefault(series, deque(maxlen=_MOST_SIGNED)).append(residual)
        if residual:
            size = math.log(abs(residual))
            self._least = min(self._least, size)
        elif self._seen:
            size = self._least
        else:
            return  # From forecasts that were all exact nothing is known of the width.
        self._seen.append((size, *self._place(series)))
        self._own.setdefault(series, deque(maxlen=_MOST)).append(size)
        self._places.pop(series, None)
        self._shapes.clear()

    def list_state(self) -> list[Any]:
        """Return all that it has heard, to be kept; ``restore`` takes it."""
        return [
            [(series, list(own)) for series, own in self._own.items()],
            [(series, list(signed)) for series, signed in (self._signed or {}).items()],
            list(self._fixed.items()),
            list(self._seen),
            self._least,
        ]

    def restore(self, state: list[Any]) -> None:
        own, signed, fixed, seen, self._least = state
        self._own = {series: deque(values, maxlen=_MOST) for series, values in own}
        if self._signed is not None:
            self._signed = {series: deque(values, maxlen=_MOST_SIGNED) for series, values in signed}
        self._fixed, self._seen = dict(fixed), list(seen)

    def _place(self, series: Hashable) -> tuple[float, float]:
        """Return how far a series stands by itself, n / (n + 1), and the median of its n."""
        known = self._places.get(series)
        if known is None:
            own = sorted(self._own.get(series, (0.0,)))
            count = len(self._own.get(series, ()))
            middle = 0.5 * (own[(len(own) - 1) // 2] + own[len(own) // 2])
            known = self._places[series] = count / (count + 1.0), middle
        return known

    def _find_shape(self, alpha: float) -> float:
        memory = max(_RESIDUALS, _STEPS * len(self._own))
        del self._seen[: -8 * memory]
        sizes, shares, owns = np.array(self._seen).T
        self._middle = float(np.median(sizes))
        beyond = sizes - np.clip(shares * (owns - self._middle), -_FARTHEST, _FARTHEST)
        weights = np.exp((np.arange(beyond.size) + 1.0 - beyond.size) / memory)
        scores, masses = np.array(list_shape())
        values = np.concatenate((beyond, np.median(beyond) + np.log(1.0 / scores - 1.0)))
        weights = np.concatenate((weights, masses))
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        level = 1.0 - alpha * sums[-1] / (1.0 + sums[-1])
        return float(values[order][np.searchsorted(sums, level * sums[-1])])


def find_shortest(residuals: Array, alpha: float) -> tuple[float, float]:
    """Return the ends of the shortest span that holds a share 1 - alpha of these and one more."""
    ordered = np.sort(residuals)
    count = min(math.ceil((1.0 - alpha) * (ordered.size + 1)), ordered.size)
    widths = ordered[count - 1 :] - ordered[: ordered.size - count + 1]
    first = int(np.argmin(widths))
    return float(ordered[first]), float(ordered[first + count - 1])
