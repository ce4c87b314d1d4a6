"""A scenario of one's own: a log of what a model said and what was true, or of what was told of it.

A log of partial truth is one of many that might have been. Where it holds the chance with which each
score was told, those told stand for the others. Where it does not, what is known of the others, above
or below the threshold that was played, leaves a range, and the log is read at both ends of it.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.numeric import Array
from keyhole.scenarios import spread_evenly
from keyhole.scenarios.table_files import KINDS, LABEL, Field, TableFile, check_file, open_table
from keyhole.scores import check_scores

_SCORE, _SCORES, _ANSWER = "score", "scores", "answer"
_THRESHOLD, _MISSED, _CHANCE = "threshold", "missed", "chance"
_COLUMNS = (_SCORE, _SCORES, _THRESHOLD, _MISSED, _CHANCE, _ANSWER)
_JUDGEMENT = "right"  # what an export says of the rounds of a gate

_Column: TypeAlias = list[tuple[int, Field]]  # values with their lines


@dataclass(frozen=True, eq=False)
class LogScenario:
    """The true labels' scores, and where they were logged those of every label.

    ``reading`` says which of several readings of one log this is, ``about`` what it takes for granted.
    """

    scores: Array
    labels: Array | None
    reading: str = ""
    about: str = "a log"

    @property
    def changes(self) -> tuple[int, ...]:
        return spread_evenly(self.scores.size)

    def first(self, rounds: int) -> "LogScenario":
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
    if path.suffix.lower() == ".npz":
        check_file(path)
        return [_of_arrays(path)]
    if path.suffix.lower() not in KINDS:
        raise InvalidError(f"{path} is not a .csv, .npz or .parquet file; convert it")
    with open_table(path, known=(LABEL, *_COLUMNS)) as table:
        return _of_table(table)


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


def _of_table(table: TableFile) -> list[LogScenario]:
    if LABEL in table.columns and len(table.columns) > 2:
        rows, labels = [], []
        for line, scores, label in table.labelled():
            table.check_label(line, label)
            rows.append(scores)
            labels.append(label)
        names = [name for name in table.columns if name != LABEL]
        places = {name: place for place, name in enumerate(names)}
        columns = np.array([places[label] for label in labels])
        return [_with_labels(table.path, check_scores(np.array(rows)), columns)]
    if LABEL in table.columns or _SCORE not in table.columns:
        raise InvalidError(
            f"{table.path} has the columns {', '.join(table.columns) or 'none'}; it needs 'score', or "
            "'label' and a column of scores for each label"
        )
    return _of_scores(table)


def _of_scores(table: TableFile) -> list[LogScenario]:
    rows = list(table.rows)
    columns = {name: [(line, row[k]) for line, row in rows] for k, name in enumerate(table.columns)}
    if any(value == _JUDGEMENT for _, value in columns.get(_ANSWER, ())):
        raise InvalidError(
            f"{table.path} is the log of a gate, whose answers were right or wrong; it is read by "
            f"keyhole gate --scores {table.path.name}"
        )
    scores = np.array([table.score(line, _SCORE, value) for line, value in columns[_SCORE]])
    labels = _candidates(table, columns.get(_SCORES))
    known = ~np.isnan(scores)
    if not known.any():
        raise InvalidError(f"{table.path} has the true label's score in no round; fill in some")
    share = f"{int(known.sum()):,} of {scores.size:,} scores told"
    if known.all():
        return [LogScenario(scores, labels)]
    if _CHANCE in columns:
        chances = _numbers(table, _CHANCE, columns[_CHANCE])[known]
        chosen = np.flatnonzero(known)[_weigh(table.path, chances)]
        sized = None if labels is None else labels[chosen]
        about = f"a log, {share}, each counted 1 / chance times"
        return [LogScenario(scores[chosen], sized, about=about)]
    low, high = _ranges(table, scores, columns)
    return [
        LogScenario(low, labels, "most misses", f"a log, {share}; the others as low as they can be"),
        LogScenario(
            high, labels, "fewest misses", f"a log, {share}; the others as high as they can be"
        ),
    ]


def _candidates(table: TableFile, column: _Column | None) -> Array | None:
    """Return the scores of all labels where the log has them, a row a round; NaN fills short rows."""
    if column is None or any(value is None for _, value in column):
        return None
    rows = []
    for line, value in column:
        try:
            rows.append(np.array(json.loads(str(value)), dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise table.fault(line, f"scores is not a JSON list of numbers ({error})") from None
    filled = np.full((len(rows), max(row.size for row in rows)), np.nan)
    for place, row in enumerate(rows):
        filled[place, : row.size] = row
    return filled


def _weigh(path: Path, chances: Array) -> NDArray[np.int64]:
    """Return each place as often as the rounds it stands for: the fractions are carried over."""
    wrong = ~((chances > 0.0) & (chances <= 1.0))
    if wrong.any():
        raise InvalidError(
            f"chance {chances[np.argmax(wrong)]} in {path} is not a probability above 0; give the "
            "one with which the round's score was reported"
        )
    due = np.floor(np.cumsum(1.0 / chances) + 1e-9).astype(np.int64)
    return np.repeat(np.arange(chances.size), np.diff(due, prepend=0))


def _ranges(table: TableFile, scores: Array, columns: dict[str, _Column]) -> tuple[Array, Array]:
    """Return the least and the largest score that each round can have had."""
    low, high = np.where(np.isnan(scores), 0.0, scores), np.where(np.isnan(scores), 1.0, scores)
    if _THRESHOLD not in columns or _MISSED not in columns:
        return low, high
    thresholds = np.clip(_numbers(table, _THRESHOLD, columns[_THRESHOLD]), 0.0, 2.0)
    missed = np.array([table.truth(line, _MISSED, value) for line, value in columns[_MISSED]])
    hidden = np.isnan(scores) & ~np.isnan(thresholds)
    above, below = hidden & (missed == 0.0), hidden & (missed == 1.0)
    low[above] = np.minimum(thresholds[above], 1.0)
    high[below] = np.clip(np.nextafter(thresholds[below], -1.0), 0.0, 1.0)
    return low, high


def _numbers(table: TableFile, name: str, column: _Column) -> Array:
    return np.array([table.number(line, name, value) for line, value in column])
