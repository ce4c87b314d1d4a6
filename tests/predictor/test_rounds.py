"""One round by hand: what an answer is read as, and how often it is heard."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Gate, Predictor, Probabilities, make
from keyhole.errors import FeedbackError, InvalidError, ScoreError
from keyhole.feedback import count_times
from keyhole.learners import Learner
from keyhole.predictor.context import list_groups
from keyhole.predictor.play import judge_band
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import (
    Round,
    propose,
    read_answer,
    read_judged,
    settle,
)
from keyhole.predictor.tally import Outcome
from keyhole.scores import BoundedResiduals


@pytest.fixture
def learner() -> Learner:
    return make("logit-tracker", alpha=0.1)


def open_round(learner: Learner, score: Any = None, output: Any = (0.9, 0.2)) -> Round[Any]:
    kind = Probabilities() if score is None else score
    return propose(learner, Progress.start(learner), kind.read(output))


@pytest.mark.parametrize(
    ("told", "miss"),
    [({"answer": HIT}, -0.5), ({"answer": MISS}, 1.5), ({"loss": 0.5}, 0.5), ({"label": 0}, -0.5)],
)
def test_what_is_wrong_a_quarter_of_the_time_is_stretched_about_the_middle(
    learner: Learner, told: dict[str, Any], miss: float
) -> None:
    """(miss - 1/4) / (1 - 2/4); the score that came with it is as doubtful, and is not used."""
    outcome = read_answer(learner, open_round(learner), **told, wrong=0.25)
    assert outcome.miss == miss
    assert math.isnan(outcome.score)


@pytest.mark.parametrize(
    ("score", "output", "what"),
    [(None, (0.4, 0.3), "set"), (BoundedResiduals(bound=1.0), 5.0, "interval")],
)
def test_a_hit_said_of_what_is_empty_is_refused(
    learner: Learner, score: Any, output: Any, what: str
) -> None:
    """Kills: counting it, which keeps sets empty."""
    waiting = open_round(learner, score, output)
    empty = waiting._replace(prediction=waiting.case.region(7, 1.5))
    with pytest.raises(FeedbackError, match=f"the {what} of round 7 is empty, .*; answer keyhole.MISS"):
        read_answer(learner, empty, HIT)
    assert read_answer(learner, empty, MISS).miss == 1.0
    assert read_answer(learner, empty, HIT, wrong=0.25).miss == 1.0  # It must be false.


@pytest.mark.parametrize(("at_least", "at_most"), [(0, None), (1, None), (0, 1)])
def test_of_everything_and_nothing_the_outcome_is_known_whatever_is_told(
    learner: Learner, at_least: int, at_most: int | None
) -> None:
    """Kills: a guard that a false answer carries on. With a floor or a cap it is not everything."""
    waiting = open_round(learner, Probabilities(at_least=at_least, at_most=at_most), (0.4, 0.3))
    full, empty = (waiting._replace(prediction=waiting.case.region(7, at)) for at in (0.0, 1.5))
    for told, corrected in ((MISS, 1.5), (HIT, -0.5)):
        of_full = read_answer(learner, full, told, wrong=0.25).miss
        of_empty = read_answer(learner, empty, told, wrong=0.25).miss
        assert of_full == (0.0 if at_most is None else corrected)
        assert of_empty == (1.0 if at_least == 0 else corrected)


def test_an_interval_of_no_width_may_hit(learner: Learner) -> None:
    waiting = open_round(learner, BoundedResiduals(bound=1.0), 5.0)
    point = waiting._replace(prediction=waiting.case.region(7, 1.0))
    assert point.prediction.size == 0.0
    assert read_answer(learner, point, HIT).miss == 0.0


@pytest.mark.parametrize(
    ("truth", "known", "unreachable"), [(5.0, 1.0, False), (12.5, 0.25, False), (16.0, 0.0, True)]
)
def test_a_true_value_beyond_the_bound_scores_nothing_and_is_out_of_reach(
    learner: Learner, truth: float, known: float, *, unreachable: bool
) -> None:
    waiting = open_round(learner, BoundedResiduals(bound=10.0), 5.0)
    outcome = read_answer(learner, waiting, label=truth)
    assert (outcome.score, outcome.unreachable) == (known, unreachable)


@pytest.mark.parametrize("given", [0.0, 0.5, 1.0])
def test_losses_and_scores_from_0_to_1_are_taken(learner: Learner, given: float) -> None:
    waiting = open_round(learner)
    assert read_answer(learner, waiting, loss=given).miss == given
    outcome = read_answer(learner, waiting, score=given)
    assert outcome[:2] == (1.0 if given < waiting.prediction.threshold else 0.0, given)


@pytest.mark.parametrize("given", [-0.001, 1.001, math.nan, "0.5"])
def test_other_losses_and_scores_are_refused(learner: Learner, given: Any) -> None:
    with pytest.raises(FeedbackError, match=r"^loss .* is not a number in \[0, 1\]"):
        read_answer(learner, open_round(learner), loss=given)
    with pytest.raises(ScoreError, match=r"^score .* is not a number in \[0, 1\]"):
        read_answer(learner, open_round(learner), score=given)


@pytest.mark.parametrize(
    "told", [{}, {"answer": HIT, "label": 0}, {"score": 0.5, "loss": 0.5}, {"label": 0, "score": 0.5}]
)
def test_a_round_takes_one_answer(learner: Learner, told: dict[str, Any]) -> None:
    with pytest.raises(FeedbackError, match="a round takes one answer"):
        read_answer(learner, open_round(learner), **told)


@pytest.mark.parametrize(
    ("chance", "draw", "times"),
    [(1.0, 0.0, 1), (0.5, 0.0, 2), (0.4, 0.49, 3), (0.4, 0.5, 2), (0.4, 0.99, 2)],
)
def test_an_answer_counts_for_the_inverse_of_its_chance_rounded_by_its_draw(
    chance: float, draw: float, times: int
) -> None:
    assert count_times(chance, draw) == times


@pytest.mark.parametrize(("chance", "rounds"), [(0.00999, "100"), (1e-4, "10,000"), (5e-324, "inf")])
def test_an_answer_below_the_least_chance_is_refused_and_the_round_stays_open(
    chance: float, rounds: str
) -> None:
    """Kills: no least chance; one answer then fills or empties every set for thousands of rounds."""
    gate, predictor = Gate(alpha=0.1), Predictor(alpha=0.1)
    decision, shown = gate.decide(1.0), predictor.predict([0.7, 0.3])
    fault = f"below the least chance, 0.01: one answer would count for {rounds} rounds.* least_chance"
    with pytest.raises(FeedbackError, match=fault):
        gate.learn(decision, right=True, chance=chance)
    with pytest.raises(FeedbackError, match=fault):
        predictor.learn(shown, MISS, chance=chance)
    assert (gate.open_rounds, predictor.open_rounds) == (1, 1)


@pytest.mark.parametrize("holder", [Gate, Predictor])
def test_the_least_chance_is_the_users_and_saved_with_the_rest(holder: Any) -> None:
    made = holder.restore(holder(alpha=0.1, least_chance=0.001).dump())
    assert made.setup.least_chance == 0.001
    for least in (0.0, 9.9e-5, 1.5, math.nan, "a"):
        with pytest.raises(
            InvalidError, match=r"least_chance .* is not a probability from 0.0001 to 1"
        ):
            holder(alpha=0.1, least_chance=least)


def test_an_answer_of_the_least_chance_counts_for_its_inverse() -> None:
    predictor = Predictor(alpha=0.1, least_chance=0.001)
    predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=0.001)
    assert predictor._progress.tally.weight == 1_000.0


@pytest.mark.parametrize("chance", [0.0, -0.5, 1.001, math.nan])
def test_a_chance_is_a_probability_above_0(chance: float) -> None:
    predictor = Predictor(alpha=0.1)
    with pytest.raises(FeedbackError, match="is not a probability above 0"):
        predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=chance)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_answer_that_counts_several_times_is_heard_as_often(times: int) -> None:
    setup = Predictor("kt", alpha=0.1)._setup
    learner = setup.learner
    progress, heard = (Progress.start(learner, watch=True) for _ in range(2))
    waiting = open_round(learner)
    progress.tally.predicted = heard.tally.predicted = 1
    settle(setup, progress, waiting, Outcome(1.0, math.nan, weight=float(times)))
    for _ in range(times):
        heard.tally.answered = 0  # so that each is prompt
        settle(setup, heard, waiting, Outcome(1.0, math.nan))
    assert learner.pack(progress.state) == learner.pack(heard.state)
    assert (progress.tally.answered, progress.tally.weight, progress.tally.misses) == (1, times, times)
    assert progress.watch is not None
    assert progress.watch.rounds == 1  # It is one answer to the alarm.


def test_the_groups_of_a_context_are_those_behind_its_features_that_are_marked() -> None:
    learner = make("contextual-tracker", alpha=0.1, options={"features": 2, "groups": 3})
    assert list_groups(learner, np.array([7.0, 8.0, 1.0, 0.0, 1.0])) == (0, 2)


def test_the_end_of_a_band_decides_in_tables_too_and_the_score_is_moved_to_that_side() -> None:
    """Kills: a missed truth taught with the threshold as its score, which would be a hit."""
    rng = np.random.default_rng(0)
    moved = {0.0: 0, 1.0: 0}
    for middle, half, threshold in rng.uniform((-9.0, 0.1, 0.05), (9.0, 3.0, 0.95), size=(3_000, 3)):
        end = middle + half * (1.0 / threshold - 1.0)
        for truth in (end, np.nextafter(end, np.inf)):
            miss, score = judge_band(middle, half, truth, threshold)
            assert miss == float(truth > end)
            assert (score < threshold) == bool(miss)
            moved[miss] += (1.0 / (1.0 + abs(truth - middle) / half) < threshold) != bool(miss)
    assert min(moved.values()) > 100


def test_what_was_shown_decides_and_the_score_is_moved_to_that_side() -> None:
    """An interval whose end is rounded holds, or does not hold, a value whose score says otherwise.

    Kills: a missed label taught with the threshold as its score, which would be a hit.
    """

    class Shown:
        id, threshold, size, noun, is_empty = 0, 0.5, 1.0, "set", False

        def __init__(self, *, holds: bool) -> None:
            self.holds = holds

        def __contains__(self, label: object) -> bool:
            return self.holds

    class Scored:
        def __init__(self, score: float) -> None:
            self.value = score

        def score(self, label: object) -> float:  # noqa: ARG002
            return self.value

    learner = make("logit-tracker", alpha=0.1)
    for holds, score in ((True, 0.4), (False, 0.6), (False, 0.5)):
        shown: Any = Shown(holds=holds)
        case: Any = Scored(score)
        waiting: Round[Any] = Round(shown, case, [], 0)
        outcome = read_answer(learner, waiting, label="x")
        assert outcome.miss == float(not holds)
        assert (outcome.score < 0.5) == (not holds)
        assert abs(outcome.score - 0.5) < 1e-15


def test_of_everything_and_nothing_a_judge_need_not_be_asked() -> None:
    learner = make("logit-tracker", alpha=0.1)
    waiting = open_round(learner, None, (0.4, 0.3))
    full, empty = (waiting._replace(prediction=waiting.case.region(7, at)) for at in (0.0, 1.5))
    assert read_judged(learner, full, MISS, bias=-0.1).miss == 0.0
    assert read_judged(learner, empty, MISS, bias=-0.1).miss == 1.0
    assert read_judged(learner, waiting, MISS, bias=-0.1).miss == 0.9
