"""Tables of forecasts or of class probabilities, in pandas, polars or what else narwhals reads.

A table in the form of statsforecast and its kin: one row a series (``unique_id``) and time (``ds``),
a column with each model's forecast, and the outcome ``y`` where it is known. ``cutoff``, where there
is such a column, is when the row was forecast; without it, just before ``ds``.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from keyhole import scores
from keyhole.checks import is_list
from keyhole.errors import InvalidError, LabelError, SnapshotError
from keyhole.integrations._cases import list_names
from keyhole.integrations._evaluate import draw_fan, evaluate, name_level
from keyhole.integrations._forecasts import (
    TABLE,
    Columns,
    Forecasts,
    Models,
    Pair,
    Rows,
    check_order,
    find_known,
    make_column,
    make_table,
    name_models,
    read_numbers,
)
from keyhole.integrations._pool import ResidualPool
from keyhole.integrations._series import AnyPredictor, Model
from keyhole.integrations._series_file import pack_model, pack_value, unpack_model, unpack_value
from keyhole.learners import Learner
from keyhole.predictor import file
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Probabilities, QuantileBands, ScaledResiduals, Score

__all__ = ["Backtest", "SeriesPredictors", "backtest", "evaluate"]

_SETS = "sets"  # what the columns of class probabilities are kept as
_KEPT = 10_000
_OPTIONS = (
    "alpha", "features", "groups", "learner", "feedback", "seed", "amend_limit", "pool", "asymmetric",
    "per_horizon", "keep", "series", "time", "truth", "cutoff",
)  # fmt: skip


class SeriesPredictors:
    """A predictor for every series of a table, made when the series is first seen.

    Parameters
    ----------
    alpha
        The share of intervals or sets, in each series, that may miss. Several, such as
        ``[0.05, 0.1, 0.2]``, give nested intervals, each with its own promise.
    levels
        The same in percent, as forecasters write it: ``[80, 90, 95]`` for alphas .2, .1 and .05.
    score
        How to read a forecast; by default ``keyhole.ScaledResiduals`` for a column, ``QuantileBands``
        for two quantiles, and ``keyhole.Probabilities`` for sets.
    features
        The names of columns, or of what a table knows by itself: "hour", "weekday", "month",
        "horizon", "forecast" and "spread", how far apart several models' forecasts are. By default all
        that the first table of forecasts knows, where its times are dates and no learner is named;
        ``features`` and ``repr`` then say which. None for none.
    groups
        The names of the columns that say, by true or false, or 1 or 0, whether a row is in a group
        that must be covered separately.
    learner, feedback, seed, amend_limit
        As for ``keyhole.Predictor``, for each series; series n has the seed ``seed + n``.
    pool
        Whether intervals of the default score start from what the other series have shown; each
        predictor then corrects a band (``keyhole.QuantileBands``) that the pool proposes for its
        series. Until any outcome is known, intervals are the whole line, and no round is counted.
    asymmetric
        Whether the ends of an interval may lie differently far from its forecast: alpha is then split
        between both sides so that the interval is shortest, from the series' last 400 residuals.
    per_horizon
        Whether each step ahead, ``ds`` less ``cutoff``, has predictors of its own.
    keep
        How many rows of each series to keep, on average, for ``history`` and so that a row that comes
        again is not counted again.
    series, time, truth, cutoff
        The names of the columns; ``series`` may be several, such as ``["unique_id", "shop"]``.

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
        alpha: float | Sequence[float] | None = None,
        levels: Sequence[float] | None = None,
        score: Score[Any] | None = None,
        features: Sequence[str] | None = TABLE,
        groups: Sequence[str] = (),
        learner: str | None = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        amend_limit: int = 0,
        pool: bool = True,
        asymmetric: bool = False,
        per_horizon: bool = False,
        keep: int = _KEPT,
        series: str | Sequence[str] = "unique_id",
        time: str = "ds",
        truth: str = "y",
        cutoff: str = "cutoff",
    ) -> None:
        self.alpha = _read_alpha(alpha, levels)
        self.score, self.learner = score, learner
        # None until the first table of forecasts says what it knows.
        self.features = None if features == TABLE and learner is None else _list_features(features)
        self.groups = tuple(groups)
        self.feedback, self.seed, self.amend_limit = feedback, seed, amend_limit
        self.pool, self.asymmetric, self.per_horizon, self.keep = pool, asymmetric, per_horizon, keep
        self.series = list_names(series)
        self.time, self.truth, self.cutoff = time, truth, cutoff
        self._models: dict[str, Model] = {}
        self._implementation: Any = "pandas"  # of the last table
        if asymmetric and (score is not None or not pool):
            raise InvalidError(
                "asymmetric intervals come from the residuals of the default score and its pool; leave "
                "score and pool out"
            )
        self._start_predictor(Probabilities(), 0)  # refuses wrong parameters now

    def __repr__(self) -> str:
        known = "to be found" if self.features is None else ", ".join(self.features) or "none"
        alphas = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"<SeriesPredictors, alpha {alphas}: {len(self)} series, features: {known}>"

    @property
    def alphas(self) -> tuple[float, ...]:
        """The target miss rates, from the smallest to the largest."""
        return (self.alpha,) if isinstance(self.alpha, float) else tuple(sorted(self.alpha))

    @property
    def models(self) -> list[str]:
        """The names of the models that were seen."""
        return list(self._models)

    def __getitem__(self, which: Any) -> Any:
        """Return the predictor of a series that was seen; of several models, of (series, model)."""
        if len(self._models) <= 1:
            return self.predictors()[which]
        try:
            series, model = which
            return self.predictors(model)[series]
        except (TypeError, ValueError, KeyError, InvalidError):
            names = ", ".join(map(repr, self._models))
            raise KeyError(f"{which!r}: give (series, model); the models are {names}") from None

    def __iter__(self) -> Iterator[Hashable]:
        return iter({name: None for model in self._models.values() for name in model.predictors})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def predictors(self, model: str | None = None) -> dict[Hashable, AnyPredictor]:
        """Return the predictors of a model by series; with ``per_horizon`` by (series, step)."""
        return dict(self._find(model).predictors) if self._models else {}

    def _find(self, model: str | None) -> Model:
        if model is None and len(self._models) == 1:
            return next(iter(self._models.values()))
        if model not in self._models:
            names = ", ".join(map(repr, self._models)) or "none yet"
            raise InvalidError(f"there is no model {model!r}; those that were seen: {names}")
        return self._models[model]

    def add_intervals(self, table: object, models: Models, *, lag: object = None) -> Any:
        """Return the table with the columns ``MODEL-lo-LEVEL`` and ``MODEL-hi-LEVEL``.

        Series by series and in order of time, each row is predicted and, where its outcome is known,
        answered before the rows that were forecast later. Rows without an outcome stay open. A row that
        was seen before is not counted again: it is shown what it was shown then.

        Parameters
        ----------
        table
            A table in memory.
        models
            The column of a model's forecast; or its two columns of quantiles, ``("q10", "q90")``, which
            are then corrected; or several of these in a list, or by name in a dict.
        lag
            How long after ``ds`` an outcome is known, where that is not at once.
        """
        named = name_models(models)
        frame, given = self._read(table, named)
        for name, rows in given.items():
            shown = self._start_model(name, named[name]).play(rows, lag=lag)
            ends = _name_ends(name, self.alphas, shown)
            frame = frame.with_columns(*(make_column(frame, *one) for one in ends.items()))
        return frame.to_native()

    def calibrate(self, table: object, models: Models) -> None:
        """Teach forecasts and outcomes of the past, before the first interval; no round is counted.

        Each series learns as if each of its outcomes had come before the next forecast.
        """
        named = name_models(models)
        self._columns.open(table, [self.truth])
        given = {name: rows.pick_known() for name, rows in self._read(table, named)[1].items()}
        if not any(map(len, given.values())):
            raise InvalidError(
                f"no row of this history has an outcome; fill the column {self.truth!r}, or leave "
                "calibrate out"
            )
        for name, rows in given.items():
            self._start_model(name, named[name]).calibrate(rows)

    def add_sets(self, table: object, labels: Mapping[str, object] | Sequence[str]) -> Any:
        """Return the table with a column ``set``: the labels to show, the most plausible first.

        ``labels`` are the columns that hold a probability each, named as the labels are in the
        truth; where they are named otherwise, a mapping from column to label. A true label that has
        no column counts as a miss out of reach, unless none has one: then it is refused. With several
        levels the columns are ``set-LEVEL``.
        """
        names = dict(labels) if isinstance(labels, Mapping) else {name: name for name in labels}
        self.features = self.features or ()  # For classifiers they cost more than they bring.
        frame = self._open(table, list(names))
        kind = Probabilities(labels=list(names.values())) if self.score is None else self.score
        outputs = list(zip(*(frame[name].to_list() for name in names), strict=True))
        rows = self._columns.make_rows(frame, outputs)
        _check_labels(rows, names)
        rows.check(kind)
        played = self._make_model(_SETS, kind, has_pool=False).play(rows, lag=None)
        for shown, alpha in zip(played, self.alphas, strict=True):
            name = "set" if len(self.alphas) == 1 else f"set-{name_level(alpha)}"
            frame = frame.with_columns(make_column(frame, name, shown))
        return frame.to_native()

    def learn(self, table: object) -> int:
        """Answer open rows by the outcomes of this table; return how many were answered.

        Rows that are not open, or have no outcome, are ignored.
        """
        rows = self._columns.read_outcomes(table)
        for model in self._models.values():
            model.check_outcomes(rows)
            if len(rows) and model.seen.open:
                _, time = next(iter(model.seen.open))
                check_order([rows.times[0], model.seen.times.values[time]], self.time)
        return sum(model.learn(rows) for model in self._models.values())

    def amend(self, table: object) -> int:
        """Correct outcomes that this table has otherwise than they were told; return how many.

        Of each series the last ``amend_limit`` answered rounds can be corrected. If one of them cannot
        be, none is.
        """
        rows = self._columns.read_outcomes(table)
        found = [(model, model.list_amendments(rows)) for model in self._models.values()]
        for model, amendments in found:
            model.amend(amendments)
        return sum(len(amendments) for _, amendments in found)

    def history(self, model: str | None = None) -> Any:
        """Return the rows that were kept, as a table like those that were given.

        Beside the series, ``ds``, ``y`` and, where rows have one, ``cutoff`` it has the model's
        forecast or quantiles, and the intervals as they were shown.
        """
        name = model or next(iter(self._models), None)
        seen = self._find(name).seen
        ids, times, cutoffs = seen.list_keys_kept()
        parts = [ids] if len(self.series) == 1 else [list(part) for part in zip(*ids, strict=True)]
        named = dict(zip(self.series, parts, strict=True))
        named[self.time] = times
        if any(cutoff is not None for cutoff in cutoffs):
            named[self.cutoff] = cutoffs
        named |= _name_outputs(name or "", seen.pick(seen.outputs))
        named[self.truth] = seen.pick(seen.truths)
        shown = [seen.pick(level) for level in seen.shown]
        if name == _SETS:
            levels = [f"set-{name_level(alpha)}" for alpha in self.alphas]
            named |= dict(zip(levels, shown, strict=True))
        else:
            named |= _name_ends(name or "", self.alphas, shown)
        return make_table(named, self._implementation)

    def plot(
        self, series: Hashable, model: str | None = None, *, last: int = 200, axes: object = None
    ) -> Any:
        """Draw the last rows of a series: intervals as a fan, outcomes, and misses; return the axes.

        Of several forecasts of one time it draws the last that was made.
        """
        seen = self._find(model).seen
        ids, times, cutoffs = seen.list_keys_kept()
        own = [place for place, one in enumerate(ids) if one == series]
        if not own:
            raise InvalidError(f"no row of series {series!r} was seen")
        own.sort(key=lambda place: (cutoffs[place] is not None, cutoffs[place]))
        chosen = sorted({times[place]: place for place in own}.values(), key=times.__getitem__)[-last:]

        def cut(column: list[Any]) -> list[Any]:
            kept = seen.pick(column)
            return [kept[place] for place in chosen]

        return draw_fan(
            [times[place] for place in chosen],
            {name_level(alpha): cut(one) for alpha, one in zip(self.alphas, seen.shown, strict=True)},
            outputs=cut(seen.outputs),
            truths=cut(seen.truths),
            title=str(series),
            axes=axes,
        )

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all: predictors, open rows, and rows kept."""
        models, parts = {}, []
        for name, model in self._models.items():
            packed, part = pack_model(model)
            models[name] = {**packed, "score": scores.dump(model.score)}
            parts.append(part)
        options = {name: getattr(self, name) for name in _OPTIONS}
        if self.features is None:
            options["features"] = TABLE
        header = {
            "series": {name: pack_value(value) for name, value in options.items()},
            "score": None if self.score is None else scores.dump(self.score),
            "models": models,
        }
        file.write(Path(path), file.pack(header, b"".join(parts)))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return what was saved; it continues bit for bit. Tables it returns are in pandas' form."""
        header, content = file.unpack(Path(path).read_bytes())
        if "series" not in header:
            raise SnapshotError("this is a snapshot of a single predictor; load it with its class")
        options = {name: unpack_value(value) for name, value in header["series"].items()}
        score = None if header["score"] is None else scores.load(header["score"])
        made = cls(score=score, **options)
        for name, packed in header["models"].items():
            has_pool = packed["pool"] is not None
            model = made._make_model(name, scores.load(packed["score"]), has_pool=has_pool)
            content = unpack_model(model, packed, content)
        return made

    @property
    def _columns(self) -> Columns:
        names = self.series, self.time, self.truth, self.cutoff
        return Columns(*names, self.features or (), self.groups)

    def _open(self, table: object, columns: Sequence[str]) -> Any:
        frame = self._columns.open(table, columns)
        self._implementation = frame.implementation
        return frame

    def _read(self, table: object, named: Mapping[str, str | Pair]) -> tuple[Any, dict[str, Rows]]:
        """Return a table and the rows of each model, all of which can be read; or raise."""
        frame = self._open(table, [column for one in named.values() for column in list_names(one)])
        forecasts = self._find_features(frame, named)
        given = {
            name: self._columns.read_rows(frame, one, name, forecasts) for name, one in named.items()
        }
        for name, rows in given.items():
            rows.check(self._find_score(named[name]))
        return frame, given

    def _find_features(self, frame: Any, named: Mapping[str, str | Pair]) -> Forecasts:
        """Settle which features there are, if this is the first table; return its forecasts."""
        try:  # Of quantiles it is the middle.
            with np.errstate(over="ignore"):
                forecasts = {
                    name: np.mean([read_numbers(frame[column]) for column in list_names(one)], axis=0)
                    for name, one in named.items()
                }
        except (TypeError, ValueError):  # It is refused later, with its row.
            return {}
        if self.features is None:
            names = [self.time, *([self.cutoff] if self.cutoff in frame.columns else [])]
            distinct = frame.select(*names).unique()
            times, cutoffs = self._columns.list_times(distinct)
            self.features = find_known(times.to_list(), cutoffs.to_list(), forecasts)
        return forecasts

    def _find_score(self, column: str | Pair) -> Score[Any]:
        if self.score is not None:
            return self.score
        return ScaledResiduals() if isinstance(column, str) else QuantileBands()

    def _start_model(self, name: str, column: str | Pair) -> Model:
        has_pool = self.pool and self.score is None and isinstance(column, str)
        score = QuantileBands() if has_pool else self._find_score(column)
        return self._make_model(name, score, has_pool=has_pool)

    def _make_model(self, name: str, score: Score[Any], *, has_pool: bool) -> Model:
        if name not in self._models:
            # All series share a learner: to make one takes longer than all else.
            first = self._start_predictor(score, 0)
            learner = first.learner if isinstance(first, Predictor) else None
            self._models[name] = Model(
                partial(self._start_predictor, score, learner=learner),
                score=score,
                alphas=self.alphas,
                pool=ResidualPool(asymmetric=self.asymmetric) if has_pool else None,
                per_horizon=self.per_horizon,
                keep=self.keep,
            )
        return self._models[name]

    def _start_predictor(
        self, score: Score[Any], number: int, *, learner: Learner | None = None
    ) -> AnyPredictor:
        return Predictor(
            learner or self.learner,
            alpha=self.alpha if learner is None else None,
            score=score,
            features=self.features or None,
            groups=self.groups or None,
            feedback=self.feedback,
            seed=None if self.seed is None else self.seed + number,
            amend_limit=self.amend_limit,
        )


