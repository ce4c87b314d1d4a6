"""What the adapters share: a predictor of their parameters, and cases and answers read from tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from keyhole.checks import is_missing
from keyhole.errors import FeedbackError, InvalidError
from keyhole.learners import Learner
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Region, Score

Columns = Sequence[str | int] | None


class Wrapper(Protocol):
    """An adapter, with the parameters that it has in common with a predictor."""

    features: Any  # columns, which each adapter names in its own way
    groups: Any
    alpha: float
    learner: Any
    feedback: str
    history: int


def start_predictor(wrapper: Wrapper, kind: Score[Any], *, seed: int | None) -> Predictor[Any]:
    return Predictor(
        wrapper.learner,
        alpha=None if isinstance(wrapper.learner, Learner) else wrapper.alpha,
        score=kind,
        features=_name_columns(wrapper.features),
        groups=_name_columns(wrapper.groups),
        feedback=wrapper.feedback,
        seed=seed,
        history=wrapper.history,
    )


def _name_columns(columns: Columns) -> list[str] | None:
    """Return what a predictor calls these columns: those that are only numbered x0, x1 and so on."""
    if columns is None or isinstance(columns, str):
        return columns  # type: ignore[return-value]  # the predictor says what is wrong with text
    return [f"x{column}" if isinstance(column, int | np.integer) else column for column in columns]


def list_names(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def learn_rows(
    predictor: Predictor[Any], shown: Iterable[Region | int], answers: Iterable[object]
) -> None:
    """Answer the rounds that have an answer, all or none of them."""
    predictions = list(shown)
    given = answers.tolist() if isinstance(answers, np.ndarray) else list(answers)
    if len(predictions) != len(given):
        raise FeedbackError(
            f"{len(given)} answers came for {len(predictions)} predictions; give one for each, and "
            "None where there is none yet"
        )
    pairs = zip(predictions, given, strict=True)
    known = [(one, answer) for one, answer in pairs if not is_missing(answer)]
    predictor.learn_batch([one for one, _ in known], [answer for _, answer in known])


def read_context(
    wrapper: Wrapper, table: object, *, features: object, groups: object
) -> dict[str, Any]:
    """Return the features and the groups of every row, as ``predict_batch`` takes them.

    Where they are not given beside the table they are columns of it. Those of groups say by true or
    false, or by 1 or 0, whether a row is in the group.
    """
    if wrapper.features is not None and features is None:
        features = np.column_stack([_column(table, c, "features") for c in wrapper.features])
    if wrapper.groups is not None and groups is None:
        flags = [
            [is_member(value, name) for value in _column(table, name, "groups").tolist()]
            for name in wrapper.groups
        ]
        groups = [list(np.flatnonzero(row)) for row in np.column_stack(flags)]
    return {"features": features, "groups": groups}


def read_case(wrapper: Wrapper, x: Mapping[Any, object]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    if wrapper.features:
        known["features"] = {name: x.get(name) for name in wrapper.features}
    if wrapper.groups:
        known["groups"] = [name for name in wrapper.groups if is_member(x.get(name), name)]
    return known


def is_member(value: object, group: str | int) -> bool:
    """Return whether a cell says that a case is in a group; one that holds nothing says no."""
    if is_missing(value):
        return False
    if value in (0, 1):
        return bool(value)
    raise InvalidError(
        f"group {group!r} holds {value!r}; say by true or false, or 1 or 0, who is in it"
    )


def _column(table: Any, column: str | int, kind: str) -> Any:
    names = getattr(table, "columns", None)
    if isinstance(column, str) and names is not None and column in list(names):
        return np.asarray(table[column])
    if names is None and not isinstance(column, str) and 0 <= column < np.shape(table)[1]:
        return np.asarray(table)[:, column]
    has = f"a table of {np.shape(table)[1]} columns without names" if names is None else "the table"
    raise InvalidError(
        f"{has} has no column {column!r}; give {kind}=... beside it, a row for each case"
    )
