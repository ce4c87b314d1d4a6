"""Answers of a known chance: what they count for, how far they move, and that each is heard once."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, LEARNERS, MISS, Predictor, make
from keyhole.feedback import Answer, find_pace
from keyhole.learners import Learner

WEIGHED = ["informed-tracker", "logit-tracker", "tracker", "contextual-tracker", "pi"]


def count_calls(predictor: Predictor[Any]) -> list[Answer]:
    """Return a list that grows by every answer that the learner hears."""
    learner, heard = predictor.learner, []
    observe = learner.observe

    def note(state: Any, memo: Any, answer: Answer) -> None:
        heard.append(answer)
        observe(state, memo, answer)

    object.__setattr__(learner, "observe", note)
    return heard


@pytest.fixture
def fresh() -> Any:
    """Return a function that makes a learner which no other test shares."""
    return lambda name: Learner(LEARNERS[name], LEARNERS[name].parameters(alpha=0.1))


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("chance", [0.9, 0.3, 0.02])
def test_an_answer_of_any_chance_is_heard_once_by_a_rule_that_weighs(
    fresh: Any, name: str, chance: float
) -> None:
    predictor: Predictor[Any] = Predictor(fresh(name), feedback="bandit")
    heard = count_calls(predictor)
    predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=chance)
    told = [one.weight for one in heard if not math.isnan(one.miss)]  # not the model's own word
    assert told == [1.0 / chance]


@pytest.mark.parametrize("chance", [0.9, 0.3, 0.02])
def test_a_rule_that_takes_no_weights_hears_it_as_often_as_it_counts(fresh: Any, chance: float) -> None:
    predictor: Predictor[Any] = Predictor(fresh("kt"), feedback="bandit")
    heard = count_calls(predictor)
    predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=chance)
    assert len(heard) in (math.floor(1.0 / chance), math.ceil(1.0 / chance))
    assert {one.weight for one in heard} == {1.0}
    assert predictor._progress.tally.weight == len(heard)


def test_a_miss_of_chance_a_twentieth_by_hand() -> None:
    """Of weight 20: as the first one it moves by one step; after nine of weight 1 by ten, the most."""
    predictor = Predictor("logit-tracker", alpha=0.1)
    predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=0.05)
    state = predictor._progress.state
    assert state.position[0] == pytest.approx(-0.5 * 0.9)
    assert (state.excess[0], state.rounds[0], state.scale[0]) == (pytest.approx(18.0), 1, 20.0)

    predictor = Predictor("logit-tracker", alpha=0.1)
    for _ in range(9):
        predictor.learn(predictor.predict([1.0]), HIT)
    before = predictor._progress.state.position[0]
    predictor.learn(predictor.predict([0.7, 0.3]), MISS, chance=0.05)
    state = predictor._progress.state
    assert state.position[0] == pytest.approx(before - 10.0 * 0.5 / 1.9 * 0.9)
    assert state.excess[0] == pytest.approx(-0.9 + 18.0)
    assert state.scale[0] == 2.0
    assert predictor._progress.tally.usual == pytest.approx(1.0 + 19.0 / 10.0)


def test_the_usual_weight_is_the_mean_of_the_last_hundred_or_so() -> None:
    usual, weights = 1.0, [4.0, 4.0, 1.0, 3.0]
    for answered, weight in enumerate(weights):
        pace, usual = find_pace(weight, usual, answered)
    assert usual == pytest.approx(3.0)
    assert pace == pytest.approx(3.0 / 3.0)
    assert find_pace(50.0, 2.0, 10_000) == (10.0, 2.0 + 48.0 / 100.0)
    assert find_pace(1.0, 1.0, 17) == (1.0, 1.0)


@pytest.mark.parametrize("name", WEIGHED)
def test_answers_of_one_chance_move_a_rule_as_if_they_were_all(name: str) -> None:
    """With one in twenty told, the thresholds are those of a stream of the told rounds alone."""
    rng = np.random.default_rng(4)
    sparse: Predictor[Any] = Predictor(name, alpha=0.1, feedback="bandit")
    plain: Predictor[Any] = Predictor(name, alpha=0.1, feedback="bandit")
    for score in rng.beta(5, 2, 300):
        shown, other = sparse.predict([1.0, score]), plain.predict([1.0, score])
        if name != "pi":  # whose integrator reads the accounts
            assert shown.threshold == other.threshold
        sparse.learn(shown, MISS if score < shown.threshold else HIT, chance=0.05)
        plain.learn(other, MISS if score < other.threshold else HIT)
    assert sparse._progress.state.excess[0] == pytest.approx(20.0 * (sparse.miss_rate - 0.1) * 300)


@pytest.mark.parametrize("name", WEIGHED)
def test_over_every_pattern_of_what_is_told_the_accounts_are_on_average_those_of_all(name: str) -> None:
    """Four rounds of known outcomes, each told with its own chance: the mean over all 16 patterns."""
    misses, chances = (1.0, 0.0, 0.0, 1.0), (0.5, 0.25, 0.8, 0.1)
    learner, mean = make(name, alpha=0.1), 0.0
    for told in product((True, False), repeat=4):
        predictor: Predictor[Any] = Predictor(learner, feedback="bandit")
        likely = 1.0
        for is_told, miss, chance in zip(told, misses, chances, strict=True):
            likely *= chance if is_told else 1.0 - chance
            if is_told:
                predictor.learn(predictor.predict([0.7]), MISS if miss else HIT, chance=chance)
        mean += likely * float(predictor._progress.state.excess[0])
    assert mean == pytest.approx(2.0 - 0.1 * 4)
