import json
import math
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyhole
from keyhole import HIT, MISS, Predictor, ScaledResiduals, bounds, make
from keyhole.errors import (
    AnsweredError,
    BoundWarning,
    ExpiredError,
    FeedbackError,
    InvalidError,
    KeyholeError,
    LabelError,
    ScoreError,
    SnapshotError,
    TheoryWarning,
    UnknownRoundError,
)
from keyhole.feedback import Answer
from keyhole.predictor import file as snapshot
from keyhole.predictor.draws import make_draws
from keyhole.scores import BoundedResiduals, CustomScores, LabelSet

ANIMALS = {"cat": 0.71, "lynx": 0.22, "dog": 0.04}


def small(**changes: Any) -> "Predictor[LabelSet]":
    return Predictor("ocp-unlock+", alpha=0.1, horizon=1_000, arms=10, seed=7, **changes)


def unchanged(predictor: "Predictor[Any]", call: Any, error: type[KeyholeError], match: str) -> None:
    """The call raises, and nothing has changed."""
    before = predictor.dump()
    with pytest.raises(error, match=match):
        call()
    assert predictor.dump() == before


def test_set_holds_the_labels_whose_score_reaches_the_threshold() -> None:
    predictor = small()
    for _ in range(50):
        prediction = predictor.predict(ANIMALS)
        expected = [name for name, score in ANIMALS.items() if score >= prediction.threshold]
        assert list(prediction) == expected
        assert len(prediction) == len(expected)
        assert ("lynx" in prediction) == ("lynx" in expected)


def test_label_in_the_set_is_a_hit_and_outside_a_miss() -> None:
    predictor = small()
    misses = 0
    for _ in range(40):
        prediction = predictor.predict(ANIMALS)
        misses += "lynx" not in prediction
        predictor.learn(prediction, label="lynx")
    assert 0 < misses < 40
    assert predictor.miss_rate == misses / 40


def test_label_outside_the_set_teaches_no_more_than_a_miss() -> None:
    told, silent = small(), small()
    for _ in range(60):
        prediction = told.predict(ANIMALS)
        told.learn(prediction, label="dog")
        silent.predict(ANIMALS)
        if "dog" in prediction:
            silent.learn(prediction.id, label="dog")
        else:
            silent.learn(prediction.id, MISS)
    assert told.dump() == silent.dump()


def test_label_and_its_score_teach_the_same() -> None:
    by_label, by_score = small(), small()
    for _ in range(60):
        by_label.learn(by_label.predict(ANIMALS), label="lynx")
        by_score.learn(by_score.predict(ANIMALS), score=0.22)
    assert by_label.dump() == by_score.dump()


def test_counts_are_of_answered_rounds() -> None:
    predictor = small()
    assert np.isnan(predictor.miss_rate)
    assert np.isnan(predictor.mean_size)
    sizes = []
    for number in range(10):
        prediction = predictor.predict(ANIMALS)
        if number % 2:
            predictor.learn(prediction, label="cat")
            sizes.append(len(prediction))
    assert (predictor.rounds, predictor.open_rounds) == (5, 5)
    assert predictor.mean_size == sum(sizes) / 5


def test_rounds_are_answered_in_any_order_late_or_never() -> None:
    predictor = small()
    predictions = [predictor.predict(ANIMALS) for _ in range(20)]
    order = np.random.default_rng(3).permutation(20)
    for place in order[:15]:
        predictor.learn(predictions[place], label="cat")
    assert (predictor.rounds, predictor.open_rounds) == (15, 5)


def test_a_share_in_the_place_of_the_learner_is_told_where_it_goes() -> None:
    with pytest.raises(InvalidError, match=r"write alpha=0\.1"):
        Predictor(0.1)  # type: ignore[arg-type]


def test_a_number_to_be_covered_is_told_which_score_to_take() -> None:
    with pytest.raises(ScoreError, match=r"124\.8 is one number.*ScaledResiduals"):
        Predictor(alpha=0.1).predict(124.8)


