"""What learners are told of a scenario's cases, and how evenly they miss over groups of them."""

import math

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.feedback import Feedback
from keyhole.numeric import Array
from keyhole.scenarios.contextual import CONTEXTUAL, ForecastScenario
from keyhole.scenarios.drifts import steady
from keyhole.studies.compare import listing, table
from keyhole.studies.compare.contest import (
    FEWEST,
    Contest,
    Terms,
    judge_groups,
    make_record,
    read_context,
    run_contest,
    worst_group,
)

ROUNDS = 1_800
NAMES = ["contextual-tracker", "mvp", "logit-tracker", "contextual-tracker+valve"]


@pytest.fixture(scope="module")
def contest() -> Contest:
    terms = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=ROUNDS, runs=2, seed=4)
    scenarios = listing.pick_scenarios(["hourly", "steady"], listing.list_scenarios())
    return run_contest(NAMES, scenarios, terms)


def miss_rate(contest: Contest, learner: str, scenario: str) -> float:
    cell = next(c for c in contest.cells if (c.learner, c.scenario) == (learner, scenario))
    return cell.figures["miss_rate"].mean


def played(name: str, *known: str) -> float:
    """Return the miss rate of two runs of a learner that is told this much of the hours."""
    runs = [CONTEXTUAL["hourly"](ROUNDS, seed=seed) for seed in (4, 5)]
    told: dict[str, Array] = {
        what: np.stack([read_context(run)[what] for run in runs]) for what in known
    }
    learner = make(name, alpha=0.1, options={what: rows.shape[2] for what, rows in told.items()})
    scores = np.stack([run.scores for run in runs])
    done = simulate(learner, scores, seed=4, feedback=Feedback.BANDIT, **told)  # type: ignore[arg-type]
    return float(done.misses.mean())


def test_everyone_is_told_what_it_takes_and_each_run_its_own(contest: Contest) -> None:
    rates = {name: miss_rate(contest, name, "hourly") for name in NAMES}
    expected = {
        "contextual-tracker": played("contextual-tracker", "features", "groups"),
        "mvp": played("mvp", "groups"),
        "logit-tracker": played("logit-tracker"),
        "contextual-tracker+valve": played("contextual-tracker+valve", "features", "groups"),
    }
    assert rates == pytest.approx(expected, rel=1e-12)


def test_worst_group_is_the_farthest_from_the_target() -> None:
    misses = np.array([True, False, False, False, True, False, False, False])
    members = np.array([[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1]])
    assert worst_group(misses, members.T > 0, 0.2) == pytest.approx(0.3)
    assert worst_group(misses, members.T[:, ::2] > 0, 0.3) == pytest.approx(0.3)
    assert math.isnan(worst_group(misses, members.T[:, :0] > 0, 0.2))


def test_judged_are_the_groups_the_thirds_of_features_and_the_missing_if_large_enough() -> None:
    rounds = 6 * FEWEST
    values = np.arange(rounds, dtype=np.float64)
    values[: 2 * FEWEST] = np.nan
    small = np.arange(rounds) < FEWEST - 1
    scenario = ForecastScenario(
        np.zeros(rounds),
        values[:, None],
        np.column_stack((np.arange(rounds) % 2 == 1, small)),
    )
    judged = judge_groups(scenario)
    assert judged.shape == (rounds, 5)
    assert judged.sum(axis=0).tolist() == pytest.approx(
        [3 * FEWEST, *[4 * FEWEST / 3] * 3, 2 * FEWEST], abs=1
    )
    assert (judged[:, 1:].sum(axis=1) == 1).all()
    assert judge_groups(steady(rounds, seed=1)).shape == (rounds, 0)


def test_table_shows_groups_where_there_are_some_and_names_whole(contest: Contest) -> None:
    lines = table.text(contest).splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line.startswith("learner ") and " us" in line]
    assert [("group" in head, "regret" in head) for head in heads] == [(True, False), (False, True)]
    assert sum(line.startswith("contextual-tracker ") for line in lines) == 3
    assert sum(line.startswith("contextual-t…valve ") for line in lines) == 3
    cell = next(c for c in contest.cells if c.learner == "mvp" and c.scenario == "hourly")
    shown = next(line for line in lines if line.startswith("mvp ")).split()
    assert shown[6] == f"{cell.figures['worst_group'].mean:.3f}"


def test_record_holds_the_worst_group_or_null(contest: Contest) -> None:
    cells = make_record(contest)["cells"]
    worst = {cell["scenario"]: cell["figures"]["worst_group"]["mean"] for cell in cells}
    assert worst["steady"] is None
    assert 0.0 < worst["hourly"] < 1.0
