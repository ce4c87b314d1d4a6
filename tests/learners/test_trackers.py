"""Rounds of the trackers, worked out by hand."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import MISS, make, simulate
from keyhole.errors import InvalidError, TheoremError
from keyhole.learners import bounds
from keyhole.learners.rules.logit_tracker import logit_tracker
from keyhole.learners.rules.tracker import tracker
from keyhole.learners.rules.tracker_decaying import tracker_decaying
from keyhole.numeric import Array

Lived = Callable[..., tuple[list[float], Any]]


def test_tracker_falls_by_nine_tenths_of_a_step_and_rises_by_one(lived: Lived) -> None:
    played, state = lived(tracker(alpha=0.1, step=0.1), [0.0, 1.0, 1.0])
    assert played == pytest.approx([0.5, 0.41, 0.42])
    assert state.threshold == pytest.approx([0.43])


def test_state_of_the_tracker_is_never_clipped(lived: Lived) -> None:
    played, state = lived(tracker(alpha=0.1, step=1.0), [0.0, 0.0])
    assert played[1] == 0.0
    assert state.threshold == pytest.approx([-0.4 + 0.1])
    played, _ = lived(tracker(alpha=0.1, step=1.0, start=1.0), [1.0, 1.0])
    assert played[1] == pytest.approx(1.1)


def test_threshold_of_the_tracker_tells_the_excess_of_misses() -> None:
    scores = np.random.default_rng(2).beta(6, 2, 5_000)
    run = simulate(tracker(alpha=0.1, step=0.02), scores)
    excess = np.cumsum(run.misses[0] - 0.1)
    assert run.thresholds[0, 1:] == pytest.approx(0.5 - 0.02 * excess[:-1], abs=1e-9)


def test_logit_tracker_starts_in_the_middle_with_large_steps(lived: Lived) -> None:
    played, state = lived(logit_tracker(alpha=0.1), [0.0, 1.0])
    first = -0.5 * 0.9
    assert played == pytest.approx([0.5, 1.0 / (1.0 + math.exp(-first))])
    assert state.position == pytest.approx([first + 0.5 / 1.1 * 0.1])
    assert state.rounds == [2]


def test_logit_tracker_settles_on_its_constant_step() -> None:
    learner = logit_tracker(alpha=0.1)
    state = learner.start()
    _, memo = learner.choose(state, 0.5)
    state.rounds[0] = 40  # first / (1 + alpha 40) = 0.1 = step
    learner.observe(state, memo, MISS)
    assert state.position == pytest.approx([-0.09])


@pytest.mark.parametrize(("position", "threshold"), [(-13.9, 0.0), (13.9, 2.0), (0.0, 0.5)])
def test_logit_tracker_is_all_or_nothing_beyond_its_edges(position: float, threshold: float) -> None:
    learner = logit_tracker(alpha=0.1)
    state = learner.start()
    state.position[0] = position
    assert learner.choose(state, 0.5)[0] == threshold


def test_any_window_of_the_logit_tracker_misses_as_its_ends_say() -> None:
    learner = logit_tracker(alpha=0.1)
    scores = np.random.default_rng(4).beta(3, 3, 3_000)
    run = simulate(learner, scores)
    logits = np.log(run.thresholds[0] / (1.0 - run.thresholds[0]))
    misses = np.cumsum(run.misses[0])
    rates = (misses[1_500 - 1 :][:1_000] - misses[500 - 1 :][:1_000]) / 1_000
    moved = (logits[500:1_500] - logits[1_500:2_500]) / (0.1 * 1_000)
    assert rates - 0.1 == pytest.approx(moved, abs=1e-6)


def attacked(name: str, scores: Array) -> float:
    return float((simulate(make(name, alpha=0.1), scores).misses[0] - 0.1).sum())


def test_logit_trackers_upper_bound_is_nearly_reached() -> None:
    """Hits while steps are large, then misses for as long as there can be any."""
    scores = np.concatenate((np.ones(40), np.zeros(200)))
    most = bounds.excess(make("logit-tracker", alpha=0.1), rounds=10**6).most
    worst = max(attacked("logit-tracker", scores[:end]) for end in range(41, 241))
    assert 0.9 * most < worst <= most
    assert most < 148.0


def test_logit_trackers_lower_bound_is_nearly_reached() -> None:
    """Misses while steps are large, then hits for as long as there can be any."""
    scores = np.concatenate((np.zeros(40), np.ones(3_000)))
    least = bounds.excess(make("logit-tracker", alpha=0.1), rounds=10**6).least
    runs = simulate(make("logit-tracker", alpha=0.1), scores)
    lowest = np.cumsum(runs.misses[0] - 0.1).min()
    assert least <= lowest < 0.9 * least
    assert least > -180.0


def test_decaying_tracker_steps_shrink_as_a_power(lived: Lived) -> None:
    learner = tracker_decaying(alpha=0.1, first=0.1, decay=0.5, window=None)
    played, _ = lived(learner, [1.0, 1.0, 1.0])
    assert played == pytest.approx([0.5, 0.51, 0.51 + 0.01 / math.sqrt(2.0)])


def test_decaying_tracker_starts_afresh_when_misses_pile_up(lived: Lived) -> None:
    learner = tracker_decaying(alpha=0.1, first=0.01, window=20, alarm=4.0)
    _, calm = lived(learner, [1.0] * 30)
    assert calm.clock[0] == 30
    _, alarmed = lived(learner, [1.0] * 30 + [0.0] * 8)  # 8 / 20 is 4.5 standard errors above 0.1
    assert alarmed.clock.tolist() == [0, 0, 0]
    assert not alarmed.recent.any()
    _, calm = lived(learner, [1.0] * 30 + [0.0] * 7)  # 7 / 20 is 3.7 above
    assert calm.clock.tolist() == [37, 37, 7]


def test_decaying_tracker_without_restarts_keeps_its_theorem_and_with_them_claims_none() -> None:
    learner = tracker_decaying(alpha=0.1, window=None)
    least, most = bounds.excess(learner, rounds=2_000)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scores = np.concatenate((rng.beta(8, 2, 1_000), rng.beta(2, 8, 1_000)))
        excess = (simulate(learner, scores).misses[0] - 0.1).sum()
        assert least <= excess <= most
    with pytest.raises(TheoremError, match="window=None"):
        bounds.excess(tracker_decaying(alpha=0.1), rounds=2_000)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("tracker", {"step": 0.0}, "step 0.0 is not positive and finite; try 0.005"),
        ("tracker", {"start": 1.5}, r"start 1.5 is not in \[0, 1\]; try 0.5"),
        ("logit-tracker", {"step": 1.0}, "first step 0.5 is below the last, 1.0"),
        ("logit-tracker", {"margin": 0.7}, "margin 0.7 is not a number between 0 and 0.5; try 1e-06"),
        ("tracker-decaying", {"decay": 1.5}, "decay 1.5"),
        (
            "tracker-decaying",
            {"window": 0},
            "window 0 is not a whole number from 1 to 1e\\+06; try 200, or None",
        ),
        ("agaci", {"steps": [0.1]}, "nothing to average"),
        ("pi", {"gain": -1.0}, "gain -1.0"),
        ("aci", {"window": 2.5}, "window 2.5"),
        (
            "unlock-hedge",
            {"window": 1},
            "window 1 is not a whole number from 2; try 2000, or None",
        ),
        ("self-scaled", {"budget": float("nan")}, "budget nan"),
    ],
)
def test_bad_parameters_are_named(name: str, options: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        make(name, alpha=0.1, options=options)