def test_second_answer_is_refused_and_not_counted() -> None:
    predictor = small()
    prediction = predictor.predict(ANIMALS)
    predictor.learn(prediction, MISS)
    unchanged(predictor, lambda: predictor.learn(prediction, MISS), AnsweredError, "round 0")
    unchanged(predictor, lambda: predictor.learn(0, label="cat"), AnsweredError, "round 0")


@pytest.mark.parametrize("number", ["0", None, 0.0, True])
def test_what_is_no_round_is_refused(number: Any) -> None:
    predictor = small()
    predictor.predict(ANIMALS)
    unchanged(predictor, lambda: predictor.learn(number, MISS), UnknownRoundError, "neither a pred")


def test_prediction_of_another_predictor_is_refused() -> None:
    one, other = small(), Predictor("ocp-unlock+", alpha=0.1, horizon=1_000, arms=10, seed=8)
    one.predict(ANIMALS)
    foreign = other.predict({"wolf": 0.9})
    unchanged(one, lambda: one.learn(foreign, MISS), UnknownRoundError, "is not round")


@pytest.mark.parametrize("number", [-1, 1, 10**6])
def test_round_that_never_was_is_refused(number: int) -> None:
    predictor = small()
    predictor.predict(ANIMALS)
    unchanged(predictor, lambda: predictor.learn(number, MISS), UnknownRoundError, "never predicted")


def test_oldest_round_expires_when_too_many_are_open() -> None:
    predictor = small(open_limit=3)
    predictions = [predictor.predict(ANIMALS) for _ in range(5)]
    assert (predictor.open_rounds, predictor.expired_rounds) == (3, 2)
    unchanged(predictor, lambda: predictor.learn(predictions[1], MISS), ExpiredError, "open_limit")
    predictor.learn(predictions[2], MISS)
    assert predictor.rounds == 1


