"""How wide the intervals of many series must be, from the residuals of all of them."""

import math
from collections import defaultdict, deque
from collections.abc import Hashable, MutableSequence, Sequence
from typing import Any

import numpy as np

from keyhole.errors import SnapshotError
from keyhole.numeric import Array, Counts
from keyhole.scores.residuals import list_shape

_VERSION = 1  # of the state
_MOST = 25  # residuals of a series that are kept
_RESIDUALS, _STEPS = 150, 3  # memory of a shape: so many residuals, or as many from each series
_LEAST_SIGNED, _MOST_SIGNED = 50, 400  # signed residuals of a series that tell its two sides apart
_FARTHEST, _LARGEST = 8.0, 690.0  # logarithms: of what the size of a forecast changes, of any size
_RIDGE = 5.0  # squares of logarithms that forecasts must differ by before their sizes tell anything
# Variances of roots over their squared mean, within a series and from series to series, that count as
# if ten series had shown them: the first is that of Laplace's residuals, the other twice it.
_WITHIN, _BETWEEN, _ASSUMED = 0.27, 0.54, 10.0
_UNKNOWN = (math.nan, 0.0, 0.0)

# The logarithm of a width, by that of the forecast's size: its value at a level, the slope, the level.
Line = tuple[float, float, float]


