import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keyhole import compare, make, simulate
from keyhole.errors import FeedbackError, InvalidError
from keyhole.feedback import Feedback
from keyhole.simulation import Channel
from keyhole.studies.compare import listing, table
from keyhole.studies.compare.contest import (
    Cell,
    Contest,
    Estimate,
    Frontier,
    Terms,
    make_record,
    run_contest,
)


def test_figures_are_those_of_the_runs(contest: Contest) -> None:
    cell = next(c for c in contest.cells if c.learner == "logit-tracker" and c.scenario == "fall")
    built = [listing.list_scenarios()["fall"].build(1_500, seed=seed) for seed in range(3)]  # type: ignore[misc]
    run = simulate(make("logit-tracker", alpha=0.1), np.stack([b.scores for b in built]))
    rates = run.misses.mean(axis=1)
    assert cell.figures["miss_rate"].mean == pytest.approx(rates.mean())
    assert cell.figures["miss_rate"].error == pytest.approx(rates.std(ddof=1) / math.sqrt(3))
    assert cell.figures["size"].mean == pytest.approx((1 - run.thresholds).mean())
    assert cell.figures["microseconds"].mean > 0.0


def test_learners_that_need_more_are_shown_and_not_run(contest: Contest) -> None:
    for listed in contest.scenarios:
        (refused,) = contest.list_refused(listed.name)
        assert refused.learner == "dtaci"
        assert "label always" in str(refused.refusal)
        assert refused.figures == {}


def test_everyone_runs_where_the_label_is_always_told() -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.FULL, rounds=400, runs=1)
    full = run_contest(["dtaci"], [listing.list_scenarios()["steady"]], terms)
    assert full.list_refused("steady") == []
    assert math.isnan(full.cells[0].figures["miss_rate"].error)


def test_too_short_a_scenario_is_a_refusal_with_its_reason() -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.SEMI_BANDIT, rounds=50, runs=1, arms=200)
    short = run_contest(["ocp-unlock+"], [listing.list_scenarios()["steady"]], terms)
    assert "too short for 200 arms" in str(short.cells[0].refusal)


def test_terminal_table_fits_eighty_columns(contest: Contest) -> None:
    lines = table.text(contest).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any(line.startswith("logit-tracker") for line in lines)
    assert sum(line.startswith("not run: dtaci") for line in lines) == 1  # not under every scenario


@pytest.mark.parametrize("microseconds", [0.04, 9.96, 999.94, 999.96, 99_999.0])
def test_lines_of_a_machine_however_slow_are_as_long(contest: Contest, microseconds: float) -> None:
    ran = next(cell for cell in contest.cells if cell.refusal is None)
    slow = replace(ran, figures={**ran.figures, "microseconds": Estimate(microseconds, math.nan)})
    ungrouped = [column for column in table.COLUMNS if column.figure != table.GROUP]
    assert len(table._write_cell(slow, ungrouped)) == 80


def test_who_keeps_the_promise_comes_before_smaller_sets_that_miss_more() -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.FULL, rounds=1_000, runs=2)

    def cell(learner: str, rate: float, size: float) -> Cell:
        sizes = {"size": Estimate(size, 0.0), "size_to_best_per_segment": Estimate(size, 0.0)}
        names = ("miss_rate", "worst_window", "worst_group")
        rates = {name: Estimate(rate, 0.0) for name in names}
        return Cell(learner, "steady", {**sizes, **rates})

    cells = (cell("greedy", 0.45, 0.2), cell("large", 0.05, 3.0), cell("honest", 0.1, 1.0))
    frontier = Frontier(np.ones(1), np.ones(1))
    contest = Contest(terms, (listing.list_scenarios()["steady"],), cells, {"steady": frontier})
    order = ["honest", "large", "greedy"]
    assert [cell.learner for cell in contest.of_scenario("steady")] == order
    assert [one.learner for one in contest.rank()] == order
    assert [one.kept for one in contest.rank()] == [1, 1, 0]


def test_who_keeps_the_promise_on_more_scenarios_stands_before_smaller_sets() -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.FULL, rounds=1_000, runs=2)
    names = ("miss_rate", "worst_window", "worst_group")

    def cells(learner: str, rates: tuple[float, float], size: float) -> list[Cell]:
        sizes = {"size": Estimate(size, 0.0), "size_to_best_per_segment": Estimate(size, 0.0)}
        return [
            Cell(learner, scenario, {**sizes, **{name: Estimate(rate, 0.0) for name in names}})
            for scenario, rate in zip(("steady", "fall"), rates, strict=True)
        ]

    both = [*cells("never", (0.2, 0.2), 0.5), *cells("once", (0.1, 0.2), 1.0)]
    listed = listing.list_scenarios()
    frontiers = dict.fromkeys(("steady", "fall"), Frontier(np.ones(1), np.ones(1)))
    contest = Contest(terms, (listed["steady"], listed["fall"]), tuple(both), frontiers)
    assert [one.learner for one in contest.rank()] == ["once", "never"]


