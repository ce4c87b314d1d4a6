import numpy as np
import pytest

from keyhole import make
from keyhole.errors import InvalidError
from keyhole.simulation import adversaries, simulate_against


def test_just_below_makes_a_certain_learner_miss_until_it_plays_every_label() -> None:
    run = simulate_against(make("tracker", alpha=0.1, options={"step": 0.1}), "just-below", rounds=500)
    playing = run.thresholds[0] > 0.0
    assert (run.misses[0] == playing).all()


def test_just_below_beats_half_the_draws_of_a_learner_that_draws() -> None:
    learner = make("exp3-ix", alpha=0.1, horizon=300, arms=20)
    run = simulate_against(learner, "just-below", rounds=300, runs=40)
    early = run.misses[:, :5].mean()
    assert 0.4 < early < 0.75


def test_lure_and_strike_strikes_only_once_the_learner_is_high() -> None:
    run = simulate_against(
        make("tracker", alpha=0.1, options={"step": 0.2}), "lure-and-strike", rounds=900
    )
    scores = run.scores[0]
    struck = np.flatnonzero((scores[1:] == 0.0) & (scores[:-1] == 1.0)) + 1
    assert len(struck) > 5
    assert (run.thresholds[0, struck] > 0.95).all()


def test_alternating_changes_once_the_learner_has_adapted() -> None:
    run = simulate_against(make("logit-tracker", alpha=0.1), "alternating", rounds=20_000)
    easy, _ = adversaries.repertoire(20_000, seed=0)
    is_easy = run.scores[0] == easy
    changes = np.flatnonzero(np.diff(is_easy.astype(int))) + 1
    assert len(changes) > 10
    assert np.diff(changes).min() >= 200


def test_adversaries_do_not_see_the_draw() -> None:
    """Two seeds of the learner, the same past: the same first score."""
    learner = make("ocp-bandit", alpha=0.1, horizon=1_000)
    first = [
        simulate_against(learner, "just-below", rounds=1_000, seed=seed).scores[0, 0]
        for seed in range(5)
    ]
    assert len(set(first)) == 1


def test_unknown_adversary_is_named() -> None:
    with pytest.raises(InvalidError, match="no adversary 'devil'; there are just-below"):
        simulate_against(make("kt", alpha=0.1), "devil", rounds=10)
