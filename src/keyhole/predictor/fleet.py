"""Many predictors of one setup, side by side: arrays in, arrays out."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.checks import is_whole
from keyhole.errors import AnsweredError, FeedbackError, InvalidError, NotCompiledError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Ask, Learner
from keyhole.learners.entries import check_choices
from keyhole.learners.rule import check_learner
from keyhole.numeric import Array, bind, can_compile, compile_for, compile_function, kernel
from keyhole.predictor.show import show_rates
from keyhole.scores.checks import check_scores

_NOTHING = np.zeros(0)

# What stands for these names is bound anew for every rule.
_choose: Any = None
_observe: Any = None
_row: Any = None
_State: Any = None


class Fleet:
    """So many predictors with one learner's parameters, each with a round open at the most.

    Each makes the choices of a ``Predictor`` that is answered at once, over arrays: many times faster
    than one by one. Only for rules that draw nothing and take no features or groups. ``rounds`` and
    ``misses`` count those of each.

    Parameters
    ----------
    learner
        What all of them have in common.
    count
        How many there are.

    Examples
    --------
    >>> from keyhole import make
    >>> fleet = Fleet(make("logit-tracker", alpha=0.1), 3)
    >>> sets = fleet.predict([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    >>> sets.tolist()
    [[True, False], [True, False], [False, True]]
    >>> fleet.learn(labels=[0, 1, 1])
    >>> fleet.misses.tolist()
    [0, 1, 0]
    """

    def __init__(self, learner: Learner, count: int) -> None:
        check_learner(learner)
        if learner.rule.draws or learner.context:
            raise InvalidError(
                f"{learner.name} draws, or takes features or groups; give each its own Predictor"
            )
        if not is_whole(count, least=1):
            raise InvalidError(f"{count!r} predictors are no fleet; give a whole number from 1")
        self.learner = learner
        first = learner.start_arrays()
        self._states = type(first)(*(np.repeat(part[None], count, axis=0) for part in first))
        self._memos = np.zeros((count, learner.memory))
        self._loops = _make_loops(learner, type(first), len(first))
        self._open: tuple[NDArray[np.int64], Array, Array] | None = None
        self.rounds = np.zeros(count, dtype=np.int64)
        self.misses = np.zeros(count, dtype=np.int64)

    def __len__(self) -> int:
        return int(self.rounds.size)

    def __repr__(self) -> str:
        return f"<Fleet of {len(self):,}, {self.learner.name}: {int(self.rounds.sum()):,} rounds>"

    def _repr_html_(self) -> str:
        rounds = int(self.rounds.sum())
        rate = float(self.misses.sum()) / rounds if rounds else math.nan
        rows = {
            "learner": self.learner.name,
            "predictors": f"{len(self):,}",
            "rounds": f"{rounds:,}",
        }
        return show_rates(rows, rate, self.learner.alpha)

    def predict(self, scores: ArrayLike, *, rows: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return which labels each set holds, a row of scores for each predictor, or for these.

        It stays open until it is answered; asked again before, it is asked anew.
        """
        table = check_scores(scores)
        asked = np.arange(len(self)) if rows is None else self._check_rows(rows)
        if table.ndim != 2 or table.shape[0] != asked.size or np.unique(asked).size != asked.size:
            raise FeedbackError(
                f"scores of shape {table.shape} came for {asked.size} predictors; give a row for each, "
                "and each predictor once"
            )
        thresholds = np.empty(asked.size)
        self._loops[0](self.learner.settings, self._states, self._memos, asked, thresholds)
        check_choices(self.learner.name, thresholds)
        self._open = (asked, table, thresholds)
        return table >= thresholds[:, None]

    def _check_rows(self, given: ArrayLike) -> NDArray[np.int64]:
        """Return the places of these predictors, or raise: a compiled loop would write anywhere."""
        rows = _read_array(given)
        whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        if not whole or (rows < 0).any() or (rows >= len(self)).any():
            raise InvalidError(f"rows {rows.tolist()} are not places from 0 to {len(self) - 1}")
        return rows.astype(np.int64)

    def learn(self, *, labels: ArrayLike | None = None, missed: ArrayLike | None = None) -> None:
        """Answer the sets of the last ``predict``: with the true labels' places, or miss by miss."""
        if self._open is None:
            raise AnsweredError("no sets are open; predict first")
        if (labels is None) == (missed is None):
            raise FeedbackError("give labels, or which sets missed, one of the two")
        rows, table, thresholds = self._open
        scores = np.full(rows.size, np.nan)
        if labels is not None:
            places = _read_array(labels)
            if places.shape != rows.shape or places.dtype.kind not in "iu":
                raise FeedbackError(f"give {rows.size} labels, each the place of a score, from 0")
            if places.min() < 0 or places.max() >= table.shape[1]:
                raise FeedbackError(f"labels are not places from 0 to {table.shape[1] - 1}")
            scores = table[np.arange(rows.size), places]
        told = scores < thresholds if missed is None else _read_array(missed)
        truths = told.dtype.kind == "b" or (told.dtype.kind in "iuf" and np.isin(told, (0, 1)).all())
        if told.shape != rows.shape or not truths:
            raise FeedbackError(
                f"missed={missed!r} does not say of {rows.size} sets which missed; give True or False "
                "for each"
            )
        told = told.astype(np.bool_)
        heard = self._hear(scores, told)
        self._loops[1](self.learner.settings, self._states, self._memos, rows, told, heard)
        self.rounds[rows] += 1
        self.misses[rows] += told
        self._open = None

    def _hear(self, scores: Array, missed: NDArray[np.bool_]) -> Array:
        """Return the scores as far as the learner uses them, or raise if it needs unknown ones."""
        needs = self.learner.needs
        if needs is Needs.HIT_OR_MISS:
            return np.full(scores.size, np.nan)
        used = scores if needs is Needs.LABEL_ALWAYS else np.where(missed, np.nan, scores)
        wanted = np.ones(scores.size, dtype=np.bool_) if needs is Needs.LABEL_ALWAYS else ~missed
        if np.isnan(used[wanted]).any():
            raise FeedbackError(f"{self.learner.name} needs {needs.value!r}; give labels=")
        return used


def _read_array(given: Any) -> NDArray[Any]:
    """Return what was given as an array; of lists that are not equally long, one of objects."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.asarray(given, dtype=object)


@kernel
def _choose_many(
    settings: Any, states: Any, memos: Array, rows: NDArray[np.int64], thresholds: Array
) -> None:
    for n in range(rows.size):
        place = rows[n]
        thresholds[n] = _choose(settings, _row(states, place), memos[place], Ask(0.5, thresholds[:0]))


@kernel
def _observe_many(
    settings: Any,
    states: Any,
    memos: Array,
    rows: NDArray[np.int64],
    missed: NDArray[np.bool_],
    scores: Array,
) -> None:
    for n in range(rows.size):
        place = rows[n]
        answer = Answer(1.0 if missed[n] else 0.0, scores[n], 0.0, 0.0, 0.0)
        _observe(settings, _row(states, place), memos[place], answer)


@kernel
def _row_1(s: Any, n: int) -> Any:
    return _State(s[0][n])


@kernel
def _row_2(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n])


@kernel
def _row_3(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n])


@kernel
def _row_4(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n], s[3][n])


@kernel
def _row_5(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n], s[3][n], s[4][n])


@kernel
def _row_6(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n], s[3][n], s[4][n], s[5][n])


@kernel
def _row_7(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n], s[3][n], s[4][n], s[5][n], s[6][n])


@kernel
def _row_8(s: Any, n: int) -> Any:
    return _State(s[0][n], s[1][n], s[2][n], s[3][n], s[4][n], s[5][n], s[6][n], s[7][n])


# A compiler wants the number of parts spelt out.
_ROWS = (_row_1, _row_2, _row_3, _row_4, _row_5, _row_6, _row_7, _row_8)


def _make_loops(learner: Learner, state: Any, parts: int) -> tuple[Any, Any]:
    """Return the loops over many states, compiled where they can be."""
    if parts > len(_ROWS):
        raise InvalidError(f"{learner.name} has too many parts of state; give each its own Predictor")
    row = bind(_ROWS[parts - 1], _State=state)
    rule = learner.rule
    plain = (
        bind(_choose_many, _choose=rule.choose, _row=row),
        bind(_observe_many, _observe=rule.observe, _row=row),
    )
    if not can_compile():
        return plain
    made = compile_function(plain[0]), compile_function(plain[1])
    first = learner.start_arrays()
    states = type(first)(*(part[None].copy() for part in first))
    common = (learner.settings, states, np.zeros((1, learner.memory)), np.zeros(1, dtype=np.int64))
    try:
        compile_for(made[0], *common, np.zeros(1))
        compile_for(made[1], *common, np.zeros(1, dtype=np.bool_), np.zeros(1))
    except NotCompiledError:
        return plain
    return made
