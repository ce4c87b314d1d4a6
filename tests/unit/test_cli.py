from pathlib import Path

import pytest

from keyhole import LEARNERS
from keyhole.cli import main


def test_help_lists_the_commands_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("demo", "learners", "bounds"))
    assert max(map(len, text.splitlines())) <= 80


def test_learners_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners"]) == 0
    text = capsys.readouterr().out
    for rule in LEARNERS.values():
        assert any(line.startswith(rule.name) and rule.needs in line for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_bounds_are_frank_when_they_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bounds", "--learner", "ocp-unlock+", "--alpha", ".1", "--horizon", "50000"]
    assert main([*command, "--arms", "200"]) == 0
    text = capsys.readouterr().out
    assert "VACUOUS" in text
    assert "The theorem applies" in text
    assert max(map(len, text.splitlines())) <= 80


def test_bounds_say_where_the_theorem_does_not_apply(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".1", "--horizon", "3000", "--arms", "200"]) == 0
    text = capsys.readouterr().out
    assert "THE THEOREM DOES NOT APPLY" in text
    assert "<=" not in text.split("APPLY")[1]


def test_few_arms_get_a_note_and_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".1", "--horizon", "3000", "--arms", "4"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "keyhole: 4 arms work, but the theorem begins at 5\n"
    assert "THE THEOREM DOES NOT APPLY" in captured.out


def test_bound_beyond_all_horizons_is_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", "1e-300", "--horizon", "50000"]) == 0
    assert "from inf rounds" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [["--rounds", "-100"], ["--rounds", "10"], ["--out", "demo.xyz"]])
def test_demo_refuses_before_it_works(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("keyhole: ")


def test_demo_prints_a_table_and_writes_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "new" / "demo.png"
    assert main(["demo", "--rounds", "600", "--out", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "airfoil self-noise" in text
    assert "handwritten digits" in text
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_error_is_one_line_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".7", "--horizon", "100"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("keyhole: alpha 0.7 is not a number between 0 and 0.5")
    assert captured.err.count("\n") == 1
    assert main(["demo", "--learner", "ocp-unlok"]) == 2
