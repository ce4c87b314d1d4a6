"""Tables of forecasts or of class probabilities, in pandas, polars or what else narwhals reads.

A table in the form of statsforecast and its kin: one row a series (``unique_id``) and time (``ds``),
a column with the model's forecast, and the outcome ``y`` where it is known. ``cutoff``, where there
is such a column, is when the row was forecast; without it, just before ``ds``.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keyhole.errors import InvalidError, LabelError, MissingExtraError, ScoreError
from keyhole.integrations._cases import is_missing, read_case, start_predictor
from keyhole.integrations._pool import Pool
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, Probabilities, QuantileBands, ScaledResiduals, Score

try:
    import narwhals as nw
except ImportError:
    raise MissingExtraError(
        "this adapter needs narwhals; pip install 'keyhole-conformal[frames]'"
    ) from None

__all__ = ["SeriesPredictors"]

_NOTHING_KNOWN = Interval(-1, 0.0, -math.inf, math.inf)  # what is shown before any outcome is known


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    series: Hashable
    cutoff: Any  # when it was forecast; None: just before its time
    time: Any
    output: object
    truth: object  # None where it is not known yet
    known: dict[str, Any]  # its features and groups


class _Open(NamedTuple):
    """A row that waits for its outcome: its round, and for the pool its forecast."""

    round: int  # -1 if there is none, as nothing was known when it was forecast
    forecast: Any


class SeriesPredictors:
    """A predictor for every series of a table, made when the series is first seen.

    Parameters
    ----------
    alpha
        The share of intervals or sets, in each series, that may miss.
    score
        How to read a forecast; by default ``keyhole.ScaledResiduals`` for intervals and
        ``keyhole.Probabilities`` for sets.
    features, groups
        The names of the columns of features, and of those that say, by true or false, or 1 or 0,
        whether a row is in a group that must be covered separately.
    learner, feedback, seed, history
        As for ``keyhole.Predictor``, for each series; series n has the seed ``seed + n``.
    pool
        Whether intervals of the default score start from what the other series have shown; each
        predictor then corrects a band (``keyhole.QuantileBands``) that the pool proposes for its
        series. Until any outcome is known, intervals are the whole line, and no round is counted.
    series, time, truth, cutoff
        The names of the columns; ``series`` may be several, such as ``["unique_id", "step"]``.

    Examples
    --------
    >>> import pandas
    >>> table = pandas.DataFrame(
    ...     {"unique_id": "a", "ds": range(6), "Naive": [5, 7, 6, 5, 7, 6], "y": [7, 6, 5, 7, 6, None]}
    ... )
    >>> predictors = SeriesPredictors(alpha=0.1, seed=7)
    >>> list(predictors.add_intervals(table, "Naive").columns)
    ['unique_id', 'ds', 'Naive', 'y', 'Naive-lo-90', 'Naive-hi-90']
    >>> predictors["a"].rounds, predictors["a"].open_rounds
    (4, 1)
    >>> predictors.learn(pandas.DataFrame({"unique_id": ["a"], "ds": [5], "y": [5.0]}))
    1
    """

    def __init__(
        self,
        *,
        alpha: float,
        score: Score[Any] | None = None,
        features: Sequence[str] = (),
        groups: Sequence[str] = (),
        learner: str | None = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        history: int = 0,
        pool: bool = True,
        series: str | Sequence[str] = "unique_id",
        time: str = "ds",
        truth: str = "y",
        cutoff: str = "cutoff",
    ) -> None:
        self.alpha, self.score, self.learner = alpha, score, learner
        self.features, self.groups = tuple(features), tuple(groups)
        self.feedback, self.seed, self.history = feedback, seed, history
        self._series = [series] if isinstance(series, str) else list(series)
        self._time, self._truth, self._cutoff = time, truth, cutoff
        self._predictors: dict[Hashable, Predictor[Any]] = {}
        self._open: dict[tuple[Hashable, Any], list[_Open]] = {}  # (series, time): the rows that wait
        self._pool = Pool(alpha) if pool and score is None else None
        start_predictor(self, Probabilities(), seed=None)  # refuses wrong parameters now

    def __getitem__(self, series: Hashable) -> Predictor[Any]:
        """Return the predictor of a series that was seen."""
        return self._predictors[series]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._predictors)

    def __len__(self) -> int:
        return len(self._predictors)

    def add_intervals(self, table: Any, model: str) -> Any:
        """Return the table with the columns ``MODEL-lo-LEVEL`` and ``MODEL-hi-LEVEL``.

        Series by series and in order of time, each row is predicted and, where its outcome is known,
        answered before the rows that were forecast later. Rows without an outcome stay open.
        """
        frame, rows, kind = self._read_forecasts(table, model)
        shown: list[Interval] = self._play(rows, kind, pool=self._pool)
        level = f"{100 * (1 - self.alpha):.10g}"
        return frame.with_columns(
            _column(frame, f"{model}-lo-{level}", [interval.lower for interval in shown]),
            _column(frame, f"{model}-hi-{level}", [interval.upper for interval in shown]),
        ).to_native()

    def calibrate(self, table: Any, model: str) -> None:
        """Teach forecasts and outcomes of the past, before the first interval; no round is counted.

        Each series learns as if each of its outcomes had come before the next forecast.
        """
        _, rows, kind = self._read_forecasts(table, model)
        known = sorted((row for row in rows if row.truth is not None), key=lambda row: row.time)
        played: dict[Hashable, list[tuple[_Row, object]]] = defaultdict(list)
        for row in known:
            self._predictor(row.series, kind)
            output = _make_output(row, self._pool)
            if output is not None:
                played[row.series].append((row, output))
            if self._pool is not None:
                self._pool.add(row.series, _find_residual(row, row.output))
        for series, history in played.items():
            self._predictors[series].calibrate(
                [output for _, output in history],
                [row.truth for row, _ in history],
                features=[row.known["features"] for row, _ in history] if self.features else None,
                groups=[row.known["groups"] for row, _ in history] if self.groups else None,
            )

    def _read_forecasts(self, table: Any, model: str) -> tuple[Any, list[_Row], Score[Any]]:
        frame = _read(table, [*self._series, self._time, *self.features, *self.groups, model])
        kind = ScaledResiduals() if self.score is None else self.score
        rows = self._rows(frame, frame[model].to_list())
        _check_rows(rows, kind)
        return frame, rows, kind if self._pool is None else QuantileBands()

    def add_sets(self, table: Any, labels: Mapping[str, object] | Sequence[str]) -> Any:
        """Return the table with a column ``set``: the labels to show, the most plausible first.

        ``labels`` are the columns that hold a probability each, named as the labels are in the
        truth; where they are named otherwise, a mapping from column to label. A true label that has
        no column counts as a miss out of reach, unless none has one: then it is refused.
        """
        names = dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}
        frame = _read(table, [*self._series, self._time, *self.features, *self.groups, *names])
        kind = Probabilities(labels=list(names.values())) if self.score is None else self.score
        rows = self._rows(frame, list(zip(*(frame[name].to_list() for name in names), strict=True)))
        _check_labels(rows, names)
        _check_rows(rows, kind)
        shown = self._play(rows, kind)
        return frame.with_columns(
            _column(frame, "set", [list(one.labels) for one in shown])
        ).to_native()

    def learn(self, table: Any) -> int:
        """Answer open rows by the outcomes of this table; return how many were answered.

        Rows that are not open, or have no outcome, are ignored.
        """
        frame = _read(table, [*self._series, self._time, self._truth])
        rows = [row for row in self._rows(frame, [None] * len(frame)) if row.truth is not None]
        self._check_outcomes(rows)
        return sum(self._answer(row) for row in sorted(rows, key=lambda row: row.time))

    def _check_outcomes(self, rows: list[_Row]) -> None:
        """Raise before the first answer if it is not certain which open round an outcome is of."""
        outcomes: dict[tuple[Hashable, object], object] = {}
        for row in rows:
            waiting = self._open.get((row.series, row.time), [])
            if len(waiting) > 1 and outcomes.setdefault((row.series, row.time), row.truth) != row.truth:
                raise InvalidError(
                    f"row {row.number} ({row.series!r}, {row.time}): {len(waiting)} open rows have "
                    "this series and time, and outcomes differ; give each row a time of its own"
                )
        if rows and self._open:
            _check_order([rows[0].time, next(iter(self._open))[1]], self._time)

    def _rows(self, frame: Any, outputs: Iterable[object]) -> list[_Row]:
        keys = [frame[name].to_list() for name in self._series]
        for name, values in zip(self._series, keys, strict=True):
            _check_filled(values, name, "series")
        series = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
        times = frame[self._time].to_list()
        _check_filled(times, self._time, "time")
        _check_order(times, self._time)
        nothing = [None] * len(times)
        cutoffs = frame[self._cutoff].to_list() if self._cutoff in frame.columns else nothing
        truths = frame[self._truth].to_list() if self._truth in frame.columns else nothing
        columns = zip(series, cutoffs, times, outputs, truths, self._context(frame), strict=True)
        return [
            _Row(
                number,
                name,
                None if is_missing(cutoff) else cutoff,
                time,
                output,
                None if is_missing(truth) else truth,
                known,
            )
            for number, (name, cutoff, time, output, truth, known) in enumerate(columns)
        ]

    def _context(self, frame: Any) -> list[dict[str, Any]]:
        """Return the features and the groups of every row; an absent column counts as missing."""
        names = [name for name in (*self.features, *self.groups) if name in frame.columns]
        rows = frame.select(*names).rows(named=True) if names else [{}] * len(frame)
        return [read_case(self, row) for row in rows]

    def _play(self, rows: list[_Row], kind: Score[Any], *, pool: Pool | None = None) -> list[Any]:
        """Predict and answer every row in order of time; return predictions in the table's order."""
        shown: list[Any] = [None] * len(rows)
        waiting: list[tuple[Any, int, _Row]] = []  # a heap: a row's time, the order of forecasts
        for order, row in enumerate(
            sorted(rows, key=lambda row: (row.time if row.cutoff is None else row.cutoff, row.time))
        ):
            while waiting and _is_known(waiting[0][0], row):
                self._answer_own(heapq.heappop(waiting)[2], shown, pool)
            predictor = self._predictor(row.series, kind)
            output = _make_output(row, pool)
            shown[row.number] = (
                _NOTHING_KNOWN if output is None else predictor.predict(output, **row.known)
            )
            if row.truth is not None:
                heapq.heappush(waiting, (row.time, order, row))
        for _time, _order, row in sorted(waiting):
            self._answer_own(row, shown, pool)
        for row in rows:
            if row.truth is None:
                opened = _Open(shown[row.number].id, None if pool is None else row.output)
                self._open.setdefault((row.series, row.time), []).append(opened)
        return shown

    def _answer_own(self, row: _Row, shown: list[Any], pool: Pool | None) -> None:
        """Answer a row's own round, after those of earlier tables that waited for its outcome."""
        self._answer(row, _Open(shown[row.number].id, None if pool is None else row.output))

    def _answer(self, row: _Row, *own: _Open) -> int:
        """Answer the open rows of this series and time, then its own; return how many were open."""
        waiting = self._open.get((row.series, row.time), [])
        for number, forecast in (*waiting, *own):
            if number >= 0:
                self._predictors[row.series].learn(number, label=row.truth)
            if self._pool is not None and forecast is not None:
                self._pool.add(row.series, _find_residual(row, forecast))
        # Now, not before: an outcome that was refused can be given again.
        self._open.pop((row.series, row.time), None)
        return len(waiting)

    def _predictor(self, series: Hashable, kind: Score[Any]) -> Predictor[Any]:
        if series not in self._predictors:
            seed = None if self.seed is None else self.seed + len(self._predictors)
            self._predictors[series] = start_predictor(self, kind, seed=seed)
        return self._predictors[series]


