"""Tables of rounds from files, by one set of rules for all commands that read them.

A ``.csv`` file is in UTF-8, with or without a byte order mark; a ``.parquet`` file is read alike.
Blanks around names and values do not count, an empty field is None, and blank lines are passed over.
Columns that Keyhole knows are found in any case, the very name first; a column of scores is named by
its label.
"""

import csv
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TextIO, TypeAlias

from keyhole.errors import InvalidError, MissingExtraError

LABEL = "label"
KINDS = (".csv", ".parquet")
_LONGEST_CELL = 2**27  # The scores of many labels may be one cell.
_SCORE = ("score", "confidence", "probability")
# A column, and what a 1 in it means; the last is what a service writes of its decisions.
_OUTCOMES = {"right": 0.0, "correct": 0.0, "wrong": 1.0, "missed": 1.0}
JUDGED = (*_SCORE, *_OUTCOMES)  # columns of scores, and of whether the answer was right
_YES, _NO = {"1", "1.0", "true", "yes", "y"}, {"0", "0.0", "false", "no", "n"}

Field: TypeAlias = str | float | bool | None
Row: TypeAlias = list[Field]


@dataclass(frozen=True, eq=False)
class TableFile:
    """The columns of a file, and its rows, which are read once, each with the number of its line."""

    path: Path
    columns: list[str]
    rows: Iterator[tuple[int, Row]]
    tell: Callable[[], int]  # how many bytes have been read

    def find(self, names: Iterable[str]) -> str | None:
        """Return the first of these names that a column has."""
        return next((name for name in names if name in self.columns), None)

    def fault(self, line: int, what: str) -> InvalidError:
        return InvalidError(f"line {line} of {self.path}: {what}")

    def number(self, line: int, name: str, value: Field) -> float:
        """Return the number in a field, NaN if it is empty, or raise."""
        try:
            return nan if value is None else float(value)
        except ValueError:
            raise self.fault(line, f"{name} {value!r} is not a number") from None

    def score(self, line: int, name: str, value: Field) -> float:
        """Return the score in a field, NaN if it is empty, or raise."""
        score = self.number(line, name, value)
        if value is not None and not 0.0 <= score <= 1.0:
            raise self.fault(line, f"{name} {value!r} is not a score in [0, 1]; rescale it")
        return score

    def truth(self, line: int, name: str, value: Field) -> float:
        """Return 1 for what says yes, 0 for what says no, NaN for an empty field, or raise."""
        if value is None:
            return nan
        word = str(value).lower()
        if word not in _YES | _NO:
            raise self.fault(line, f"{name} {value!r} is neither true nor false, 1 nor 0")
        return 1.0 if word in _YES else 0.0

    def labelled(self) -> Iterator[tuple[int, list[float], str]]:
        """Yield the line, the numbers in the other columns, and the label of every row."""
        place = self.columns.index(LABEL)
        others = [(k, name) for k, name in enumerate(self.columns) if k != place]
        for line, row in self.rows:
            label = row[place]
            if label is None:
                raise self.fault(line, "there is no label; fill it, or leave the row out")
            for k, name in others:
                if row[k] is None:
                    raise self.fault(line, f"{name} is empty; fill it, or leave the row out")
            yield line, [self.number(line, name, row[k]) for k, name in others], str(label)

    @property
    def is_judged(self) -> bool:
        """Whether it has a column of scores, and one of whether the answer was right."""
        return bool(self.find(_SCORE) and self.find(_OUTCOMES))

    def judged(self) -> Iterator[tuple[float, float]]:
        """Yield the score, and 1 where the answer was wrong, of every row that has an outcome."""
        score, outcome = self.find(_SCORE), self.find(_OUTCOMES)
        if score is None or outcome is None:
            there = f"the columns {', '.join(self.columns)}" if self.columns else "no columns"
            raise InvalidError(f"{self.path} has {there}; it needs score, and right or wrong")
        at, place, sign = self.columns.index(score), self.columns.index(outcome), _OUTCOMES[outcome]
        empty = True
        for line, row in self.rows:
            if row[place] is not None:
                empty = False
                told = self.truth(line, outcome, row[place])
                value = self.score(line, score, "" if row[at] is None else row[at])
                yield value, told if sign == 1.0 else 1.0 - told
        if empty:
            raise InvalidError(f"{self.path} has no row with an outcome; fill in some")

    def check_label(self, line: int, label: str) -> None:
        if label == LABEL or label not in self.columns:
            names = ", ".join(name for name in self.columns if name != LABEL)
            raise self.fault(
                line,
                f"label {label!r} has no column of scores; the columns are {names}: add one named "
                f"{label}",
            )


@contextmanager
def open_table(path: Path, *, known: Collection[str]) -> Iterator[TableFile]:
    """Open a table, in which the columns known are called as they are here; without rows, raise.

    Beside a column ``label``, only that one is: the others are named by their labels.
    """
    if path.suffix.lower() not in KINDS:
        raise InvalidError(f"{path} is not a {' or '.join(KINDS)} file; convert it")
    check_file(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path, file)
        _, header = next(lines, (0, []))
        columns = _name_columns(path, [str(name) for name in header], known)
        yield TableFile(
            path,
            columns,
            _check_rows(path, len(columns), lines),
            lambda: os.lseek(file.fileno(), 0, os.SEEK_CUR),
        )


def check_file(path: Path) -> None:
    if not path.is_file():
        raise InvalidError(f"there is no file {path}")


def _name_columns(path: Path, header: list[str], known: Collection[str]) -> list[str]:
    folded = [name.lower() for name in header]
    wanted = (LABEL,) if LABEL in folded and LABEL in known else known
    names = [
        low if low in wanted and low not in header else name
        for name, low in zip(header, folded, strict=True)
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidError(f"{path} has two columns {twice!r}; rename or drop one")
    return names


def _check_rows(path: Path, width: int, lines: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    empty = True
    for line, row in lines:
        if len(row) != width:
            raise InvalidError(
                f"line {line} of {path} has {len(row)} fields, not {width}; quote what has a comma"
            )
        empty = False
        yield line, row
    if empty:
        raise InvalidError(f"{path} has no row; it needs a header and at least one round")


def _read_csv(path: Path, file: TextIO) -> Iterator[tuple[int, Row]]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        for line, row in enumerate(csv.reader(file), start=1):
            if row:
                yield line, [field.strip() or None for field in row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidError(f"{path} is not a CSV file in UTF-8 ({error}); write it so") from None


def _read_parquet(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError(
            "parquet files need pyarrow; pip install 'keyhole-conformal[parquet]'"
        ) from None
    try:
        stored = parquet.ParquetFile(path)
        yield 1, [name.strip() for name in stored.schema_arrow.names]
        line = 1
        for batch in stored.iter_batches():
            for row in zip(*batch.to_pydict().values(), strict=True):
                line += 1
                yield (
                    line,
                    [(field.strip() or None) if isinstance(field, str) else field for field in row],
                )
    except (ArrowException, OSError) as error:
        raise InvalidError(f"{path} is not a parquet file ({error})") from None
