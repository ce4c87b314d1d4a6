"""The rows of one model in a table: played in order of time, each once, and kept to be looked at."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf, nan
from typing import Any

import numpy as np

from keyhole.errors import InvalidError, ScoreError
from keyhole.integrations._pool import Pool
from keyhole.integrations._table import Key, Rows
from keyhole.numeric import Array
from keyhole.predictor.levels import LevelPredictor
from keyhole.predictor.play import Plan
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, Region, Score
from keyhole.scores.checks import check_number

AnyPredictor = Predictor[Any] | LevelPredictor[Any]
_Event = tuple[Key, int, bool]  # which row, of which one of the table the outcome is; is it answered
_NOTHING_KNOWN = Interval(-1, 0.0, -inf, inf)  # what is shown before any outcome is known
_NO_BAND = (nan, nan)  # of a round that is open already, which knows its own


@dataclass(slots=True)
class Kept:
    """A row that was predicted: from what, what was shown on each level, and its outcome."""

    predictor: Hashable
    output: Any
    number: int  # of its round; -1 if there is none, as nothing was known when it was forecast
    shown: tuple[Region, ...]
    truth: Any = None


@dataclass(slots=True)
class _Rounds:
    """What is to happen to rounds of one predictor, each of which has a place in these lists.

    An event is the place of a round that is predicted, or -1 less that of one that is answered.
    """

    keys: list[Key] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # of the table; -1 of an open one
    outputs: list[Any] = field(default_factory=list)  # what is read on each level
    truths: list[Any] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    places: dict[Key, int] = field(default_factory=dict)

    def add(self, key: Key, kept: Kept, row: int, outputs: Any) -> int:
        place = self.places[key] = len(self.keys)
        self.keys.append(key)
        self.kept.append(kept)
        self.rows.append(row)
        self.outputs.append(outputs)
        self.truths.append(None)
        return place


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

    def _find_predictor(self, rows: Rows, row: int) -> Hashable:
        """Return the name of a row's predictor, which is made if it is the first of its series."""
        name = rows.series[row]
        if self._per_horizon:
            if rows.cutoffs[row] is None:
                raise InvalidError(
                    f"{rows.name(row)} has no cutoff, from which its step ahead would follow; add the "
                    "column, or leave per_horizon out"
                )
            name = (name, rows.times[row] - rows.cutoffs[row])
        if name not in self.predictors:
            self.predictors[name] = self._start(len(self.predictors))
        return name

    def _make_outputs(self, rows: Rows, row: int) -> dict[float, Any] | None:
        """Return what a row's predictor reads on each level; None if nothing is known."""
        if self.pool is None:
            return dict.fromkeys(self._alphas, rows.outputs[row])
        centre, bands = float(rows.outputs[row]), {}
        for alpha in self._alphas:
            ends = self.pool.find_band(rows.series[row], alpha)
            if ends is None or not centre + ends[0] < centre + ends[1]:
                return None
            bands[alpha] = centre + ends[0], centre + ends[1]
        return bands

    def play(self, rows: Rows, *, lag: Any) -> list[Kept]:
        """Predict and answer every row in order of time; return what was shown, in the table's order.

        A row that was seen before is not played again: what it was shown then is returned, and its
        outcome counts if it was not known yet.
        """
        keys = rows.list_keys()
        self._check_seen(rows, keys)
        new = [key for key in keys if key not in self.rows]
        self._run(rows, self._list_events(rows, keys, lag))
        for key in new:
            if self.rows[key].truth is None:
                self.open[key.series, key.time].append(key)
        played = [self.rows[key] for key in keys]
        self._forget()
        return played

    def _check_seen(self, rows: Rows, keys: Sequence[Key]) -> None:
        """Raise before the first round if a row that was seen before is another now."""
        for row, key in enumerate(keys) if self.rows else ():
            before, output, truth = self.rows.get(key), rows.outputs[row], rows.truths[row]
            if before is None:
                continue
            if before.output != output:
                raise InvalidError(
                    f"{rows.name(row)} was predicted before from {before.output}, now from {output}; "
                    "give a new forecast a cutoff of its own, another model a column of another name"
                )
            if before.truth is not None and truth is not None and before.truth != truth:
                raise InvalidError(
                    f"{rows.name(row)} had the outcome {before.truth}, now {truth}; if it was revised, "
                    "give the table to amend"
                )

    def _list_events(self, rows: Rows, keys: list[Key], lag: Any) -> Iterator[_Event]:
        """Yield what happens, in its order: every new row is predicted, and answered once it can be.

        Before a row, those of earlier tables are answered that waited for its outcome.
        """
        order, forecast, known = _rank_times(rows, lag)
        table, told = set(keys), set[Key]()
        new, waiting = [], []
        for row, key in enumerate(keys):
            before = self.rows.get(key)
            if before is None:
                new.append(row)
            elif before.truth is None and rows.truths[row] is not None:
                waiting.append((known[row], row, row))
        heapq.heapify(waiting)
        for place, row in enumerate(sorted(new, key=order.__getitem__), start=len(keys)):
            while waiting and waiting[0][0] <= forecast[row]:
                yield from self._list_answers(keys, heapq.heappop(waiting)[2], table, told)
            yield keys[row], row, False
            if rows.truths[row] is not None:
                heapq.heappush(waiting, (known[row], place, row))
        for _, _, row in sorted(waiting):
            yield from self._list_answers(keys, row, table, told)

    def _list_answers(
        self, keys: list[Key], row: int, table: set[Key], told: set[Key]
    ) -> Iterator[_Event]:
        own = keys[row]
        for key in self.open.get((own.series, own.time), ()) if self.open else ():
            if key not in table and key not in told:
                told.add(key)
                yield key, row, True
        yield own, row, True

    def _run(self, rows: Rows, events: Iterable[_Event]) -> int:
        """Let these happen, and return how many rows were answered.

        Predictors have nothing in common but the pool, which hears residuals and not what was shown:
        so the pool goes first, and then each predictor plays its own rounds.
        """
        plays: dict[Hashable, _Rounds] = defaultdict(_Rounds)
        answered, nothing = 0, (_NOTHING_KNOWN,) * len(self._alphas)
        for key, row, is_answer in events:
            if is_answer:
                self._note_answer(plays, key, rows.truths[row])
                answered += 1
                continue
            name, outputs = self._find_predictor(rows, row), self._make_outputs(rows, row)
            kept = self.rows[key] = Kept(name, rows.outputs[row], -1, nothing)
            if outputs is not None:
                rounds = plays[name]
                rounds.events.append(rounds.add(key, kept, row, outputs))
        context = np.hstack((rows.features, rows.groups))
        for name, rounds in plays.items():
            if not self._play_at_once(self.predictors[name], rounds, context):
                self._play_one_by_one(self.predictors[name], rounds, rows)
        return answered

    def _note_answer(self, plays: dict[Hashable, _Rounds], key: Key, truth: Any) -> None:
        kept = self.rows[key]
        if self.pool is not None:
            self.pool.add(key.series, float(truth) - float(kept.output))
        rounds = plays[kept.predictor]
        place = rounds.places.get(key)
        if place is None and kept.number < 0:  # It has no round.
            self._close(key, kept, truth)
            return
        place = rounds.add(key, kept, -1, None) if place is None else place
        rounds.truths[place] = truth
        rounds.events.append(-1 - place)

    def _close(self, key: Key, kept: Kept, truth: Any) -> None:
        """Take note of an outcome, once it was accepted: one that was refused can be given again."""
        kept.truth = truth
        if not self.open:
            return
        at = (key.series, key.time)
        waiting = self.open.get(at, [])
        if key in waiting:
            waiting.remove(key)
            if not waiting:
                del self.open[at]

    def _play_at_once(self, predictor: AnyPredictor, rounds: _Rounds, context: Array) -> bool:
        """Play the rounds of a predictor in one call; return whether that was possible."""
        if self.score.kind != "band":
            return False
        numbers = [kept.number for kept in rounds.kept]
        truths = [nan if truth is None else float(truth) for truth in rounds.truths]
        plans = {
            alpha: Plan(
                numbers,
                [_NO_BAND if one is None else _read_band(one[alpha]) for one in rounds.outputs],
                truths,
                context[rounds.rows],
                rounds.events,
            )
            for alpha in self._alphas
        }
        shown: Any = (
            predictor._play(plans[self._alphas[0]])  # noqa: SLF001
            if isinstance(predictor, Predictor)
            else predictor._play(plans)  # noqa: SLF001
        )
        for place, one in enumerate(shown or ()):
            if rounds.rows[place] >= 0:
                self._keep_shown(rounds.kept[place], one)
            if rounds.truths[place] is not None:
                self._close(rounds.keys[place], rounds.kept[place], rounds.truths[place])
        return shown is not None

    def _play_one_by_one(self, predictor: AnyPredictor, rounds: _Rounds, rows: Rows) -> None:
        for event in rounds.events:
            place = event if event >= 0 else -1 - event
            kept, outputs, row = rounds.kept[place], rounds.outputs[place], rounds.rows[place]
            if event < 0:
                predictor.learn(kept.number, label=rounds.truths[place])
                self._close(rounds.keys[place], kept, rounds.truths[place])
                continue
            known = rows.read_known(row)
            if isinstance(predictor, Predictor):
                shown: Any = predictor.predict(outputs[self._alphas[0]], **known)
            elif self.pool is None:
                shown = predictor.predict(rows.outputs[row], **known)
            else:
                shown = predictor.predict(outputs=outputs, **known)
            self._keep_shown(kept, shown)

    def _keep_shown(self, kept: Kept, shown: Any) -> None:
        kept.number = shown.id
        kept.shown = tuple(shown.values()) if self.has_levels else (shown,)

    def check_outcomes(self, rows: Rows) -> None:
        """Raise before the first answer if it is not certain which open round an outcome is of."""
        outcomes: dict[tuple[Hashable, Any], Any] = {}
        for row, (at, truth) in enumerate(_list_outcomes(rows)):
            waiting = len(self.open.get(at, ()))
            if waiting and outcomes.setdefault(at, truth) != truth:
                raise InvalidError(
                    f"{rows.name(row)}: of its series and time {waiting} rows are open, and outcomes "
                    "differ; give each row a time of its own"
                )
            if waiting and self.pool is not None:
                try:
                    check_number(truth, "true value")
                except ScoreError as error:
                    raise ScoreError(f"{rows.name(row)}: {error}") from None

    def learn(self, rows: Rows) -> int:
        """Answer all that wait for these outcomes; return how many."""
        outcomes: dict[tuple[Hashable, Any], int] = {}
        for row, (at, _) in enumerate(_list_outcomes(rows)):
            outcomes.setdefault(at, row)
        return self._run(
            rows, [(key, row, True) for at, row in outcomes.items() for key in self.open.get(at, ())]
        )

    def amend(self, rows: Rows) -> int:
        """Correct the outcome of rows that were answered otherwise; return how many were."""
        truths = dict(_list_outcomes(rows))
        amended = 0
        for key, kept in self.rows.items():
            truth = truths.get((key.series, key.time))
            if truth is not None and kept.truth is not None and kept.truth != truth:
                if kept.number >= 0:
                    self.predictors[kept.predictor].amend(kept.number, label=truth)
                kept.truth = truth
                amended += 1
        return amended

    def calibrate(self, rows: Rows) -> None:
        """Teach the outcomes of the past, each as if it had come before the next forecast."""
        played: dict[Hashable, list[tuple[int, dict[float, Any]]]] = defaultdict(list)
        for row, truth in enumerate(rows.truths):
            name, outputs = self._find_predictor(rows, row), self._make_outputs(rows, row)
            if outputs is not None:
                played[name].append((row, outputs))
            if self.pool is not None:
                self.pool.add(rows.series[row], float(truth) - float(rows.outputs[row]))
        for name, history in played.items():
            each = [rows.read_known(row) for row, _ in history]
            known = {what: [one[what] for one in each] for what in each[0]}
            truths = [rows.truths[row] for row, _ in history]
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


def _list_outcomes(rows: Rows) -> Iterator[tuple[tuple[Hashable, Any], Any]]:
    """Yield of which series and time each outcome is, and the outcome."""
    return zip(zip(rows.series, rows.times, strict=True), rows.truths, strict=True)


def _read_band(output: Any) -> tuple[float, float]:
    lower, upper = output
    return float(lower), float(upper)


def _rank_times(rows: Rows, lag: Any) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return in which order rows are forecast, when, and when their outcomes are known, as ranks.

    What is known at the cutoff of a row is known when it is forecast; of a row without a cutoff, what
    is known before its time.
    """
    known = {time: time if lag is None else time + lag for time in set(rows.times)}
    cutoffs = set(rows.cutoffs) - {None}
    ranks = {time: rank for rank, time in enumerate(sorted({*known, *known.values(), *cutoffs}))}
    at, forecast, order = [ranks[time] for time in rows.times], [], []
    for time, cutoff in zip(at, rows.cutoffs, strict=True):
        before = time if cutoff is None else ranks[cutoff]
        forecast.append(2 * before - (cutoff is None))
        order.append((before, time))
    return order, forecast, [2 * ranks[known[time]] for time in rows.times]
