"""The report says what its data say, stands alone, and has every table and figure."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyhole import make
from keyhole.cli import main
from keyhole.studies.paper.document import (
    Block,
    Entry,
    Figure,
    Grid,
    write_bullets,
    write_markdown,
    write_page,
)
from keyhole.studies.paper.figures import estimate
from keyhole.studies.paper.plan import PaperPlan, read_published, tables
from keyhole.studies.paper.results import PaperResults, gaps, tightness

ONLY = ["table2", "table3", "table6", "exp2", "exp5/airfoil"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    assert main(["paper", "--only", *ONLY, "--runs", "2", "--out", str(out)]) == 0
    return out


def shape(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: shape(value) for key, value in part.items()}
    return [shape(value) for value in part] if isinstance(part, list) else type(part) in (int, float)


def test_tables_have_the_structure_of_the_published_ones(folder: Path) -> None:
    tables = json.loads((folder / "tables.json").read_text())
    errors = json.loads((folder / "standard_errors.json").read_text())
    chosen = {key: read_published()[key] for key in tables}
    assert sorted(key[:6] for key in tables) == ["table2", "table3", "table6"]
    assert shape(tables) == shape(errors) == shape(chosen)
    assert tables["table3_imagenet_K"]["K"] == [180, 200, 220]


def test_means_are_those_of_the_raw_runs(folder: Path) -> None:
    tables = json.loads((folder / "tables.json").read_text())
    path = next((folder / "runs" / "airfoil" / "iid").glob("ocp-unlock+_alpha0.2_K20_T40000-*.npz"))
    with np.load(path) as runs:
        rates, slack = runs["miss_rate"], runs["slack"]
    row = tables["table2_airfoil_alpha"]["T"]["40000"]["mc"]["iid"]
    assert row[1] == pytest.approx(rates.mean(), abs=1e-6)
    assert tables["table6_airfoil_cmc"]["T"]["40000"]["iid"][1] == pytest.approx(slack.mean(), abs=1e-6)


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, stars removed."""
    lines = text[text.index(f"## {heading}") :].splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| "))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]


def shown(value: float, error: float, *, paper: float, size: bool, ratio: bool = False) -> list[str]:
    """What the report must print of one cell."""
    if not size:
        return [f"{paper:.3f}", f"{value:.3f} ± {error:.4f}", f"{value - paper:+.3f}"]
    away = f"{value / paper:.2f}" if ratio else f"{100 * (value / paper - 1):+.1f} %"
    return [f"{paper:.2f}", f"{value:.2f} ± {error:.2f}", away]


@pytest.fixture(scope="module")
def written(folder: Path) -> tuple[str, Any, Any]:
    """The report, the measured means and their standard errors."""
    means = json.loads((folder / "tables.json").read_text())
    errors = json.loads((folder / "standard_errors.json").read_text())
    return (folder / "report.md").read_text(), means, errors


def test_table_2_holds_the_numbers_of_its_data_and_no_others(written: tuple[str, Any, Any]) -> None:
    text, means, errors = written
    key, expected = "table2_airfoil_alpha", []
    for horizon in means[key]["T"]:
        for scenario, name in (("iid", "i.i.d."), ("shift", "covariate shift")):
            for column, alpha in enumerate(means[key]["alpha"]):
                row = [f"{int(horizon):,}", name, f"{alpha:g}"]
                for metric in ("mc", "ineff"):
                    cell = [
                        part[key]["T"][horizon][metric][scenario][column] for part in (means, errors)
                    ]
                    paper = read_published()[key]["T"][horizon][metric][scenario][column]
                    row += shown(*cell, paper=paper, size=metric == "ineff", ratio=True)
                expected.append(row)
    assert rows_of(text, "Table 2") == expected


def test_table_3_holds_the_numbers_of_its_data_and_no_others(written: tuple[str, Any, Any]) -> None:
    text, means, errors = written
    key, expected = "table3_imagenet_K", []
    for learner, title in (
        ("ocp-bandit", "OCP-Bandit"),
        ("ocp-unlock", "OCP-Unlock"),
        ("ocp-unlock+", "OCP-Unlock+"),
    ):
        for scenario, name in (("iid", "i.i.d."), ("shift", "non-i.i.d.")):
            for column, arms in enumerate(means[key]["K"]):
                row = [title, name, str(arms)]
                for metric in ("mc", "ineff"):
                    cell: list[float] = [
                        part[key][learner][metric][scenario][column] for part in (means, errors)
                    ]
                    paper = read_published()[key][learner][metric][scenario][column]
                    row += shown(*cell, paper=paper, size=metric == "ineff")
                expected.append(row)
    assert rows_of(text, "Table 3") == expected