class ResidualPool:
    """Forecasts how wide the interval of a series must be, from the residuals of all series.

    The last residuals of every series are kept, and a ``_Fit`` to all of them gives the width of each.
    From the twenty-fifth residual of a series on, its width depends on its forecast alone: by then its
    own predictor knows better.
    """

    def __init__(self, *, asymmetric: bool = False) -> None:
        self._signed: dict[Hashable, deque[float]] | None = {} if asymmetric else None
        self._rows: dict[Hashable, int] = {}  # by series: its place in the next two
        self._counts: list[int] = []
        # The residuals of each series, the last one behind the others; of each its value, its forecast
        # and how many the pool had heard before.
        self._kept = np.full((1, _MOST, 3), math.nan)
        self._heard = 0
        self._fixed: dict[float, dict[Hashable, Line]] = defaultdict(dict)  # by alpha and series
        self._fit: _Fit | None = None  # none after a residual has come

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
        fixed = self._fixed[alpha]
        lines = np.array([fixed.get(series, _UNKNOWN) for series in each]).reshape(-1, 3)
        new = np.flatnonzero(np.isnan(lines[:, 0])).tolist()
        kept = self._kept[: len(self._rows)]
        if new and self._fit is None and (np.abs(kept[:, :, 0]) > 0.0).any():
            self._fit = _Fit(kept, self._heard)
        if new and self._fit is not None:
            rows = [self._rows.get(each[place], -1) for place in new]
            lines[new] = self._fit.find_lines(rows, alpha)
            for place, row in zip(new, rows, strict=True):
                if row >= 0 and self._counts[row] == _MOST:
                    fixed[each[place]] = tuple(lines[place].tolist())
        heights, slopes, levels = lines.T
        sizes = heights + _follow(forecasts, slopes, levels)
        halves: list[float] = np.exp(np.minimum(sizes, _LARGEST)).tolist()
        return halves

    def add_all(
        self, each: Sequence[Hashable], forecasts: Sequence[float], residuals: Sequence[float]
    ) -> None:
        for series, forecast, residual in zip(each, forecasts, residuals, strict=True):
            if self._signed is not None:
                self._signed.setdefault(series, deque(maxlen=_MOST_SIGNED)).append(residual)
            self._keep(series, (residual, forecast, self._heard))
            self._heard += 1
        self._fit = None

    def _keep(self, series: Hashable, residual: tuple[float, float, float]) -> None:
        row = self._rows.setdefault(series, len(self._rows))
        if row == len(self._counts):
            self._counts.append(0)
            if row == len(self._kept):
                self._kept = np.concatenate((self._kept, np.full_like(self._kept, math.nan)))
        if self._counts[row] == _MOST:
            self._kept[row, :-1] = self._kept[row, 1:]
        else:
            self._counts[row] += 1
        self._kept[row, self._counts[row] - 1] = residual

    def amend(self, series: Hashable, before: float, after: float) -> None:
        """Correct a residual that was heard, as far as it still counts."""
        if self._signed is not None:
            _replace(self._signed.get(series, deque()), before, after)
        if series in self._rows:
            _replace(self._kept[self._rows[series], :, 0], before, after)
            self._fit = None

    def list_state(self) -> dict[str, Any]:
        counted = zip(self._rows, self._counts, self._kept, strict=False)
        return {
            "version": _VERSION,
            "heard": self._heard,
            "kept": [(series, kept[:count].tolist()) for series, count, kept in counted],
            "signed": [(series, list(signed)) for series, signed in (self._signed or {}).items()],
            "fixed": [(alpha, list(fixed.items())) for alpha, fixed in self._fixed.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        if state.get("version") != _VERSION:
            raise SnapshotError(
                f"the pool of the series has format version {state.get('version')}, this Keyhole reads "
                f"{_VERSION}; make the predictors anew from their table"
            )
        for series, residuals in state["kept"]:
            for residual in residuals:
                self._keep(series, residual)
        self._heard = state["heard"]
        if self._signed is not None:
            self._signed = {one: deque(values, maxlen=_MOST_SIGNED) for one, values in state["signed"]}
        self._fixed.update((alpha, dict(lines)) for alpha, lines in state["fixed"])


class _Fit:
    """What the residuals of all series say of their widths, as long as no other one comes.

    The logarithm of a residual has three parts: the size that forecasts like its own usually have, a
    line through the logarithms of all forecasts and residuals; how far the series is from the line; and
    a shape that all series have in common.

    How far a series is from the line tells the mean root of its residuals beyond it, with the mean of
    all counted in as often as roots vary more within a series than from series to series (Bühlmann's
    credibility). Of few residuals the mean root varies less than their median, and a large one moves it
    less than it does their mean. A new series is where all are.

    The shape is a quantile of what residuals had beyond what was known before them: for a series of n
    residuals, what the last n of their series told. Recent ones count most. Five answers of the shape
    that is assumed of few residuals are among them.
    """

    def __init__(self, kept: Array, heard: int) -> None:
        residuals, forecasts, when = np.moveaxis(kept, 2, 0)
        self._is_kept = ~np.isnan(when)
        self._memory = max(_RESIDUALS, _STEPS * len(kept))
        self._weights = np.exp((when[self._is_kept] + 1.0 - heard) / self._memory)
        sizes, levels = np.abs(residuals), np.abs(forecasts)
        # A residual of 0 has no logarithm, and counts as the smallest other one does.
        sizes = np.log(np.fmax(sizes, sizes[sizes > 0.0].min()))
        levels = levels[levels > 0.0]
        self._level = float(np.log(levels).mean()) if levels.size else 0.0
        above = _compare(forecasts, self._level)
        self._slope = self._find_slope(above[self._is_kept], sizes[self._is_kept])
        self._beyond = sizes - _follow(forecasts, self._slope, self._level)
        self._largest = self._beyond[self._is_kept].max()  # of which roots are parts: none overflows
        roots = np.where(self._is_kept, np.exp(0.5 * (self._beyond - self._largest)), 0.0)
        self._sums = np.zeros((len(kept), _MOST + 1))  # of the first so many roots of each series
        np.cumsum(roots, axis=1, out=self._sums[:, 1:])
        self._counts = self._is_kept.sum(axis=1)
        self._mean = float(roots.sum() / self._counts.sum())
        self._credit = self._find_credit(float((roots * roots).sum()))
        self._shapes: dict[int, tuple[Array, Array]] = {}  # by how many residuals were known

    def _find_slope(self, above: Array, sizes: Array) -> float:
        """Return the slope of a line, less what chance alone would make of it (James and Stein)."""
        squares = float((above * above).sum()) + _RIDGE
        slope = max(float((above * sizes).sum()) / squares, 0.0)
        chance = float((sizes - slope * above).var()) / squares
        return min(max(slope - chance / slope, 0.0), 1.0) if slope else 0.0

    def _find_credit(self, squares: float) -> float:
        """Return how often the mean root of all is counted in: the ratio of two variances."""
        total, series = int(self._counts.sum()), len(self._counts)
        square, assumed = self._mean**2, _ASSUMED * self._mean**2
        known = float((self._sums[:, -1] ** 2 / self._counts).sum())
        within = (squares - known + _WITHIN * assumed) / (total - series + _ASSUMED)
        overall = (squares - total * square) / max(total - 1, 1)
        between = (series * max(overall - within, 0.0) + _BETWEEN * assumed) / (series + _ASSUMED)
        return within / between

    def find_lines(self, rows: list[int], alpha: float) -> Array:
        """Return the lines of series by their rows, -1 of one that is new."""
        counts = np.append(self._counts, 0)[rows]
        heights = self._find_offsets(counts, np.append(self._sums[:, -1], 0.0)[rows])
        for count in np.unique(counts).tolist():
            heights[counts == count] += self._find_shape(count, alpha)
        slope, level = (np.full(len(rows), one) for one in (self._slope, self._level))
        return np.column_stack((heights, slope, level))

    def _find_offsets(self, counts: Counts, sums: Array) -> Array:
        """Return how far series are from the line of which so many roots have these sums."""
        mean = (np.maximum(sums, 0.0) + self._credit * self._mean) / (counts + self._credit)
        return self._largest + 2.0 * np.log(mean)

    def _find_shape(self, count: int, alpha: float) -> float:
        if count not in self._shapes:
            self._shapes[count] = self._list_shape(count)
        values, sums = self._shapes[count]
        level = 1.0 - alpha * sums[-1] / (1.0 + sums[-1])
        return float(values[np.searchsorted(sums, level * sums[-1])])

    def _list_shape(self, count: int) -> tuple[Array, Array]:
        """Return what residuals had beyond what ``count`` before them told, and sums of weights."""
        places = np.arange(_MOST)
        first = np.maximum(places - count, 0)
        before = self._find_offsets(places - first, self._sums[:, places] - self._sums[:, first])
        beyond = (self._beyond - before)[self._is_kept]
        scores, masses = np.array(list_shape())
        values = np.concatenate((beyond, np.median(beyond) + np.log(1.0 / scores - 1.0)))
        order = np.argsort(values)
        return values[order], np.cumsum(np.concatenate((self._weights, masses))[order])


def _compare(forecasts: Array, levels: Array | float) -> Array:
    """Return how far the logarithms of forecasts are above levels; 0 says nothing."""
    sizes = np.abs(forecasts)
    return np.log(sizes, out=np.zeros(sizes.shape) + levels, where=sizes > 0.0) - levels


def _follow(forecasts: Array, slopes: Array | float, levels: Array | float) -> Array:
    """Return how far lines at forecasts are above their levels."""
    return np.clip(slopes * _compare(forecasts, levels), -_FARTHEST, _FARTHEST)


def _replace(values: MutableSequence[float] | Array, before: float, after: float) -> bool:
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