def test_answers_from_many_threads_each_count_once() -> None:
    predictor = small(open_limit=2_000)
    predictions = [predictor.predict(ANIMALS) for _ in range(800)]
    refused: list[int] = []

    def answer_all(order: list[int]) -> None:
        for place in order:
            try:
                predictor.learn(predictions[place], label="cat")
            except AnsweredError:
                refused.append(place)

    orders = [np.random.default_rng(k).permutation(800).tolist() for k in range(4)]
    threads = [threading.Thread(target=answer_all, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert (predictor.rounds, predictor.open_rounds, len(refused)) == (800, 0, 2_400)


def test_predictions_from_many_threads_have_ids_of_their_own() -> None:
    predictor = small()
    ids: list[int] = []

    def predict_batch() -> None:
        ids.extend(predictor.predict(ANIMALS).id for _ in range(200))

    threads = [threading.Thread(target=predict_batch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(ids) == list(range(800))


def test_draw_of_a_round_does_not_depend_on_what_came_before() -> None:
    """Unanswered rounds leave the learner as it was, so that only the draws differ."""
    one, other = small(), small()
    for _ in range(1_500):
        one.predict(ANIMALS)
    for _ in range(1_500):
        other.predict({"x": 0.5})
    assert one.predict(ANIMALS).threshold == other.predict(ANIMALS).threshold


def test_past_the_horizon_the_learner_goes_on_and_says_so_once() -> None:
    predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=60, arms=10, seed=7)
    for _ in range(60):
        predictor.learn(predictor.predict(ANIMALS), label="cat")
    with pytest.warns(TheoryWarning, match="horizon of 60"):
        predictor.learn(predictor.predict(ANIMALS), label="cat")
    for _ in range(30):
        predictor.learn(predictor.predict(ANIMALS), label="cat")


def test_regression_covers_what_its_interval_holds() -> None:
    predictor = Predictor(
        "ocp-unlock+", alpha=0.1, horizon=1_000, arms=10, seed=7, score=BoundedResiduals(bound=10.0)
    )
    for truth in np.random.default_rng(5).normal(50.0, 2.0, 200):
        interval = predictor.predict(50.0)
        assert interval.width == interval.upper - interval.lower
        expected = predictor.miss_rate * predictor.rounds if predictor.rounds else 0
        predictor.learn(interval, label=truth)
        assert round(predictor.miss_rate * predictor.rounds) == round(expected) + (
            truth not in interval
        )


def test_residual_beyond_its_bound_misses_at_every_threshold_and_is_said() -> None:
    predictor = Predictor(
        "ocp-unlock+", alpha=0.1, horizon=1_000, arms=10, seed=7, score=BoundedResiduals(bound=10.0)
    )
    for _ in range(30):
        prediction = predictor.predict(0.0)
        with pytest.warns(BoundWarning, match="beyond the residual bound"):
            predictor.learn(prediction, label=10.5)
    assert predictor.miss_rate == 1.0
    assert predictor.unreachable == 30


def test_without_a_bound_threshold_zero_is_the_whole_line() -> None:
    predictor = Predictor(
        "ocp-unlock+", alpha=0.1, horizon=1_000, arms=5, seed=7, score=ScaledResiduals(scale=1.0)
    )
    whole = [p for p in (predictor.predict(3.0) for _ in range(60)) if p.threshold == 0.0]
    assert whole
    assert all(1e300 in interval and interval.width == np.inf for interval in whole)


@given(st.floats(-1e3, 1e3), st.floats(0.1, 20.0), st.integers(0, 5), st.integers(-1, 1))
def test_what_was_shown_decides_between_hit_and_miss(
    centre: float, bound: float, seed: int, ulps: int
) -> None:
    """True values on the very edges of the interval, and one rounding step beside them."""
    predictor = Predictor(
        "ocp-unlock", alpha=0.1, horizon=1_000, arms=10, seed=seed, score=BoundedResiduals(bound=bound)
    )
    interval = predictor.predict(centre)
    truth = interval.upper if ulps == 0 else float(np.nextafter(interval.upper, ulps * np.inf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        predictor.learn(interval, label=truth)
    assert predictor.miss_rate == float(truth not in interval)
    assert predictor.unreachable <= (truth not in interval)


def test_named_and_constructed_learners_are_the_same() -> None:
    named = Predictor("ocp-unlock", alpha=0.2, horizon=900, arms=12, seed=1)
    built = Predictor(keyhole.ocp_unlock(alpha=0.2, horizon=900, arms=12), seed=1)
    assert named.learner == built.learner
    assert named.dump() == built.dump()


def test_what_is_shown_of_the_learner_cannot_change_it() -> None:
    predictor = small()
    before = predictor.dump()
    predictor.distribution.thresholds[:] = 0.5
    assert predictor.learner.thresholds is not None
    predictor.learner.thresholds[:] = 0.5
    assert predictor.dump() == before
    assert predictor.distribution.thresholds[0] == 0.0


def test_missed_rounds_count_towards_the_mean_size() -> None:
    predictor = small()
    sizes = []
    for number in range(40):
        prediction = predictor.predict(ANIMALS)
        sizes.append(len(prediction))
        predictor.learn(prediction, label="cat" if number % 2 else "dog")
    assert predictor.mean_size == sum(sizes) / 40


def test_numpy_numbers_are_saved_like_pythons(tmp_path: Path) -> None:
    options = {"cost": np.float32(40), "delta": np.float64(0.1), "exploration": np.float32(0.25)}
    rounds, arms = np.array([900, 9])
    learner = keyhole.make(
        "ocp-unlock+", alpha=np.float64(0.1), horizon=rounds, arms=arms, options=options
    )
    few: Any = np.int64(5)
    predictor = Predictor(learner, seed=few, score=BoundedResiduals(bound=few), open_limit=few)
    predictor.predict(np.float32(3.0))
    predictor.save(tmp_path / "p")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "p")
    assert loaded.dump() == predictor.dump()
    assert loaded.setup.open_limit == 5


def test_saving_while_others_learn_gives_whole_files() -> None:
    predictor = small()
    stop = threading.Event()

    def learn_on() -> None:
        while not stop.is_set():
            predictor.learn(predictor.predict(ANIMALS), label="cat")

    thread = threading.Thread(target=learn_on)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheoryWarning)
        thread.start()
        for _ in range(30):
            loaded: Predictor[LabelSet] = Predictor.restore(predictor.dump())
            assert loaded.rounds + loaded.open_rounds == loaded._progress.tally.predicted
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_saved_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    small().save(real)
    real.chmod(0o640)
    link.symlink_to(real)
    small().save(link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640


def test_without_a_seed_no_two_predictors_draw_alike() -> None:
    assert Predictor(alpha=0.1).seed != Predictor(alpha=0.1).seed


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"alpha": 0.0}, InvalidError, "alpha 0.0 is not a number between"),
        ({"alpha": 0.8}, InvalidError, "alpha 0.8"),
        ({"alpha": float("nan")}, InvalidError, "alpha nan"),
        ({"alpha": "0.1"}, InvalidError, "alpha '0.1' is not a number"),
        ({}, InvalidError, "alpha is missing"),
        ({"learner": "ocp-unlok+", "alpha": 0.1}, InvalidError, "did you mean 'ocp-unlock\\+'"),
        ({"learner": "cat", "alpha": 0.1}, InvalidError, "there are informed-tracker"),
        ({"alpha": 0.1, "step": 0.2}, InvalidError, "options={'step': 0.2}"),
        ({"alpha": 0.1, "horzon": 3}, TypeError, "takes no 'horzon'"),
        ({"coverage": 0.9}, TypeError, "for a coverage of 0.9 write alpha=0.1"),
        ({"confidence_level": 0.95}, TypeError, "for a coverage of 0.95 write alpha=0.05"),
        ({"alpha": 0.9}, InvalidError, "such as 0.1 for a coverage of 0.9"),
        ({"learner": "ACI", "alpha": 0.1}, InvalidError, "did you mean 'aci'"),
        ({"alpha": 0.1, "labels": ["a"]}, TypeError, "score=keyhole.Probabilities"),
        ({"learner": keyhole.ocp_unlock(alpha=0.1), "alpha": 0.1}, InvalidError, "its parameters"),
        ({"alpha": 0.1, "seed": -1}, InvalidError, "seed -1"),
        ({"alpha": 0.1, "seed": 1.5}, InvalidError, "seed 1.5"),
        ({"alpha": 0.1, "open_limit": 0}, InvalidError, "open_limit 0"),
        ({"alpha": 0.1, "score": "x"}, ScoreError, "score 'x' is not a score"),
        ({"alpha": 1j}, InvalidError, "alpha 1j"),
        ({"alpha": 0.1, "feedback": "half"}, FeedbackError, "no feedback 'half'"),
        (
            {"learner": "ocp-unlock+", "alpha": 0.1, "feedback": "bandit"},
            FeedbackError,
            "needs 'label if hit'",
        ),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Predictor(**arguments)


@pytest.mark.parametrize(
    ("output", "match"),
    [
        ({"cat": float("nan")}, "score nan"),
        ({"cat": float("inf")}, "score inf"),
        ({"cat": 1.2}, "score 1.2"),
        ({"cat": -0.1}, "score -0.1"),
        ({}, "no scores"),
        ([], "no scores"),
        ([[0.1, 0.2]], "shape"),
        ({"cat": "much"}, "not numbers"),
        ([10**400], "not numbers"),
        (None, "not a list"),
        (0.4, "not a list"),
    ],
)
def test_bad_scores_are_named_and_open_no_round(output: Any, match: str) -> None:
    predictor = small()
    unchanged(predictor, lambda: predictor.predict(output), ScoreError, match)


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        ({}, FeedbackError, "takes one answer"),
        ({"answer": MISS, "label": "cat"}, FeedbackError, "takes one answer"),
        ({"answer": "cat"}, FeedbackError, "'cat' is not an answer.*label='cat'"),
        ({"loss": 1.5}, FeedbackError, "loss 1.5 is not a number in"),
        ({"score": 1.5}, ScoreError, "score 1.5"),
        ({"score": "a"}, ScoreError, "score 'a'"),
        ({"score": float("nan")}, ScoreError, "score nan"),
        ({"answer": HIT}, FeedbackError, "the set of round 0 is empty"),
    ],
)
def test_bad_answers_are_named_and_leave_the_round_open(
    answer: dict[str, Any], error: type[KeyholeError], match: str
) -> None:
    predictor = small()
    prediction = predictor.predict(ANIMALS)
    unchanged(predictor, lambda: predictor.learn(prediction, **answer), error, match)
    predictor.learn(prediction, MISS)


