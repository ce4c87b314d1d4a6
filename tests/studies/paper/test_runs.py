"""Runs are kept, resumed, and the same wherever they are made."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.cli import main
from keyhole.errors import InvalidError, KeyholeError
from keyhole.scenarios.airfoil import airfoil
from keyhole.simulation import metrics
from keyhole.studies.engine import Engine
from keyhole.studies.paper.one_run import (
    GENERATED,
    MEASURED,
    POINTS,
    Pair,
    RunOutcome,
    Setting,
    play_run,
    rounds_kept,
)
from keyhole.studies.paper.plan import panels, plan, tables
from keyhole.studies.paper.reproduce import Request, reproduce
from keyhole.studies.paper.runs import FinishedRuns, run
from tests.patience import SECONDS

SETTING = Setting("airfoil", "shift", "ocp-unlock+", 0.1, 5_000, 20)
PAIRS = [Pair(MEASURED, SETTING), Pair(MEASURED, Setting("airfoil", "iid", "sps", 0.1, 5_000))]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_is_what_simulate_plays() -> None:
    outcome = play_run((PAIRS[0], 7))
    scenario = airfoil(5_000, seed=7, shift=True)
    learner = make("ocp-unlock+", alpha=0.1, horizon=5_000, arms=20)
    whole = simulate(learner, scenario.scores, seed=7)
    sizes = scenario.sizes(whole.thresholds[0])
    assert outcome.miss_rate == whole.misses.mean()
    assert outcome.mean_size == sizes.mean()
    assert outcome.slack == metrics.coverage_slack(whole.thresholds, whole.misses, loss=SETTING.loss)
    kept = rounds_kept(5_000)
    assert kept.size == POINTS
    assert kept[-1] == 5_000
    expected = metrics.miss_rate_so_far(whole.misses)[0, kept - 1]
    assert outcome.miss_rates == pytest.approx(expected, abs=1e-7)
    assert outcome.mean_sizes[-1] == pytest.approx(sizes.mean(), rel=1e-6)


def test_engines_and_workers_do_not_change_a_bit(address: str, tmp_path: Path) -> None:
    engines = [
        Engine("threads", workers=1),
        Engine("threads", workers=2),
        Engine("dask", address=address),
    ]
    kept = []
    for place, engine in enumerate(engines):
        run(PAIRS, tmp_path / str(place), runs=3, seed=4, engine=engine)
        kept.append(files(tmp_path / str(place)))
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0]) == 2


def test_more_runs_add_to_those_that_are_there(tmp_path: Path) -> None:
    few = run(PAIRS, tmp_path, runs=2, seed=4, engine=Engine())
    kept = FinishedRuns(tmp_path, 4)
    marked = few[PAIRS[0]][0]._replace(miss_rate=0.5)
    kept.save(PAIRS[0], {0: marked, 1: few[PAIRS[0]][1]})
    more = run(PAIRS, tmp_path, runs=3, seed=4, engine=Engine())
    assert more[PAIRS[0]][0].miss_rate == 0.5, "the first run was run again"
    assert len(more[PAIRS[0]]) == 3
    assert len(run(PAIRS, tmp_path, runs=1, seed=4, engine=Engine())[PAIRS[0]]) == 1


def test_another_seed_or_learner_has_another_file() -> None:
    kept = FinishedRuns(Path(), 4)
    other = Pair(MEASURED, Setting("airfoil", "shift", "ocp-unlock+", 0.1, 5_000, 10))
    assert kept.path(PAIRS[0]) != FinishedRuns(Path(), 5).path(PAIRS[0])
    assert kept.path(PAIRS[0]) != kept.path(other)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = FinishedRuns(tmp_path, 4).path(PAIRS[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK nothing")
    with pytest.raises(KeyholeError, match="delete it"):
        run(PAIRS, tmp_path, runs=1, seed=4, engine=Engine())


def test_saved_runs_come_back_bit_for_bit(tmp_path: Path) -> None:
    outcome = RunOutcome(0.1, 1 / 3, -0.2, np.full(3, 1 / 7, np.float32), np.zeros(3, np.float32))
    kept = FinishedRuns(tmp_path, 4)
    kept.save(PAIRS[0], {5: outcome, 2: outcome})
    loaded = kept.load(PAIRS[0])
    assert list(loaded) == [2, 5]
    assert loaded[5][:3] == outcome[:3]
    assert (loaded[5].miss_rates == outcome.miss_rates).all()


# Started in the background, a process ignores SIGINT, and so would its children.
HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from keyhole.cli import main
sys.exit(main(["paper", *sys.argv[1:]]))
"""


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    """So many runs that no machine is through before the signal comes."""
    words = ["--only", "exp2", "--runs", "4000", "--workers", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HEARS_CTRL_C, *words], stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 10 * SECONDS
    while process.poll() is None and not list(tmp_path.rglob("*.npz")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        said = process.communicate(timeout=5 * SECONDS)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 130, said
    assert "the same command continues" in said
    finished = plan(["exp2"], (MEASURED,)).pairs
    outcomes = [FinishedRuns(tmp_path / "runs", 0).load(pair) for pair in finished]
    assert 0 < sum(map(len, outcomes)) < 6 * 4000
    assert not (tmp_path / "report.html").exists()
    number, outcome = next(iter(outcomes[0].items()))
    again = play_run((finished[0], number))
    assert outcome[:3] == again[:3]
    assert (outcome.mean_sizes == again.mean_sizes).all()


def test_resumed_from_a_part_gives_the_files_of_an_unbroken_run(tmp_path: Path) -> None:
    request = Request(only=("exp2",), runs=5)
    part = plan(["exp2"], (MEASURED,)).pairs[:4]
    run(part, tmp_path / "broken" / "runs", runs=3, seed=0, engine=Engine(workers=2))
    for folder in ("broken", "whole"):
        reproduce(request, tmp_path / folder, engine=Engine())
    broken, whole = files(tmp_path / "broken"), files(tmp_path / "whole")
    assert sorted(broken) == sorted(whole)
    assert len(whole) == 6 + 4 + 2 + 3 * 2  # runs, data, report, three figures
    assert [name for name in whole if broken[name] != whole[name]] == []


def test_default_plan_shares_runs_between_tables_and_figures() -> None:
    everything = plan([], (GENERATED, MEASURED))
    in_tables = sum(len(table.settings) for table in everything.tables)
    in_figures = sum(len(panel.settings) for panel in everything.panels)
    assert len(everything.pairs) == 90 + 8  # and Table 1 with the shift as it is written
    assert in_tables + in_figures > 150


@pytest.mark.parametrize(
    ("names", "keys", "ids"),
    [
        (["table2"], {"table2_airfoil_alpha"}, set()),
        (["exp3"], {"table3_imagenet_K", "table4_airfoil_K"}, set()),
        (["exp6/airfoil"], {"table2_airfoil_alpha", "table6_airfoil_cmc"}, set()),
        (["exp3/imagenet/iid"], {"table3_imagenet_K"}, set()),
        (["exp1/imagenet/iid"], set(), {"exp1/imagenet/iid"}),
        (
            ["exp5/airfoil", "table6"],
            {"table6_airfoil_cmc"},
            {"exp5/airfoil/iid", "exp5/airfoil/shift"},
        ),
    ],
)
def test_names_select_by_their_beginning(names: list[str], keys: set[str], ids: set[str]) -> None:
    chosen = plan(names, (GENERATED, MEASURED))
    assert {table.key for table in chosen.tables} == keys
    assert {panel.id for panel in chosen.panels} == ids


def test_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidError, match="did you mean 'exp6'"):
        plan(["exp66"], (GENERATED, MEASURED))


def test_every_experiment_of_the_paper_is_there() -> None:
    ids = {panel.experiment for panel in panels()} | {t.experiment.split("/")[0] for t in tables()}
    assert ids == {f"exp{n}" for n in range(1, 7)}


def test_no_runs_are_refused() -> None:
    with pytest.raises(InvalidError, match="at least 1"):
        Request(runs=0)


def test_options_that_would_change_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", "--model", "Tiny", "--out", str(tmp_path)]) == 2
    assert (
        "--model Tiny names no outputs; give the classifier's with --imagenet"
        in capsys.readouterr().err
    )
    path = tmp_path / "small.npz"
    np.savez(path, logits=np.ones((2, 3), dtype=np.float32), labels=np.array([0, 1]))
    command = ["paper", "--only", "exp5/airfoil", "--imagenet", str(path)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 2
    assert (
        "--imagenet would change nothing: exp5/airfoil is not about ImageNet" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()