@pytest.mark.parametrize(
    ("rate", "error", "kept"),
    [
        (0.02, 0.0, True),
        (0.105, 0.0, True),
        (0.1051, 0.0, False),
        (0.108, 0.0015, True),
        (0.1081, 0.0015, False),
        (0.12, 0.5, False),
    ],
)
def test_promise_allows_a_twentieth_and_two_errors_and_never_more_than_a_tenth(
    rate: float,
    error: float,
    kept: bool,  # noqa: FBT001
) -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.FULL, rounds=100, runs=2)
    assert terms.is_kept(Estimate(rate, error)) is kept


def test_single_run_is_granted_the_chance_of_its_rounds() -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.FULL, rounds=90_000, runs=1)
    assert terms.is_kept(Estimate(0.1069, math.nan))
    assert not terms.is_kept(Estimate(0.1071, math.nan))


def test_record_is_strict_json_with_every_cell(contest: Contest) -> None:
    written = make_record(contest)
    assert len(written["cells"]) == 9
    ran = [cell for cell in written["cells"] if "figures" in cell]
    assert {"miss_rate", "worst_window", "size", "full", "empty"} < set(ran[0]["figures"])
    assert len(ran[0]["over_time"]["rounds"]) == 60


def test_delay_reaches_the_runs() -> None:
    late = Terms(
        alpha=0.1, feedback=Feedback.SEMI_BANDIT, rounds=600, runs=1, channel=Channel(delay=50)
    )
    steady = [listing.list_scenarios()["steady"]]
    slow = run_contest(["logit-tracker"], steady, late).cells[0].figures["miss_rate"].mean
    scores = steady[0].build(600, seed=0).scores  # type: ignore[misc]
    direct = simulate(make("logit-tracker", alpha=0.1), scores, channel=Channel(delay=50))
    assert slow == direct.misses.mean()


def test_unknown_scenarios_and_empty_runs_are_named() -> None:
    with pytest.raises(InvalidError, match="no scenario 'storm'; there are steady"):
        listing.pick_scenarios(["storm"], listing.list_scenarios())
    with pytest.raises(InvalidError, match="runs 0"):
        Terms(alpha=0.1, feedback=Feedback.FULL, rounds=10, runs=0)


def test_own_log_is_a_scenario_of_its_own_length(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", scores=np.random.default_rng(1).random(300))
    (listed,) = listing.read_log(tmp_path / "mine.npz")
    terms = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=10_000, runs=2)
    mine = run_contest(["kt"], [listed], terms)
    assert listed.rounds == 300
    assert mine.cells[0].curve is not None
    assert mine.cells[0].curve.rounds[-1] == 300


def test_terms_take_the_feedback_as_text_and_refuse_what_is_none() -> None:
    terms = Terms(alpha=0.1, rounds=300, runs=1, feedback="bandit")
    assert terms.feedback is Feedback.BANDIT
    played = run_contest(["kt", "ocp-unlock"], [listing.list_scenarios()["steady"]], terms)
    assert [cell.learner for cell in played.list_refused("steady")] == ["ocp-unlock"]
    assert make_record(played)["feedback"] == "bandit"
    with pytest.raises(FeedbackError, match="no feedback 'some'; use one of bandit"):
        Terms(alpha=0.1, rounds=300, runs=1, feedback="some")


def test_compare_plays_what_its_arguments_say(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("score\n" + "0.9\n0.4\n" * 50)
    played = compare(["kt"], ["steady", log], alpha=0.2, rounds=200, runs=2, seed=3)
    terms = Terms(alpha=0.2, rounds=200, runs=2, seed=3)
    same = run_contest(["kt"], [listing.list_scenarios()["steady"], *listing.read_log(log)], terms)
    rows, others = played.make_rows(), same.make_rows()
    assert [row["scenario"] for row in rows] == ["steady", "log.csv"]
    assert [row["miss_rate"] for row in rows] == [row["miss_rate"] for row in others]
    assert rows[0]["miss_rate_error"] == played.cells[0].figures["miss_rate"].error
    with pytest.raises(InvalidError, match="did you mean 'steady'"):
        compare(["kt"], ["steadi"])
