"""A stream of one's own: a log of what a model said and what was true."""

import csv
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError, MissingExtraError, PartialWarning
from keyhole.grid import Array
from keyhole.scores import checked_scores

_SCORE, _LABEL = "score", "label"
_KINDS = (".csv", ".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class LogStream:
    """The true labels' scores, and where they were logged those of every label."""

    scores: Array
    labels: Array | None

    def sizes(self, thresholds: Array) -> Array:
        """Return how many labels each set holds; without their scores, 1 - threshold."""
        if self.labels is None:
            return 1.0 - np.clip(thresholds, 0.0, 1.0)
        return (self.labels >= thresholds[:, None]).sum(axis=1).astype(np.float64)


def load(path: Path) -> LogStream:
    """Return the stream in a file, checked.

    Parameters
    ----------
    path
        A ``.csv`` or ``.parquet`` with a column ``score``, the true label's, such as ``keyhole
        export`` writes (rounds that do not tell it are left out, with a warning); or with a column
        ``label`` and one column of scores for each label, named by it. Or an ``.npz`` with ``scores``
        of one dimension; or of two, with ``labels``, the column of each row's true label.

    Raises
    ------
    InvalidError
        If the file is not that; the message says where.
    """
    if path.suffix not in _KINDS:
        raise InvalidError(f"{path} is not a {', '.join(_KINDS[:-1])} or {_KINDS[-1]} file; convert it")
    if not path.is_file():
        raise InvalidError(f"there is no file {path}")
    if path.suffix == ".npz":
        return _of_arrays(path)
    return _of_columns(path, _read_csv(path) if path.suffix == ".csv" else _read_parquet(path))


def _of_arrays(path: Path) -> LogStream:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError) as error:
        raise InvalidError(f"{path} cannot be read ({error}); write it with numpy.savez") from None
    if "scores" not in arrays:
        raise InvalidError(f"{path} holds {', '.join(arrays) or 'nothing'}; it needs 'scores'")
    scores = checked_scores(arrays["scores"])
    if scores.ndim == 1:
        return LogStream(scores, None)
    labels = arrays.get("labels")
    if scores.ndim != 2 or labels is None or labels.shape != scores.shape[:1]:
        raise InvalidError(
            f"'scores' in {path} has shape {scores.shape}; with two dimensions it needs 'labels', the "
            "column of each row's true label"
        )
    return _with_labels(path, scores, labels)


def _with_labels(path: Path, scores: Array, columns: NDArray[Any]) -> LogStream:
    whole = np.issubdtype(columns.dtype, np.integer)
    if not whole or (columns < 0).any() or (columns >= scores.shape[1]).any():
        raise InvalidError(f"the labels in {path} must be columns, from 0 to {scores.shape[1] - 1}")
    return LogStream(scores[np.arange(len(scores)), columns], scores)


def _of_columns(path: Path, table: dict[str, list[Any]]) -> LogStream:
    if _SCORE in table and _LABEL not in table:
        return LogStream(checked_scores(_numbers(path, _SCORE, _known(path, table[_SCORE]))), None)
    if _LABEL not in table or len(table) < 3:
        raise InvalidError(
            f"{path} has the columns {', '.join(table) or 'none'}; it needs 'score', or 'label' and a "
            "column of scores for each label"
        )
    names = [name for name in table if name != _LABEL]
    scores = checked_scores(np.column_stack([_numbers(path, name, table[name]) for name in names]))
    places = {name: place for place, name in enumerate(names)}
    unknown = next((label for label in table[_LABEL] if str(label) not in places), None)
    if unknown is not None:
        raise InvalidError(
            f"label {unknown!r} in {path} has no column of scores; add one named {unknown}"
        )
    return _with_labels(path, scores, np.array([places[str(label)] for label in table[_LABEL]]))


def _known(path: Path, scores: list[Any]) -> list[Any]:
    """Return the scores that are there, and warn of those that are not: misses hide theirs."""
    known = [score for score in scores if score is not None and score != ""]
    if len(known) < len(scores):
        warnings.warn(
            f"{path} tells the true label's score in {len(known):,} of {len(scores):,} rounds; the "
            "others are left out. Where only hits tell it, every miss rate below is too low",
            PartialWarning,
            stacklevel=5,
        )
    return known


def _numbers(path: Path, name: str, values: list[Any]) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"column {name!r} of {path} is not all numbers ({error})") from None


def _read_csv(path: Path) -> dict[str, list[Any]]:
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
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
        raise MissingExtraError("parquet files need pyarrow; pip install 'keyhole[parquet]'") from None
    try:
        return dict(parquet.read_table(path).to_pydict())
    except (ArrowException, OSError) as error:
        raise InvalidError(f"{path} is not a parquet file ({error})") from None