@dataclass(frozen=True)
class Backtest:
    """What a table would have been shown, how that has fared, and the predictors as they are now."""

    table: Any
    scores: Any
    predictors: SeriesPredictors


def backtest(
    table: Any,
    models: Models,
    *,
    lag: Any = None,
    by: Sequence[str] = (),
    window: int = 1_000,
    **options: Any,
) -> Backtest:
    """Play a table as it would have come, and evaluate the intervals that it would have been shown.

    ``lag`` is how long after ``ds`` outcomes are known; ``by`` and ``window`` are as for ``evaluate``,
    ``options`` as for ``SeriesPredictors``.

    Examples
    --------
    >>> import numpy, pandas
    >>> outcomes = numpy.random.default_rng(3).normal(size=300)
    >>> table = pandas.DataFrame({"unique_id": "a", "ds": range(300), "Zero": 0.0, "y": outcomes})
    >>> backtest(table, "Zero", levels=[80, 90], seed=7).scores[["level", "coverage"]].round(2)
       level  coverage
    0   90.0      0.89
    1   80.0      0.79
    """
    predictors = SeriesPredictors(**options)
    added = predictors.add_intervals(table, models, lag=lag)
    scores = evaluate(
        added,
        models=list(name_models(models)),
        by=by,
        window=window,
        series=predictors.series,
        time=predictors.time,
        truth=predictors.truth,
        cutoff=predictors.cutoff,
    )
    return Backtest(added, scores, predictors)


