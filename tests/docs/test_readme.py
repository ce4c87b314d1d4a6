"""The README's examples run, and its numbers are those its commands print."""

import re
from pathlib import Path

import pytest

from keyhole import demo
from keyhole.cli import main

README = Path(__file__).parents[2].joinpath("README.md").read_text()


def test_examples_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    assert "True" in capsys.readouterr().out  # The interval holds the true value.


def test_numbers_of_the_bounds_are_printed_by_their_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "keyhole bounds --alpha .1 --horizon 50000 --arms 20"
    assert command in README
    main(command.split()[1:])
    text = capsys.readouterr().out
    for number in ("0.646", "48,154,283"):
        assert number in README
        assert number in text


def test_numbers_of_the_demo_are_printed_by_it() -> None:
    rates = [f"{diary.miss_rates[-1]:.3f}" for diary in demo.diaries("ocp-unlock+", demo.ROUNDS)]
    assert f"ends at {rates[0]} and {rates[1]}" in README


def test_links_point_to_files() -> None:
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (root / target).exists(), target
