import re
from pathlib import Path

import pytest

from keyhole import GATES, LEARNERS, bounds, make
from keyhole.cli import main

PAPER = ["--learner", "ocp-unlock+", "--alpha", ".1"]


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


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text("score,right\n.9,1\n.4,0\n")
    (tmp_path / "taken").write_text("a file, not a folder")
    scores, picture = str(tmp_path / "log.csv"), str(tmp_path / "taken" / "gate.png")
    assert main(["gate", "--scores", scores, "--out", picture]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("keyhole: ")
    assert captured.err.count("\n") == 1
    assert "taken" in captured.err


def test_learners_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners"]) == 0
    text = capsys.readouterr().out
    for rule in LEARNERS.values():
        assert any(line.startswith(rule.name) and rule.needs in line for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_learners_can_be_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learners", "kt", "gate-tracker"]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line[:1].strip()]
    assert heads == [
        "kt                 needs hit or miss",
        "gate-tracker       for gates (the default)",
    ]
    assert main(["learners", "gate-traker"]) == 2
    assert "did you mean 'gate-tracker'?" in capsys.readouterr().err


def test_bounds_are_frank_when_they_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bounds", "--learner", "ocp-unlock+", "--alpha", ".1", "--horizon", "50000"]
    assert main([*command, "--arms", "200"]) == 0
    text = capsys.readouterr().out
    assert "VACUOUS" in text
    assert "The theorem applies" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", [*LEARNERS, *GATES, "sps+valve"])
def test_bounds_speak_for_every_learner(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--learner", name, "--alpha", ".1", "--horizon", "50000"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name}: alpha 0.1, 50,000 rounds")
    lines = text.splitlines()
    assert any(line.startswith("certain ") for line in lines)
    assert any(line.startswith("theorem ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_bounds_of_the_default_are_those_of_the_calculator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".1", "--horizon", "50000"]) == 0
    certain = bounds.excess(make("informed-tracker", alpha=0.1), rounds=50_000)
    text = " ".join(capsys.readouterr().out.split())
    assert f"between {certain.least:.1f} and {certain.most:.1f}, on every sequence" in text
    low, high = 0.1 + certain.least / 50_000, 0.1 + certain.most / 50_000
    assert f"miss rate between {low:.4f} and {high:.4f} (target 0.1)" in text


def test_bounds_of_a_gate_speak_of_wrong_answers_and_of_no_valve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in GATES:
        assert main(["bounds", "--learner", name, "--alpha", ".1", "--horizon", "40000"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "wrong - alpha accepted at most 80.0, on every sequence" in text  # 20 + 0.3 sqrt(40,000)
    assert "at most 0.1020 of the accepted if all cases are, 0.1200 if a tenth is" in text
    assert not any(word in text for word in ("valve", "miss", "threshold 0"))


def test_a_comparison_asks_for_a_seed_that_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--learners", "kt", "--scenarios", "fall", "--seed", "-1"]) == 2
    assert "seed -1 is not a whole number from 0" in capsys.readouterr().err


def test_bounds_of_a_gate_are_wider_where_judgements_are_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kills: --open dropped for gates. 80 + 2 x 399 + 2 x 0.9: 399 x 400 / 2 <= 2 x 40,000."""
    asked = ["bounds", "--learner", "gate-tracker", "--alpha", ".1", "--horizon", "40000"]
    assert main([*asked, "--open", "3"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "at most 879.8, on every sequence, if at most 3 rounds wait for their judgement" in text


@pytest.mark.parametrize("horizon", ["0", "-3"])
def test_bounds_over_no_rounds_are_refused(horizon: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".1", "--horizon", horizon]) == 2
    assert f"horizon {horizon} is not a number of rounds" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["logit-tracker", "ocp-unlock+", "gate-tracker"])
def test_a_horizon_beyond_all_counting_is_called_that(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bounds", "--learner", name, "--horizon", "1" + "0" * 20]) == 2
    said = capsys.readouterr().err
    assert "is too many rounds to count; use at most 1,000,000,000,000,000" in said


def test_bounds_that_say_nothing_yet_are_called_vacuous(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".1", "--horizon", "100"]) == 0
    assert "VACUOUS" in capsys.readouterr().out


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", f"--port={port}"])
    assert f"{port!r} is not a port, a whole number from 0 to 65535" in capsys.readouterr().err


COMMANDS = [
    "demo", "learners", "bounds", "compare", "paper", "imagenet-file", "gate", "serve", "token create",
    "token list", "token revoke", "verify", "backup", "export", "calibrate",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_sentence_an_example_and_every_default(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    text = " ".join(printed.split())
    assert f"example: keyhole {command}" in text or f"examples: keyhole {command}" in text
    assert re.search(r"\. options:", text.replace("positional arguments:", "options:")), "no sentence"
    for option in re.findall(r" (--[a-z]+ [A-Z]+ [^-]*)", text.split("options:")[1]):
        needless = (
            "target miss rate", "number of rounds", "instead", "as well", "running", "two scen",
            "a .csv or",
        )  # fmt: skip
        assert "default" in option or any(words in option for words in needless), option


def test_bounds_say_where_the_theorem_does_not_apply(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", *PAPER, "--horizon", "3000", "--arms", "200"]) == 0
    text = capsys.readouterr().out
    assert "THE THEOREM DOES NOT APPLY" in text
    assert "<=" not in text.split("APPLY")[1]


def test_few_arms_get_a_note_and_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", *PAPER, "--horizon", "3000", "--arms", "4"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "keyhole: 4 arms work, but the theorem begins at 5\n"
    assert "THE THEOREM DOES NOT APPLY" in captured.out


def test_bound_beyond_all_horizons_is_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--learner", "ocp-unlock+", "--alpha", "1e-300", "--horizon", "50000"]) == 0
    assert "from inf rounds" in capsys.readouterr().out


def test_error_is_one_line_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--alpha", ".9", "--horizon", "100"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("keyhole: alpha 0.9 is not a number between 0 and 0.8")
    assert captured.err.count("\n") == 1
    assert main(["compare", "--learners", "ocp-unlok"]) == 2


def test_bounds_of_late_answers_are_wider_and_say_when(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--open", "100"]) == 0
    certain = bounds.excess(make("informed-tracker", alpha=0.1), rounds=50_000, open=100)
    text = " ".join(capsys.readouterr().out.split())
    assert f"between {certain.least:,.1f} and {certain.most:,.1f}" in text
    assert "if at most 100 rounds are open at once and threshold 0 cannot miss" in text


def test_bounds_say_that_none_holds_for_late_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", "--learner", "kt", "--open", "100"]) == 0
    assert (
        "certain    nothing: no theorem bounds the misses of kt unless ever" in capsys.readouterr().out
    )
