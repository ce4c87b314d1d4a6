"""The default under late answers: as worked out by hand here, and as ever with prompt ones."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import Predictor, make, simulate
from keyhole.feedback import HIT, MISS, Answer
from keyhole.numeric import Array, sigmoid
from keyhole.simulation import Channel
from tests.learners.lanes import play_script

ALPHAS = [0.05, 0.1, 0.3]
CHANNELS = {
    "late": Channel(delay=40),
    "batches": Channel(batch=50),
    "geometric": Channel(delay=60, geometric=True),
    "mostly lost": Channel(delay=30, geometric=True, lost=0.8),
}


class ByHand:
    """The arithmetic of a late answer, in one place and nothing else."""

    def __init__(self, alpha: float) -> None:
        edge = math.log((1.0 - 1e-6) / 1e-6)
        warm = 5.0 * math.log(5.0) - 4.0 * (1.0 - alpha)
        self.alpha, self.edge, self.reach = alpha, edge, edge + 0.5
        self.up = self.reach / 0.1 + warm
        self.low = min((edge + 0.5 * alpha) / 0.1 + warm * (1 - alpha) / alpha, self.reach * 18.0)
        self.z = self.debt = 0.0
        self.heard = self.asked = self.level = 0
        self.missed = False

    def choose(self) -> tuple[float, tuple[int, int]]:
        memo, room = (self.asked, self.heard), 2.0 * self.level
        self.asked += 1
        if self.debt > self.up + room or (self.z < -self.edge and self.debt >= -self.low - room):
            return 0.0, memo
        if self.debt < -self.low - room or self.z > self.edge:
            return 2.0, memo
        return sigmoid(self.z), memo

    def observe(self, memo: tuple[int, int], miss: float) -> None:
        number, before = memo
        age = self.heard - before
        expected = min(1.0, (self.heard + 1) / (number + 1))
        stale = age + (self.asked - 1 - number) * expected
        step = max(0.1, 0.5 / (1.0 + self.alpha * self.heard))
        if stale:
            whole, slower = step, 1.0 + stale / 60.0
            step = max(0.1, whole / slower) / slower
            if not miss and not self.missed:
                step = max(step, min(whole, 3.0 / (stale * self.alpha)))
        self.missed = self.missed or miss > 0.0
        self.z = min(max(self.z - step * (miss - self.alpha), -self.reach), self.reach)
        self.debt += miss - self.alpha
        self.level += age > self.level
        self.heard += 1


def play_by_hand(alpha: float, scores: Array, channel: Channel) -> list[float]:
    """Return the thresholds that the arithmetic plays when answers travel so."""
    rule, deliveries = ByHand(alpha), channel.deliver(scores.size, seed=0)
    played: list[float] = []
    memos: list[Any] = []
    order = deliveries.order.tolist()
    for n in range(scores.size):
        threshold, memo = rule.choose()
        played.append(threshold)
        memos.append(memo)
        while order and deliveries.arrivals[order[0]] <= n:
            past = order.pop(0)
            if deliveries.report[past] < deliveries.told_if_hit:
                rule.observe(memos[past], float(scores[past] < played[past]))
    return played


@pytest.fixture
def scores() -> Array:
    rng = np.random.default_rng(5)
    return np.concatenate((rng.beta(8, 2, 1_500), rng.beta(1, 9, 1_500)))


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())
@pytest.mark.parametrize("alpha", ALPHAS)
def test_late_answers_move_the_default_as_worked_out_by_hand(
    alpha: float, channel: Channel, scores: Array
) -> None:
    """Kills: age or gap left out of staleness, the level raised by more than one, the step undamped."""
    run = simulate(make("logit-tracker", alpha=alpha), scores, channel=channel)
    assert run.thresholds[0].tolist() == play_by_hand(alpha, scores, channel)


@pytest.mark.parametrize("pattern", ["all misses", "all hits"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_guards_and_clip_close_as_worked_out_by_hand(alpha: float, pattern: str) -> None:
    """Kills: a guard without its slack, no clip; the world is as bad as it can be, 500 rounds late."""
    scores = np.full(20_000, 0.0 if pattern == "all misses" else 1.0)
    late = Channel(batch=500)
    run = simulate(make("logit-tracker", alpha=alpha), scores, channel=late)
    assert run.thresholds[0].tolist() == play_by_hand(alpha, scores, late)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_prompt_answers_change_nothing_bit_for_bit(alpha: float, scores: Array) -> None:
    """Kills: anything that touches the rule of prompt answers, which is these four lines."""
    position, edge, played = 0.0, math.log((1.0 - 1e-6) / 1e-6), []
    for n, score in enumerate(scores.tolist()):
        threshold = 0.0 if position < -edge else 2.0 if position > edge else sigmoid(position)
        position -= max(0.1, 0.5 / (1.0 + alpha * n)) * (float(score < threshold) - alpha)
        played.append(threshold)
    assert simulate(make("logit-tracker", alpha=alpha), scores).thresholds[0].tolist() == played


def test_predictor_hears_late_answers_as_the_simulator_does(scores: Array) -> None:
    """Kills: a predictor that measures lateness otherwise than a run, batches among it."""
    learner = make("logit-tracker", alpha=0.1)
    predictor, played = Predictor(learner, feedback="bandit"), []
    for start in range(0, scores.size, 50):
        batch = scores[start : start + 50]
        shown = predictor.predict_batch([[score] for score in batch])
        played += [one.threshold for one in shown]
        hits = [HIT if len(one) else MISS for one in shown]
        predictor.learn_batch(shown, hits)
    assert played == simulate(learner, scores, channel=Channel(batch=50)).thresholds[0].tolist()


def play_residuals(errors: Array, *, alpha: float, channel: Channel = Channel()) -> float:  # noqa: B008
    """Return the mean length of intervals around a forecast with these errors, in its unit."""
    scores = 1.0 / (1.0 + np.abs(errors))
    run = simulate(make("logit-tracker", alpha=alpha), scores, channel=channel)
    return float((1.0 / np.clip(run.thresholds[0], 1e-6, 1.0) - 1.0).mean())


@pytest.mark.parametrize("channel", [Channel(delay=200), Channel(batch=200)], ids=["late", "batches"])
@pytest.mark.parametrize("alpha", [0.02, 0.1])
def test_a_scale_a_hundred_times_too_large_is_found_within_a_few_delays(
    alpha: float, channel: Channel
) -> None:
    """Kills: hits that move 0.01 / 7 each, which takes 3,000 rounds; the right length is 0.02."""
    errors = 0.01 * np.random.default_rng(2).standard_normal(1_200)
    played = play_residuals(errors, alpha=alpha, channel=channel)
    unknown = 200 / 1_200  # the share of rounds that are played before any answer, with length 1
    assert played < 3.0 * unknown


@pytest.mark.parametrize("channel", [Channel(delay=100), Channel(batch=100)], ids=["late", "batches"])
def test_at_a_small_alpha_first_steps_do_not_carry_the_default_to_the_end(channel: Channel) -> None:
    """Kills: first steps of 0.5 taken a hundred times; sets were hundreds of times too large."""
    errors = 30.0 * np.random.default_rng(3).standard_normal(6_000)
    late = play_residuals(errors, alpha=0.01, channel=channel)
    assert late < 2.0 * play_residuals(errors, alpha=0.01)


def test_a_graded_answer_searches_no_further_than_a_hit() -> None:
    """Kills: a search by 3 / (stale alpha) at an error that is not alpha."""
    learner, moved = make("logit-tracker", alpha=0.4), []
    for loss in (0.0, 0.3):
        state = learner.start()
        learner.observe(state, learner.new_memo(), Answer(loss, math.nan, 0.0, 3_000.0, 0.0))
        moved.append(state.position[0])
    assert moved == pytest.approx([0.001, 0.001])


def test_state_of_the_default_runs_interpreted_and_is_at_most_40_bytes() -> None:
    learner = make("logit-tracker", alpha=0.1)
    assert learner.runs_interpreted
    assert learner.memory == 0
    assert len(learner.pack(learner.start())) <= 40


PLAY = """
import sys
import numpy as np
from keyhole import make, simulate
from keyhole.simulation import Channel

scores = np.random.default_rng(5).beta(3, 2, 2_000)
for channel in (Channel(delay=70, geometric=True, lost=0.3), Channel(batch=90)):
    run = simulate(make("logit-tracker", alpha=0.1), scores, channel=channel)
    sys.stdout.buffer.write(run.thresholds.tobytes())
"""


def test_both_lanes_hear_late_answers_alike() -> None:
    assert play_script(PLAY, compiled=True) == play_script(PLAY, compiled=False)
