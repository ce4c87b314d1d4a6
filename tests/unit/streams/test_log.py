from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyhole.errors import InvalidError, KeyholeError
from keyhole.streams.log import load

TABLE = {"label": ["cat", "dog"], "cat": [0.7, 0.2], "dog": [0.2, 0.5], "ox": [0.1, 0.3]}


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_of_scores(tmp_path: Path) -> None:
    stream = load(write_csv(tmp_path / "log.csv", "score\n0.5\n0.25\n"))
    assert stream.scores.tolist() == [0.5, 0.25]
    assert stream.sizes(np.array([0.5, 2.0])).tolist() == [0.5, 0.0]


def test_csv_with_a_column_for_each_label(tmp_path: Path) -> None:
    stream = load(
        write_csv(tmp_path / "log.csv", "label,cat,dog,ox\ncat,0.7,0.2,0.1\ndog,0.2,0.5,0.3\n")
    )
    assert stream.scores.tolist() == [0.7, 0.5]
    assert stream.sizes(np.array([0.2, 0.4])).tolist() == [2.0, 1.0]


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(TABLE), tmp_path / "log.parquet")
    assert load(tmp_path / "log.parquet").scores.tolist() == [0.7, 0.5]


def test_npz_of_scores_with_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", scores=[[0.7, 0.3], [0.6, 0.4]], labels=[0, 1])
    stream = load(tmp_path / "log.npz")
    assert stream.scores.tolist() == [0.7, 0.4]
    assert stream.sizes(np.array([0.0, 0.5])).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("log.txt", "score\n1\n", r"not a .csv, .npz or .parquet"),
        ("log.csv", "score\n", "1 lines; it needs a header"),
        ("log.csv", "value\n0.5\n", "has the columns value; it needs 'score'"),
        ("log.csv", "score\n1.5\n", r"score 1.5 at place 0 is not a number in \[0, 1\]"),
        ("log.csv", "score\nhigh\n", "column 'score' of .* is not all numbers"),
        ("log.csv", "score\n0.5\n0.5,1\n", "line 3 of .* has 2 fields, not 1"),
        ("log.csv", "label,cat,dog\nox,0.1,0.2\n", "label 'ox' in .* has no column"),
        ("log.npz", "not a zip", "cannot be read"),
        ("log.parquet", "not a table", "is not a parquet file"),
    ],
)
def test_files_that_are_no_logs_are_refused(tmp_path: Path, name: str, text: str, match: str) -> None:
    with pytest.raises(KeyholeError, match=match):
        load(write_csv(tmp_path / name, text))


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"values": [0.5]}, "holds values; it needs 'scores'"),
        ({"scores": [[0.5, 0.5]]}, "needs 'labels'"),
        ({"scores": [[0.5, 0.5]], "labels": [2]}, "from 0 to 1"),
    ],
)
def test_npz_without_what_it_needs_is_refused(
    tmp_path: Path, arrays: dict[str, Any], match: str
) -> None:
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(InvalidError, match=match):
        load(tmp_path / "log.npz")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="there is no file"):
        load(tmp_path / "none.csv")