def test_a_hit_without_its_label_tells_some_learners_too_little() -> None:
    predictor = small()
    shown = predictor.predict({"cat": 1.0})
    assert len(shown) == 1
    unchanged(predictor, lambda: predictor.learn(shown, HIT), FeedbackError, "a hit without the true")


def test_labels_of_any_saveable_kind_survive_a_file(tmp_path: Path) -> None:
    predictor = small()
    scores = {"a": 0.9, 3: 0.8, 2.5: 0.7, None: 0.6, ("x", (1, 2)): 0.95, np.int64(9): 0.5}
    first = predictor.predict(scores)
    predictor.save(tmp_path / "p")
    loaded: Predictor[LabelSet] = Predictor.load(tmp_path / "p")
    assert loaded._find(0).prediction == first
    loaded.learn(0, label=("x", (1, 2)))


def test_label_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    predictor = small()
    predictor.predict({frozenset({1}): 0.5})
    with pytest.raises(LabelError, match="cannot be saved"):
        predictor.save(tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_custom_score_is_given_again_on_loading(tmp_path: Path) -> None:
    score = CustomScores(lambda size, name: 1 / (1 + abs(size - len(name))), ["ox", "horse"])
    predictor = Predictor("ocp-unlock+", alpha=0.1, seed=7, score=score)
    prediction = predictor.predict(5)
    predictor.save(tmp_path / "p")
    with pytest.raises(ScoreError, match="give it again"):
        Predictor.load(tmp_path / "p")
    loaded = Predictor.load(tmp_path / "p", score=score)
    loaded.learn(prediction, label="horse")
    predictor.learn(prediction, label="horse")
    assert loaded.dump() == predictor.dump()


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p"
    predictor = small()
    predictor.predict(ANIMALS)
    predictor.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"not a file", whole[: len(whole) // 2], whole[:90] + b"\0" + whole[91:]):
        path.write_bytes(damaged)
        with pytest.raises(SnapshotError, match="snapshot"):
            Predictor.load(path)


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, numbers=np.arange(3))
    with pytest.raises(SnapshotError, match="not a whole snapshot"):
        Predictor.load(path)


def test_file_from_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "VERSION", snapshot.VERSION + 1)
    small().save(tmp_path / "p")
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match="upgrade keyhole-conformal"):
        Predictor.load(tmp_path / "p")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda content: content[:-8], "bytes are not a state"),
        (lambda content: content + bytes(8), "bytes are not a state"),
        (lambda content: content[:-8] + np.float64("nan").tobytes(), "not finite|restore"),
        (lambda content: content[8:], "restore"),
        (lambda content: np.float64("nan").tobytes() + content[8:], "not what a round"),
        (lambda content: b"", "restore"),  # noqa: ARG005
    ],
)
def test_file_whose_parts_do_not_fit_is_refused(change: Callable[[bytes], bytes], match: str) -> None:
    predictor = Predictor(keyhole.LEARNERS["agaci"](alpha=0.1), seed=7)
    predictor.predict(ANIMALS)
    header, content = snapshot.unpack(predictor.dump())
    with pytest.raises(SnapshotError, match=match):
        Predictor.restore(snapshot.pack(header, change(content)))


