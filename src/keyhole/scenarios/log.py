"""A scenario of one's own: a log of what a model said and what was true, or of what was told of it.

A log of partial truth is one of many that might have been. Where it holds the chance with which each
score was told, those told stand for the others. Where it does not, what is known of the others, above
or below the threshold that was played, leaves a range, and the log is read at both ends of it.
"""

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError, MissingExtraError
from keyhole.numeric import Array
from keyhole.scores import check_scores

_SCORE, _SCORES, _LABEL = "score", "scores", "label"
_THRESHOLD, _MISSED, _CHANCE = "threshold", "missed", "chance"
_COLUMNS = (_SCORE, _SCORES, _THRESHOLD, _MISSED, _CHANCE)
_ANSWER, _JUDGEMENT = "answer", "right"  # what an export says of the rounds of a gate
_KINDS = (".csv", ".npz", ".parquet")
_LONGEST_CELL = 2**27


@dataclass(frozen=True, eq=False)
class LogScenario:
    """The true labels' scores, and where they were logged those of every label.

    ``reading`` says which of several readings of one log this is, ``about`` what it takes for granted.
    """

    scores: Array
    labels: Array | None
    reading: str = ""
    about: str = "a log"

    def first(self, rounds: int) -> "LogScenario":
        """Return the log up to a round."""
        labels = None if self.labels is None else self.labels[:rounds]
        return replace(self, scores=self.scores[:rounds], labels=labels)

    def sizes(self, thresholds: Array) -> Array:
        """Return how many labels each set holds; without their scores, 1 - threshold."""
        if self.labels is None:
            return 1.0 - np.clip(thresholds, 0.0, 1.0)
        return (self.labels >= thresholds[:, None]).sum(axis=1).astype(np.float64)


def read_log(path: Path) -> list[LogScenario]:
    """Return the readings of a file, checked: one if it tells the whole truth or the chances, else two.

    Parameters
    ----------
    path
        A ``.csv`` or ``.parquet`` with a column ``score``, the true label's, such as ``keyhole
        export`` writes. It may be empty in some rounds: ``threshold`` and ``missed`` then say on which
        side of the threshold played the score was, and ``chance``, if it is there, how likely the
        score was to be told in each round that tells it; ``scores``, a JSON list of those of all
        labels, lets sets be sized in labels. Or with a column ``label`` and one column of
        scores for each label, named by it. Columns that are not labels are found in any case. Or an
        ``.npz`` with ``scores`` of one dimension; or of two, with ``labels``, the column of each row's
        true label.

    Raises
    ------
    InvalidError
        If the file is not that; the message says where.
    """
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InvalidError(f"{path} is not a {', '.join(_KINDS[:-1])} or {_KINDS[-1]} file; convert it")
    if not path.is_file():
        raise InvalidError(f"there is no file {path}")
    if kind == ".npz":
        return [_of_arrays(path)]
    return _of_columns(path, _read_csv(path) if kind == ".csv" else _read_parquet(path))


def fold_name(name: str) -> str:
    """Return the name of a column as it is looked for: in any case, without blanks around it."""
    return name.strip().lower()


def _of_arrays(path: Path) -> LogScenario:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError) as error:
        raise InvalidError(f"{path} cannot be read ({error}); write it with numpy.savez") from None
    if "scores" not in arrays:
        raise InvalidError(f"{path} holds {', '.join(arrays) or 'nothing'}; it needs 'scores'")
    scores = check_scores(arrays["scores"])
    if scores.ndim == 1:
        return LogScenario(scores, None)
    labels = arrays.get("labels")
    if scores.ndim != 2 or labels is None or labels.shape != scores.shape[:1]:
        raise InvalidError(
            f"'scores' in {path} has shape {scores.shape}; with two dimensions it needs 'labels', the "
            "column of each row's true label"
        )
    return _with_labels(path, scores, labels)


def _with_labels(path: Path, scores: Array, columns: NDArray[Any]) -> LogScenario:
    whole = np.issubdtype(columns.dtype, np.integer)
    if not whole or (columns < 0).any() or (columns >= scores.shape[1]).any():
        raise InvalidError(f"the labels in {path} must be columns, from 0 to {scores.shape[1] - 1}")
    return LogScenario(scores[np.arange(len(scores)), columns], scores)


