"""Sets that are never empty, or never larger than a person can look through."""

import math

import numpy as np
import pytest

from keyhole import MISS, Predictor, Probabilities, bounds, make
from keyhole.errors import ScoreError
from keyhole.scores import LabelSet

ANIMALS = {"cat": 0.7, "lynx": 0.2, "dog": 0.1}


def test_a_set_holds_its_best_labels_even_above_every_score() -> None:
    case = Probabilities(at_least=2).read(ANIMALS)
    assert case.region(0, 2.0).labels == ("cat", "lynx")
    assert case.region(0, 0.0).labels == ("cat", "lynx", "dog")


def test_a_set_is_cut_to_its_best_labels() -> None:
    for output in (ANIMALS, np.array([0.1, 0.7, 0.2])):
        assert len(Probabilities(at_most=2).read(output).region(0, 0.0)) == 2
    assert Probabilities(at_most=2).read(ANIMALS).region(0, 0.0).labels == ("cat", "lynx")


def test_a_label_beyond_the_limit_is_out_of_reach() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(at_most=2))
    predictor.learn(predictor.predict(ANIMALS), label="dog")
    assert (predictor.unreachable, predictor.miss_rate) == (1, 1.0)


def test_a_label_that_is_shown_is_a_hit_whatever_its_score() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(at_least=2))
    shown = predictor.predict(ANIMALS)
    assert "lynx" in shown
    predictor.learn(shown, label="lynx")
    assert predictor.miss_rate == 0.0


def test_the_bound_says_which_promise_a_limit_costs() -> None:
    plain = Predictor(alpha=0.1).bound(rounds=10_000)
    least = Predictor(alpha=0.1, score=Probabilities(at_least=1)).bound(rounds=10_000)
    most = Predictor(alpha=0.1, score=Probabilities(at_most=3)).bound(rounds=10_000)
    assert (least.least, least.most) == (-1000.0, plain.most)
    assert (most.least, most.most) == (plain.least, 9000.0)
    learner = make("logit-tracker", alpha=0.1)
    assert bounds.excess(learner, at_least=1).least == -math.inf
    assert bounds.excess(learner, at_most=3).most == math.inf


def test_a_floor_is_said_to_leave_only_the_promise_not_to_miss_too_much() -> None:
    (said,) = Predictor(alpha=0.1, score=Probabilities(at_least=1)).notes
    assert "No set holds fewer than 1 labels" in said
    assert "the upper bound alone is kept" in said


def test_limits_are_saved_with_open_rounds() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(at_least=1, at_most=2))
    shown = predictor.predict(ANIMALS)
    loaded: Predictor[LabelSet] = Predictor.restore(predictor.dump())
    loaded.learn(shown, MISS)
    assert loaded.predict(ANIMALS).labels == predictor.predict(ANIMALS).labels


@pytest.mark.parametrize("limits", [{"at_least": -1}, {"at_most": 0}, {"at_least": 3, "at_most": 2}])
def test_limits_that_no_set_can_keep_are_named(limits: dict[str, int]) -> None:
    with pytest.raises(ScoreError, match="whole number"):
        Probabilities(**limits)  # type: ignore[arg-type]


def test_a_cap_is_said_to_break_the_promise_and_when_it_does() -> None:
    predictor = Predictor(alpha=0.1, score=Probabilities(at_most=2))
    (said,) = predictor.notes
    assert "No set holds more than 2 labels" in said
    for n in range(200):
        predictor.learn(predictor.predict(ANIMALS), label="dog" if n % 8 == 0 else "cat")
    assert predictor.notes[1] == (
        "The target 0.1 is out of reach: of 200 truths 25 (12.5%) could be in no set; raise at_most "
        "above 2, or bear more misses."
    )


def test_truths_out_of_reach_are_no_matter_up_to_alpha() -> None:
    predictor = Predictor(alpha=0.1)
    for n in range(200):
        predictor.learn(predictor.predict(ANIMALS), label="wolf" if n % 10 == 0 else "cat")
    assert predictor.unreachable == 20
    assert not any("out of reach" in note for note in predictor.notes)
    predictor.learn(predictor.predict(ANIMALS), label="wolf")
    assert any(
        "21 (10.4%) could be in no set; give more candidates" in note for note in predictor.notes
    )
