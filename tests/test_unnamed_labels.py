"""An array without labels has places; whether something else is a name is never guessed."""

import copy
import pickle

import numpy as np
import pytest

import keyhole
from keyhole.errors import LabelError

SCORES = np.full(10, 0.1)


@pytest.mark.parametrize("label", [10, -1, "cat", np.int64(10)])
def test_what_is_no_place_is_neither_in_the_set_nor_outside_it(label: object) -> None:
    shown = keyhole.Predictor(alpha=0.1).predict(SCORES)
    with pytest.raises(LabelError, match=r"Probabilities\(labels="):
        _ = label in shown


def test_labels_that_start_at_one_are_told_so() -> None:
    predictor = keyhole.Predictor(alpha=0.1)
    shown = predictor.predict(SCORES)
    with pytest.raises(LabelError, match="start at 1"):
        predictor.learn(shown, label=10)
    assert predictor.rounds == 0


def test_places_are_in_the_set_or_outside_it() -> None:
    shown = keyhole.Predictor(alpha=0.1).predict([0.9, 0.1])
    assert 0 in shown
    assert np.int64(0) in shown
    assert 1 not in shown
    assert np.int64(1) not in shown


def test_named_labels_may_be_asked_of_anything() -> None:
    named = keyhole.Predictor(alpha=0.1, score=keyhole.Probabilities(labels=list(range(1, 11))))
    assert 11 not in named.predict(SCORES)
    assert "emu" not in keyhole.Predictor(alpha=0.1).predict({"cat": 0.9})


def test_copies_refuse_too() -> None:
    shown = keyhole.Predictor(alpha=0.1).predict(SCORES)
    for twin in (copy.deepcopy(shown), pickle.loads(pickle.dumps(shown))):  # noqa: S301
        assert twin == shown
        with pytest.raises(LabelError):
            _ = 10 in twin
