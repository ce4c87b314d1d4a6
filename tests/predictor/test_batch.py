"""A batch makes the choices, and learns what, its rounds one by one would."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor, Probabilities, make
from keyhole.errors import (
    AnsweredError,
    BoundWarning,
    ExpiredError,
    FeedbackError,
    LabelError,
    ScoreError,
    TheoryWarning,
)
from keyhole.predictor.batch import fits
from keyhole.scores import BoundedResiduals, LabelSet

RNG = np.random.default_rng(8)
TABLE = RNG.dirichlet(np.ones(10), 200)
LABELS = RNG.integers(10, size=200)


def play(predictor: Predictor[LabelSet], *, at_once: bool) -> Predictor[LabelSet]:
    for start in range(0, 200, 50):
        part, labels = TABLE[start : start + 50], LABELS[start : start + 50].tolist()
        if at_once:
            predictor.learn_batch(predictor.predict_batch(part), labels)
            continue
        shown = [predictor.predict(row) for row in part]
        for one, label in zip(shown, labels, strict=True):
            predictor.learn(one, label=label)
    return predictor


@pytest.mark.parametrize(
    "name", ["informed-tracker", "logit-tracker", "kt", "pi", "aci", "ocp-unlock+"]
)
@pytest.mark.parametrize("score", [None, Probabilities(power=1 / 3)])
def test_a_batch_is_its_rounds_one_by_one(name: str, score: Probabilities | None) -> None:
    made = [Predictor(name, alpha=0.1, seed=7, score=score, feedback="full") for _ in range(2)]
    assert play(made[0], at_once=True).dump() == play(made[1], at_once=False).dump()


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("chance", [1.0, 0.3])
def test_a_batch_after_answers_of_all_kinds_is_its_rounds_one_by_one(
    chance: float, *, watch: bool
) -> None:
    """Kills: sums in another order, a median that starts anew, another pace than the usual one."""
    made = [Predictor(alpha=0.1, seed=7, watch=watch) for _ in range(2)]
    for one in made:
        left, *shown = [one.predict(row) for row in TABLE[:5]]
        one.learn(shown[1], HIT if len(shown[1]) else MISS)
        one.learn(shown[0], score=0.3, chance=chance)
        one.learn(left, loss=0.01)
        one.skip(shown[2])
    assert play(made[0], at_once=True).dump() == play(made[1], at_once=False).dump()


def test_rounds_of_a_batch_can_be_answered_one_by_one_in_any_order() -> None:
    one, other = Predictor(alpha=0.1, seed=7), Predictor(alpha=0.1, seed=7)
    batch = one.predict_batch(TABLE[:5])
    alone = [other.predict(row) for row in TABLE[:5]]
    assert list(batch) == alone
    assert batch[-1] == alone[-1]
    assert batch[1:3] == alone[1:3]
    for k in (3, 0, 4):
        told = HIT if len(alone[k]) else MISS
        one.learn(batch[k], told)
        other.learn(alone[k], told)
    assert one.dump() == other.dump()
    with pytest.raises(AnsweredError):
        one.learn_batch(batch, [0] * 5)
    assert one.open_rounds == 2


def test_an_open_batch_is_saved_and_copied() -> None:
    predictor = Predictor(alpha=0.1)
    predictor.predict_batch(TABLE[:5])
    for same in (copy.deepcopy(predictor), Predictor.restore(predictor.dump())):
        assert same.dump() == predictor.dump()


def test_the_oldest_of_a_batch_that_is_too_large_expire() -> None:
    predictor = Predictor(alpha=0.1, open_limit=3)
    batch = predictor.predict_batch(TABLE[:5])
    assert (predictor.open_rounds, predictor.expired_rounds) == (3, 2)
    with pytest.raises(ExpiredError):
        predictor.learn_batch(batch, [0] * 5)
    assert predictor.rounds == 0


def test_sets_of_a_batch_are_seen_as_a_mask() -> None:
    batch = Predictor(alpha=0.1).predict_batch(TABLE[:5])
    assert batch.mask.sum(axis=1).tolist() == [len(shown) for shown in batch]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("labels", "error"), [([10] * 5, LabelError), (["a"] * 5, LabelError), ([0] * 4, FeedbackError)]
)
def test_labels_that_do_not_fit_change_nothing(labels: list[object], error: type[Exception]) -> None:
    predictor = Predictor(alpha=0.1)
    batch = predictor.predict_batch(TABLE[:5])
    before = predictor.dump()
    with pytest.raises(error):
        predictor.learn_batch(batch, labels)
    assert predictor.dump() == before


def test_a_table_with_a_score_out_of_range_opens_nothing() -> None:
    predictor = Predictor(alpha=0.1)
    with pytest.raises(ScoreError, match=r"place \(1, 0\)"):
        predictor.predict_batch(np.array([[0.5], [1.5]]))
    assert predictor.open_rounds == 0


def test_names_stand_for_columns() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(labels=list("abcdefghij")))
    batch = predictor.predict_batch(TABLE[:3])
    predictor.learn_batch(batch, [batch[k].labels[0] if len(batch[k]) else "a" for k in range(3)])
    assert predictor.rounds == 3


@pytest.mark.parametrize("label", [-1, 10])
def test_a_place_that_is_none_is_refused_in_a_batch(label: int) -> None:
    """Kills: -1 taken for the last column."""
    predictor = Predictor(alpha=0.1)
    batch = predictor.predict_batch(TABLE[:2])
    with pytest.raises(LabelError, match="is not one of the 10 positions"):
        predictor.learn_batch(batch, [0, label])
    assert predictor.rounds == 0
    predictor.learn_batch(batch, [0, 9])


def test_a_table_must_have_a_column_for_each_name() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(labels=["a", "b", "c"]))
    with pytest.raises(ScoreError, match="2 scores came for 3 labels"):
        predictor.predict_batch(np.array([[0.5, 0.25]]))
    assert predictor.open_rounds == 0


@pytest.mark.parametrize("history", [0, 10])
def test_a_label_that_names_no_column_is_out_of_reach_in_a_batch_too(history: int) -> None:
    """Kills: refused in a batch that is played at once, counted in one that is kept."""
    named = Probabilities(labels=["a", "b"])
    predictor = Predictor(alpha=0.1, score=named, history=history)
    batch = predictor.predict_batch(np.array([[0.75, 0.25], [0.25, 0.75]]))
    predictor.learn_batch(batch, ["a", "c"])
    assert (predictor.rounds, predictor.unreachable, predictor.miss_rate) == (2, 1, 0.5)


def test_a_batch_that_is_answered_late_is_as_stale_as_its_rounds_would_be() -> None:
    one, other = Predictor(alpha=0.1, seed=7), Predictor(alpha=0.1, seed=7)
    early, late = one.predict_batch(TABLE[:20]), one.predict_batch(TABLE[20:40])
    alone = [other.predict(row) for row in TABLE[:40]]
    for batch, shown, labels in ((late, alone[20:], LABELS[20:40]), (early, alone[:20], LABELS[:20])):
        one.learn_batch(batch, labels.tolist())
        for prediction, label in zip(shown, labels.tolist(), strict=True):
            other.learn(prediction, label=label)
    assert one.dump() == other.dump()


@pytest.mark.parametrize(
    ("learner", "score", "outputs", "fit"),
    [
        ("kt", Probabilities(), TABLE, True),
        ("kt", Probabilities(), TABLE.tolist(), False),
        ("kt", Probabilities(), TABLE[0], False),
        ("tracker-decaying", Probabilities(), TABLE, False),  # over arrays
        ("mvp", Probabilities(), TABLE, False),  # draws
        ("aci", Probabilities(), TABLE, False),  # over arrays
        ("kt", Probabilities(at_least=1), TABLE, False),
        ("kt", Probabilities(at_most=2), TABLE, False),
        ("kt", BoundedResiduals(bound=1.0), TABLE, False),
    ],
)
def test_a_table_is_played_at_once_where_nothing_is_drawn_or_cut(
    learner: str, score: object, outputs: object, *, fit: bool
) -> None:
    assert fits(make(learner, alpha=0.1), score, outputs) is fit


def test_a_table_without_rows_is_a_batch_of_none() -> None:
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict_batch(np.zeros((0, 3)))
    assert list(shown) == []
    predictor.learn_batch(shown, [])
    assert (predictor.rounds, predictor.open_rounds) == (0, 0)


def test_a_batch_shows_its_rounds_and_its_first_sets() -> None:
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict_batch(np.tile([0.7, 0.6, 0.1], (7, 1)))
    assert repr(shown) == "<7 sets, rounds 0 to 6, threshold 0.5: mean size 2>"
    told = shown._repr_html_()  # type: ignore[attr-defined]
    assert told.count("(round ") == 5
    assert told.endswith("and 2 more")


def test_a_table_with_named_columns_is_told_how_to_be_given() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ScoreError, match=r"give table\.to_numpy\(\)"):
        Predictor(alpha=0.1).predict_batch(pandas.DataFrame({"cat": [0.7], "dog": [0.3]}))


def list_warnings(act: Callable[[], object]) -> set[type[Warning]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    return {one.category for one in found}


def test_a_batch_warns_past_the_horizon_as_one_by_one_does() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = make("ocp-unlock+", alpha=0.1, horizon=12, arms=5)
    predictor = Predictor(learner, seed=1)
    assert list_warnings(lambda: answer_all(predictor, [[0.7, 0.3]] * 12, [0] * 12)) == set()
    assert list_warnings(lambda: answer_all(predictor, [[0.7, 0.3]] * 3, [0] * 3)) == {TheoryWarning}
    assert list_warnings(lambda: answer_all(predictor, [[0.7, 0.3]] * 3, [0] * 3)) == set()


def test_a_batch_warns_of_values_beyond_the_residual_bound_as_one_by_one_does() -> None:
    predictor = Predictor(alpha=0.1, score=BoundedResiduals(bound=1.0))
    assert list_warnings(lambda: answer_all(predictor, [1.0, 2.0], [1.5, 2.5])) == set()
    assert list_warnings(lambda: answer_all(predictor, [1.0, 2.0], [9.0, 9.0])) == {BoundWarning}


def answer_all(predictor: Any, outputs: list[Any], labels: list[Any]) -> None:
    predictor.learn_batch(predictor.predict_batch(outputs), labels)
