"""Cells of a table: those that hold nothing, and those of which all must hold something."""

from typing import Any

from keyhole.errors import InvalidError


def is_missing(value: Any) -> bool:
    """Return whether a cell of a table holds nothing: None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA is neither itself nor another; of an array nothing is asked
        return type(value).__name__ == "NAType"


def fill(value: Any) -> Any:
    """Return what a cell holds; None where it holds nothing."""
    return None if is_missing(value) else value


def check_filled(values: list[Any], column: str, what: str) -> None:
    """Raise with the first row that holds nothing."""
    for place, value in enumerate(values):
        if is_missing(value):
            raise InvalidError(
                f"row {place} has no {what}; fill the column {column!r}, or leave it out"
            )


def check_order(times: list[Any], column: str) -> None:
    """Raise if times have no order."""
    try:
        sorted(times)
    except TypeError as error:
        raise InvalidError(
            f"the times in {column!r} have no order ({error}); make them one type"
        ) from None