def _make_output(row: _Row, pool: Pool | None) -> Any:
    """Return what a row's predictor reads: its forecast, or the pool's band, None if there is none."""
    if pool is None:
        return row.output
    centre, half = float(row.output), pool.find_half(row.series)  # type: ignore[arg-type]
    if half is None or not centre - half < centre + half:
        return None
    return centre - half, centre + half


def _find_residual(row: _Row, forecast: Any) -> float:
    truth: Any = row.truth
    return float(truth) - float(forecast)


def _read(table: Any, needed: Sequence[str]) -> Any:
    """Return the table as narwhals sees it, or raise if a column is not there."""
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InvalidError(
            f"{type(table).__name__} is not a table in memory; give a pandas or polars DataFrame"
        ) from None
    for name in needed:
        if name not in frame.columns:
            raise InvalidError(f"there is no column {name!r}; the table has {', '.join(frame.columns)}")
    return frame


def _check_filled(values: list[object], column: str, what: str) -> None:
    """Raise with the first row that holds nothing."""
    for number, value in enumerate(values):
        if is_missing(value):
            raise InvalidError(
                f"row {number} has no {what}; fill the column {column!r}, or leave it out"
            )


def _check_order(times: list[Any], column: str) -> None:
    """Raise if times have no order."""
    try:
        sorted(times)
    except TypeError as error:
        raise InvalidError(
            f"the times in {column!r} have no order ({error}); make them one type"
        ) from None


