"""What is proven of a predictor by now."""

import pytest

import keyhole
from keyhole import Predictor, bounds
from keyhole.errors import TheoremError, TheoryWarning


def test_regret_bound_is_that_of_the_theorem() -> None:
    predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=2000, arms=10, seed=7)
    assert predictor.regret_bound() == keyhole.bounds.regret(predictor.learner)
    assert Predictor("ocp-unlock+", alpha=0.1, arms=10, seed=7).regret_bound() > 0.0


def test_regret_bound_ends_with_the_horizon() -> None:
    predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=150, arms=10, seed=7)
    for _ in range(150):
        predictor.learn(predictor.predict([0.7, 0.2]), label=0)
    assert predictor.regret_bound() > 0.0
    with pytest.warns(TheoryWarning):
        predictor.learn(predictor.predict([0.7, 0.2]), label=0)
    with pytest.raises(TheoremError, match="horizon of 150 rounds, not of 151"):
        predictor.regret_bound()


def test_without_a_horizon_the_regret_bound_is_that_of_the_rounds_up_to_now() -> None:
    predictor = Predictor("ocp-unlock", alpha=0.1, arms=8)
    assert predictor.regret_bound() == bounds.regret(predictor.learner, rounds=1)
    for _ in range(5):
        predictor.learn(predictor.predict([0.9]), label=0)
    assert predictor.regret_bound() == bounds.regret(predictor.learner, rounds=5)


def test_a_calibrated_bound_claims_no_more_misses_than_rounds() -> None:
    """Kills: a first round whose bound is that of its history."""
    predictor = Predictor(alpha=0.1)
    predictor.calibrate([(0.7,)] * 300, [0] * 300)
    assert predictor.bound(rounds=2) == (-0.2, 1.8)


def test_the_bound_of_a_predictor_is_the_late_one_once_answers_came_late() -> None:
    """Kills: a promise for prompt answers that is shown although they were late; by hand L is 3."""
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict_batch([(0.7, 0.3)] * 4)
    predictor.learn_batch(shown, [0] * 4)
    learner = predictor.learner
    late = keyhole.bounds.excess(learner, rounds=10_000, open=4, age=3)
    assert predictor.bound(rounds=10_000) == late
    assert late.most > keyhole.bounds.excess(learner, rounds=10_000).most


def test_a_learner_that_promises_prompt_answers_only_says_so_once_they_were_late() -> None:
    predictor = Predictor("pi", alpha=0.1)
    predictor.bound()
    shown = predictor.predict_batch([(0.7, 0.3)] * 4)
    predictor.learn_batch(shown, [0] * 4)
    with pytest.raises(TheoremError, match="only when every answer comes before"):
        predictor.bound()
