"""Tables of forecasts as columns: whose each row is, of when, what was forecast, known and came.

A column is kept by its distinct values (``Cells``), so that each value is looked at once. Of a row a
table knows some features by itself: parts of its time, and what the forecasts say.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import Any

import numpy as np

from keyhole.checks import is_missing
from keyhole.errors import InvalidError, LabelError, MissingExtraError, ScoreError
from keyhole.integrations._cases import is_member, list_names
from keyhole.numeric import Array, Counts
from keyhole.scores import QuantileBands, ScaledResiduals, Score

try:
    import narwhals as nw
except ImportError:
    raise MissingExtraError(
        "this adapter needs narwhals; pip install 'keyhole-conformal[frames]'"
    ) from None

Pair = tuple[str, str]
Models = str | Pair | Sequence[str | Pair] | Mapping[str, str | Pair]
Forecasts = Mapping[str, Any]  # a column each, by the name of its model
TABLE = "table"  # what says: all that the table knows


@dataclass(frozen=True)
class Cells:
    """A column by its distinct values: ``codes`` says which of them is that of each row."""

    values: Sequence[Any]
    codes: Counts

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]

    def __len__(self) -> int:
        return len(self.codes)

    def to_list(self) -> list[Any]:
        return [self.values[code] for code in self.codes.tolist()]

    def pick(self, rows: Any) -> "Cells":
        return Cells(self.values, self.codes[rows])

    def spread(self, values: Sequence[Any]) -> Any:
        """Return of every row what stands here for its value, as an array."""
        return np.array(values)[self.codes] if len(values) else self.codes


def read_cells(column: Any) -> Cells:
    """Return a column of a table by its distinct values, None in place of missing ones."""
    numbers = _number(column)
    if numbers is not None:
        _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
        return Cells(column[first.tolist()].to_list(), codes)
    known: dict[Any, int] = {}
    codes = np.array([known.setdefault(one, len(known)) for one in column.to_list()], dtype=np.int64)
    if any(map(is_missing, known)):
        values = [None, *(value for value in known if not is_missing(value))]
        places = {value: place for place, value in enumerate(values)}
        return Cells(values, np.array([places.get(value, 0) for value in known])[codes])
    return Cells(list(known), codes)


def _number(column: Any) -> Any:
    """Return an array that tells the values of a column apart; None if they must be looked at."""
    if not (column.dtype.is_temporal() or column.dtype.is_integer()) or column.is_null().any():
        return None
    if isinstance(column.dtype, nw.Datetime):
        unit = column.dtype.time_unit
        column = column.dt.timestamp(unit if unit != "s" else "ms")  # With a zone they are objects.
    numbers = column.to_numpy()
    return numbers if numbers.dtype.kind in "iuMm" else None


def join_cells(columns: Sequence[Cells]) -> Cells:
    if len(columns) == 1:
        return columns[0]
    first, *rest = columns
    joined = first.codes
    for column in rest:
        joined = joined * len(column.values) + column.codes
    _, rows, codes = np.unique(joined, return_index=True, return_inverse=True)
    return Cells([tuple(column[row] for column in columns) for row in rows], codes)


def rank(values: Sequence[Any]) -> Any:
    places = np.zeros(len(values), dtype=np.int64)
    places[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return places


def read_numbers(column: Any, read: Callable[[Any], float] = float) -> Array:
    """Return a column of numbers, NaN where one is missing; of another type each cell is read."""
    if not column.dtype.is_numeric() or column.dtype.is_decimal():
        return np.array([read(value) for value in column.to_list()])
    return np.array(column.cast(nw.Float64()).to_numpy(), dtype=np.float64)


@dataclass(frozen=True)
class Rows:
    """The rows of a table for one model; each column has an entry for every row."""

    numbers: Any  # which row of the table it is
    series: Cells
    cutoffs: Cells  # when it was forecast; None: just before its time
    times: Cells
    outputs: Sequence[Any]
    truths: Sequence[Any]  # None where it is not known yet
    features: Array  # a row each, NaN where one is missing
    groups: Array  # a row each, 1 for each group that it is in

    def __len__(self) -> int:
        return len(self.times)

    def name(self, row: int) -> str:
        return f"row {self.numbers[row]} ({self.series[row]!r}, {self.times[row]})"

    def pick(self, rows: Counts) -> "Rows":
        return Rows(
            numbers=self.numbers[rows],
            series=self.series.pick(rows),
            cutoffs=self.cutoffs.pick(rows),
            times=self.times.pick(rows),
            outputs=[self.outputs[row] for row in rows],
            truths=[self.truths[row] for row in rows],
            features=self.features[rows],
            groups=self.groups[rows],
        )

    def read_known(self, row: int) -> dict[str, Any]:
        """Return the features and the groups of a row, as ``predict`` takes them."""
        known = {}
        if self.features.shape[1]:
            known["features"] = self.features[row]
        if self.groups.shape[1]:
            known["groups"] = np.flatnonzero(self.groups[row]).tolist()
        return known

    def pick_known(self) -> "Rows":
        """Return the rows whose outcome is known, in order of time."""
        known = np.array([row for row, truth in enumerate(self.truths) if truth is not None], dtype=int)
        ranks = self.times.spread(rank(self.times.values))
        return self.pick(known[np.argsort(ranks[known], kind="stable")])

    def check(self, score: Score[Any]) -> None:
        """Raise before the first round if a forecast or an outcome cannot be read, and say whose."""
        if self._is_plain(score):
            return
        for row, (output, truth) in enumerate(zip(self.outputs, self.truths, strict=True)):
            try:
                case = score.read(output)
                if truth is not None:
                    case.score(truth)
            except (ScoreError, LabelError) as error:
                raise type(error)(f"{self.name(row)}: {error}") from None

    def _is_plain(self, score: Score[Any]) -> bool:
        """Return whether a look at whole columns tells that every row can be read."""
        known = [truth for truth in self.truths if truth is not None]
        if type(score) is ScaledResiduals:
            return _are_finite(self.outputs) and _are_finite(known)
        if type(score) is QuantileBands:
            lower, upper = zip(*self.outputs, strict=True) if self.outputs else ((), ())
            are_finite = _are_finite(lower) and _are_finite(upper) and _are_finite(known)
            return are_finite and bool((np.array(lower) < np.array(upper)).all())
        return False


def _are_finite(values: Sequence[object]) -> bool:
    return set(map(type, values)) <= {float} and bool(np.isfinite(np.array(values, dtype=float)).all())


@dataclass(frozen=True)
class Columns:
    """What the columns of tables are called, and what is read of each row."""

    series: Sequence[str]
    time: str
    truth: str
    cutoff: str
    features: Sequence[str]
    groups: Sequence[str]

    def open(self, table: object, columns: Sequence[str]) -> Any:
        own = [name for name in self.features if name not in KNOWN]
        return read_table(table, [*self.series, self.time, *own, *self.groups, *columns])

    def list_times(self, frame: Any) -> tuple[Cells, Cells]:
        times = read_cells(frame[self.time])
        if self.cutoff not in frame.columns:
            return times, Cells([None], np.zeros(len(times), dtype=np.int64))
        return times, read_cells(frame[self.cutoff])

    def read_rows(self, frame: Any, column: str | Pair, model: str, forecasts: Forecasts) -> Rows:
        outputs = [frame[name].to_list() for name in list_names(column)]
        rows = outputs[0] if isinstance(column, str) else list(zip(*outputs, strict=True))
        return self.make_rows(frame, rows, model, forecasts)

    def read_outcomes(self, table: Any) -> Rows:
        """Return the rows whose outcome is known, in order of time."""
        frame = read_table(table, [*self.series, self.time, self.truth])
        return self.make_rows(frame, [None] * len(frame)).pick_known()

    def make_rows(
        self,
        frame: Any,
        outputs: Sequence[Any],
        model: str = "",
        forecasts: Forecasts | None = None,
    ) -> Rows:
        keys = [read_cells(frame[name]) for name in self.series]
        for name, cells in zip(self.series, keys, strict=True):
            _check_filled(cells, name, "series")
        times, cutoffs = self.list_times(frame)
        _check_filled(times, self.time, "time")
        check_order(times.values, self.time)
        truths = [None] * len(times)
        if self.truth in frame.columns:
            truths = [None if is_missing(one) else one for one in frame[self.truth].to_list()]
        return Rows(
            np.arange(len(times)),
            join_cells(keys),
            cutoffs,
            times,
            outputs,
            truths,
            self._read_features(frame, model, times, cutoffs, forecasts or {}),
            self._read_groups(frame),
        )

    def _read_features(
        self, frame: Any, model: str, times: Cells, cutoffs: Cells, forecasts: Forecasts
    ) -> Array:
        absent = [name for name in self.features if name not in frame.columns]
        known = read_known(absent, model, times, cutoffs, forecasts)
        features = np.full((len(times), len(self.features)), np.nan)
        for place, name in enumerate(self.features):
            if name in frame.columns:
                features[:, place] = read_numbers(frame[name], _read_number)
            elif name in known:
                features[:, place] = known[name]
        return features

    def _read_groups(self, frame: Any) -> Array:
        groups = np.zeros((len(frame), len(self.groups)))
        for place, name in enumerate(self.groups):
            if name in frame.columns:
                groups[:, place] = [is_member(value, name) for value in frame[name].to_list()]
        return groups


def _read_number(value: Any) -> float:
    if is_missing(value):
        return np.nan
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidError(
        f"feature {value!r} is not a number; encode it, or leave it empty where it is missing",
        field="features",
    )


def read_table(table: Any, needed: Sequence[str]) -> Any:
    """Return the table as narwhals sees it, or raise if a column is not there."""
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InvalidError(
            f"{type(table).__name__} is not a table in memory; give a pandas or polars DataFrame"
        ) from None
    for name in needed:
        if name not in frame.columns:
            usual = {"unique_id": "series", "ds": "time", "y": "truth", "cutoff": "cutoff"}.get(name)
            remedy = f"; if yours has another name, write {usual}='...'" if usual else ""
            raise InvalidError(
                f"there is no column {name!r}; the table has {', '.join(frame.columns)}{remedy}"
            )
    return frame


def make_table(columns: Mapping[str, Sequence[Any]], implementation: Any) -> Any:
    return nw.from_dict(dict(columns), backend=implementation).to_native()


def make_column(frame: Any, name: str, values: Sequence[Any]) -> Any:
    return nw.new_series(name, values, backend=frame.implementation)


def name_models(models: Models) -> dict[str, str | Pair]:
    if isinstance(models, Mapping):
        return dict(models)
    if isinstance(models, str):
        return {models: models}
    if isinstance(models, tuple) and len(models) == 2 and all(isinstance(one, str) for one in models):
        return {_name_pair(*models): models}  # type: ignore[arg-type,dict-item]
    named: dict[str, str | Pair] = {}
    for one in models:
        named.update(name_models(one))
    return named


def _name_pair(low: str, high: str) -> str:
    """Return what two columns of quantiles are a model of: "TFT" for "TFT-q10" and "TFT-q90"."""
    parts = [re.split(r"[-_. ]", name) for name in (low, high)]
    common = list(takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False)))
    name = low[: sum(len(part) + 1 for part, _ in common) - 1] if common else ""
    return name or f"{low}-{high}"


def _check_filled(cells: Cells, column: str, what: str) -> None:
    for code, value in enumerate(cells.values):
        if value is None and (rows := np.flatnonzero(cells.codes == code)).size:
            raise InvalidError(
                f"row {rows[0]} has no {what}; fill the column {column!r}, or leave it out"
            )


def check_order(times: Sequence[Any], column: str) -> None:
    try:
        sorted(times)
    except TypeError as error:
        raise InvalidError(
            f"the times in {column!r} have no order ({error}); make them one type"
        ) from None


def find_known(times: Sequence[Any], cutoffs: Sequence[Any], forecasts: Forecasts) -> tuple[str, ...]:
    """Return which features a table knows; none where its times are numbers, which say too little.

    The hour and the weekday count where they vary, the weekday also in a table of one day; the month
    in a table of more than a year whose times are days, as it is too slow a feature for hours.
    """
    if not times or not all(hasattr(time, "weekday") for time in times):
        return ()
    steps = set(map(_find_step, times, cutoffs))
    times = list(set(times))
    months = [12 * time.year + time.month for time in times]
    days = {(time.year, time.month, time.day) for time in times}
    has_hours = any(_READERS["hour"](time) for time in times)
    found = {
        "hour": has_hours,
        "weekday": len(days) == 1 or len({time.weekday() for time in times}) > 1,
        "month": not has_hours and max(months) - min(months) >= 12,
        "horizon": len(steps) > 1,
        "forecast": True,
        "spread": len(forecasts) > 1,
    }
    return tuple(name for name, is_known in found.items() if is_known)


def read_known(
    names: Sequence[str], model: str, times: Cells, cutoffs: Cells, forecasts: Forecasts
) -> dict[str, Any]:
    """Return the features of these names that the table knows by itself, a column each."""
    known = {}
    for name in names:
        if name in _READERS:
            known[name] = times.spread([_READERS[name](time) for time in times.values])
    if "horizon" in names:
        both = join_cells([times, cutoffs])
        steps = [_find_step(time, cutoff) for time, cutoff in both.values]
        known["horizon"] = both.spread([np.nan if step is None else step for step in steps])
    if "forecast" in names and model in forecasts:
        known["forecast"] = forecasts[model]
    if "spread" in names and len(forecasts) > 1:
        rows = np.stack([np.asarray(column, dtype=np.float64) for column in forecasts.values()])
        known["spread"] = rows.max(axis=0) - rows.min(axis=0)
    return known


_READERS: dict[str, Callable[[Any], float]] = {
    "hour": lambda time: getattr(time, "hour", 0) + getattr(time, "minute", 0) / 60,
    "weekday": lambda time: float(time.weekday()),
    "month": lambda time: float(time.month),
}
KNOWN = (*_READERS, "horizon", "forecast", "spread")


def _find_step(time: Any, cutoff: Any) -> float | None:
    """Return how long before its time a row was forecast; None where nobody says when."""
    if is_missing(cutoff):
        return None
    step = time - cutoff
    return step.total_seconds() if isinstance(step, timedelta) else float(step)
