"""How wide the intervals of many series must be, from the residuals of all of them."""

import math
from collections import deque
from collections.abc import Hashable
from statistics import median
from typing import Any

import numpy as np

from keyhole.scores.residuals import list_shape

_MOST = 25  # residuals of a series from which its own offset is found
_RESIDUALS, _STEPS = 150, 3  # memory of the pool: so many residuals, or as many from each series
_FARTHEST, _LARGEST = 4.0, 690.0  # logarithms: of an offset, of any size


class Pool:
    """Forecasts how wide the interval of a series must be, from the residuals of all series.

    The logarithm of a residual is the series' own offset and a shape that all have in common. The
    offset is n / (n + 1) times how far the median of the series' last n is above that of all. The shape
    is a quantile of what residuals had beyond the offset of before, recent ones counting most, and
    of the shape that is assumed of few residuals. From the twenty-fifth residual of a series on
    its width is fixed: by then its own predictor knows better.
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._own: dict[Hashable, deque[float]] = {}  # logarithms of residuals, the last ones
        self._fixed: dict[Hashable, float] = {}
        # Of residuals: the logarithm; n / (n + 1), and the median of the series, as they were before.
        self._seen: list[tuple[float, float, float]] = []
        self._middle = self._shape = 0.0
        self._is_stale = False

    def find_half(self, series: Hashable) -> float | None:
        """Return half the width of the next interval; None if nothing is known."""
        if not self._seen:
            return None
        if series in self._fixed:
            return self._fixed[series]
        if self._is_stale:
            self._refresh()
        share, own = self._place(series)
        half = math.exp(min(float(_find_offset(share, own, self._middle)) + self._shape, _LARGEST))
        if len(self._own.get(series, ())) == _MOST:
            self._fixed[series] = half
        return half

    def add(self, series: Hashable, residual: float) -> None:
        size = math.log(abs(residual)) if residual else -_LARGEST
        self._seen.append((size, *self._place(series)))
        self._own.setdefault(series, deque(maxlen=_MOST)).append(size)
        self._is_stale = True

    def _place(self, series: Hashable) -> tuple[float, float]:
        """Return how far a series stands by itself, n / (n + 1), and the median of its n."""
        own = self._own.get(series)
        return (0.0, 0.0) if own is None else (len(own) / (len(own) + 1.0), median(own))

    def _refresh(self) -> None:
        memory = max(_RESIDUALS, _STEPS * len(self._own))
        del self._seen[: -8 * memory]
        sizes, shares, owns = np.array(self._seen).T
        self._middle = float(np.median(sizes))
        beyond = sizes - _find_offset(shares, owns, self._middle)
        weights = np.exp((np.arange(beyond.size) + 1.0 - beyond.size) / memory)
        scores, masses = np.array(list_shape()).T
        values = np.concatenate((beyond, np.median(beyond) + np.log(1.0 / scores - 1.0)))
        weights = np.concatenate((weights, masses))
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        level = 1.0 - self._alpha * sums[-1] / (1.0 + sums[-1])
        self._shape = float(values[order][np.searchsorted(sums, level * sums[-1])])
        self._is_stale = False


def _find_offset(share: Any, own: Any, middle: float) -> Any:
    return np.clip(share * (own - middle), -_FARTHEST, _FARTHEST)
