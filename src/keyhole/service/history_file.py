"""History from a file: a table with a column for each label, or a JSON object on each line."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keyhole.errors import InvalidError
from keyhole.scenarios.table_files import JUDGED, KINDS, LABEL, check_file, open_table
from keyhole.service.store.streams.calibrations import AT_ONCE, Past

_CENTRE, _BAND = "centre", ("lower", "upper")
_OUTPUTS = ({"scores"}, {_CENTRE}, {*_BAND}, {"score", "right"})
_BESIDE = {LABEL, "features", "groups"}


def read_history(path: Path, *, advance: Callable[[int], None]) -> Iterator[list[Past]]:
    """Yield the rounds of a file, some thousands at a time; tell how many bytes were read for them.

    A ``.csv`` or ``.parquet`` has a column ``label``, the true one, and one of scores for each label,
    named by it; or ``label`` is the true value, beside a column ``centre`` or columns ``lower`` and
    ``upper``. A ``.jsonl`` has a line such as ``{"scores": {"cat": 0.7, "dog": 0.3}, "label": "cat"}``
    for each round, or with ``centre``, or with ``lower`` and ``upper``. History of decisions has
    ``score`` and ``right`` instead, in either form.
    """
    kind = path.suffix.lower()
    if kind not in (*KINDS, ".jsonl"):
        raise InvalidError(f"{path} is not a .csv, .parquet or .jsonl file; convert it")
    check_file(path)
    batch: list[Past] = []
    done = 0
    for past, tell in _read_lines(path) if kind == ".jsonl" else _read_table(path):
        batch.append(past)
        if len(batch) == AT_ONCE:
            yield batch
            batch, position = [], tell()
            advance(position - done)
            done = position
    if batch:
        yield batch


def _read_table(path: Path) -> Iterator[tuple[Past, Callable[[], int]]]:
    with open_table(path, known=(LABEL, *JUDGED)) as table:
        if LABEL not in table.columns or len(table.columns) < 2:
            if table.is_judged:
                yield from ((Past(score, wrong == 0.0), table.tell) for score, wrong in table.judged())
                return
            raise InvalidError(
                f"{path} has the columns {', '.join(table.columns) or 'none'}; it needs 'label' and a "
                "column of scores for each label, or 'label' and 'centre', or 'label', 'lower' and "
                "'upper'; or 'score' and 'right'"
            )
        names = [name for name in table.columns if name != LABEL]
        outputs = [name.lower() for name in names]
        is_number = set(outputs) in _OUTPUTS[1:]
        for line, numbers, label in table.labelled():
            if is_number:
                output = _read_output(dict(zip(outputs, numbers, strict=True)))
                yield Past(output, table.number(line, LABEL, label)), table.tell
            else:
                table.check_label(line, label)
                yield Past(dict(zip(names, numbers, strict=True)), label), table.tell


def _read_lines(path: Path) -> Iterator[tuple[Past, Callable[[], int]]]:
    with path.open(encoding="utf-8-sig") as file:
        # Read by readline: a file that is iterated does not say how far it has come.
        for number, line in enumerate(iter(file.readline, ""), start=1):
            if line.strip():
                try:
                    past = _read_object(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InvalidError(f"line {number} of {path} cannot be read: {error}") from None
                yield past, lambda: os.lseek(file.fileno(), 0, os.SEEK_CUR)


def _read_object(given: dict[str, Any]) -> Past:
    if set(given) - _BESIDE not in _OUTPUTS:
        raise ValueError(
            "give scores, a centre, or lower and upper; a label, and perhaps features and groups; or "
            "score and right"
        )
    if "right" in given:
        return Past(given["score"], given["right"], None, tuple(given.get("groups", ())))
    output = given["scores"] if "scores" in given else _read_output(given)
    return Past(output, given[LABEL], given.get("features"), tuple(given.get("groups", ())))


def _read_output(given: dict[str, Any]) -> object:
    """Return a centre, or a lower and an upper quantile."""
    return given[_CENTRE] if _CENTRE in given else tuple(given[name] for name in _BAND)
