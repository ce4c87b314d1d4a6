from typing import Any

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.errors import InvalidError, ScoreError, TheoryWarning
from keyhole.numeric import can_compile
from keyhole.simulation.simulate import _LOOPS, _loop

LEARNER = make("ocp-unlock+", alpha=0.1, horizon=2_000, arms=10)
SCORES = np.random.default_rng(1).beta(6, 2, 2_000)


def test_shapes_are_runs_by_rounds() -> None:
    run = simulate(LEARNER, SCORES, runs=3)
    assert run.thresholds.shape == run.arms.shape == run.misses.shape == (3, 2_000)
    assert run.misses.dtype == np.bool_


def test_misses_and_arms_are_those_of_the_thresholds() -> None:
    run = simulate(LEARNER, SCORES, runs=2)
    assert (run.misses == (run.thresholds > SCORES)).all()
    assert LEARNER.thresholds is not None
    assert (LEARNER.thresholds[run.arms] == run.thresholds).all()


def test_run_has_the_seed_of_its_place() -> None:
    together = simulate(LEARNER, SCORES, runs=3, seed=40)
    alone = simulate(LEARNER, SCORES, seed=42)
    assert (together.thresholds[2] == alone.thresholds[0]).all()
    assert not (together.thresholds[0] == together.thresholds[1]).all()


def test_each_run_may_have_scores_of_its_own() -> None:
    other = np.random.default_rng(2).beta(3, 3, 2_000)
    both = simulate(LEARNER, np.array([SCORES, other]), seed=5)
    assert (both.thresholds[1] == simulate(LEARNER, other, seed=6).thresholds[0]).all()


def test_going_past_the_horizon_is_said() -> None:
    with pytest.warns(TheoryWarning, match="2001 rounds go past the horizon of 2000"):
        simulate(LEARNER, np.append(SCORES, 0.5))


@pytest.mark.parametrize(
    ("scores", "arguments", "error", "match"),
    [
        ([0.5, np.nan], {}, ScoreError, "score nan at place 1"),
        ([[0.5, 1.5]], {}, ScoreError, r"score 1.5 at place \(0, 1\)"),
        ([], {}, ScoreError, "no scores"),
        ([[[0.5]]], {}, ScoreError, "shape"),
        (["a"], {}, ScoreError, "not numbers"),
        ([[0.5], [0.5]], {"runs": 3}, ScoreError, "3 runs .* 2 rows"),
        ([0.5], {"runs": 0}, InvalidError, "0 runs"),
        ([0.5], {"seed": -1}, InvalidError, "seed -1"),
    ],
)
def test_bad_input_is_named(
    scores: Any, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        simulate(LEARNER, scores, **arguments)


def test_arms_are_only_for_learners_with_a_grid() -> None:
    run = simulate(make("kt", alpha=0.1), SCORES)
    with pytest.raises(InvalidError, match=r"kt has no grid; use \.thresholds"):
        _ = run.arms


def test_each_run_may_have_features_and_groups_of_its_own() -> None:
    rng = np.random.default_rng(8)
    learner = make("contextual-tracker", alpha=0.1, options={"features": 2, "groups": 1})
    features, groups = rng.random((2, 2_000, 2)), rng.random((2, 2_000, 1)) < 0.5
    both = simulate(learner, SCORES, runs=2, seed=5, features=features, groups=groups)
    alone = simulate(learner, SCORES, seed=6, features=features[1], groups=groups[1])
    mixed = simulate(learner, SCORES, runs=2, seed=5, features=features[1], groups=groups)
    assert (both.thresholds[1] == alone.thresholds[0]).all()
    assert (both.thresholds[0] != alone.thresholds[0]).any()
    assert (mixed.thresholds[1] == alone.thresholds[0]).all()
    with pytest.raises(InvalidError, match=r"give \(2000, 2\), or \(1, 2000, 2\) for a table a run"):
        simulate(learner, SCORES, features=features)


@pytest.mark.skipif(not can_compile(), reason="there is nothing to compile")
def test_a_loop_is_compiled_once_whether_or_not_scores_can_be_written_to() -> None:
    learner = make("kt", alpha=0.1)
    scores = np.linspace(0.0, 1.0, 50)
    for given in (scores, scores[None], np.tile(scores, (4, 1))[:, ::2]):
        simulate(learner, given, feedback="full")
        loop: Any = _LOOPS[learner.rule, _loop]
        assert len(loop.signatures) == 1
