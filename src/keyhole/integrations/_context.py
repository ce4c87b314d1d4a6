"""Features and groups of many cases, read from the columns of their table or given beside it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keyhole.errors import InvalidError
from keyhole.integrations._cells import is_missing

Columns = Sequence[str | int] | None


def name_columns(columns: Columns) -> list[str] | None:
    """Return what a predictor calls these columns: those that are only numbered x0, x1 and so on."""
    if columns is None or isinstance(columns, str):
        return columns  # type: ignore[return-value]  # the predictor says what is wrong with text
    return [f"x{column}" if isinstance(column, int | np.integer) else column for column in columns]


def read_context(
    table: Any, *, features: Columns, groups: Columns, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the features and the groups of every row, as ``predict_batch`` takes them.

    ``given`` holds what came beside the table, or None: then they are columns of it. Those of groups
    say by true or false, or by 1 or 0, whether a row is in the group.
    """
    known = dict(given)
    if features is not None and known["features"] is None:
        known["features"] = np.column_stack([_column(table, c, "features") for c in features])
    if groups is not None and known["groups"] is None:
        flags = [_read_flags(_column(table, column, "groups"), column) for column in groups]
        known["groups"] = [list(np.flatnonzero(row)) for row in np.column_stack(flags)]
    return known


def read_case(x: Mapping[Any, Any], *, features: Columns, groups: Columns) -> dict[str, Any]:
    """Return the features and the groups of one case, as ``predict`` takes them."""
    known: dict[str, Any] = {}
    if features is not None:
        known["features"] = {name: x.get(name) for name in features}
    if groups is not None:
        known["groups"] = _true_groups(groups, x)
    return known


def _true_groups(groups: Iterable[Any], x: Mapping[Any, Any]) -> list[Any]:
    return [name for name in groups if _is_member(x.get(name), name)]


def _read_flags(column: Any, name: Any) -> list[bool]:
    return [_is_member(value, name) for value in column.tolist()]


def _is_member(value: Any, group: Any) -> bool:
    """Return whether a cell says that a case is in a group; one that holds nothing says no."""
    if is_missing(value):
        return False
    if value in (0, 1):
        return bool(value)
    raise InvalidError(
        f"group {group!r} holds {value!r}; say by true or false, or 1 or 0, who is in it",
    )


def _column(table: Any, column: str | int, kind: str) -> Any:
    """Return a column by name or number, or raise with the remedy."""
    names = getattr(table, "columns", None)
    if isinstance(column, str) and names is not None and column in list(names):
        return np.asarray(table[column])
    if names is None and not isinstance(column, str) and 0 <= column < np.shape(table)[1]:
        return np.asarray(table)[:, column]
    has = f"a table of {np.shape(table)[1]} columns without names" if names is None else "the table"
    raise InvalidError(
        f"{has} has no column {column!r}; give {kind}=... beside it, a row for each case",
    )