def _fold_names(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the table with the columns that a log has called by their names; labels keep theirs."""
    there = {fold_name(name) for name in table}
    looked = (_LABEL,) if _LABEL in there else _COLUMNS
    return {
        folded if (folded := fold_name(name)) in looked and folded not in table else name: values
        for name, values in table.items()
    }


def _of_columns(path: Path, columns: dict[str, list[Any]]) -> list[LogScenario]:
    table = _fold_names(columns)
    if _JUDGEMENT in table.get(_ANSWER, ()):
        raise InvalidError(
            f"{path} is the log of a gate, whose answers were right or wrong; as a .csv it is read by "
            f"keyhole gate --scores {path.with_suffix('.csv').name}"
        )
    if _SCORE in table and _LABEL not in table:
        return _of_scores(path, table)
    if _LABEL not in table or len(table) < 3:
        raise InvalidError(
            f"{path} has the columns {', '.join(table) or 'none'}; it needs 'score', or 'label' and a "
            "column of scores for each label"
        )
    names = [name for name in table if name != _LABEL]
    scores = check_scores(np.column_stack([_numbers(path, name, table[name]) for name in names]))
    places = {name: place for place, name in enumerate(names)}
    for number, label in enumerate(table[_LABEL], start=1):
        if label is None or label == "":
            raise InvalidError(f"round {number} of {path} has no label; fill it, or leave the row out")
        if str(label) not in places:
            raise InvalidError(
                f"label {label!r} in {path} has no column of scores; the columns are "
                f"{', '.join(names)}: add one named {label}"
            )
    return [_with_labels(path, scores, np.array([places[str(label)] for label in table[_LABEL]]))]


def _of_scores(path: Path, table: dict[str, list[Any]]) -> list[LogScenario]:
    scores, labels = _optional(path, _SCORE, table[_SCORE]), _candidates(path, table)
    told = ~np.isnan(scores)
    if not told.any():
        raise InvalidError(
            f"{path} tells the true label's score in no round; nothing can be played on it"
        )
    check_scores(scores[told])
    share = f"{int(told.sum()):,} of {scores.size:,} scores told"
    if told.all():
        return [LogScenario(scores, labels)]
    if _CHANCE in table:
        chances = _optional(path, _CHANCE, table[_CHANCE])[told]
        chosen = np.flatnonzero(told)[_weigh(path, chances)]
        sized = None if labels is None else labels[chosen]
        about = f"a log, {share}, each counted 1 / chance times"
        return [LogScenario(scores[chosen], sized, about=about)]
    low, high = _ranges(path, scores, table)
    return [
        LogScenario(low, labels, "most misses", f"a log, {share}; the others as low as they can be"),
        LogScenario(
            high, labels, "fewest misses", f"a log, {share}; the others as high as they can be"
        ),
    ]


def _candidates(path: Path, table: dict[str, list[Any]]) -> Array | None:
    """Return the scores of all labels where the log has them, a row a round; NaN fills short rows."""
    if not all(table.get(_SCORES, [None])):
        return None
    try:
        rows = [np.array(json.loads(cell), dtype=np.float64) for cell in table[_SCORES]]
    except (TypeError, ValueError) as error:
        raise InvalidError(f"column {_SCORES!r} of {path} is not all JSON lists ({error})") from None
    filled = np.full((len(rows), max(row.size for row in rows)), np.nan)
    for place, row in enumerate(rows):
        filled[place, : row.size] = row
    return filled


def _weigh(path: Path, chances: Array) -> NDArray[np.int64]:
    """Return each place as often as the rounds it stands for: the fractions are carried over."""
    wrong = ~((chances > 0.0) & (chances <= 1.0))
    if wrong.any():
        raise InvalidError(
            f"chance {chances[np.argmax(wrong)]} in {path} is not a probability above 0; give that "
            "with which the round's score was told"
        )
    due = np.floor(np.cumsum(1.0 / chances) + 1e-9).astype(np.int64)
    return np.repeat(np.arange(chances.size), np.diff(due, prepend=0))


def _ranges(path: Path, scores: Array, table: dict[str, list[Any]]) -> tuple[Array, Array]:
    """Return the least and the largest score that each round can have had."""
    low, high = np.where(np.isnan(scores), 0.0, scores), np.where(np.isnan(scores), 1.0, scores)
    if _THRESHOLD not in table or _MISSED not in table:
        return low, high
    thresholds = np.clip(_optional(path, _THRESHOLD, table[_THRESHOLD]), 0.0, 2.0)
    missed = np.array([_truth(path, value) for value in table[_MISSED]])
    hidden = np.isnan(scores) & ~np.isnan(thresholds)
    above, below = hidden & (missed == 0.0), hidden & (missed == 1.0)
    low[above] = np.minimum(thresholds[above], 1.0)
    high[below] = np.clip(np.nextafter(thresholds[below], -1.0), 0.0, 1.0)
    return low, high


def _truth(path: Path, value: Any) -> float:
    """Return 1 for true, 0 for false, NaN for nothing."""
    if value is None or value == "":
        return np.nan
    if str(value).lower() not in ("true", "false", "1", "0"):
        raise InvalidError(f"column 'missed' of {path} holds {value!r}; use true, false or nothing")
    return 1.0 if str(value).lower() in ("true", "1") else 0.0


def _optional(path: Path, name: str, values: list[Any]) -> Array:
    """Return numbers, NaN where there is nothing."""
    blanks = [np.nan if value is None or value == "" else value for value in values]
    return _numbers(path, name, blanks)


def _numbers(path: Path, name: str, values: list[Any]) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"column {name!r} of {path} is not all numbers ({error})") from None


def _read_csv(path: Path) -> dict[str, list[Any]]:
    csv.field_size_limit(_LONGEST_CELL)  # The scores of many labels are one cell.
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidError(f"{path} is not a CSV file in UTF-8 ({error}); write it so") from None
    if len(rows) < 2:
        raise InvalidError(f"{path} has {len(rows)} lines; it needs a header and at least one round")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise InvalidError(f"line {number} of {path} has {len(row)} fields, not {len(rows[0])}")
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingExtraError(
            "parquet files need pyarrow; pip install 'keyhole-conformal[parquet]'"
        ) from None
    try:
        return dict(parquet.read_table(path).to_pydict())
    except (ArrowException, OSError) as error:
        raise InvalidError(f"{path} is not a parquet file ({error})") from None
