"""A predictor that watches its own miss rate: the same watch however its rounds are played and kept."""

import pickle
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Gate, Predictor, Probabilities, ScaledResiduals
from keyhole.errors import InvalidError
from keyhole.predictor.monitor import Alarm, Monitor, Watch

SCORES = np.random.default_rng(1).dirichlet([0.3] * 4, size=300)
LABELS = (SCORES.cumsum(axis=1) > np.random.default_rng(2).random((300, 1))).argmax(axis=1).tolist()


def test_nobody_watches_unless_asked() -> None:
    with pytest.raises(InvalidError, match="watch=True"):
        _ = Predictor(alpha=0.1).watch


def test_the_watch_is_the_monitor_of_the_misses() -> None:
    predictor = Predictor(alpha=0.1, watch=True, history=300)
    for row, label in zip(SCORES, LABELS, strict=True):
        predictor.learn(predictor.predict(row), label=label)
    expected = Watch()
    for heard, miss in enumerate(predictor.history()["miss"].tolist()):
        Monitor(alpha=0.1).observe(expected, miss, heard=heard)
    assert predictor.watch == expected
    assert not expected.starting


def test_a_batch_is_watched_as_its_rounds_would_be() -> None:
    """Kills: a batch that forgets the watch."""
    alone, together = (Predictor(alpha=0.1, watch=True) for _ in range(2))
    together.learn_batch(together.predict_batch(SCORES), LABELS)
    alone.learn_batch([alone.predict(row) for row in SCORES], LABELS)
    assert alone.watch == together.watch
    assert together.watch.rounds == 300


def test_the_watch_goes_on_from_file_and_pickle() -> None:
    predictor = Predictor(alpha=0.1, watch=True)
    for _ in range(220):
        predictor.learn(predictor.predict([0.7, 0.3]), MISS)
    assert predictor.watch.alarm is Alarm.TOO_MANY
    for copied in (Predictor.restore(predictor.dump()), pickle.loads(pickle.dumps(predictor))):  # noqa: S301
        assert copied.watch == predictor.watch
        assert "more often than 0.1, since about answer 101;" in copied.notes[-1]


def test_history_is_not_watched() -> None:
    predictor = Predictor(alpha=0.1, watch=True)
    predictor.calibrate(SCORES, LABELS)
    assert predictor.watch == Watch()


def test_answers_that_may_be_wrong_are_watched_without_harm() -> None:
    """Kills: the logarithm of a factor below 0, which a corrected answer makes."""
    predictor = Predictor(alpha=0.1, watch=True)
    for n in range(200):
        predictor.learn(predictor.predict([0.7, 0.3]), MISS if n % 2 else HIT, wrong=0.4)
    assert predictor.watch.rounds == 200
    assert min(predictor.watch.evidence) >= 0.0


def draw_labels(seed: int, rounds: int, broken: range) -> list[tuple[Any, Any]]:
    """Eight vague classes whose probabilities are right, but for a stretch of random labels."""
    rng = np.random.default_rng(seed)
    outputs = rng.dirichlet([0.35] * 8, size=rounds)
    labels = (outputs.cumsum(axis=1) > rng.random((rounds, 1))).argmax(axis=1)
    labels[broken] = rng.integers(8, size=len(broken))
    return list(zip(outputs, labels.tolist(), strict=True))


def draw_values(seed: int, rounds: int, broken: range) -> list[tuple[Any, Any]]:
    """Forecasts with normal errors, but for a stretch in which they are ten times as large."""
    rng = np.random.default_rng(seed)
    forecasts, errors = rng.normal(size=(2, rounds))
    errors[broken] *= 10.0
    return list(zip(forecasts.tolist(), (forecasts + errors).tolist(), strict=True))


DRAWS: dict[str, Any] = {
    "labels": (draw_labels, {}),
    "intervals": (draw_values, {"score": ScaledResiduals()}),
}
ARRIVALS = [(0, 1), (200, 1), (1_000, 1), (0, 100)]  # rounds late, and how many answers at a time


