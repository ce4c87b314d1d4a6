"""Gates in simulation: what is refused, and what late and partial judgements do."""

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.errors import FeedbackError, InvalidError, ScoreError
from keyhole.simulation.gate_runs import best_fixed, simulate_gate

GATE = make("gate-tracker", alpha=0.1)


def test_a_gates_rule_plays_no_sets_and_a_sets_rule_no_gate() -> None:
    with pytest.raises(InvalidError, match=r"rule for keyhole\.Gate"):
        simulate(GATE, np.full(10, 0.5))
    with pytest.raises(InvalidError, match="gate-tracker"):
        simulate_gate(make("logit-tracker", alpha=0.1), [0.5], [0])


@pytest.mark.parametrize(
    ("scores", "wrong", "error"),
    [
        ([0.5], [0, 1], ScoreError),
        ([], [], ScoreError),
        ([1.5], [0], ScoreError),
        ([float("nan")], [0], ScoreError),
        ([0.5], [0.5], FeedbackError),
    ],
)
def test_cases_that_are_none_are_refused(
    scores: list[float], wrong: list[float], error: type[Exception]
) -> None:
    with pytest.raises(error):
        simulate_gate(GATE, scores, wrong)


@pytest.mark.parametrize(
    "terms", [{"audit": 0.0}, {"audit": 1.5}, {"mistaken": 0.5}, {"mistaken": -0.1}]
)
def test_chances_that_are_none_are_refused(terms: dict[str, float]) -> None:
    with pytest.raises(FeedbackError):
        simulate_gate(
            GATE, [0.5], [0], audit=terms.get("audit", 1.0), mistaken=terms.get("mistaken", 0.0)
        )


def test_judgements_that_never_come_teach_nothing() -> None:
    scores = np.random.default_rng(1).random(500)
    never = np.full(500, -1)
    played = [
        simulate_gate(GATE, scores, wrong, delays=never) for wrong in (np.ones(500), np.zeros(500))
    ]
    assert played[0].thresholds.tolist() == played[1].thresholds.tolist()


def test_equal_scores_are_accepted_together_in_hindsight() -> None:
    scores, wrong = np.array([0.9, 0.9, 0.9, 0.9]), np.array([0.0, 0.0, 0.0, 1.0])
    assert best_fixed(scores, wrong, alpha=0.1) == (2.0, 0.0)
    assert best_fixed(scores, wrong, alpha=0.25) == (0.9, 1.0)


@pytest.mark.parametrize("late", [10, 100])
def test_late_judgements_leave_the_share_of_wrong_near_alpha(late: int) -> None:
    rng = np.random.default_rng(2)
    scores = rng.beta(4, 1, 20_000)
    wrong = (rng.random(20_000) >= scores).astype(float)
    run = simulate_gate(GATE, scores, wrong, delays=np.full(20_000, late))
    promised = 20.0 + 0.3 * np.sqrt(20_000) + 2 * (2 * late + 1) + late
    assert run.excess[-1] <= promised
    assert abs(run.wrong_share - 0.1) <= 0.01
