"""Gates compared, a log replayed, and what the default gate was made to show."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from keyhole.cli import main
from keyhole.errors import InvalidError
from keyhole.learners import make
from keyhole.numeric import Array
from keyhole.scenarios.gate_cases import (
    GATE_SCENARIOS,
    pick_gate_scenarios,
    read_gate_log,
    read_imagenet_gate,
)
from keyhole.simulation.gate_runs import best_fixed, simulate_gate
from keyhole.studies.compare.contest import Terms
from keyhole.studies.compare.gate_contest import run_gate_contest

ROUNDS = 30_000


@pytest.fixture(scope="module")
def imagenet(mobilenet: Path) -> tuple[Array, Array]:
    return read_imagenet_gate(mobilenet)(ROUNDS, seed=0)


@pytest.mark.parametrize("power", [1.0, 3.0])
@pytest.mark.parametrize(("alpha", "enough"), [(0.05, 0.96), (0.1, 0.98)])
def test_on_imagenet_it_is_nearly_the_best_threshold_in_hindsight(
    mobilenet: Path, alpha: float, enough: float, power: float
) -> None:
    relative = []
    for seed in range(3):
        drawn = read_imagenet_gate(mobilenet)(ROUNDS, seed=seed)
        scores, wrong = drawn.scores**power, drawn.wrong
        run = simulate_gate(make("gate-tracker", alpha=alpha), scores, wrong)
        assert abs(run.wrong_share - alpha) <= 0.005
        relative.append(run.accepted_share / best_fixed(scores, wrong, alpha=alpha)[1])
    assert np.mean(relative) >= enough


def test_where_everything_may_pass_nearly_everything_does() -> None:
    """Kills: a lowest position at which one wrong answer already refers the worst twentieth."""
    rng = np.random.default_rng(4)
    scores, wrong = rng.random(ROUNDS), (rng.random(ROUNDS) < 0.03).astype(np.float64)
    run = simulate_gate(make("gate-tracker", alpha=0.1), scores, wrong)
    assert run.accepted[ROUNDS // 3 :].mean() >= 0.99


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_on_imagenet_accuracy_may_halve_midway(imagenet: tuple[Array, Array], alpha: float) -> None:
    scores, wrong = imagenet
    turned = (np.arange(ROUNDS) >= ROUNDS // 2) & (np.random.default_rng(1).random(ROUNDS) < 0.5)
    run = simulate_gate(make("gate-tracker", alpha=alpha), scores, np.where(turned, 1.0, wrong))
    assert abs(run.wrong_share - alpha) <= 0.012


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_on_imagenet_an_audit_of_one_in_five_is_enough(
    imagenet: tuple[Array, Array], alpha: float
) -> None:
    runs = [
        simulate_gate(make("gate-tracker", alpha=alpha), *imagenet, audit=0.2, seed=seed)
        for seed in range(8)
    ]
    errors = np.array([run.wrong_share - alpha for run in runs])
    judged = 0.2 * ROUNDS * np.mean([run.accepted_share for run in runs])
    deviation = math.sqrt(0.8 * alpha * (1.0 - alpha) / judged)  # what so few judgements leave open
    assert abs(errors.mean()) <= 3.0 * deviation / math.sqrt(8.0)
    assert np.abs(errors).max() <= 3.0 * deviation


@pytest.mark.parametrize(("least", "most"), [(0.7, 0.8), (0.2, 0.25), (0.97, 0.98)])
def test_scores_need_not_be_probabilities(least: float, most: float) -> None:
    """Kills: steps of a fixed size, which pass all scores at once: a twentieth of them is accepted."""
    relative = []
    for seed in range(8):
        scores, wrong = GATE_SCENARIOS["calibrated"](ROUNDS, seed=seed)
        scores = least + (most - least) * scores
        run = simulate_gate(make("gate-tracker", alpha=0.1), scores, wrong)
        assert abs(run.wrong_share - 0.1) <= 0.005
        relative.append(run.accepted_share / best_fixed(scores, wrong, alpha=0.1)[1])
    assert np.mean(relative) >= 0.9


def test_every_rule_has_a_row_on_every_scenario() -> None:
    scenarios = pick_gate_scenarios(["calibrated", "always wrong"])
    terms = Terms(alpha=0.1, rounds=2_000, runs=2)
    cells = run_gate_contest(["gate-tracker", "gate-fixed"], scenarios, terms, audits=(1.0, 0.3)).cells
    assert len(cells) == 8
    ratios = [cell.figures["relative"].mean for cell in cells if cell.scenario == "always wrong"]
    assert all(math.isnan(ratio) for ratio in ratios)


def test_every_scenario_is_scores_and_outcomes() -> None:
    for name, draw in GATE_SCENARIOS.items():
        if name != "digits":
            cases = draw(500, seed=1)
            assert ((cases.scores >= 0.0) & (cases.scores <= 1.0)).all()
            assert set(np.unique(cases.wrong)) <= {0.0, 1.0}


def test_unknown_scenarios_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidError, match="calibrated"):
        pick_gate_scenarios(["fog"])


def write_log(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("id,score,right", ["1,0.9,1", "2,0.2,0", "3,0.5,"]),
        ("Confidence,WRONG", ["0.9,false", "0.2,true"]),
        ("probability,correct", ["0.9,yes", "0.2,No"]),
    ],
)
def test_logs_are_read_by_the_names_people_use(tmp_path: Path, header: str, rows: list[str]) -> None:
    cases = read_gate_log(write_log(tmp_path / "log.csv", header, rows))
    assert (cases.scores.tolist(), cases.wrong.tolist()) == ([0.9, 0.2], [0.0, 1.0])


@pytest.mark.parametrize(
    ("header", "row", "fault"),
    [
        ("score,label", "0.9,cat", "it needs score"),
        ("score,right", "1.9,1", "line 2 of .*: score '1.9'"),
        ("score,right", "x,1", "line 2 of .*: score 'x'"),
        ("score,right", "0.9,maybe", "line 2 of .*: right 'maybe'"),
        ("score,right", ",1", "line 2 of .*: score '' is not a number"),
        ("score,right", "0.9,", "no row with an outcome"),
    ],
)
def test_a_bad_log_is_refused_with_its_line(tmp_path: Path, header: str, row: str, fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        read_gate_log(write_log(tmp_path / "log.csv", header, [row]))


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"", "has no columns; it needs score"), (b"score,right\n\xff", "not a CSV file in UTF-8")],
)
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=fault):
        read_gate_log(path)


def test_the_command_tells_what_a_log_would_have_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, wrong = GATE_SCENARIOS["calibrated"](2_000, seed=3)
    rows = [f"{score},{int(1 - bad)}" for score, bad in zip(scores, wrong, strict=True)]
    log = write_log(tmp_path / "log.csv", "score,right", rows)
    picture = tmp_path / "gate.png"
    assert main(["gate", "--scores", str(log), "--alpha", "0.1", "--out", str(picture)]) == 0
    told = capsys.readouterr().out
    threshold, share = best_fixed(scores, wrong, alpha=0.1)
    assert f"from score {threshold:.4f} on, {share:.1%} of the cases" in told
    assert picture.stat().st_size > 10_000


def test_the_command_compares_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["compare", "--gates", "--learners", "gate-tracker", "gate-fixed"]
    terms = ["--rounds", "1000", "--runs", "1", "--out", str(tmp_path)]
    assert main([*names, *terms]) == 0
    assert "gate-tracker" in capsys.readouterr().out
    cells = json.loads((tmp_path / "gates.json").read_text())["cells"]
    assert {cell["scenario"] for cell in cells} == set(GATE_SCENARIOS)
    assert {cell["audit"] for cell in cells} == {1.0, 0.3, 0.1}
    assert (tmp_path / "gates.png").stat().st_size > 10_000
