"""How wide the intervals of many series must be, from the residuals of all of them."""

import math
from array import array
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from keyhole.numeric import Array
from keyhole.scores.residuals import list_shape

_MOST = 25  # residuals of a series from which its own offset is found
_RESIDUALS, _STEPS = 150, 3  # memory of the pool: so many residuals, or as many from each series
_LEAST_SIGNED, _MOST_SIGNED = 50, 400  # signed residuals of a series that tell its two sides apart
_NOWHERE = (0.0, 0.0)  # where a series stands that nothing is known of
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
        self._ordered: dict[Hashable, list[float]] = {}  # the same, in their order
        self._fixed: dict[float, dict[Hashable, float]] = defaultdict(dict)  # by alpha and series
        # Of residuals: the logarithm; n / (n + 1), and the median of the series, as they were before.
        self._seen = array("d"), array("d"), array("d")
        self._middle, self._least = 0.0, math.inf  # sizes: that of the middle, the smallest above 0
        self._shapes: dict[float, float] = {}  # by alpha; none after a residual has come
        # By series: how far it stands by itself, n / (n + 1), and the median of its n.
        self._places: dict[Hashable, tuple[float, float]] = {}

    def find_band(self, series: Hashable, alpha: float) -> tuple[float, float] | None:
        """Return how far below and above its forecast a truth may be; None if nothing is known."""
        ((lower, upper),) = self.find_bands([series], alpha)
        return None if math.isnan(upper) else (lower, upper)

    def find_bands(self, each: Sequence[Hashable], alpha: float) -> list[tuple[float, float]]:
        """Return the bands of several series, no residual between them; NaN if nothing is known."""
        if self._signed is None:
            return [(-half, half) for half in self._find_halves(each, alpha)]
        bands = []
        for series in each:
            signed = self._signed.get(series, ())
            if len(signed) >= _LEAST_SIGNED:
                bands.append(find_shortest(np.array(signed), alpha))
            else:
                bands += [(-half, half) for half in self._find_halves([series], alpha)]
        return bands

    def find_half(self, series: Hashable, alpha: float) -> float | None:
        """Return half the width of the next interval; None if nothing is known."""
        (half,) = self._find_halves([series], alpha)
        return None if math.isnan(half) else half

    def _find_halves(self, each: Sequence[Hashable], alpha: float) -> Iterator[float]:
        fixed, places, own, shapes = self._fixed[alpha], self._places, self._own, self._shapes
        for series in each:
            half = fixed.get(series, math.nan)
            if half != half and self._seen[0]:
                if alpha not in shapes:
                    shapes[alpha] = self._find_shape(alpha)
                share, middle = places.get(series, _NOWHERE)
                offset = min(max(share * (middle - self._middle), -_FARTHEST), _FARTHEST)
                half = math.exp(min(offset + shapes[alpha], _LARGEST))
                if len(own.get(series, ())) == _MOST:
                    fixed[series] = half
            yield half

    def add(self, series: Hashable, residual: float) -> None:
        self.add_all([series], [residual])

    def add_all(self, each: Sequence[Hashable], residuals: Sequence[float]) -> None:
        """Hear the residuals of several series, one after the other."""
        (sizes, shares, middles), places = self._seen, self._places
        for series, residual in zip(each, residuals, strict=True):
            if self._signed is not None:
                self._signed.setdefault(series, deque(maxlen=_MOST_SIGNED)).append(residual)
            if residual:
                size = math.log(abs(residual))
                self._least = min(self._least, size)
            elif sizes:
                size = self._least
            else:
                continue  # From forecasts that were all exact nothing is known of the width.
            share, middle = places.get(series, _NOWHERE)
            sizes.append(size)
            shares.append(share)
            middles.append(middle)
            places[series] = self._place(series, size)
        self._shapes.clear()

    def _place(self, series: Hashable, size: float) -> tuple[float, float]:
        """Add a size to those of a series; return how far it stands by itself, and their median."""
        own = self._own.get(series)
        if own is None:
            own, self._ordered[series] = self._own.setdefault(series, deque()), []
        ordered = self._ordered[series]
        if len(own) == _MOST:
            del ordered[bisect_left(ordered, own.popleft())]
        own.append(size)
        insort(ordered, size)
        count = len(ordered)
        return count / (count + 1.0), 0.5 * (ordered[(count - 1) // 2] + ordered[count // 2])

    def list_state(self) -> list[Any]:
        """Return all that it has heard, to be kept; ``restore`` takes it."""
        return [
            [(series, list(own)) for series, own in self._own.items()],
            [(series, list(signed)) for series, signed in (self._signed or {}).items()],
            [(alpha, list(fixed.items())) for alpha, fixed in self._fixed.items()],
            [list(column) for column in self._seen],
            self._least,
        ]

    def restore(self, state: list[Any]) -> None:
        owns, signed, fixed, seen, self._least = state
        for series, sizes in owns:
            for size in sizes:
                self._places[series] = self._place(series, size)
        if self._signed is not None:
            self._signed = {series: deque(values, maxlen=_MOST_SIGNED) for series, values in signed}
        self._fixed.update((alpha, dict(halves)) for alpha, halves in fixed)
        for column, values in zip(self._seen, seen, strict=True):
            column.extend(values)

    def _find_shape(self, alpha: float) -> float:
        memory = max(_RESIDUALS, _STEPS * len(self._own))
        for column in self._seen:
            del column[: -8 * memory]
        sizes, shares, owns = (np.array(column) for column in self._seen)
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
