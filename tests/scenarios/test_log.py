import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole.errors import InvalidError, KeyholeError
from keyhole.scenarios.log import LogScenario, read_log

TABLE = {"label": ["cat", "dog"], "cat": [0.7, 0.2], "dog": [0.2, 0.5], "ox": [0.1, 0.3]}


def load(path: Path) -> LogScenario:
    (scenario,) = read_log(path)
    return scenario


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_of_scores(tmp_path: Path) -> None:
    scenario = load(write_csv(tmp_path / "log.csv", "score\n0.5\n0.25\n"))
    assert scenario.scores.tolist() == [0.5, 0.25]
    assert scenario.sizes(np.array([0.5, 2.0])).tolist() == [0.5, 0.0]


def test_csv_with_a_column_for_each_label(tmp_path: Path) -> None:
    scenario = load(
        write_csv(tmp_path / "log.csv", "label,cat,dog,ox\ncat,0.7,0.2,0.1\ndog,0.2,0.5,0.3\n")
    )
    assert scenario.scores.tolist() == [0.7, 0.5]
    assert scenario.sizes(np.array([0.2, 0.4])).tolist() == [2.0, 1.0]


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(TABLE), tmp_path / "log.parquet")
    assert load(tmp_path / "log.parquet").scores.tolist() == [0.7, 0.5]


def test_npz_of_scores_with_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", scores=[[0.7, 0.3], [0.6, 0.4]], labels=[0, 1])
    scenario = load(tmp_path / "log.npz")
    assert scenario.scores.tolist() == [0.7, 0.4]
    assert scenario.sizes(np.array([0.0, 0.5])).tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("log.txt", "score\n1\n", r"not a .csv, .npz or .parquet"),
        ("log.csv", "score\n", "has no row; it needs a header"),
        ("log.csv", "value\n0.5\n", "has the columns value; it needs 'score'"),
        ("log.csv", "score\n1.5\n", r"line 2 of .*: score '1.5' is not a score in \[0, 1\]"),
        ("log.csv", "score\nhigh\n", "line 2 of .*: score 'high' is not a number"),
        ("log.csv", "score\n0.5\n0.5,1\n", "line 3 of .* has 2 fields, not 1"),
        ("log.csv", "label,cat,dog\nox,0.1,0.2\n", "label 'ox' has no column .* are cat, dog"),
        (
            "log.csv",
            "label,cat,dog\ncat,0.1,0.2\n,0.1,0.2\n",
            "line 3 of .*: there is no label; fill it",
        ),
        ("log.csv", "score,round\n,1\n,2\n", "in no round"),
        ("log.csv", "score,missed,threshold\n0.5,false,.1\n,maybe,.1\n", "missed 'maybe' is neither"),
        ("log.csv", "score,chance\n0.5,1.5\n,\n", "chance 1.5 in .* is not a probability"),
        ("log.csv", "score,chance\n0.5,\n,\n", "chance nan"),
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


PARTIAL = """round,threshold,missed,score
0,0.3,false,0.8
1,0.4,true,
2,0.5,false,
3,0.6,,
4,1.5,true,
"""


def test_what_was_not_told_is_bounded_by_the_threshold_it_was_on_one_side_of(tmp_path: Path) -> None:
    most, fewest = read_log(write_csv(tmp_path / "log.csv", PARTIAL))
    assert most.scores.tolist() == [0.8, 0.0, 0.5, 0.0, 0.0]
    assert fewest.scores.tolist() == [0.8, np.nextafter(0.4, 0.0), 1.0, 1.0, 1.0]
    assert (most.reading, fewest.reading) == ("most misses", "fewest misses")
    assert "1 of 5 scores told" in most.about


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans()), min_size=2, max_size=30))
def test_every_fixed_threshold_misses_between_what_the_two_readings_miss(
    rounds: list[tuple[float, float, bool]],
) -> None:
    """The truth is one of the logs that might have been, whatever the answers left out."""
    told = [score >= played and tells for score, played, tells in rounds]
    if not any(told) or all(told):
        return
    lines = [
        f"{played!r},{str(score < played).lower()},{score!r}"
        if tells
        else f"{played!r},{str(score < played).lower()},"
        for (score, played, _), tells in zip(rounds, told, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(["threshold,missed,score", *lines]) + "\n"
        most, fewest = read_log(write_csv(Path(folder) / "log.csv", text))
    truth = np.array([score for score, _, _ in rounds])
    for threshold in np.linspace(0.0, 1.0, 21):
        rates = [(scores < threshold).mean() for scores in (fewest.scores, truth, most.scores)]
        assert rates == sorted(rates)


def test_scores_told_with_known_chances_stand_for_the_others(tmp_path: Path) -> None:
    """Low scores are told a fifth as often; the weighed log has the truth's share of them."""
    rng = np.random.default_rng(6)
    scores = rng.random(40_000)
    chances = np.where(scores < 0.3, 0.2, 1.0)
    told = rng.random(scores.size) < chances
    lines = [f"{s:.6f},{c}" if t else "," for s, c, t in zip(scores, chances, told, strict=True)]
    weighed = load(write_csv(tmp_path / "log.csv", "score,chance\n" + "\n".join(lines) + "\n"))
    deviation = np.sqrt(0.3 * (1 / 0.2 - 1) / scores.size)  # of the estimated number of low scores
    assert (weighed.scores < 0.3).sum() / scores.size == pytest.approx(
        (scores < 0.3).mean(), abs=5 * deviation
    )
    assert abs((scores[told] < 0.3).mean() - 0.3) > 10 * deviation, "those told alone would not do"


def test_fractions_of_rounds_are_carried_over(tmp_path: Path) -> None:
    text = "score,chance\n0.1,0.4\n0.2,0.4\n0.3,1\n,\n"
    assert load(write_csv(tmp_path / "log.csv", text)).scores.tolist() == [0.1] * 2 + [0.2] * 3 + [0.3]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("score\n0.5\n", encoding="utf-8-sig")
    assert read_log(path)[0].scores.tolist() == [0.5]


def test_the_columns_of_a_log_are_found_in_any_case_and_labels_keep_theirs(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.CSV", "Round, Score ,Chance\n1,0.5,1\n2,,\n")
    assert read_log(log)[0].scores.tolist() == [0.5]
    named = write_csv(tmp_path / "log.csv", "Label,Score,score\nScore,0.9,0.2\nscore,0.1,0.3\n")
    assert read_log(named)[0].scores.tolist() == [0.9, 0.3]


def test_a_column_of_the_very_name_comes_before_one_in_another_case(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", "Score,score\n0.9,0.2\n")
    assert read_log(log)[0].scores.tolist() == [0.2]