def _column(frame: Any, name: str, values: list[Any]) -> Any:
    return nw.new_series(name, values, backend=frame.implementation)


def _is_known(time: Any, row: _Row) -> bool:
    """Return whether the outcome of that time is known when the row is forecast."""
    return bool(time < row.time if row.cutoff is None else time <= row.cutoff)


def _check_rows(rows: list[_Row], kind: Score[Any]) -> None:
    """Raise before the first round if a forecast or an outcome cannot be read, and say whose it is."""
    for row in rows:
        try:
            case = kind.read(row.output)
            if row.truth is not None:
                case.score(row.truth)
        except (ScoreError, LabelError) as error:
            raise type(error)(f"row {row.number} ({row.series!r}, {row.time}): {error}") from None


def _check_labels(rows: list[_Row], names: Mapping[str, object]) -> None:
    """Raise before the first round if the true labels are named otherwise than the columns' are.

    Where some are, the others were no candidates: they count as out of reach.
    """
    known = list(names.values())
    truths = [row for row in rows if row.truth is not None]
    if truths and not any(row.truth in known for row in truths):
        row = truths[0]
        raise LabelError(
            f"row {row.number} ({row.series!r}, {row.time}): the true label {row.truth!r} "
            f"({type(row.truth).__name__}), like all others, is none of {known!r}; convert it, or if "
            "the columns are named otherwise than the labels, give a mapping from column to label, "
            f"such as {{{next(iter(names))!r}: {row.truth!r}}}"
        )
