import json
from pathlib import Path

import pytest

from keyhole.cli import main


def test_command_prints_a_table_and_writes_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learners = ["--learners", "kt", "saocp", "--streams", "steady", "just-below"]
    assert main(["compare", *learners, "--rounds", "300", "--runs", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines()) <= max(80, len(str(tmp_path)) + 20)
    assert "not run: saocp" in said
    assert "microseconds a round" in said
    assert json.loads((tmp_path / "compare.json").read_text())["runs"] == 2
    assert "<svg" in (tmp_path / "compare.html").read_text()


def test_own_log_is_compared_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("score\n" + "\n".join(f"{n % 97 / 97:.3f}" for n in range(500)) + "\n")
    arguments = ["--scores", str(log), "--learners", "tracker", "--runs", "1", "--out", str(tmp_path)]
    assert main(["compare", *arguments]) == 0
    assert "log.csv: a log (size in 1 - threshold)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--streams", "storm"], "there is no stream 'storm'"),
        (["--regime", "half"], "there is no regime 'half'"),
        (["--learners", "trakcer"], "did you mean 'tracker'"),
        (["--alpha", "2"], "alpha 2.0 is not a number between"),
        (["--lost", "2"], "lost 2.0 is not a probability"),
        (["--scores", "none.csv"], "there is no file none.csv"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_runs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err
