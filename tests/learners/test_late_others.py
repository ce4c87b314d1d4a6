"""The other learners that step per answer: as ever with prompt ones, less far with stale ones."""

from pathlib import Path

import numpy as np
import pytest

from keyhole import LEARNERS, make, simulate
from keyhole.feedback import Answer
from keyhole.learners import bounds
from keyhole.learners.lateness import Lateness
from keyhole.numeric import Array
from keyhole.simulation import Channel

CURED = ["tracker", "sf-ogd", "self-scaled", "aci", "pi", "agaci"]
GUARDED = ["logit-tracker", "tracker", "self-scaled", "aci", "agaci"]


def drift(rounds: int) -> Array:
    rng = np.random.default_rng(3)
    return np.concatenate((rng.beta(8, 2, rounds // 2), rng.beta(2, 6, rounds - rounds // 2)))


@pytest.mark.parametrize("name", CURED)
def test_a_stale_answer_moves_the_threshold_less(name: str) -> None:
    """Kills: a step that is not divided. The first answers are misses, the last one prompt or stale."""
    learner, moved = make(name, alpha=0.1), []
    for stale in (0.0, 600.0):
        state = learner.start()
        for n in range(40):
            threshold, memo = learner.choose(state)
            miss = float(n % 10 == 0 or threshold > 1.0)
            learner.observe(state, memo, Answer(miss, np.nan if miss else 0.9))
        _, memo = learner.choose(state)
        before = float(state[0][0])  # what the rule moves is the first part of its state
        learner.observe(state, memo, Answer(1.0, stale=stale))
        moved.append(float(state[0][0]) - before)
    # 600 rounds are ten times the patience; self-scaled also heeds the excess, which is the same.
    assert moved[1] == pytest.approx(moved[0] / 11.0, rel=1e-6)


def play_tracker(scores: Array, *, alpha: float, step: float) -> list[float]:
    threshold, played = 0.5, []
    for score in scores.tolist():
        played.append(max(0.0, threshold))
        threshold -= step * (float(score < played[-1]) - alpha)
    return played


@pytest.mark.parametrize("step", [0.005, 0.5])
def test_prompt_answers_leave_the_tracker_as_it_was_bit_for_bit(step: float) -> None:
    """Kills: a guard that closes at the bound itself, which all hits and all misses reach."""
    for scores in (drift(2_000), np.ones(3_000), np.zeros(3_000), np.repeat([1.0, 0.0, 1.0], 1_500)):
        learner = make("tracker", alpha=0.1, options={"step": step})
        assert simulate(learner, scores).thresholds[0].tolist() == play_tracker(
            scores, alpha=0.1, step=step
        )


def play_sf_ogd(scores: Array, alpha: float) -> list[float]:
    radius, squares, played = 0.0, 0.0, []
    for score in scores.tolist():
        played.append(max(0.0, 1.0 - radius))
        gradient = alpha - float(score < played[-1])
        squares += gradient * gradient
        radius = max(0.0, radius - gradient / np.sqrt(3.0 * squares))
    return played


def test_prompt_answers_leave_sf_ogd_as_it_was_bit_for_bit() -> None:
    scores = drift(2_000)
    run = simulate(make("sf-ogd", alpha=0.1), scores)
    assert run.thresholds[0].tolist() == play_sf_ogd(scores, 0.1)


@pytest.mark.parametrize("score", [0.0, 1.0])
@pytest.mark.parametrize("batch", [5, 300])
@pytest.mark.parametrize("name", GUARDED)
def test_batches_of_the_worst_stay_within_the_late_bound(name: str, batch: int, score: float) -> None:
    """Kills: a guard that does not close, or widens by more than two a level."""
    rounds = 40 * batch + 6_000
    rounds -= rounds % batch
    learner = make(name, alpha=0.1)
    run = simulate(learner, np.full(rounds, score), channel=Channel(batch=batch))
    least, most = learner.parameters.late_excess(rounds, Lateness(batch, age=batch - 1))
    total = np.cumsum(run.misses[0] - 0.1)[batch - 1 :: batch]
    assert least - 1e-6 <= total.min()
    assert total.max() <= most + 1e-6
    assert bounds.excess(learner, rounds=rounds).most <= most


def test_every_learner_that_steps_per_answer_says_what_late_answers_do() -> None:
    for name in (*CURED, "kt", "logit-tracker", "contextual-tracker", "tracker-decaying"):
        assert LEARNERS[name].about.late


def test_the_default_keeps_its_size_when_answers_come_in_batches_of_a_thousand() -> None:
    """Kills: the cure undone: then the size is over 100 times the prompt one (benchmarks/late.py)."""
    errors = np.random.default_rng(8).standard_normal(20_000)
    scores = 1.0 / (1.0 + 30.0 * np.abs(errors))
    learner = make("logit-tracker", alpha=0.1)

    def size(channel: Channel) -> float:
        thresholds = simulate(learner, scores, channel=channel).thresholds[0, 2_000:]
        return float((1.0 / np.maximum(thresholds, 1e-6) - 1.0).mean())

    assert size(Channel(batch=1_000)) < 1.5 * size(Channel())


def test_benchmark_of_late_answers_names_only_learners_there_are() -> None:
    text = (Path(__file__).parents[2] / "benchmarks" / "late.py").read_text()
    assert all(f'"{name}"' in text for name in (*CURED, "kt"))