def test_table_6_holds_the_numbers_of_its_data_and_no_others(written: tuple[str, Any, Any]) -> None:
    text, means, errors = written
    key, expected = "table6_airfoil_cmc", []
    for horizon in means[key]["T"]:
        for scenario, name in (("iid", "i.i.d."), ("shift", "covariate shift")):
            for column, alpha in enumerate(means[key]["alpha"]):
                cell: list[float] = [
                    part[key]["T"][horizon][scenario][column] for part in (means, errors)
                ]
                paper = read_published()[key]["T"][horizon][scenario][column]
                row = [f"{int(horizon):,}", name, f"{alpha:g}", *shown(*cell, paper=paper, size=False)]
                expected.append(row)
    assert rows_of(text, "Table 6") == expected


def test_where_curves_end_is_in_the_data(folder: Path, written: tuple[str, Any, Any]) -> None:
    by_name = {row["setting"]: row for row in json.loads((folder / "settings.json").read_text())}
    learners = {"OCP-Unlock+": "ocp-unlock+_alpha0.1_K20", "SPS": "sps_alpha0.1", "MVP": "mvp_alpha0.1"}
    rows = rows_of(written[0], "Experiment 2")
    assert len(rows) == 6
    for title, learner, rate, size in rows:
        scenario = "iid" if title == "i.i.d." else "shift"
        row = by_name[f"{scenario}/{learners[learner]}_T50000"]
        assert rate == f"{row['mc']:.3f} ± {row['mc_error']:.4f}"
        assert size == f"{row['ineff']:.2f} ± {row['ineff_error']:.2f}"


def test_accuracy_is_in_the_data(folder: Path, written: tuple[str, Any, Any]) -> None:
    facts = json.loads((folder / "sources.json").read_text())["imagenet-like"]
    assert f"Top-1 accuracy {facts['top_1']:.3f}, top-5 {facts['top_5']:.3f}." in written[0]


def test_agreement_counts_what_the_tables_show(written: tuple[str, Any, Any]) -> None:
    text, means, errors = written
    key = "table6_airfoil_cmc"
    aways = [
        mean - paper
        for horizon in means[key]["T"]
        for mean, paper in zip(
            means[key]["T"][horizon]["shift"], read_published()[key]["T"][horizon]["shift"], strict=True
        )
    ]
    in_errors = [
        away / error
        for away, error in zip(
            aways,
            [e for horizon in errors[key]["T"] for e in errors[key]["T"][horizon]["shift"]],
            strict=True,
        )
    ]
    row = next(r for r in rows_of(text, "How near") if r[0] == "Table 6" and r[2] == "covariate shift")
    assert row[4:9] == [
        "0.015",
        f"{sum(abs(away) <= 0.015 for away in aways)} of 12",
        f"{sum(away < 0.0 for away in aways)} of 12",
        f"{sum(aways) / 12:+.3f}",
        f"{min(in_errors):+.0f} to {max(in_errors):+.0f}",
    ]
    assert row[9] == f"{max(aways, key=abs):+.3f}"


def test_c_gap_falls_where_the_miss_rates_say_so_and_not_everywhere(
    written: tuple[str, Any, Any],
) -> None:
    """By the paper's Table 2 it falls in every row; (1/.1 - 1/.054) 50,000^(1/4) = -127.4."""
    rows = rows_of(written[0], "C_gap(T)")
    assert rows[0][:6] == ["i.i.d.", "0.1", "-80.7", "-106.7", "-127.4", "yes"]
    assert [row[5] for row in rows] == ["yes"] * 8
    assert [row[9] for row in rows] == ["yes"] * 8


def test_by_the_papers_own_table_1_c_gap_rises_at_the_larger_targets() -> None:
    table = tables()[0]
    grid = gaps(PaperResults(PaperPlan((table,), (), ()), {}, runs=1, seed=0, command=""), table)
    falls = {(row[0].text, row[1].text): row[5].text for row in grid.rows}
    assert [key for key in falls if falls[key] == "yes"] == [
        ("i.i.d.", "0.1"),
        ("i.i.d.", "0.2"),
        ("non-i.i.d.", "0.1"),
    ]


def test_in_no_setting_of_the_paper_has_unlock_plus_the_tightest_bound() -> None:
    for table in tables()[2:4]:
        for row in tightness(table).rows:
            saved, _, shared, bandit, unlock, plus = (
                float(entry.text.replace(",", "")) for entry in row[1:]
            )
            assert saved < shared
            assert bandit < plus < unlock


