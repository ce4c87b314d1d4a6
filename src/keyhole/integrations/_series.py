"""The rows of one model in a table: played in order of time, each once, and kept to be looked at."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice, pairwise
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import AnsweredError, InvalidError, LabelError, ScoreError
from keyhole.integrations._forecasts import Cells, Rows, join_cells
from keyhole.integrations._pool import ResidualPool
from keyhole.numeric import Array, Counts
from keyhole.predictor.levels import LevelPredictor
from keyhole.predictor.play import Plan
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, Score
from keyhole.scores.numbers import check_number

AnyPredictor = Predictor[Any] | LevelPredictor[Any]
# What tells a row from all others: the codes of its series, its time and its cutoff, and its place
# among the rows of a table that have all these the same.
Key = tuple[int, int, int, int]
At = tuple[int, int]  # the codes of a series and a time
WHOLE_LINE = (-inf, inf)  # what is shown before any outcome is known


class Codes:
    """A number for every value, by the order in which they were first seen."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

    def add(self, value: object) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def add_cells(self, cells: Cells) -> Counts:
        return np.array([self.add(value) for value in cells.values], dtype=np.int64)[cells.codes]

    def find(self, value: object) -> int:
        return self._codes.get(value, -1)


class Seen:
    """The rows, each of which has a slot in these columns; ``slots`` are those that are still kept.

    ``number`` is that of its round, -1 if it has none, as nothing was known when it was forecast. What
    was shown is, on each level, the ends of an interval, or the labels of a set.
    """

    def __init__(self, *, levels: int) -> None:
        self.series, self.times = Codes(), Codes()
        self.slots: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.predictors: list[int] = []
        self.outputs: list[Any] = []
        self.numbers: list[int] = []
        self.shown: list[list[Any]] = [[] for _ in range(levels)]
        self.truths: list[Any] = []
        self.open: dict[At, list[Key]] = {}

    def list_keys(self, rows: Rows) -> list[Key]:
        series = self.series.add_cells(rows.series).tolist()
        times, cutoffs = self.times.add_cells(rows.times), self.times.add_cells(rows.cutoffs)
        keys = list(zip(series, times.tolist(), cutoffs.tolist(), [0] * len(series), strict=True))
        if len(set(keys)) < len(keys):
            places: dict[Key, int] = {}
            for row, key in enumerate(keys):
                place = places[key] = places.get(key, -1) + 1
                keys[row] = (*key[:3], place)
        return keys

    def add(self, keys: Sequence[Key], predictors: Iterable[int], outputs: Iterable[object]) -> int:
        """Add rows of which nothing is known, and return the slot of the first."""
        first, count = len(self.outputs), len(keys)
        self.slots.update(zip(keys, range(first, first + count), strict=True))
        self.keys += keys
        self.predictors += predictors
        self.outputs += outputs
        self.numbers += [-1] * count
        self.truths += [None] * count
        for level in self.shown:
            level += [WHOLE_LINE] * count
        return first

    def wait(self, keys: Iterable[Key]) -> None:
        """Take note of the rows among these whose outcome is to come."""
        for key in keys:
            if self.truths[self.slots[key]] is None:
                self.open.setdefault(key[:2], []).append(key)

    def close(self, slots: Iterable[int], truths: Iterable[object]) -> None:
        """Take note of outcomes, once they were accepted: those refused can be given again."""
        for slot, truth in zip(slots, truths, strict=True):
            self.truths[slot] = truth
            key = self.keys[slot]
            if self.open and (waiting := self.open.get(key[:2])) and key in waiting:
                waiting.remove(key)
                if not waiting:
                    del self.open[key[:2]]

    def list_keys_kept(self) -> tuple[list[Hashable], list[Any], list[Any]]:
        series, times = self.series.values, self.times.values
        return (
            [series[key[0]] for key in self.slots],
            [times[key[1]] for key in self.slots],
            [times[key[2]] for key in self.slots],
        )

    def list_columns(self) -> list[list[Any]]:
        return [self.predictors, self.outputs, self.numbers, self.truths, *self.shown]

    def pick(self, column: list[Any]) -> list[Any]:
        return [column[slot] for slot in self.slots.values()]

    def forget(self, count: int) -> None:
        """Let go of so many rows that have their outcome, the oldest first."""
        if count <= 0:
            return
        done = (key for key, slot in self.slots.items() if self.truths[slot] is not None)
        for key in list(islice(done, count)):
            del self.slots[key]
        if len(self.outputs) > 2 * len(self.slots):
            for column in [self.keys, *self.list_columns()]:
                column[:] = self.pick(column)
            self.slots = dict(zip(self.slots, range(len(self.slots)), strict=True))


