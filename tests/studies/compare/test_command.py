import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keyhole.cli import main
from keyhole.scenarios.gate_cases import GATE_SCENARIOS
from keyhole.studies.compare import listing


def test_command_prints_a_table_and_writes_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learners = ["--learners", "kt", "saocp", "--scenarios", "steady", "just-below"]
    assert main(["compare", *learners, "--rounds", "300", "--runs", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines()) <= max(80, len(str(tmp_path)) + 20)
    assert "not run: saocp" in said
    assert "microseconds a round" in said
    assert json.loads((tmp_path / "compare.json").read_text())["runs"] == 2
    assert "Plotly.react" in (tmp_path / "compare.html").read_text()


@pytest.mark.parametrize(
    "asked",
    [["--alpha", "10"], ["--learners", "foo"], ["--late", "--scenarios", "just-below"]],
)
def test_what_cannot_be_played_is_said_and_nothing_before_it(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *asked]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("keyhole: ")


def test_scenarios_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = list(listing.list_scenarios())
    assert [line.split()[0] for line in lines] == names
    assert all(len(line.split()) > 2 and len(line) <= 80 for line in lines)


def test_scenarios_of_gates_are_listed_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--gates", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:17].rstrip() for line in lines] == list(GATE_SCENARIOS)
    assert all(line[17:] and len(line) <= 80 for line in lines)


def test_without_plotly_there_is_a_table_and_json_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    few = ["--learners", "kt", "--scenarios", "steady", "--rounds", "100", "--runs", "1"]
    assert main(["compare", *few, "--out", str(tmp_path)]) == 0
    assert "no page: the page needs plotly; pip install" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["compare.json"]


def test_colours_are_for_terminals_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ["--learners", "kt", "--scenarios", "steady", "--rounds", "100", "--runs", "1"]
    main(["compare", *few, "--out", str(tmp_path)])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["compare", *few, "--out", str(tmp_path)])
    assert "\x1b[1m" in capsys.readouterr().out


@pytest.mark.parametrize(
    "channel", [["--delay", "50"], ["--batch", "20"], ["--lost", ".5"], ["--delay", "9", "--geometric"]]
)
def test_each_option_of_the_channel_reaches_the_runs(tmp_path: Path, channel: list[str]) -> None:
    few = ["--learners", "tracker", "--scenarios", "fall", "--rounds", "600", "--runs", "1"]
    rates = []
    for options in ([], channel):
        main(["compare", *few, *options, "--out", str(tmp_path)])
        written = json.loads((tmp_path / "compare.json").read_text())
        rates.append(written["cells"][0]["over_time"]["sizes"])
    assert rates[0] != rates[1]


def test_own_log_is_compared_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("score\n" + "\n".join(f"{n % 97 / 97:.3f}" for n in range(500)) + "\n")
    arguments = ["--scores", str(log), "--learners", "tracker", "--runs", "1", "--out", str(tmp_path)]
    assert main(["compare", *arguments]) == 0
    assert "log.csv: a log (size in 1 - threshold)" in capsys.readouterr().out


def test_partial_log_is_played_at_both_ends_of_what_it_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    rows = [f"0.5,{str(n % 10 == 0).lower()},{'' if n % 10 == 0 else 0.9}" for n in range(500)]
    log.write_text("threshold,missed,score\n" + "\n".join(rows) + "\n")
    arguments = ["--scores", str(log), "--learners", "tracker", "--runs", "1", "--out", str(tmp_path)]
    assert main(["compare", *arguments]) == 0
    said = capsys.readouterr().out
    assert "log.csv (most misses): a log, 450 of 500 scores told; the others as low" in said
    assert "log.csv (fewest misses): a log, 450 of 500 scores told; the others as high" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scenarios", "storm"], "there is no scenario 'storm'; there are steady"),
        (["--scenarios", "digit"], "there is no scenario 'digit'; did you mean 'digits'?"),
        (["--feedback", "half"], "there is no feedback 'half'"),
        (["--learners", "trakcer"], "did you mean 'tracker'"),
        (["--alpha", "2"], "alpha 2.0 is not a number between"),
        (["--lost", "2"], "lost 2.0 is not a probability"),
        (["--scores", "none.csv"], "there is no file none.csv"),
        (["--rounds", "0"], "rounds 0 is not a whole number from 1 to"),
        (["--rounds", "1" + "0" * 20], "is not a whole number from 1 to 1,000,000,000"),
        (["--gates", "--runs", "0"], "runs 0 is not a whole number from 1 to"),
        (["--gates", "--seed", "-1"], "seed -1 is not"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_runs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--gates", "--delay", "5"],
            "--delay would change nothing: it is for sets, and not",
        ),
        (["--gates", "--feedback", "full"], "--feedback would change nothing: it is for sets"),
        (["--gates", "--arms", "9"], "--arms would change nothing: it is for sets"),
        (["--gates", "--late"], "--late would change nothing: it is for sets"),
        (["--gates", "--scores", "log.csv"], "keyhole gate --scores FILE"),
        (["--scores", "log.csv", "--scenarios", "fall"], "--scenarios would change nothing: a log"),
        (["--scores", "log.csv", "--imagenet", "i.npz"], "--imagenet would change nothing: a log"),
        (["--late", "--batch", "20"], "--batch would change nothing: --late plays 8 kinds"),
        (["--geometric"], "--geometric would change nothing: it lets delays vary around --delay"),
        (["--imagenet", "i.npz", "--scenarios", "fall"], "add imagenet to them"),
        (["--arms", "1", "--learners", "kt"], "--arms would change nothing: kt chooses from no grid"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_whom_an_option_tells_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--scenarios", "steady", "--rounds", "300", "--runs", "1", "--out", str(tmp_path)]
    assert main(["compare", "--learners", "kt", "exp3-ix", "--arms", "5", *few]) == 0
    assert "--arms does not apply to kt: no grid to choose from." in capsys.readouterr().out


def test_adversaries_left_out_of_lateness_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--scenarios", "steady", "just-below", "--rounds", "300", "--runs", "1"]
    assert main(["compare", "--late", "--learners", "kt", *few, "--out", str(tmp_path)]) == 0
    assert "an adversary: just-below." in capsys.readouterr().out


def test_the_seed_reaches_gates(tmp_path: Path) -> None:
    few = ["--gates", "--learners", "gate-fixed", "--scenarios", "calibrated", "--rounds", "500"]
    rows = []
    for seed in ("0", "1"):
        main(["compare", *few, "--runs", "1", "--seed", seed, "--out", str(tmp_path)])
        written = json.loads((tmp_path / "gates.json").read_text())
        assert written["seed"] == int(seed)
        rows.append(written["cells"])
    assert rows[0] != rows[1]


INTERPRETED = """
import sys
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
from keyhole.cli import main
few = ["--learners", "kt", "--scenarios", "steady", "--rounds", "100", "--runs", "1"]
sys.exit(main(["compare", *few, "--out", sys.argv[1]]))
"""


def test_without_numba_nothing_is_said_to_be_compiled(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERPRETED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "compiled" not in done.stdout
    assert "microseconds a round, interpreted" in done.stdout.replace("\n", " ")
    assert "numba is not installed" in done.stderr


def test_a_file_of_outputs_is_listed_as_a_scenario_of_gates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a scenario that does not say what it is."""
    outputs = tmp_path / "outputs.npz"
    np.savez(outputs, probabilities=np.full((3, 2), 0.5), labels=np.array([0, 1, 1]))
    assert main(["compare", "--gates", "--list", "--imagenet", str(outputs)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "imagenet"
