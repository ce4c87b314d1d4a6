from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import HIT, LEARNERS, MISS, Predictor, make, simulate
from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner, make_suited, safety_valve
from keyhole.numeric import Array, can_compile

HARD = np.concatenate((np.ones(300), np.random.default_rng(1).beta(1, 9, 700)))


def forced(learner: Learner) -> tuple[Any, Array]:
    """A state in which the valve has just shut, and a memo for the next round."""
    state = learner.start()
    state.valve[:] = [50.0, 100.0]
    threshold, memo = learner.choose(state, 0.5)
    assert threshold == 0.0
    return state, memo


# Compiling each rule behind a valve takes minutes; the interpreted lane plays them all.
VALVED = ("kt",) if can_compile() else sorted(LEARNERS)


@pytest.mark.parametrize("name", VALVED)
def test_an_open_valve_changes_nothing(name: str) -> None:
    learner = make_suited(name, alpha=0.1, horizon=1_000, arms=20)
    scores = np.random.default_rng(1).beta(6, 2, 1_000)
    wide = simulate(safety_valve(learner, budget=1e9), scores, feedback="full")
    assert (wide.thresholds == simulate(learner, scores, feedback="full").thresholds).all()


def test_valve_shuts_at_its_budget_and_not_before() -> None:
    learner = safety_valve(make("tracker", alpha=0.1), budget=2.0)
    state = learner.start()
    state.valve[:] = [2.0 * np.sqrt(10.0), 9.0]
    assert learner.choose(state, 0.5)[0] == 0.0
    assert [part.tolist() for part in learner.distribution(state)] == [[0.0], [1.0]]
    state.valve[0] -= 1e-9
    assert learner.choose(state, 0.5)[0] == 0.5
    assert [part.tolist() for part in learner.distribution(state)] == [[0.5], [1.0]]


def test_forced_round_teaches_nothing_to_those_that_hear_only_hits() -> None:
    learner = safety_valve(make("tracker", alpha=0.1))
    state, memo = forced(learner)
    learner.observe(state, memo, HIT)
    assert state.threshold == 0.5
    assert state.valve.tolist() == [49.9, 101.0]


@pytest.mark.parametrize(("score", "missed"), [(0.2, True), (0.9, False)])
def test_forced_round_teaches_what_the_own_threshold_would_have_brought(
    score: float,
    missed: bool,  # noqa: FBT001
) -> None:
    plain = make("self-scaled", alpha=0.1)
    alone = plain.start()
    _, memo_alone = plain.choose(alone, 0.5)
    plain.observe(alone, memo_alone, MISS if missed else Answer(0.0, score))
    state, memo = forced(safety_valve(plain))
    safety_valve(plain).observe(state, memo, Answer(0.0, score))
    assert state.position == alone.position
    assert state.log_width == alone.log_width


def test_a_forced_round_that_misses_all_the_same_teaches_nothing() -> None:
    """A truth that is no candidate, after every label: nobody knows what its score would have been."""
    learner = safety_valve(make("self-scaled", alpha=0.1))
    state, memo = forced(learner)
    before = [np.array(part).tolist() for part in state[:-1]]
    learner.observe(state, memo, Answer(1.0))
    assert [np.array(part).tolist() for part in state[:-1]] == before
    assert state.valve.tolist() == [50.9, 101.0]


def test_valve_is_saved_and_loaded_with_its_budget(tmp_path: Path) -> None:
    learner = safety_valve(make("unlock-hedge", alpha=0.1, arms=11), budget=0.5)
    original: Predictor[Any] = Predictor(learner, seed=3)
    for score in HARD[:600]:
        original.learn(original.predict([score]), score=score)
    original.save(tmp_path / "predictor")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "predictor")
    for predictor in (original, loaded):
        for score in HARD[600:]:
            predictor.learn(predictor.predict([score]), score=score)
    assert loaded.dump() == original.dump()
    assert loaded.learner == learner


def test_a_valve_takes_what_the_learner_inside_takes() -> None:
    options = {"features": 2, "groups": 1}
    learner = safety_valve(make("contextual-tracker", alpha=0.1, options=options))
    assert (learner.features, learner.groups, learner.context) == (2, 1, 3)
    assert learner.needs == Needs.HIT_OR_MISS
    plain = make("kt+valve", alpha=0.1)
    assert (plain.features, plain.groups, plain.context) == (0, 0, 0)


def test_valve_comes_by_name() -> None:
    assert make("kt+valve", alpha=0.1) == safety_valve(make("kt", alpha=0.1))
    assert make("ocp-unlock++valve", alpha=0.1, horizon=900).horizon == 900


def test_options_of_a_learner_behind_a_valve_are_its_own_and_the_budget() -> None:
    """Kills: the budget handed to the rule inside; the rule's own options taken for the valve's."""
    made = make("logit-tracker+valve", alpha=0.1, options={"step": 0.2, "budget": 2.0})
    inner = make("logit-tracker", alpha=0.1, options={"step": 0.2})
    assert made == safety_valve(inner, budget=2.0)
    both = make("self-scaled+valve", alpha=0.1, options={"budget": 50.0})
    assert both == safety_valve(make("self-scaled", alpha=0.1, options={"budget": 50.0}))


@pytest.mark.parametrize("option", ["step", "budget"])
def test_what_a_predictor_does_not_take_can_be_given_where_it_says(option: str) -> None:
    given: dict[str, Any] = {option: 0.2}
    with pytest.raises(InvalidError) as refused:
        Predictor("logit-tracker+valve", alpha=0.1, **given)
    *_, call = str(refused.value).partition("Predictor(")
    learner = eval(call.removesuffix(")").replace("...", "0.1"), {"keyhole": keyhole})  # noqa: S307
    assert Predictor(learner).learner == make("logit-tracker+valve", alpha=0.1, options=given)


def test_budget_must_be_positive() -> None:
    with pytest.raises(InvalidError, match="budget 0"):
        safety_valve(make("kt", alpha=0.1), budget=0)


def test_a_second_valve_and_a_valve_around_no_learner_are_refused() -> None:
    with pytest.raises(InvalidError, match="kt\\+valve has a valve already"):
        safety_valve(make("kt+valve", alpha=0.1))
    with pytest.raises(InvalidError, match="'kt' is not a learner; make one"):
        safety_valve("kt")  # type: ignore[arg-type]