def test_report_is_one_page_with_its_pictures_inside(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert text.count("data:image/svg+xml;base64,") == 4
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "keyhole paper --only table2" in text
    for stem in ("exp2-airfoil", "exp5-airfoil", "feedback", "methods"):
        assert (folder / "figures" / f"{stem}.png").stat().st_size > 10_000
        assert (folder / "figures" / f"{stem}.svg").stat().st_size > 10_000


def test_after_a_miss_only_unlock_plus_gives_most_to_thresholds_that_may_have_hit() -> None:
    """The figure of the methods: 0.5 is played, of eleven, and the score is 0.25."""
    added = {
        name: estimate(make(name, alpha=0.1, horizon=50_000, arms=11), 0.25)
        for name in ("ocp-bandit", "ocp-unlock", "ocp-unlock+")
    }
    assert added["ocp-bandit"].argmax() == added["ocp-unlock"].argmax() == 5
    assert (np.diff(added["ocp-unlock+"]) < 0.0).all()


def test_what_differs_is_said_next_to_the_number(folder: Path) -> None:
    text = (folder / "report.md").read_text()
    table2 = text[text.index("## Table 2") : text.index("## Table 3")]
    assert "18.5 dB" in table2
    assert "-1.3" in table2
    table3 = text[text.index("## Table 3") : text.index("## Table 6")]
    assert "generated" in table3
    assert "MvpParameters(alpha=0.1, buckets=40" in text
    assert "SpsParameters(alpha=0.1, horizon=50000, arms=1000" in text


def test_one_run_and_one_panel_make_a_report_without_errors(tmp_path: Path) -> None:
    only = ["exp2/airfoil/iid", "exp5/airfoil/shift", "table6"]
    assert main(["paper", "--only", *only, "--runs", "1", "--out", str(tmp_path)]) == 0
    assert "±" not in (tmp_path / "report.md").read_text()
    errors = json.loads((tmp_path / "standard_errors.json").read_text())
    assert errors["table6_airfoil_cmc"]["T"]["30000"]["iid"] == [None] * 4


def test_a_file_has_columns_and_tables_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "small.npz"
    np.savez(
        path, logits=rng.normal(0, 3, (50, 20)).astype(np.float32), labels=rng.integers(20, size=50)
    )
    out = tmp_path / "out"
    command = [
        "paper",
        "--only",
        "table3",
        "--runs",
        "1",
        "--imagenet",
        str(path),
        "--model",
        "Tiny Net",
    ]
    assert main([*command, "--out", str(out)]) == 0
    own = json.loads((out / "tables-imagenet-tiny-net.json").read_text())
    assert shape(own) == shape({"table3_imagenet_K": read_published()["table3_imagenet_K"]})
    assert own != json.loads((out / "tables.json").read_text())
    text = (out / "report.md").read_text()
    assert "MC Tiny Net" in text
    assert "--imagenet small.npz --model 'Tiny Net'" in text
    assert "Tiny Net, 50 images" in text
    rate = own["table3_imagenet_K"]["ocp-bandit"]["mc"]["iid"][0]
    assert f"{rate:.3f}" in rows_of(text, "Table 3")[0]


def test_wrong_names_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "--only", "table9", "--out", str(tmp_path / "out")]) == 2
    assert "table9" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_without_outputs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "none.npz")
    assert main(["paper", "--imagenet", path, "--out", str(tmp_path / "out")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_blocks_are_written_both_ways(tmp_path: Path) -> None:
    (tmp_path / "one.svg").write_text("<svg/>")
    blocks: list[Block] = [
        "# Title & all",
        "Plain, `code`, *stressed* and **strong** <words>.",
        write_bullets(["first"]),
        "```\nrun <this>\n```",
        Grid(
            [("", 1), ("ours", 2)],
            ["name", "a", "b"],
            [[Entry("x"), Entry("1"), Entry("2", "far")]],
            1,
        ),
        Figure("one", "What it shows"),
    ]
    text, web = write_markdown(blocks), write_page(blocks, tmp_path)
    assert "| name | ours a | ours b |\n| :-- | --: | --: |\n| x | 1 | **2** |" in text
    assert "![What it shows](one.png)" in text
    assert "<code>code</code>, <em>stressed</em> and <strong>strong</strong> &lt;words&gt;" in web
    assert '<td class="far">2</td>' in web
    assert "<pre><code>run &lt;this&gt;" in web
    assert '<th colspan="2">ours</th>' in web


def test_tables_are_named_by_the_papers_own_numbers(written: tuple[str, Any, Any]) -> None:
    text = written[0]
    assert "## Table 2, Airfoil (the paper's Table 5)" in text
    assert "## Table 6, Airfoil (the paper's Table 9)" in text


def test_range_of_the_length_ratio_is_that_of_the_cells(written: tuple[str, Any, Any]) -> None:
    text = written[0]
    ratios = [row[-1] for row in rows_of(text, "Table 2")]
    assert f"it runs from {min(ratios)} to {max(ratios)} over these cells" in text


@pytest.mark.parametrize(
    "word", ["frozen", "stretch", "learns 50 rows", "prior variance", "standardised"]
)
def test_our_readings_are_named(written: tuple[str, Any, Any], word: str) -> None:
    section = written[0].split("## What the paper leaves open")[1].split("\n## ")[0]
    assert word in section


def test_report_ends_with_its_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same request again runs nothing, and says the count that the agreement table adds up to."""
    assert main(["paper", "--only", *ONLY, "--runs", "2", "--out", str(folder)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    counts = [row[5].split(" of ") for row in rows_of((folder / "report.md").read_text(), "How near")]
    within, cells = (sum(int(count[place]) for count in counts) for place in (0, 1))
    assert said == f"verdict: {within} of {cells} cells are within tolerance of the paper's"
