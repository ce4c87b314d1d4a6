"""Several levels at once: nested, each with its own promise, from answers that tell enough."""

import copy
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import HIT, MISS, Predictor, QuantileBands
from keyhole.errors import (
    AnsweredError,
    FeedbackError,
    InvalidError,
    LabelError,
    ScoreError,
    SnapshotError,
    UnknownRoundError,
)
from keyhole.numeric import Array
from keyhole.predictor.levels import LevelPredictor, Levels, _join
from keyhole.scores import Interval

ALPHAS = [0.05, 0.1, 0.2]


def make(**options: Any) -> Any:
    return Predictor(alpha=ALPHAS, seed=7, **options)


def outcomes(rounds: int, seed: int = 3) -> Array:
    """Residuals whose spread jumps up and down, so that levels that move alone would cross."""
    rng = np.random.default_rng(seed)
    spread = np.where(np.arange(rounds) // 150 % 2, 8.0, 1.0)
    found: Array = spread * rng.standard_t(3, rounds)
    return found


def play(predictor: Any, truths: Array) -> None:
    for truth in truths:
        predictor.learn(predictor.predict(0.0), label=truth)


def test_each_level_plays_as_a_predictor_of_its_own() -> None:
    truths = outcomes(400)
    levels = make(score=keyhole.ScaledResiduals())
    play(levels, truths)
    for alpha in ALPHAS:
        alone = Predictor(alpha=alpha, seed=7, score=keyhole.ScaledResiduals())
        play(alone, truths)
        assert levels[alpha].dump() == alone.dump()


@pytest.mark.parametrize("late", [0, 40])
def test_intervals_are_nested_in_every_round_and_miss_no_more_than_each_level_alone(late: int) -> None:
    levels = make(score=keyhole.ScaledResiduals())
    truths = outcomes(1_500, seed=0)
    waiting = []
    missed = dict.fromkeys(ALPHAS, 0)
    crossed = 0
    for truth in truths:
        shown = levels.predict(0.0)
        outer, middle, inner = (shown[alpha] for alpha in ALPHAS)
        assert outer.lower <= middle.lower <= inner.lower
        assert inner.upper <= middle.upper <= outer.upper
        own = [levels[alpha]._find(shown.id).prediction for alpha in ALPHAS]
        crossed += any(a.threshold > b.threshold for a, b in pairwise(own))
        for alpha in ALPHAS:
            missed[alpha] += truth not in shown[alpha]
        waiting.append((shown, truth))
        if len(waiting) > late:
            past, told = waiting.pop(0)
            levels.learn(past, label=told)
    assert crossed > 0  # else the test would not see whether they are nested
    for past, told in waiting:
        levels.learn(past, label=told)
    for alpha in ALPHAS:
        tally = levels.levels[alpha]
        assert tally.misses == missed[alpha]
        assert tally.misses <= levels[alpha].progress.tally.misses
        assert tally.misses - alpha * 1_500 <= levels[alpha].bound().most


def test_a_miss_of_the_outermost_set_is_one_of_every_level() -> None:
    levels = make()
    shown = levels.predict([0.5, 0.3, 0.2])
    levels.learn(shown, MISS)
    assert [tally.misses for tally in levels.levels.values()] == [1.0, 1.0, 1.0]


def test_a_score_tells_every_level() -> None:
    levels = make()
    shown = levels.predict([0.7, 0.2, 0.1])
    levels.learn(shown, score=shown[0.2].threshold)
    assert all(tally.misses == 0.0 for tally in levels.levels.values())


@pytest.mark.parametrize("act", ["learn", "amend"])
def test_a_bare_hit_tells_too_little_and_is_refused(act: str) -> None:
    levels = make(amend_limit=10)
    shown = levels.predict([0.5, 0.3, 0.2])
    if act == "amend":
        levels.learn(shown, MISS)
    with pytest.raises(FeedbackError, match="inner levels"):
        getattr(levels, act)(shown, HIT)
    assert levels.rounds == (act == "amend")


def test_bandit_feedback_is_refused_when_it_is_made() -> None:
    with pytest.raises(FeedbackError, match="bandit feedback: it does not say"):
        make(feedback="bandit")


@pytest.mark.parametrize(
    ("alpha", "fault"),
    [([], "holds no level"), ([0.1, 0.1], "one twice"), ([0.1, "0.2"], "'0.2' is not a number")],
)
def test_wrong_levels_are_refused(alpha: Any, fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        Predictor(alpha=alpha)


def test_a_learner_with_its_own_alpha_is_refused() -> None:
    with pytest.raises(InvalidError, match="one alpha"):
        Predictor(keyhole.make("kt", alpha=0.1), alpha=ALPHAS)


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(InvalidError, match=r"no level 0.3; the levels are 0.05, 0.1, 0.2"):
        make()[0.3]


def test_a_single_alpha_in_a_list_is_a_level_too() -> None:
    assert isinstance(Predictor(alpha=(0.1,)), LevelPredictor)


def test_what_was_saved_goes_on_bit_for_bit(tmp_path: Path) -> None:
    levels = make(score=keyhole.ScaledResiduals())
    play(levels, outcomes(60))
    waiting = levels.predict(0.0)
    levels.save(tmp_path / "levels")
    again = LevelPredictor.load(tmp_path / "levels")
    again.learn(waiting, label=2.0)
    levels.learn(waiting, label=2.0)
    assert again.predict(1.0) == levels.predict(1.0)
    assert again.levels == levels.levels
    with pytest.raises(SnapshotError, match=r"keyhole\.Predictor"):
        LevelPredictor.restore(levels[0.1].dump())


def test_a_batch_is_as_its_rounds_one_by_one() -> None:
    rng = np.random.default_rng(5)
    table = rng.dirichlet(np.ones(4), 50)
    labels = rng.integers(0, 4, 50)
    one, many = make(), make()
    for row, label in zip(table[:25], labels[:25], strict=True):
        one.learn(one.predict(row), label=int(label))
        many.learn_batch(many.predict_batch([row]), [int(label)])
    shown = [one.predict(row) for row in table[25:]]
    assert many.predict_batch(table[25:]) == shown
    one.learn_batch(shown, labels[25:].tolist())
    many.learn_batch([each.id for each in shown], labels[25:].tolist())
    assert one.levels == many.levels
    assert one.rounds == 50


def test_amended_accounts_are_those_of_the_final_truths() -> None:
    levels = make(amend_limit=100)
    rng = np.random.default_rng(6)
    misses = dict.fromkeys(ALPHAS, 0.0)
    for number, row in enumerate(rng.dirichlet(np.ones(4), 60)):
        shown = levels.predict(row)
        first, final = rng.integers(0, 4, 2).tolist()
        if number % 3:
            levels.learn(shown, label=first)
        else:
            levels.learn(shown, MISS)
        levels.amend(shown, label=final)
        for alpha in ALPHAS:
            misses[alpha] += final not in shown[alpha]
    assert {alpha: tally.misses for alpha, tally in levels.levels.items()} == misses


def test_what_was_shown_missed_and_is_amended_even_where_no_level_chose_it() -> None:
    """Crooked bands, of which the outer does not hold the inner: both are shown, joined."""
    levels: Any = Predictor(alpha=ALPHAS, score=QuantileBands(), amend_limit=100)
    rng, misses = np.random.default_rng(0), dict.fromkeys(ALPHAS, 0.0)
    for middle, first, final in rng.normal(size=(60, 3)).tolist():
        ends = zip((0.5, 1.0, 1.5), (2.5, 1.0, 0.5), strict=True)
        pairs = zip(ALPHAS, ends, strict=True)
        bands = {alpha: (middle - low, middle + up) for alpha, (low, up) in pairs}
        shown = levels.predict(outputs=bands)
        levels.learn(shown, label=middle + first)
        levels = copy.deepcopy(levels)
        levels.amend(shown, label=middle + final)
        for alpha in ALPHAS:
            misses[alpha] += middle + final not in shown[alpha]
    assert {alpha: tally.misses for alpha, tally in levels.levels.items()} == misses


def test_a_label_that_was_no_candidate_is_amended_where_everything_was_shown() -> None:
    levels = make(amend_limit=999)
    for _ in range(999):
        levels.learn(levels.predict({"cat": 0.7, "dog": 0.3}), label="emu")
    assert all(level.threshold <= 0.0 for level in levels.predict({"cat": 0.7, "dog": 0.3}).values())
    for number in range(999):
        levels.amend(number, label="cat")
        levels.amend(number, label="emu")
    assert {tally.misses for tally in levels.levels.values()} == {999.0}


def test_skipped_calibrated_and_unknown_rounds() -> None:
    levels = make()
    levels.calibrate([[0.7, 0.3]] * 50, [0] * 45 + [1] * 5)
    assert levels.rounds == 0
    shown = levels.predict([0.7, 0.3])
    levels.skip(shown)
    assert levels.open_rounds == 0
    assert levels[0.1].skipped_rounds == 1
    with pytest.raises(AnsweredError):
        levels.learn(shown, label=0)
    other = levels.predict([0.7, 0.3])
    with pytest.raises(UnknownRoundError):
        levels.learn(Levels(other.id, {**other, 0.05: other[0.2]}), label=0)


def test_an_answer_of_a_known_chance_counts_for_as_many() -> None:
    levels = make()
    levels.learn(levels.predict([0.6, 0.4]), MISS, chance=0.5)
    assert levels.levels[0.1].misses == 2.0


def test_groups_and_features_reach_every_level() -> None:
    levels: Any = Predictor(alpha=[0.1, 0.3], features=["hour"], groups=["weekend"], seed=1)
    shown = levels.predict([0.6, 0.4], features={"hour": 3}, groups=["weekend"])
    levels.learn(shown, label=0)
    assert [levels[alpha].groups["weekend"].rounds for alpha in (0.1, 0.3)] == [1, 1]


def test_a_batch_is_answered_whole_or_not_at_all() -> None:
    """Kills: answers one by one, of which the first are counted when a later one is refused."""
    levels = make()
    shown = levels.predict_batch(iter([[0.7, 0.3], [0.6, 0.4]]))
    for wrong in ([0, "cat"], [0, HIT]):
        with pytest.raises((LabelError, FeedbackError)):
            levels.learn_batch(shown, wrong)
    assert levels.rounds == 0
    levels.learn_batch(shown, [0, MISS])
    assert [tally.misses for tally in levels.levels.values()] == [1.0, 1.0, 1.0]


def test_an_output_that_one_level_cannot_read_opens_no_round_on_another() -> None:
    levels = Predictor(alpha=[0.1, 0.2], score=keyhole.QuantileBands())
    anything: Any = levels
    with pytest.raises(ScoreError):
        anything.predict(outputs={0.1: (1.0, 2.0), 0.2: (2.0, float("nan"))})
    assert anything.open_rounds == 0


def test_threads_get_rounds_whose_levels_belong_together() -> None:
    """Kills: levels that are opened without a lock, so that another thread's round comes between."""
    levels = make()
    with ThreadPoolExecutor(8) as threads:
        shown = list(threads.map(levels.predict, [[0.7, 0.3]] * 400))
    assert sorted(one.id for one in shown) == list(range(400))
    assert all({region.id for region in one.values()} == {one.id} for one in shown)


def test_its_repr_shows_what_each_level_missed_once_it_has_answers() -> None:
    predictor: Any = Predictor(alpha=[0.05, 0.2], seed=7)
    assert repr(predictor) == "<LevelPredictor informed-tracker, alpha 0.05, 0.2: 0 rounds>"
    predictor.learn(predictor.predict({"cat": 0.7, "lynx": 0.2, "dog": 0.1}), label="emu")
    levels = "0.05 missed 1.0000, 0.2 missed 1.0000"
    assert repr(predictor) == f"<LevelPredictor informed-tracker, alpha {levels}: 1 rounds>"


@pytest.mark.parametrize("many", [False, True])
def test_a_miss_of_a_whole_line_that_an_inner_level_showed_teaches_no_level(many: bool) -> None:  # noqa: FBT001
    levels: Any = Predictor(
        "sf-ogd", alpha=[0.1, 0.2], score=keyhole.ScaledResiduals(), feedback="full", seed=1
    )
    outer, inner = levels._predictors.values()
    rng = np.random.default_rng(0)
    for _ in range(20):
        shown = levels.predict(0.0)
        wide = [np.isinf(one._find(shown.id).prediction.size) for one in (outer, inner)]
        if wide == [False, True]:
            break
        levels.learn(shown, label=float(rng.standard_cauchy()))
    assert wide == [False, True]
    rounds = outer.rounds, inner.rounds
    with pytest.raises(
        FeedbackError, match="is the whole line, which cannot miss; tell the true value"
    ):
        levels.learn_batch([shown], [MISS]) if many else levels.learn(shown, MISS)
    assert (outer.rounds, inner.rounds) == rounds
    levels.learn(shown, label=1.0)


@pytest.mark.parametrize(
    ("ends", "joined"), [((1.0, 3.0), (0.0, 3.0)), ((-1.0, 1.0), (-1.0, 2.0)), ((0.0, 3.0), (0.0, 3.0))]
)
def test_intervals_that_only_overlap_are_joined_to_one_that_holds_both(
    ends: tuple[float, float], joined: tuple[float, float]
) -> None:
    both = _join(Interval(0, 0.5, 0.0, 2.0), Interval(0, 0.6, *ends))
    assert (both.lower, both.upper) == joined