class _Events(NamedTuple):
    """What happens, in its order: rows of a table are predicted, and rows that were are answered.

    ``asked`` are rows of the table; their slots follow one another from the ``first`` on. Slots are
    ``answered``, by their truths, each ``after`` so many predictions.
    """

    asked: Counts
    first: int
    answered: Counts
    truths: list[Any]
    after: Counts


class _Rounds(NamedTuple):
    """The rounds that are played, those of a predictor behind one another, and what happens to them.

    ``asked`` is the place of a round among what is asked, -1 of one that was open before; ``truths``
    are None where there is no answer. An event is the place of a round that is predicted, or -1 less
    that of one that is answered, counted from the first of its predictor. ``starts`` has of every
    predictor its code, and where its rounds and its events begin; then where all end.
    """

    slots: list[int]
    asked: Counts
    truths: list[Any]
    events: Counts
    starts: list[tuple[int, int, int]]


class Model:
    """The predictors of one model, a series each, and the rows that they have seen."""

    def __init__(
        self,
        start: Callable[[int], AnyPredictor],
        *,
        score: Score[Any],
        alphas: Sequence[float],
        pool: ResidualPool | None,
        per_horizon: bool,
        keep: int,
    ) -> None:
        self._start, self.score, self._alphas, self.pool = start, score, alphas, pool
        self._per_horizon, self._keep = per_horizon, keep
        self.has_levels = isinstance(start(0), LevelPredictor)
        self.predictors: dict[Hashable, AnyPredictor] = {}
        self.names = Codes()  # of the predictors
        self.seen = Seen(levels=len(alphas))

    def _find_predictors(self, rows: Rows, which: Counts) -> list[int]:
        """Return the codes of the predictors of some rows, which are made where there is none yet."""
        names = self._name_predictors(rows) if self._per_horizon else rows.series
        codes = names.codes[which]
        used, first = np.unique(codes, return_index=True)
        found = np.zeros(len(names.values), dtype=np.int64)
        for code in used[np.argsort(first)]:
            name = names.values[code]
            found[code] = self.names.add(name)
            if found[code] == len(self.predictors):
                self.predictors[name] = self._start(int(found[code]))
        return found[codes].tolist()

    def _name_predictors(self, rows: Rows) -> Cells:
        """Return what the predictors of steps ahead are called, (series, step), by row."""
        cutoffs = rows.cutoffs.to_list()
        if None in cutoffs:
            raise InvalidError(
                f"{rows.name(cutoffs.index(None))} has no cutoff, from which its step ahead would "
                "follow; add the column, or leave per_horizon out"
            )
        both, steps = join_cells([rows.times, rows.cutoffs]), Codes()
        codes = np.array([steps.add(time - cutoff) for time, cutoff in both.values], dtype=np.int64)
        return join_cells([rows.series, Cells(steps.values, codes[both.codes])])

    def play(self, rows: Rows, *, lag: object) -> list[list[Any]]:
        """Predict and answer every row in order of time; return what each was shown on each level.

        A row that was seen before is not played again: what it was shown then is returned, and its
        outcome counts if it was not known yet.
        """
        seen, keys = self.seen, self.seen.list_keys(rows)
        self._check_seen(rows, keys)
        slots = np.array([seen.slots.get(key, -1) for key in keys], dtype=np.int64)
        asked, sources, after = self._order(rows, slots, lag)
        new = [keys[row] for row in asked.tolist()]
        owners = self._find_predictors(rows, asked)
        first = seen.add(new, owners, [rows.outputs[row] for row in asked.tolist()])
        slots[asked] = first + np.arange(len(asked))
        answers = slots[sources].tolist()
        if seen.open:
            answers, places = self._add_open(answers, set(keys))
            sources, after = sources[places], after[places]
        truths = [rows.truths[row] for row in sources.tolist()]
        self._run(rows, _Events(asked, first, np.array(answers, dtype=np.int64), truths, after))
        seen.wait(new)
        shown = [[level[slot] for slot in slots.tolist()] for level in seen.shown]
        seen.forget(len(seen.slots) - self._keep * len(self.predictors))
        return shown

    def _check_seen(self, rows: Rows, keys: Sequence[Key]) -> None:
        """Raise before the first round if a row that was seen before is another now."""
        seen = self.seen
        for row, key in enumerate(keys) if seen.slots else ():
            slot = seen.slots.get(key)
            if slot is None:
                continue
            output, truth, before = rows.outputs[row], rows.truths[row], seen.truths[slot]
            if seen.outputs[slot] != output:
                raise InvalidError(
                    f"{rows.name(row)} was predicted before from {seen.outputs[slot]}, now from "
                    f"{output}; give a new forecast a cutoff of its own, another model a column of "
                    "another name"
                )
            if before is not None and truth is not None and before != truth:
                raise InvalidError(
                    f"{rows.name(row)} had the outcome {before}, now {truth}; if it was revised, "
                    "give the table to amend"
                )

    def _order(self, rows: Rows, slots: Counts, lag: object) -> tuple[Counts, Counts, Counts]:
        """Return the order in which new rows are predicted and rows answered; and after how many."""
        before, times, forecast, known = _rank_times(rows, lag)
        is_told = np.array([truth is not None for truth in rows.truths], dtype=bool)
        asked = np.flatnonzero(slots < 0)
        asked = asked[np.lexsort((times[asked], before[asked]))]
        waiting = np.flatnonzero(is_told & (slots >= 0))
        waiting = waiting[[self.seen.truths[slot] is None for slot in slots[waiting].tolist()]]
        # What was known when one row was forecast is known for all that come later.
        due = np.searchsorted(np.maximum.accumulate(forecast[asked]), known)
        told = np.flatnonzero(is_told[asked])
        sources = np.concatenate((waiting, asked[told]))
        after = np.concatenate((due[waiting], np.maximum(due[asked[told]], told + 1)))
        order = np.lexsort((known[sources], after))
        return asked, sources[order], after[order]

    def _add_open(self, slots: list[int], table: set[Key]) -> tuple[list[int], Counts]:
        """Return what is answered, before each slot those that waited for its outcome; and by which.

        Those of the table have an outcome of their own, or none.
        """
        seen, told = self.seen, set[Key]()
        answers: list[int] = []
        places: list[int] = []
        for place, slot in enumerate(slots):
            for key in seen.open.get(seen.keys[slot][:2], ()):
                if key not in table and key not in told:
                    told.add(key)
                    answers.append(seen.slots[key])
                    places.append(place)
            answers.append(slot)
            places.append(place)
        return answers, np.array(places, dtype=np.int64)

    def _run(self, rows: Rows, events: _Events) -> None:
        """Let these happen.

        Predictors have nothing in common but the pool, which hears residuals and not what was shown:
        so the pool goes first, and then each predictor plays its own rounds.
        """
        seen, (_, first, answered, truths, _) = self.seen, events
        bands = self._find_bands(rows, events)
        is_known = np.all([ends[:, 0] < ends[:, 1] for ends in bands], axis=0)
        if not bands:
            is_known = np.ones(len(events.asked), dtype=bool)
        has_round = np.array([seen.numbers[slot] >= 0 for slot in answered.tolist()], dtype=bool)
        is_new = answered >= first
        has_round[is_new] = is_known[answered[is_new] - first]
        without = np.flatnonzero(~has_round).tolist()
        seen.close(answered[without].tolist(), [truths[at] for at in without])
        self._play(rows, events, self._list_rounds(events, is_known, has_round), bands)

    def _find_bands(self, rows: Rows, events: _Events) -> list[Array]:
        """Return the bands that predictors read, on each level; none if they read something else."""
        asked, pool = events.asked.tolist(), self.pool
        outputs = [rows.outputs[row] for row in asked]
        if self.score.kind != "band":
            return []
        if pool is None:
            return [np.array(outputs, dtype=np.float64).reshape(-1, 2)] * len(self._alphas)
        series = [key[0] for key in self.seen.keys[events.first : events.first + len(asked)]]
        answered = events.answered.tolist()
        told = [self.seen.keys[slot][0] for slot in answered]
        centres = np.array(outputs, dtype=np.float64)
        before = [float(self.seen.outputs[slot]) for slot in answered]
        residuals = [float(one) - other for one, other in zip(events.truths, before, strict=True)]
        found: list[list[tuple[float, float]]] = [[] for _ in self._alphas]
        done, starts = 0, np.unique(events.after, return_index=True)[1].tolist()
        for start, stop in pairwise([*starts, len(answered)]):
            until = int(events.after[start])
            for bands, alpha in zip(found, self._alphas, strict=True):
                bands += pool.find_bands(series[done:until], centres[done:until], alpha)
            pool.add_all(told[start:stop], before[start:stop], residuals[start:stop])
            done = until
        for bands, alpha in zip(found, self._alphas, strict=True):
            bands += pool.find_bands(series[done:], centres[done:], alpha)
        return [centres[:, None] + np.array(bands, dtype=float).reshape(-1, 2) for bands in found]

    def _list_rounds(self, events: _Events, is_known: Any, has_round: Any) -> _Rounds:
        asked, answers = np.flatnonzero(is_known), np.flatnonzero(has_round)
        told = events.answered[answers]
        old = told[told < events.first]
        slots = np.concatenate((events.first + asked, old))
        owners = np.array([self.seen.predictors[slot] for slot in slots.tolist()], dtype=np.int64)
        order = np.argsort(owners, kind="stable")
        used, begins, whose = np.unique(owners[order], return_index=True, return_inverse=True)
        place_of = np.zeros(len(self.seen.outputs), dtype=np.int64)  # by slot
        place_of[slots[order]] = np.arange(len(slots))
        truths = [None] * len(slots)
        for place, at in zip(place_of[told].tolist(), answers.tolist(), strict=True):
            truths[place] = events.truths[at]
        places = np.concatenate((place_of[events.first + asked], place_of[told]))
        local = places - begins[whose[places]] if len(places) else places
        local[len(asked) :] = -1 - local[len(asked) :]
        when = np.concatenate((2 * asked + 1, 2 * events.after[answers]))
        in_order = np.lexsort((when, whose[places]))
        ends = np.searchsorted(whose[places][in_order], np.arange(len(used) + 1)).tolist()
        starts = zip([*used.tolist(), -1], [*begins.tolist(), len(slots)], ends, strict=True)
        which = np.concatenate((asked, np.full(len(old), -1)))[order]
        return _Rounds(slots[order].tolist(), which, truths, local[in_order], list(starts))

    def _play(self, rows: Rows, events: _Events, rounds: _Rounds, bands: list[Array]) -> None:
        """Let each predictor play its rounds, at once if it can."""
        predictors, truths = list(self.predictors.values()), np.zeros(0)
        if bands:
            truths = np.array([nan if one is None else float(one) for one in rounds.truths])
            known = np.hstack((rows.features, rows.groups))[events.asked]
            # Behind each table stands a row of nothing, for rounds that were open before.
            context, *bands = (
                np.vstack((each, np.full(each.shape[1], nan)))[rounds.asked] for each in (known, *bands)
            )
            numbers = [self.seen.numbers[slot] for slot in rounds.slots]
        for (owner, start, begin), (_, stop, end) in pairwise(rounds.starts):
            own, shown = rounds.events[begin:end], None
            if bands:
                plans = [
                    Plan(
                        numbers[start:stop], ends[start:stop], truths[start:stop], context[start:stop],
                        own, len(rounds.events),
                    )
                    for ends in bands
                ]  # fmt: skip
                shown = predictors[owner]._play(plans)  # noqa: SLF001
            if shown is None:
                self._play_one_by_one(predictors[owner], rows, events, rounds, bands, start, own)
            else:
                self._note(rounds, start, *shown)

    def _note(self, rounds: _Rounds, start: int, numbers: list[int], ends: list[Any]) -> None:
        """Keep what was shown of the rounds from a place on, and their outcomes."""
        seen, stop = self.seen, start + len(numbers)
        slots, truths = rounds.slots[start:stop], rounds.truths[start:stop]
        for slot, number in zip(slots, numbers, strict=True):
            seen.numbers[slot] = number
        for level, (lower, upper) in zip(seen.shown, ends, strict=True):
            for slot, both in zip(slots, zip(lower, upper, strict=True), strict=True):
                level[slot] = both
        told = [place for place, truth in enumerate(truths) if truth is not None]
        seen.close([slots[place] for place in told], [truths[place] for place in told])

    def _play_one_by_one(
        self,
        predictor: AnyPredictor,
        rows: Rows,
        events: _Events,
        rounds: _Rounds,
        bands: list[Array],
        start: int,
        own: Counts,
    ) -> None:
        seen = self.seen
        for event in own.tolist():
            place = start + (event if event >= 0 else -1 - event)
            slot = rounds.slots[place]
            if event < 0:
                predictor.learn(seen.numbers[slot], label=rounds.truths[place])
                seen.close([slot], [rounds.truths[place]])
                continue
            known = rows.read_known(int(events.asked[rounds.asked[place]]))
            if self.pool is None:
                shown = predictor.predict(seen.outputs[slot], **known)
            elif isinstance(predictor, Predictor):
                shown = predictor.predict(tuple(bands[0][place].tolist()), **known)
            else:
                each = zip(self._alphas, (tuple(ends[place].tolist()) for ends in bands), strict=True)
                shown = predictor.predict(outputs=dict(each), **known)
            seen.numbers[slot] = shown.id
            each_level = shown.values() if self.has_levels else [shown]
            for level, one in zip(seen.shown, each_level, strict=True):
                level[slot] = (one.lower, one.upper) if isinstance(one, Interval) else list(one.labels)

    def check_outcomes(self, rows: Rows) -> None:
        """Raise before the first answer if it is not certain which open round an outcome is of."""
        outcomes: dict[At, Any] = {}
        for row, at in enumerate(self._find_all(rows)):
            waiting, truth = len(self.seen.open.get(at, ())), rows.truths[row]
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

    def _find_all(self, rows: Rows) -> list[At]:
        """Return of which series and time each row is; -1 is one that was never seen."""
        series = [self.seen.series.find(one) for one in rows.series.values]
        times = [self.seen.times.find(one) for one in rows.times.values]
        codes = zip(rows.series.codes.tolist(), rows.times.codes.tolist(), strict=True)
        return [(series[one], times[time]) for one, time in codes]

    def learn(self, rows: Rows) -> int:
        outcomes: dict[At, Any] = {}
        for at, truth in zip(self._find_all(rows), rows.truths, strict=True):
            outcomes.setdefault(at, truth)
        seen = self.seen
        answers = [
            (seen.slots[key], truth) for at, truth in outcomes.items() for key in seen.open.get(at, ())
        ]
        nobody = np.zeros(0, dtype=np.int64)
        slots = np.array([slot for slot, _ in answers], dtype=np.int64)
        truths = [truth for _, truth in answers]
        self._run(rows, _Events(nobody, len(seen.outputs), slots, truths, np.zeros_like(slots)))
        return len(answers)

    def list_amendments(self, rows: Rows) -> list[tuple[int, Any]]:
        """Return the slots of rows that had another outcome, and what it is now; or raise."""
        seen, predictors = self.seen, list(self.predictors.values())
        truths, places = dict[At, Any](), dict[At, int]()
        known = {key[:2] for key in seen.slots}
        for row, at in enumerate(self._find_all(rows)):
            if at in known and truths.setdefault(at, rows.truths[row]) != rows.truths[row]:
                raise InvalidError(
                    f"{rows.name(row)} has the outcomes {truths[at]} and {rows.truths[row]} in this "
                    "table; leave one of them out"
                )
            places[at] = row
        found = []
        for key, slot in seen.slots.items():
            truth, before, number = truths.get(key[:2]), seen.truths[slot], seen.numbers[slot]
            if truth is None or before is None or before == truth:
                continue
            try:
                if self.pool is None:
                    self.score.read(seen.outputs[slot]).score(truth)
                else:
                    check_number(truth, "true value")
                for one in self._split(predictors[seen.predictors[slot]]) if number >= 0 else ():
                    one._answered.find(number)  # noqa: SLF001
            except (AnsweredError, ScoreError, LabelError) as error:
                raise type(error)(f"{rows.name(places[key[:2]])}: {error}") from None
            found.append((slot, truth))
        return found

    def amend(self, amendments: Iterable[tuple[int, Any]]) -> None:
        predictors, seen = list(self.predictors.values()), self.seen
        for slot, truth in amendments:
            if seen.numbers[slot] >= 0:
                predictors[seen.predictors[slot]].amend(seen.numbers[slot], label=truth)
            if self.pool is not None:
                series, forecast = seen.keys[slot][0], float(seen.outputs[slot])
                before = float(seen.truths[slot])
                self.pool.amend(series, before - forecast, float(truth) - forecast)
            seen.truths[slot] = truth

    def calibrate(self, rows: Rows) -> None:
        """Teach the outcomes of the past, each as if it had come before the next forecast."""
        owners = self._find_predictors(rows, np.arange(len(rows)))
        series = self.seen.series.add_cells(rows.series).tolist()
        played = defaultdict(list)
        for row, (output, truth) in enumerate(zip(rows.outputs, rows.truths, strict=True)):
            outputs = [output] * len(self._alphas)
            if self.pool is not None:
                outputs = self._find_outputs(series[row], float(output))
                self.pool.add_all([series[row]], [float(output)], [float(truth) - float(output)])
            if outputs:
                played[owners[row]].append((row, outputs))
        predictors = list(self.predictors.values())
        for owner, history in played.items():
            each = [rows.read_known(row) for row, _ in history]
            known = {what: [one[what] for one in each] for what in each[0]}
            truths = [rows.truths[row] for row, _ in history]
            for place, predictor in enumerate(self._split(predictors[owner])):
                predictor.calibrate([outputs[place] for _, outputs in history], truths, **known)

    def _find_outputs(self, series: int, centre: float) -> list[tuple[float, float]]:
        pool: Any = self.pool
        bands = []
        for alpha in self._alphas:
            ((lower, upper),) = pool.find_bands([series], np.array([centre]), alpha)
            bands.append((centre + lower, centre + upper))
        return bands if all(lower < upper for lower, upper in bands) else []

    def _split(self, predictor: AnyPredictor) -> list[Predictor[Any]]:
        if isinstance(predictor, Predictor):
            return [predictor]
        return [predictor[alpha] for alpha in self._alphas]


def _rank_times(rows: Rows, lag: object) -> tuple[Counts, Counts, Counts, Counts]:
    """Return when rows are forecast, of which time they are, what they know, and when they are known.

    What is known at the cutoff of a row is known when it is forecast; of a row without a cutoff, what
    is known before its time. All four are ranks, the latter two twice them, or one less.
    """
    times, cutoffs = rows.times.values, rows.cutoffs.values
    known = times if lag is None else [time + lag for time in times]
    every = {*times, *known, *cutoffs} - {None}
    ranks = {time: place for place, time in enumerate(sorted(every))}
    at = rows.times.spread([ranks[time] for time in times])
    cut = rows.cutoffs.spread([ranks.get(cutoff, -1) for cutoff in cutoffs])
    before = np.where(cut < 0, at, cut)
    told = rows.times.spread([ranks[time] for time in known])
    return before, at, 2 * before - (cut < 0), 2 * told