def _read_alpha(
    alpha: float | Sequence[float] | None, levels: Sequence[float] | None
) -> float | list[float]:
    if (alpha is None) == (levels is None):
        raise InvalidError(
            "give alpha, the share that may miss, such as 0.1; or levels in percent, such as [80, 90]"
        )
    if levels is not None:
        given = [levels] if isinstance(levels, int | float) else list(levels)
        for level in given:
            if not 1 < level < 100:
                raise InvalidError(f"level {level!r} is not in percent, such as 90", field="levels")
        alphas = [round(1 - level / 100, 10) for level in given]
        return alphas[0] if isinstance(levels, int | float) else alphas
    return list(alpha) if is_list(alpha) else alpha  # type: ignore[arg-type,return-value]


def _list_features(features: Sequence[str] | None) -> tuple[str, ...]:
    return () if features is None or features == TABLE else tuple(features)


def _name_outputs(name: str, outputs: list[Any]) -> dict[str, list[Any]]:
    if not outputs or not isinstance(outputs[0], tuple):
        return {name: outputs}
    return {f"{name}-{place}": list(part) for place, part in enumerate(zip(*outputs, strict=True))}


def _name_ends(
    name: str, alphas: Sequence[float], shown: Sequence[Sequence[tuple[float, float]]]
) -> dict[str, list[float]]:
    columns = {}
    for alpha, ends in zip(alphas, shown, strict=True):
        level = name_level(alpha)
        columns[f"{name}-lo-{level}"] = [lower for lower, _ in ends]
        columns[f"{name}-hi-{level}"] = [upper for _, upper in ends]
    return columns


def _check_labels(rows: Rows, names: Mapping[str, object]) -> None:
    """Raise before the first round if the true labels are named otherwise than the columns' are.

    Where some are, the others were no candidates: they count as out of reach.
    """
    known = list(names.values())
    truths = [(row, truth) for row, truth in enumerate(rows.truths) if truth is not None]
    if truths and not any(truth in known for _, truth in truths):
        row, truth = truths[0]
        raise LabelError(
            f"{rows.name(row)}: the true label {truth!r} ({type(truth).__name__}), like all others, is "
            f"none of {known!r}; convert it, or if the columns are named otherwise than the labels, "
            f"give a mapping from column to label, such as {{{next(iter(names))!r}: {truth!r}}}"
        )
