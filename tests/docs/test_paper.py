"""The committed report is the command's: its pictures exist, and its numbers come out again."""

import re
from pathlib import Path

import numpy as np
import pytest

from keyhole.studies.paper.one_run import MEASURED, Pair, Setting, Source, from_file, play_run

ROOT = Path(__file__).parents[2]
REPORT = (ROOT / "docs" / "paper.md").read_text()


def rates(source: Source, setting: Setting) -> str:
    runs = [play_run((Pair(source, setting), run)).miss_rate for run in range(50)]
    return f"{np.mean(runs):.3f} ± {np.std(runs, ddof=1) / np.sqrt(50):.4f}"


def row(table: int, *labels: str) -> str:
    text = REPORT[REPORT.index(f"## Table {table},") :]
    return next(line for line in text.splitlines() if line.startswith("| " + " | ".join(labels)))


def test_report_was_made_with_50_runs_of_seed_0() -> None:
    command = "keyhole paper --runs 50 --seed 0 --imagenet imagenet_val5000_mobilenet_v2.npz"
    assert f"{command} --model MobileNetV2" in REPORT


def test_pictures_exist() -> None:
    pictures = re.findall(r"\]\((paper/[^)]+)\)", REPORT)
    assert len(pictures) == 11
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)


@pytest.mark.parametrize("scenario", ["iid", "shift"])
def test_a_number_of_table_2_comes_out_again(scenario: str) -> None:
    name = {"iid": "i.i.d.", "shift": "covariate shift"}[scenario]
    setting = Setting("airfoil", scenario, "ocp-unlock+", 0.2, 30_000, 20)
    assert f"| 0.{_paper(scenario)} | {rates(MEASURED, setting)} |" in row(2, "30,000", name, "0.2")


def _paper(scenario: str) -> str:
    return {"iid": "129", "shift": "174"}[scenario]


def test_a_number_of_the_real_file_comes_out_again(mobilenet: Path) -> None:
    setting = Setting("imagenet", "iid", "mvp", 0.15, 50_000)
    shown = REPORT[REPORT.index("## Experiment 1") :]
    line = next(line for line in shown.splitlines() if line.startswith("| i.i.d. | MVP"))
    assert f"| {rates(from_file(mobilenet), setting)} |" in line
