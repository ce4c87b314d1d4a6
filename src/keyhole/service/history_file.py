"""Labelled history from a file: CSV with a column for each label, or a JSON object on each line."""

import csv
import json
import os
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from keyhole.errors import InvalidError
from keyhole.service.store.streams.calibrations import AT_ONCE, Past

_LABEL, _CENTRE, _BAND = "label", "centre", ("lower", "upper")
_OUTPUTS = ({"scores"}, {_CENTRE}, {*_BAND})
_BESIDE = {_LABEL, "features", "groups"}


def read_history(path: Path, *, advance: Callable[[int], None]) -> Iterator[list[Past]]:
    """Yield the rounds of a file, some thousands at a time; tell how many bytes were read for them.

    A ``.csv`` has a column ``label``, the true one, and one of scores for each label, named by it; or
    ``label`` is the true value, beside a column ``centre`` or columns ``lower`` and ``upper``. A
    ``.jsonl`` has a line such as ``{"scores": {"cat": 0.7, "dog": 0.3}, "label": "cat"}`` for each
    round, or with ``centre``, or with ``lower`` and ``upper``.
    """
    readers = {".csv": _read_csv, ".jsonl": _read_lines}
    if path.suffix not in readers:
        raise InvalidError(f"{path} is neither a .csv nor a .jsonl file; convert it")
    if not path.is_file():
        raise InvalidError(f"there is no file {path}")
    some: list[Past] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows, done = readers[path.suffix](path, file), 0
        for past in rows:
            some.append(past)
            if len(some) == AT_ONCE:
                yield some
                some, read = [], os.lseek(file.fileno(), 0, os.SEEK_CUR)
                advance(read - done)
                done = read
    if some:
        yield some


def _read_csv(path: Path, file: TextIOWrapper) -> Iterator[Past]:
    rows = csv.reader(file)
    header = next(rows, [])
    if _LABEL not in header or len(header) < 2:
        raise InvalidError(
            f"{path} has the columns {', '.join(header) or 'none'}; it needs 'label' and a column of "
            "scores for each label, or 'label' and 'centre', or 'label', 'lower' and 'upper'"
        )
    place = header.index(_LABEL)
    others = [(k, name) for k, name in enumerate(header) if k != place]
    is_number = {name for _, name in others} in _OUTPUTS[1:]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InvalidError(f"line {number} of {path} has {len(row)} fields, not {len(header)}")
        try:
            output = {name: float(row[k]) for k, name in others}
            truth = float(row[place]) if is_number else row[place]
            yield Past(_read_output(output) if is_number else output, truth)
        except ValueError as error:
            raise InvalidError(f"line {number} of {path} cannot be read: {error}") from None


def _read_lines(path: Path, file: TextIOWrapper) -> Iterator[Past]:
    # Read by readline: a file that is iterated does not say how far it has come.
    for number, line in enumerate(iter(file.readline, ""), start=1):
        if line.strip():
            try:
                yield _read_object(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InvalidError(f"line {number} of {path} cannot be read: {error}") from None


def _read_object(told: dict[str, Any]) -> Past:
    if set(told) - _BESIDE not in _OUTPUTS:
        raise ValueError(
            "give scores, a centre, or lower and upper; a label, and perhaps features and groups"
        )
    output = told["scores"] if "scores" in told else _read_output(told)
    return Past(output, told[_LABEL], told.get("features"), tuple(told.get("groups", ())))


def _read_output(told: dict[str, Any]) -> Any:
    """Return a centre, or a lower and an upper quantile."""
    return told[_CENTRE] if _CENTRE in told else tuple(told[name] for name in _BAND)