def play(
    kind: str, seed: int, arrival: tuple[int, int], *, rounds: int, broken: range = range(0)
) -> list[tuple[str, int, int]]:
    """Return the alarms of a new stream: which, since when, and when it was raised."""
    draw, settings = DRAWS[kind]
    predictor: Any = Predictor(alpha=0.1, watch=True, **settings)
    waiting: list[Any] = []
    found: list[tuple[str, int, int]] = []
    for output, label in draw(seed, rounds, broken):
        waiting.append((predictor.predict(output), label))
        if len(waiting) == sum(arrival):
            due, waiting = waiting[: arrival[1]], waiting[arrival[1] :]
            for shown, true in due:
                predictor.learn(shown, label=true)
            watch = predictor.watch
            found += [(watch.alarm.name, watch.since, watch.raised)] * (watch.alarms > len(found))
    return found


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("kind", DRAWS)
def test_a_healthy_new_stream_raises_no_alarm(kind: str, arrival: tuple[int, int]) -> None:
    """Fails on 0.2 but for prompt labels; benchmarks/first_day.py alarm plays 200 of each."""
    assert [play(kind, seed, arrival, rounds=2_000) for seed in range(3)] == [[]] * 3


@pytest.mark.parametrize("arrival", [(0, 1), (50, 1), (0, 100)])
@pytest.mark.parametrize("kind", DRAWS)
def test_a_stream_that_breaks_is_found_within_a_hundred_answers(
    kind: str, arrival: tuple[int, int]
) -> None:
    broken = range(1_000, 1_200)
    (alarm, since, raised), *_ = play(kind, 1, arrival, rounds=1_500, broken=broken)
    assert alarm == "TOO_MANY"
    assert 800 <= since <= 1_050
    assert 1_000 < raised <= 1_100


def test_misses_that_are_told_half_as_often_are_no_alarm() -> None:
    """On 0.2 "too few" came after 653 to 839 rounds, at a true rate of 0.1."""
    for seed in range(3):
        predictor, rng = Predictor(alpha=0.1, watch=True), np.random.default_rng(seed)
        for _ in range(3_000):
            shown = predictor.predict([0.9, 0.1])
            if shown.labels and rng.random() ** 0.3 >= shown.threshold:
                predictor.learn(shown, HIT)
            elif rng.random() < 0.5:
                predictor.learn(shown, MISS, chance=0.5)
            else:
                predictor.skip(shown)
        watch = predictor.watch
        assert (watch.alarms, watch.starting, watch.scale) == (0, False, 0.5)


def test_what_was_learnt_from_history_is_heard() -> None:
    """Kills: a start that forgets the history, or one that counts it twice."""
    watches = []
    for history in (99, 100):
        predictor = Predictor(alpha=0.1, watch=True)
        predictor.calibrate(SCORES[:history], LABELS[:history])
        predictor.learn(predictor.predict(SCORES[0]), MISS)
        watches.append(predictor.watch)
    assert [watch.doubts != [0.0, 0.0] for watch in watches] == [False, True]


@pytest.mark.parametrize("late", [0, 50])
def test_a_gate_that_accepts_nearly_all_and_is_seldom_wrong_breaks_no_promise(late: int) -> None:
    """One in a hundred is wrong, at a target of ten: no alarm, and one when that changes."""
    gate = Gate(alpha=0.1, watch=True)
    watch: Any = gate._progress.watch
    waiting: list[Any] = []
    for number, wrong in enumerate(np.random.default_rng(2).random(4_000).tolist()):
        decision = gate.decide(0.9 + 0.1 * (number % 7) / 7)
        if decision.accepted:
            waiting.append((decision, wrong >= (0.01 if number < 3_000 else 0.6)))
        if len(waiting) > late:
            decision, right = waiting.pop(0)
            gate.learn(decision, right=right)
        assert watch.alarm is Alarm.NONE or number > 3_000
        if watch.alarm:
            break
    assert watch.alarm is Alarm.TOO_MANY
    assert number < 3_150


def test_sets_that_hold_one_label_at_least_may_miss_as_seldom_as_that_is_wrong() -> None:
    predictor = Predictor(alpha=0.1, watch=True, score=Probabilities(at_least=1))
    for wrong in np.random.default_rng(2).random(4_000).tolist():
        shown = predictor.predict({"cat": 0.98, "dog": 0.02})
        predictor.learn(shown, label="dog" if wrong < 0.02 else "cat")
    assert predictor.miss_rate < 0.03
    assert (predictor.watch.alarms, predictor.watch.starting) == (0, False)
