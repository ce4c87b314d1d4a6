"""The demo shows what it claims: the default keeps its promise where a fixed threshold does not."""

from pathlib import Path

import numpy as np
import pytest

from keyhole.cli import main
from keyhole.studies import demo


@pytest.fixture(scope="module")
def results() -> list[demo.Result]:
    return [demo.play(scenario, report=lambda _: None) for scenario in demo.scenarios(6_000)]


def test_the_default_keeps_to_the_target_all_the_way_and_a_fixed_threshold_does_not(
    results: list[demo.Result],
) -> None:
    for result in results:
        fixed, _, default, *_told = result.runs
        assert np.mean(default.misses) < demo.ALPHA + 0.01
        assert default.miss_rates.max() < demo.ALPHA + 0.04
        assert fixed.miss_rates.max() > demo.ALPHA + 0.05


def test_the_fixed_threshold_was_right_for_the_answers_it_was_picked_on(
    results: list[demo.Result],
) -> None:
    ties = 15 / demo.WINDOW  # one picture comes this often at most: all of its rounds miss, or none
    for result in results:
        assert result.runs[0].miss_rates[0] == pytest.approx(demo.ALPHA, abs=ties)


def test_the_table_fits_eighty_columns_and_names_every_way(results: list[demo.Result]) -> None:
    text = demo.tabulate(results)
    assert max(map(len, text.splitlines())) <= 80
    for result in results:
        assert all(f"  {run.name} " in text for run in result.runs)


def test_features_make_intervals_shorter_and_keep_the_target(results: list[demo.Result]) -> None:
    *_, default, told = results[1].runs
    assert np.mean(told.misses) < demo.ALPHA + 0.03
    assert np.mean(told.sizes) < np.mean(default.sizes)


@pytest.mark.parametrize("bad", [["--rounds", "-100"], ["--rounds", "10"], ["--out", "demo.xyz"]])
def test_it_refuses_before_it_works(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("keyhole: ")


def test_it_prints_a_table_writes_a_picture_and_says_what_to_try_next(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "new" / "demo.png"
    assert main(["demo", "--rounds", "2000", "--out", str(picture)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.replace(str(picture), "").splitlines())) <= 80
    assert "What to try next" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_names_in_the_picture_can_be_read_on_a_phone_and_none_is_cut_off(
    results: list[demo.Result],
) -> None:
    figure = demo.make_figure(results)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    inch = 360 / figure.get_figwidth()  # the pixels of an inch where a phone shows it whole
    assert all(text.get_fontsize() / 72 * inch >= 7.5 for text in legend.get_texts())
    box = legend.get_window_extent()
    assert box.x0 >= figure.bbox.x0
    assert box.x1 <= figure.bbox.x1
