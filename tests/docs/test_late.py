"""What the trackers say of very late answers is what the tables of docs/evidence.md have."""

import re
from pathlib import Path

import pytest

from keyhole import LEARNERS

PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text(encoding="utf-8")
SETTLED, STARTING = PAGE.split("`python benchmarks/late.py --start`")


def read_row(part: str, answers: str) -> list[list[float]]:
    """Return error, mean and worst size of each column of the row of these answers."""
    (row,) = re.findall(rf"^\| {answers} \|(.+)\|$", part, re.MULTILINE)
    return [[float(n.replace(",", "")) for n in cell.split("/")] for cell in row.split("|")]


@pytest.mark.parametrize(
    ("name", "column", "start"), [("informed-tracker", 1, 0), ("logit-tracker", 3, 2)]
)
def test_what_a_tracker_says_of_answers_1000_rounds_late_is_in_the_tables(
    name: str, column: int, start: int
) -> None:
    """Kills: 1.1 and 2 in words where the table has 1.57 and 9.0."""
    said = LEARNERS[name].about.late
    _, mean, worst = read_row(SETTLED, "1,000 late")[column]
    usual = f"{mean:.1f} times the best" if mean > 1.0 else "as large as the best threshold's"
    assert f"sets are {usual} on average and {worst:g} times at worst" in said
    (_, mean, worst), (_, small, small_worst) = read_row(STARTING, "1,000 late")[start : start + 2]
    (_, _, batch), (_, _, small_batch) = read_row(STARTING, "batches of 1,000")[start : start + 2]
    assert f"{mean:.1f} times those of prompt answers on average ({small:.1f} at alpha" in said
    in_batches = f"{max(batch, small_batch):g} in batches of 1,000"
    assert f"{max(worst, small_worst):g} times at worst ({in_batches})" in said
