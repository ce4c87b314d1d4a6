"""Every learner in the table keeps every promise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, LEARNERS, MISS, Predictor, simulate
from keyhole.errors import FeedbackError
from keyhole.feedback import Feedback, Needs, find_used
from keyhole.learners import Learner, make_suited
from keyhole.numeric import Array, can_compile
from keyhole.simulation.simulate import play_clear

Scores = Callable[[int], Array]
# Interpreted, the long ones would take a day, and the others are the same lines again.
LONG, MANY = (10_000_000, 20_000) if can_compile() else (20_000, 2_000)
SLOW = ("saocp", "agaci")  # ten times as long as others for a round
BELOW_ALL = -1.0  # misses at threshold 0 too, as a residual beyond its bound does


def state_of(predictor: "Predictor[Any]") -> list[Any]:
    """What the predictor has learnt, in lists of its own."""
    return [np.array(part).tolist() for part in predictor._progress.state]


def test_probabilities_are_positive_and_sum_to_one(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    for score in drifting(500):
        chances = predictor.distribution.probabilities
        assert (chances > 0.0).all()
        assert chances.sum() == pytest.approx(1.0, abs=1e-9)
        predictor.learn(predictor.predict([score]), score=score)


def test_thresholds_played_are_those_of_the_distribution(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    for score in drifting(200):
        possible = predictor.distribution.thresholds
        prediction = predictor.predict([score])
        assert prediction.threshold in possible
        predictor.learn(prediction, score=score)


def test_choosing_changes_nothing(learner: Learner, feedback: Feedback, drifting: Scores) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    for score in drifting(300):
        predictor.learn(predictor.predict([score]), score=score)
    before = state_of(predictor)
    for _ in range(5):
        predictor.predict([0.5])
    assert state_of(predictor) == before


def test_same_draws_give_same_choices(learner: Learner, feedback: Feedback, drifting: Scores) -> None:
    first = simulate(learner, drifting(3_000), seed=5, feedback=feedback)
    second = simulate(learner, drifting(3_000), seed=5, feedback=feedback)
    assert (first.thresholds == second.thresholds).all()


def test_a_higher_draw_never_gives_a_lower_threshold(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    for score in drifting(300):
        predictor.learn(predictor.predict([score]), score=score)
    draws = np.linspace(0.0, 1.0, 101, endpoint=False)
    played = [learner.choose(predictor._progress.state, draw)[0] for draw in draws]
    assert (np.diff(played) >= 0.0).all()


def test_predictor_and_compiled_loop_agree_choice_for_choice(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    scores = drifting(MANY)
    predictor = Predictor(learner, seed=13, feedback=feedback)
    played = []
    for score in scores:
        prediction = predictor.predict([score])
        played.append(prediction.threshold)
        missed = score < prediction.threshold
        if find_used(feedback.tells)[int(missed)]:
            predictor.learn(prediction, score=score)
        else:
            predictor.learn(prediction, MISS if missed else HIT)
    run = simulate(learner, scores, seed=13, feedback=feedback)
    assert (run.thresholds[0] == played).all()
    assert predictor.miss_rate == run.misses.mean()


def test_save_and_load_continue_bit_for_bit(
    learner: Learner, feedback: Feedback, drifting: Scores, tmp_path: Path
) -> None:
    scores = drifting(400)
    original = Predictor(learner, seed=3, feedback=feedback)
    waiting = [(original.predict([score]), score) for score in scores[:7]]
    for score in scores[7:200]:
        original.learn(original.predict([score]), score=score)
    original.save(tmp_path / "predictor")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "predictor")
    for predictor in (original, loaded):
        for prediction, score in waiting:
            predictor.learn(prediction.id, score=score)
        for score in scores[200:]:
            predictor.learn(predictor.predict([score]), score=score)
    assert loaded.dump() == original.dump()


@pytest.mark.parametrize("pattern", ["hits", "misses", "alternation"])
def test_millions_of_rounds_neither_overflow_nor_lose_the_distribution(name: str, pattern: str) -> None:
    rounds = LONG // 10 if name in SLOW else LONG
    learner = make_suited(name, alpha=0.1, horizon=rounds, arms=5)
    scores = {"hits": [1.0], "misses": [BELOW_ALL], "alternation": [1.0, 0.0]}[pattern]
    state = learner.start_arrays()
    chunk = np.resize(np.array(scores), rounds // 10)
    thresholds, misses = np.empty(chunk.size), np.empty(chunk.size, dtype=np.bool_)
    sizes = [values.nbytes for values in state]
    for part in range(10):
        play_clear(learner, chunk, part, thresholds, misses, state=state)
        assert np.isfinite(thresholds).all()
        assert pattern == "alternation" or misses.all() == (pattern == "misses")
    assert all(np.isfinite(values).all() for values in state)
    assert [values.nbytes for values in state] == sizes
    chances = learner.distribution(state).probabilities
    assert (chances > 0.0).all()
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)


def test_snapshot_does_not_grow_with_rounds(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    sizes = []
    for number, score in enumerate(drifting(3_000)):
        predictor.learn(predictor.predict([score]), score=score)
        if number in (1_000, 2_999):
            sizes.append(len(predictor.dump()))
    assert abs(sizes[1] - sizes[0]) < 64  # The counters in the header get a few digits longer.


def test_less_feedback_than_needed_is_refused_by_name(learner: Learner) -> None:
    enough = list(Needs).index(learner.needs)
    for feedback in list(Feedback)[:enough]:
        with pytest.raises(FeedbackError, match=learner.needs.value):
            Predictor(learner, feedback=feedback)
        with pytest.raises(FeedbackError, match=learner.needs.value):
            simulate(learner, [0.5], feedback=feedback)


def test_hit_without_label_is_refused_where_the_label_is_needed(
    learner: Learner, feedback: Feedback
) -> None:
    predictor = Predictor(learner, seed=3, feedback=feedback)
    prediction = predictor.predict([1.0])
    if learner.needs == Needs.HIT_OR_MISS:
        predictor.learn(prediction, HIT)
        assert predictor.rounds == 1
        return
    before = predictor.dump()
    with pytest.raises(FeedbackError, match="hit without the true label"):
        predictor.learn(prediction, HIT)
    assert predictor.dump() == before


def test_run_never_sees_more_than_the_feedback_and_its_needs_allow(
    learner: Learner, feedback: Feedback, drifting: Scores
) -> None:
    """Scores that the learner may not see can be changed without changing what it does."""
    scores = drifting(2_000)
    run = simulate(learner, scores, seed=5, feedback=feedback)
    hidden = scores.copy()
    if learner.needs == Needs.HIT_OR_MISS:
        hidden = np.where(run.misses[0], 0.0, np.clip(run.thresholds[0], 0.0, 1.0))
    elif learner.needs == Needs.LABEL_IF_HIT:
        hidden[run.misses[0]] = 0.0
    again = simulate(learner, hidden, seed=5, feedback=feedback)
    assert (again.thresholds == run.thresholds).all()


def test_tuples_of_the_kernels_have_names_of_their_own() -> None:
    """Numba tells tuples apart by name and shape: two alike would make every call convert them."""
    learners = [make_suited(name, alpha=0.1, horizon=20_000, arms=20) for name in LEARNERS]
    kinds = {type(held) for one in learners for held in (one.settings, one.start_arrays())}
    names = [kind.__name__ for kind in kinds]
    assert len(names) == len(set(names))