def test_any_single_damaged_byte_is_refused() -> None:
    whole = small().dump()
    rng = np.random.default_rng(1)
    for place in rng.integers(len(whole), size=400):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        with pytest.raises(SnapshotError):
            Predictor.restore(bytes(damaged))


def test_file_that_lacks_a_part_is_refused() -> None:
    header, content = snapshot.unpack(small().dump())
    del header["setup"]["score"]
    with pytest.raises(SnapshotError, match="score"):
        Predictor.restore(snapshot.pack(header, content))


def test_saved_file_holds_no_pickle(tmp_path: Path) -> None:
    predictor = small()
    predictor.save(tmp_path / "p")
    header, content = snapshot.unpack((tmp_path / "p").read_bytes())
    assert json.dumps(header)
    assert content == predictor._progress.pack(predictor.learner)


SAVER = """
import sys
from keyhole import Predictor

predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=1000, arms=10, seed=7)
while True:
    predictor.predict({"cat": 0.5})
    predictor.save(sys.argv[1])
    print("saved", flush=True)
"""


def test_crash_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    for turn in range(4):
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE
        ) as saver:
            assert saver.stdout is not None
            for _ in range(5 + turn):
                saver.stdout.readline()
            os.kill(saver.pid, signal.SIGKILL)
        loaded: Predictor[LabelSet] = Predictor.load(path)
        assert loaded.open_rounds >= 5


