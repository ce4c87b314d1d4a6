"""Answers that come late, never or wrong: in the compiled loop as in the predictor."""

from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor, make, simulate
from keyhole.errors import FeedbackError, InvalidError
from keyhole.feedback import count_times
from keyhole.learners import make_suited
from keyhole.numeric import Array
from keyhole.simulation import Channel, simulate_against
from keyhole.simulation.channel import hear, most_open

SCORES = np.random.default_rng(9).beta(5, 2, 3_000)


def by_predictor(name: str, channel: Channel, seed: int) -> Array:
    """Play the scores through a predictor, delivering each answer as the channel would."""
    predictor: Predictor[Any] = Predictor(make_suited(name, alpha=0.1, arms=20), seed=seed)
    deliveries = channel.deliver(SCORES.size, seed=seed)
    waiting: dict[int, Any] = {}
    played = []
    for n, score in enumerate(SCORES):
        waiting[n] = predictor.predict([score])
        played.append(waiting[n].threshold)
        for past in np.flatnonzero(deliveries.arrivals[: n + 1] == n):
            deliver(predictor, deliveries, int(past), waiting.pop(int(past)))
    return np.array(played)


def deliver(predictor: "Predictor[Any]", deliveries: Any, number: int, prediction: Any) -> None:
    score = SCORES[number]
    missed = bool(score < prediction.threshold)
    chance = deliveries.told_if_missed if missed else deliveries.told_if_hit
    if deliveries.report[number] >= chance:
        return
    said, spoken = hear(deliveries, number, prediction.threshold, missed, score)
    known = chance if deliveries.known else 1.0
    if deliveries.corrected:
        predictor.learn(prediction, MISS if said else HIT, chance=known, wrong=deliveries.wrong)
    elif said:
        predictor.learn(prediction, MISS, chance=known)
    else:
        predictor.learn(prediction, score=spoken, chance=known)


@pytest.mark.parametrize("name", ["logit-tracker", "unlock-hedge", "ocp-unlock+", "aci"])
@pytest.mark.parametrize(
    "channel",
    [
        Channel(delay=7),
        Channel(delay=20, geometric=True),
        Channel(batch=25),
        Channel(batch=25, delay=7),
        Channel(lost=0.4),
        Channel(lost=0.2, lost_if_missed=0.6, known=True),
        Channel(wrong=0.1),
        Channel(delay=5, geometric=True, lost=0.1, lost_if_missed=0.3, known=True, wrong=0.05),
    ],
    ids=["fixed", "geometric", "batch", "late-batch", "lost", "known", "wrong", "all"],
)
def test_loop_and_predictor_agree_choice_for_choice(name: str, channel: Channel) -> None:
    run = simulate(make_suited(name, alpha=0.1, arms=20), SCORES, seed=4, channel=channel)
    assert (run.thresholds[0] == by_predictor(name, channel, 4)).all()


@pytest.mark.parametrize("name", ["logit-tracker", "unlock-hedge", "saocp", "mvp", "sps"])
def test_both_loops_play_alike_when_nothing_happens_to_answers(name: str) -> None:
    learner = make(name, alpha=0.1)
    barely = Channel(wrong=1e-300)
    clear = simulate(learner, SCORES, runs=2, feedback="full")
    channelled = simulate(learner, SCORES, runs=2, feedback="full", channel=barely)
    assert (clear.thresholds == channelled.thresholds).all()
    assert (clear.misses == channelled.misses).all()


def test_room_is_what_is_open_at_once() -> None:
    assert most_open(Channel(delay=0).deliver(50, seed=1).arrivals) == 1
    assert most_open(Channel(delay=7).deliver(50, seed=1).arrivals) == 8
    deliveries = Channel(delay=9, geometric=True).deliver(500, seed=1)
    most = max(sum(deliveries.arrivals[: n + 1] >= n) for n in range(500))
    assert most_open(deliveries.arrivals) == most


def test_sets_of_a_batch_are_chosen_before_any_of_its_answers() -> None:
    deliveries = Channel(batch=3).deliver(8, seed=1)
    assert deliveries.arrivals.tolist() == [2, 2, 2, 5, 5, 5, 8, 8]
    assert most_open(deliveries.arrivals) == 3
    run = simulate(make("tracker", alpha=0.1), SCORES, channel=Channel(batch=100))
    by_batch = run.thresholds[0].reshape(-1, 100)
    assert (by_batch == by_batch[:, :1]).all()
    excess = run.misses[0].reshape(-1, 100).sum(axis=1) - 10.0
    moved = np.diff(by_batch[:, 0])  # Stale answers move it less, and still the right way.
    clear = np.abs(excess[:-1]) > 5.0
    assert clear.any()
    assert (np.sign(moved[clear]) == -np.sign(excess[:-1][clear])).all()


def test_geometric_delays_have_the_mean_they_are_given() -> None:
    delays = Channel(delay=30, geometric=True).deliver(20_000, seed=5).arrivals - np.arange(20_000)
    error = np.sqrt(30 * 31 / 20_000)
    assert abs(delays.mean() - 30) < 4 * error
    assert delays.min() == 0


@pytest.mark.parametrize("known", [False, True])
def test_known_chances_undo_the_bias_of_misses_told_less_often(known: bool) -> None:  # noqa: FBT001
    """Told 9 hits in 10 but 1 miss in 2, what is heard holds .058 misses of .1."""
    channel = Channel(lost=0.1, lost_if_missed=0.5, known=known)
    scores = np.random.default_rng(3).beta(5, 2, 30_000)
    rate = simulate(make("logit-tracker", alpha=0.1), scores, channel=channel).misses.mean()
    biased = 0.1 / (0.1 + 0.5 / 0.9 * 0.9)  # misses m with .5 m / (.5 m + .9 (1 - m)) = .1
    assert rate == pytest.approx(0.1 if known else biased, abs=0.006)


