"""The rows of one model in a table: played in order of time, each once, and kept to be looked at."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from keyhole.errors import InvalidError, LabelError, ScoreError
from keyhole.integrations._pool import Pool
from keyhole.predictor.levels import LevelPredictor, Levels
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, Region, Score

AnyPredictor = Predictor[Any] | LevelPredictor[Any]
_NOTHING_KNOWN = Interval(-1, 0.0, -inf, inf)  # what is shown before any outcome is known


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    number: int
    series: Hashable
    cutoff: Any  # when it was forecast; None: just before its time
    time: Any
    output: Any
    truth: Any  # None where it is not known yet
    known: dict[str, Any]  # its features and groups

    def __str__(self) -> str:
        return f"row {self.number} ({self.series!r}, {self.time})"


class Key(NamedTuple):
    """What tells a row from all others: ``place`` from those of a table that have all else the same."""

    series: Hashable
    time: Any
    cutoff: Any
    place: int


@dataclass(slots=True)
class Kept:
    """A row that was predicted: from what, what was shown on each level, and its outcome."""

    predictor: Hashable
    output: Any
    number: int  # of its round; -1 if there is none, as nothing was known when it was forecast
    shown: tuple[Region, ...]
    truth: Any = None


class Model:
    """The predictors of one model, a series each, and the rows that they have seen."""

    def __init__(
        self,
        start: Callable[[int], AnyPredictor],
        *,
        score: Score[Any],
        alphas: Sequence[float],
        pool: Pool | None,
        per_horizon: bool,
        keep: int,
    ) -> None:
        self._start, self.score, self._alphas, self.pool = start, score, alphas, pool
        self._per_horizon, self._keep = per_horizon, keep
        self.has_levels = isinstance(start(0), LevelPredictor)
        self.predictors: dict[Hashable, AnyPredictor] = {}
        self.rows: dict[Key, Kept] = {}
        self.open: dict[tuple[Hashable, Any], list[Key]] = defaultdict(list)

    def find_predictor(self, row: Row) -> tuple[Hashable, AnyPredictor]:
        """Return the predictor of a row, made if it is the first of its series, and its name."""
        name = row.series
        if self._per_horizon:
            if row.cutoff is None:
                raise InvalidError(
                    f"{row} has no cutoff, from which its step ahead would follow; add the column, or "
                    "leave per_horizon out"
                )
            name = (row.series, row.time - row.cutoff)
        if name not in self.predictors:
            self.predictors[name] = self._start(len(self.predictors))
        return name, self.predictors[name]

    def play(self, rows: Sequence[Row], *, lag: Any) -> list[Kept]:
        """Predict and answer every row in order of time; return what was shown, in the table's order.

        A row that was seen before is not played again: what it was shown then is returned, and its
        outcome counts if it was not known yet.
        """
        keys = find_keys(rows)
        self._check_seen(rows, keys)
        table = set(keys)
        waiting = [
            (_add(row.time, lag), order, row, key)
            for order, (row, key) in enumerate(zip(rows, keys, strict=True))
            if row.truth is not None and key in self.rows and self.rows[key].truth is None
        ]
        heapq.heapify(waiting)
        new = [(row, key) for row, key in zip(rows, keys, strict=True) if key not in self.rows]
        new.sort(key=lambda one: (_forecast_time(one[0]), one[0].time))
        for order, (row, key) in enumerate(new, start=len(rows)):
            while waiting and _is_known(waiting[0][0], row):
                _, _, told, its_key = heapq.heappop(waiting)
                self._tell(told, its_key, table)
            self.rows[key] = self._predict(row)
            if row.truth is not None:
                heapq.heappush(waiting, (_add(row.time, lag), order, row, key))
        for _, _, told, its_key in sorted(waiting, key=lambda one: one[:2]):
            self._tell(told, its_key, table)
        for row, key in new:
            if row.truth is None:
                self.open[row.series, row.time].append(key)
        played = [self.rows[key] for key in keys]
        self._forget()
        return played

    def _check_seen(self, rows: Sequence[Row], keys: Sequence[Key]) -> None:
        """Raise before the first round if a row that was seen before is another now."""
        for row, key in zip(rows, keys, strict=True):
            before = self.rows.get(key)
            if before is None:
                continue
            if before.output != row.output:
                raise InvalidError(
                    f"{row} was predicted before from {before.output}, now from {row.output}; give a "
                    "new forecast a cutoff of its own, another model a column of another name"
                )
            if before.truth is not None and row.truth is not None and before.truth != row.truth:
                raise InvalidError(
                    f"{row} had the outcome {before.truth}, now {row.truth}; if it was revised, give "
                    "the table to amend"
                )

    def make_output(self, row: Row) -> dict[float, Any] | None:
        """Return what a row's predictor reads on each level; None if nothing is known."""
        if self.pool is None:
            return dict.fromkeys(self._alphas, row.output)
        centre, bands = float(row.output), {}
        for alpha in self._alphas:
            ends = self.pool.find_band(row.series, alpha)
            if ends is None or not centre + ends[0] < centre + ends[1]:
                return None
            bands[alpha] = centre + ends[0], centre + ends[1]
        return bands

    def _predict(self, row: Row) -> Kept:
        name, predictor = self.find_predictor(row)
        outputs = self.make_output(row)
        if outputs is None:
            return Kept(name, row.output, -1, (_NOTHING_KNOWN,) * len(self._alphas))
        if isinstance(predictor, Predictor):
            shown = predictor.predict(outputs[self._alphas[0]], **row.known)
            return Kept(name, row.output, shown.id, (shown,))
        if self.pool is None:
            levels: Levels[Any] = predictor.predict(row.output, **row.known)
        else:
            levels = predictor.predict(outputs=outputs, **row.known)
        return Kept(name, row.output, levels.id, tuple(levels.values()))

    def _tell(self, row: Row, key: Key, table: set[Key]) -> None:
        """Answer a row, after those of earlier tables that waited for its outcome."""
        others = [one for one in self.open.get((row.series, row.time), ()) if one not in table]
        for one in (*others, key):
            self._answer(one, row.truth)

    def _answer(self, key: Key, truth: Any) -> None:
        kept = self.rows[key]
        if kept.number >= 0:
            self.predictors[kept.predictor].learn(kept.number, label=truth)
        if self.pool is not None:
            self.pool.add(key.series, float(truth) - float(kept.output))
        # Now, not before: an outcome that was refused can be given again.
        kept.truth = truth
        waiting = self.open.get((key.series, key.time), [])
        if key in waiting:
            waiting.remove(key)
        if not waiting:
            self.open.pop((key.series, key.time), None)

    def check_outcomes(self, rows: Iterable[Row]) -> None:
        """Raise before the first answer if it is not certain which open round an outcome is of."""
        outcomes: dict[tuple[Hashable, Any], Any] = {}
        for row in rows:
            at = (row.series, row.time)
            waiting = len(self.open.get(at, ()))
            if waiting > 1 and outcomes.setdefault(at, row.truth) != row.truth:
                raise InvalidError(
                    f"{row}: {waiting} open rows have this series and time, and outcomes differ; give "
                    "each row a time of its own"
                )

    def learn(self, row: Row) -> int:
        """Answer all that wait for this outcome; return how many."""
        keys = list(self.open.get((row.series, row.time), ()))
        for key in keys:
            self._answer(key, row.truth)
        return len(keys)

    def amend(self, rows: Iterable[Row]) -> int:
        """Correct the outcome of rows that were answered otherwise; return how many were."""
        truths = {(row.series, row.time): row.truth for row in rows}
        amended = 0
        for key, kept in self.rows.items():
            truth = truths.get((key.series, key.time))
            if truth is not None and kept.truth is not None and kept.truth != truth:
                if kept.number >= 0:
                    self.predictors[kept.predictor].amend(kept.number, label=truth)
                kept.truth = truth
                amended += 1
        return amended

    def calibrate(self, rows: Iterable[Row]) -> None:
        """Teach the outcomes of the past, each as if it had come before the next forecast."""
        played: dict[Hashable, list[tuple[Row, dict[float, Any]]]] = defaultdict(list)
        for row in rows:
            name, _ = self.find_predictor(row)
            outputs = self.make_output(row)
            if outputs is not None:
                played[name].append((row, outputs))
            if self.pool is not None:
                self.pool.add(row.series, float(row.truth) - float(row.output))
        for name, history in played.items():
            known = {
                what: [row.known[what] for row, _ in history]
                for what in ("features", "groups")
                if what in history[0][0].known
            }
            truths = [row.truth for row, _ in history]
            for alpha, predictor in self._levels(name):
                predictor.calibrate([outputs[alpha] for _, outputs in history], truths, **known)

    def _levels(self, name: Hashable) -> list[tuple[float, Predictor[Any]]]:
        predictor = self.predictors[name]
        if isinstance(predictor, Predictor):
            return [(self._alphas[0], predictor)]
        return [(alpha, predictor[alpha]) for alpha in self._alphas]

    def _forget(self) -> None:
        """Let go of the oldest rows that have their outcome, where more are kept than are to be."""
        extra = len(self.rows) - self._keep * len(self.predictors)
        if extra > 0:
            done = (key for key, kept in self.rows.items() if kept.truth is not None)
            for key in list(islice(done, extra)):
                del self.rows[key]


def find_keys(rows: Iterable[Row]) -> list[Key]:
    places: Counter[tuple[Any, ...]] = Counter()
    keys = []
    for row in rows:
        which = (row.series, row.time, row.cutoff)
        keys.append(Key(*which, places[which]))
        places[which] += 1
    return keys


def check_rows(rows: Iterable[Row], score: Score[Any]) -> None:
    """Raise before the first round if a forecast or an outcome cannot be read, and say whose it is."""
    for row in rows:
        try:
            case = score.read(row.output)
            if row.truth is not None:
                case.score(row.truth)
        except (ScoreError, LabelError) as error:
            raise type(error)(f"{row}: {error}") from None


def _forecast_time(row: Row) -> Any:
    return row.time if row.cutoff is None else row.cutoff


def _add(time: Any, lag: Any) -> Any:
    return time if lag is None else time + lag


def _is_known(time: Any, row: Row) -> bool:
    """Return whether the outcome of that time is known when the row is forecast."""
    return bool(time < row.time if row.cutoff is None else time <= row.cutoff)