def test_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    predictor = small()
    predictor.save(path)
    old = path.read_bytes()
    predictor.predict(ANIMALS)

    def full_disk(_handle: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        predictor.save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_default_learner_needs_alpha_alone_and_only_hit_or_miss() -> None:
    predictor = Predictor(alpha=0.1, feedback="bandit", seed=1)
    assert predictor.learner == keyhole.make("informed-tracker", alpha=0.1)
    assert predictor.learner.horizon is None


def test_the_bound_is_that_of_the_rounds_up_to_now_unless_told() -> None:
    predictor = Predictor("kt", alpha=0.1)  # whose bound grows with the rounds
    assert predictor.bound() == bounds.excess(predictor.learner, rounds=1)
    for _ in range(7):
        shown = predictor.predict([0.9])
        predictor.learn(shown, MISS if shown.threshold > 0.0 else HIT)
    assert predictor.bound() == bounds.excess(predictor.learner, rounds=7)
    assert predictor.bound(rounds=50) == bounds.excess(predictor.learner, rounds=50)
    assert predictor.bound(rounds=50).most > predictor.bound().most


def test_history_is_calibrated_with_draws_of_its_own_that_the_seed_fixes() -> None:
    """Kills: another kind of draws, with which a stream's log would replay to another state."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=500, arms=8)
    scores = np.random.default_rng(3).beta(4, 2, 40).tolist()
    predictor = Predictor(learner, seed=7)
    predictor.calibrate([[score] for score in scores], [0] * 40)
    state = learner.start()
    for score, draw in zip(scores, make_draws(7, 0, 40, kind=3).tolist(), strict=True):
        threshold, memo = learner.choose(state, draw)
        missed = score < threshold
        learner.observe(state, memo, Answer(float(missed), math.nan if missed else score))
    assert learner.pack(predictor._progress.state) == learner.pack(state)


def test_an_interval_is_read_at_the_scale_that_was_found() -> None:
    predictor = Predictor(alpha=0.1, score=ScaledResiduals(scale=1e6))
    first = predictor.predict(0.0).width
    for label in (1.0, 2.0, 3.0):
        predictor.learn(predictor.predict(0.0), label=label)
    assert first > 1e5
    assert predictor.predict(0.0).width < 100.0


@pytest.mark.parametrize("limit", [0, 10**9 + 1, 2.5])
def test_a_limit_on_open_rounds_is_from_one_to_a_thousand_million(limit: Any) -> None:
    with pytest.raises(InvalidError, match=f"open_limit {limit} is not"):
        Predictor(alpha=0.1, open_limit=limit)
    for taken in (1, 10**9):
        assert Predictor(alpha=0.1, open_limit=taken).setup.open_limit == taken
