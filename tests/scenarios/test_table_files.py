"""The same table is read alike whoever asks for it: compare, gate and calibrate."""

from collections.abc import Callable
from pathlib import Path

import pytest

from keyhole.errors import InvalidError
from keyhole.scenarios.gate_cases import read_gate_log as read_for_gate
from keyhole.scenarios.log import read_log as read_for_compare
from keyhole.service.history_file import read_history

# One table for all three: to compare and calibrate, scores of the labels "score" and "wrong"; to a
# gate, a score and an outcome.
PLAIN = "label,score,wrong\nscore,0.75,0\nwrong,0.25,1\n"


def compare(path: Path) -> list[float]:
    (scenario,) = read_for_compare(path)
    return scenario.scores.tolist()


def calibrate(path: Path) -> list[float]:
    return [past.output[past.label] for some in read_history(path, advance=print) for past in some]


def gate(path: Path) -> list[float]:
    cases = read_for_gate(path)
    return [w if w else s for s, w in zip(cases.scores.tolist(), cases.wrong.tolist(), strict=True)]


READERS = pytest.mark.parametrize("read", [compare, calibrate, gate])


@READERS
@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("label", "Label"),
        PLAIN.replace("label,score", " LABEL , score"),
        PLAIN.replace("0.75", " 0.75 "),
        PLAIN.replace("wrong,0.25", '"wrong" ,0.25'),
        PLAIN.replace("\nwrong", "\n\nwrong") + "\n",
    ],
)
def test_one_table_is_read_alike_by_all(
    tmp_path: Path, text: str, read: Callable[[Path], list[float]]
) -> None:
    path = tmp_path / "log.CSV"
    path.write_bytes(text.encode())
    assert read(path) == [0.75, 1.0]


@READERS
def test_parquet_is_read_as_csv_is(tmp_path: Path, read: Callable[[Path], list[float]]) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = {"Label": ["score", "wrong"], "score": [0.75, 0.25], "wrong": [0.0, 1.0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet") == [0.75, 1.0]


@READERS
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (PLAIN.encode() + b"score,0.5\n", "line 4 of .*log.csv has 2 fields, not 3"),
        (PLAIN.encode() + b"\xff,0.5,1\n", "is not a CSV file in UTF-8"),
        (b"label,score,wrong\n", "has no row; it needs a header and at least one round"),
        (b"label,score,wrong,wrong\nscore,0.7,0,0\n", "has two columns 'wrong'; rename or drop one"),
        (PLAIN.encode() + b"score,high,1\n", "line 4 of .*: score 'high' is not a number"),
    ],
)
def test_one_fault_is_refused_alike_by_all(
    tmp_path: Path, content: bytes, fault: str, read: Callable[[Path], list[float]]
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=fault):
        read(path)


@READERS
def test_a_file_that_is_not_there_is_named(tmp_path: Path, read: Callable[[Path], list[float]]) -> None:
    with pytest.raises(InvalidError, match="there is no file"):
        read(tmp_path / "log.csv")


@pytest.mark.parametrize("read", [compare, calibrate])
@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            "ox,0.1,0.2",
            "line 4 of .*: label 'ox' has no column of scores; the columns are score, wrong",
        ),
        (",0.1,0.2", "line 4 of .*: there is no label"),
        ("score,,0.2", "line 4 of .*: score is empty"),
    ],
)
def test_every_label_has_a_column_and_every_score_is_there(
    tmp_path: Path, row: str, fault: str, read: Callable[[Path], list[float]]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(PLAIN + row + "\n")
    with pytest.raises(InvalidError, match=fault):
        read(path)
