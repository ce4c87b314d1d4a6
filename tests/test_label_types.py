"""What was meant by a label of another type, or by none at all, is never guessed."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import keyhole
from keyhole.errors import LabelError
from keyhole.integrations.frames import SeriesPredictors
from keyhole.keyed import Answered, Asked, make_fold

NUMBERS = {1: 0.7, 2: 0.2, 3: 0.1}
TEXTS = {"1": 0.7, "2": 0.2, "3": 0.1}
CONFUSED = [(NUMBERS, "2"), (NUMBERS, "1"), (TEXTS, 2), (TEXTS, np.int64(2)), (TEXTS, 2.0)]
MISSING = [None, math.nan, pd.NA, pd.NaT, ["1"], np.array([1, 2])]


@pytest.mark.parametrize(("output", "label"), CONFUSED)
def test_a_label_spelt_as_one_of_another_type_is_refused_and_its_round_stays_open(
    output: Any, label: Any
) -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    shown = predictor.predict(output)
    with pytest.raises(LabelError, match="convert it to the labels' type"):
        predictor.learn(shown, label=label)
    assert (predictor.rounds, predictor.open_rounds) == (0, 1)


@pytest.mark.parametrize(("output", "label"), [(NUMBERS, "1"), (TEXTS, 1), (TEXTS, 1.0)])
def test_a_set_does_not_say_that_it_lacks_what_it_holds_in_another_type(
    output: Any, label: Any
) -> None:
    shown = keyhole.Predictor(alpha=0.1).predict(output)
    with pytest.raises(LabelError, match="spelt so"):
        _ = label in shown


@pytest.mark.parametrize("label", [2, 2.0, np.int64(2), np.float32(2)])
def test_numbers_that_are_equal_are_one_label(label: Any) -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    predictor.learn(predictor.predict(NUMBERS), label=label)
    assert (predictor.rounds, predictor.unreachable) == (1, 0)


@pytest.mark.parametrize("label", ["zebra", "4", 1.5, "2.5"])
def test_a_label_that_is_certainly_another_is_out_of_reach(label: Any) -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    predictor.learn(predictor.predict(NUMBERS), label=label)
    assert predictor.unreachable == 1


@pytest.mark.parametrize("label", MISSING)
@pytest.mark.parametrize("output", [NUMBERS, TEXTS, [0.7, 0.2, 0.1]])
def test_what_is_no_label_is_not_taken_for_a_miss(output: Any, label: Any) -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    shown = predictor.predict(output)
    with pytest.raises(LabelError, match="is no label"):
        predictor.learn(shown, label=label)
    with pytest.raises(LabelError, match="is no label"):
        _ = label in shown
    assert predictor.rounds == 0


def test_none_is_a_label_where_it_is_a_candidate() -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    predictor.learn(predictor.predict({None: 0.7, "spam": 0.3}), label=None)
    assert predictor.miss_rate == 0.0


def test_a_batch_tells_a_label_of_another_type_too() -> None:
    predictor = keyhole.Predictor(alpha=0.1, score=keyhole.Probabilities(labels=[1, 2]))
    shown = predictor.predict_batch(np.array([[0.7, 0.3], [0.6, 0.4]]))
    with pytest.raises(LabelError, match="convert it to the labels' type"):
        predictor.learn_batch(shown, ["1", "2"])
    assert predictor.rounds == 0


def test_a_batch_counts_labels_out_of_reach_as_one_by_one() -> None:
    named = keyhole.Probabilities(labels=["cat", "dog"])
    batch, alone = keyhole.Predictor(alpha=0.1, score=named), keyhole.Predictor(alpha=0.1, score=named)
    table, truths = np.array([[0.7, 0.3], [0.6, 0.4]]), ["cat", "zebra"]
    batch.learn_batch(batch.predict_batch(table), truths)
    for shown, truth in zip([alone.predict(row) for row in table], truths, strict=True):
        alone.learn(shown, label=truth)
    assert (batch.unreachable, batch.miss_rate) == (alone.unreachable, alone.miss_rate) == (1, 0.5)
    assert batch.distribution.thresholds[0] == alone.distribution.thresholds[0]


def test_a_row_of_a_frame_names_the_label_of_another_type() -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": [1], "p1": [0.7], "p2": [0.3], "y": ["1"]})
    with pytest.raises(LabelError, match=r"row 0 .* '1' \(str\), .* none of \[1, 2\]; convert it"):
        SeriesPredictors(alpha=0.1).add_sets(table, {"p1": 1, "p2": 2})


def test_a_key_of_many_refuses_the_label_of_another_type() -> None:
    fold = make_fold(alpha=0.1)
    state, _ = fold.step("shop", b"", Asked("order", TEXTS, at=0))
    again, (said,) = fold.step("shop", state, Answered("order", label=2, at=1))
    assert said.kind == "refused"
    assert said.note is not None
    assert "convert it to the labels' type" in said.note
    assert again != b""