@pytest.mark.parametrize("chance", [1.0, 0.9, 2 / 3, 0.5, 0.4, 0.3, 0.01])
def test_an_answer_counts_for_what_it_stands_for_on_average(chance: float) -> None:
    """Over evenly spaced draws the mean is off by at most their spacing."""
    draws = (np.arange(1_000) + 0.5) / 1_000
    times = [count_times(chance, draw) for draw in draws]
    assert np.mean(times) == pytest.approx(1.0 / chance, abs=1e-3)
    assert set(times) <= {int(1.0 / chance), int(1.0 / chance) + 1}


def test_taking_turns_gives_neither_hits_nor_misses_the_fractions_of_the_other() -> None:
    """Misses stand for 1.5 rounds and hits for 2.5: what is left over of one must not go to the other.

    The bettor's state holds the misses counted, less alpha for every round counted.
    """
    predictor: Predictor[Any] = Predictor("kt", alpha=0.1, feedback="bandit", seed=8)
    pairs = 2_000
    for _ in range(pairs):
        predictor.learn(predictor.predict([1.0]), MISS, chance=1 / 1.5)
        predictor.learn(predictor.predict([1.0]), HIT, chance=1 / 2.5)
    state = predictor._progress.state
    misses = state.coins[0] + 0.1 * state.rounds[0]
    error = np.sqrt(pairs * 0.25)  # of a sum of fair coins
    assert abs(misses - 1.5 * pairs) < 4 * error
    assert abs(state.rounds[0] - misses - 2.5 * pairs) < 4 * error


def test_wrong_answers_say_the_opposite_and_never_that_an_empty_set_held_it() -> None:
    deliveries = Channel(wrong=0.999999).deliver(50, seed=1)
    for n in range(50):
        assert hear(deliveries, n, 0.4, False, 0.7)[0]  # noqa: FBT003
        missed, score = hear(deliveries, n, 0.4, True, 0.2)  # noqa: FBT003
        assert not missed
        assert 0.4 <= score <= 1.0
        assert hear(deliveries, n, 2.0, True, 0.2) == (True, 0.2)  # noqa: FBT003


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"delay": -1}, "delay -1"),
        ({"batch": 0}, "batch 0 is not a whole number of sets"),
        ({"delay": 2.5}, "delay 2.5 is not a whole number"),
        ({"delay": "a"}, "delay 'a' is not a whole number of rounds"),
        ({"delay": 1e300}, r"delay 1e\+300 is not a whole number of rounds"),
        ({"lost": "a"}, "lost 'a' is not a probability below 1"),
        ({"lost": 1.0}, "lost 1.0 is not a probability below 1"),
        ({"lost_if_missed": -0.1}, "lost_if_missed -0.1"),
        ({"wrong": 2.0}, "wrong 2.0"),
    ],
)
def test_impossible_channels_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        Channel(**options)


@pytest.mark.parametrize("chance", [0.0, -0.5, 1.5, float("nan")])
def test_predictor_refuses_a_chance_that_is_none_and_keeps_the_round_open(chance: float) -> None:
    predictor = Predictor("logit-tracker", alpha=0.1, seed=1)
    prediction = predictor.predict([0.5])
    with pytest.raises(FeedbackError, match="chance"):
        predictor.learn(prediction, MISS, chance=chance)
    assert predictor.open_rounds == 1


@pytest.mark.parametrize("name", ["logit-tracker", "tracker", "contextual-tracker"])
def test_corrected_answers_are_those_of_a_predictor_that_knows_how_often_they_lie(name: str) -> None:
    channel = Channel(wrong=0.2, corrected=True, delay=3)
    run = simulate(make_suited(name, alpha=0.1, arms=20), SCORES, seed=4, channel=channel)
    assert (run.thresholds[0] == by_predictor(name, channel, 4)).all()


def test_correction_keeps_the_miss_rate_where_lies_would_ruin_it() -> None:
    scores = np.random.default_rng(3).beta(4, 2, 40_000)
    learner = make("logit-tracker", alpha=0.1)
    believed, corrected = (
        simulate(learner, scores, channel=Channel(wrong=0.1, corrected=own)).misses[0, 4_000:].mean()
        for own in (False, True)
    )
    assert believed < 0.03  # a tenth of the hits are said to be misses: sets grow until few are left
    assert corrected == pytest.approx(0.1, abs=0.012)  # 36,000 rounds, each noisier by 1 / 0.8


def test_only_learners_that_take_graded_answers_can_correct() -> None:
    with pytest.raises(FeedbackError, match="kt takes hits and misses only"):
        simulate(make("kt", alpha=0.1), SCORES, channel=Channel(wrong=0.1, corrected=True))
    with pytest.raises(InvalidError, match=r"wrong 0\.5 cannot be corrected"):
        Channel(wrong=0.5, corrected=True)


@pytest.mark.parametrize("rounds", [0, -1, 2.5, "a"])
def test_an_adversary_plays_a_number_of_rounds(rounds: Any) -> None:
    with pytest.raises(InvalidError, match="is not a number of rounds"):
        simulate_against(make("kt", alpha=0.1), "lure-and-strike", rounds=rounds)


def test_a_channel_is_one() -> None:
    with pytest.raises(InvalidError, match="3 is not a channel"):
        simulate(make("kt", alpha=0.1), [0.5], channel=3)  # type: ignore[arg-type]
