"""What is no list, no table and no snapshot is refused by name, with the remedy."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import Gate, Predictor, Probabilities, bounds, make, simulate
from keyhole.errors import (
    FeedbackError,
    InvalidError,
    KeyholeError,
    LabelError,
    ScoreError,
    SnapshotError,
)
from keyhole.scores import CustomScores
from keyhole.simulation import simulate_against

ROWS = [[0.7, 0.3], [0.6, 0.4]]
UNEVEN = [[1], [2, 3]]


def make_predictor() -> Predictor[Any]:
    return Predictor(alpha=0.1, history=10)


def make_gate(groups: Any = None) -> Gate:
    return Gate(alpha=0.1, groups=groups)


def plot_by_text() -> None:
    predictor = make_predictor()
    predictor.learn(predictor.predict([0.7]), label=0)
    predictor.plot(window="wide")  # type: ignore[arg-type]


def simulate_uneven() -> None:
    learner = make("contextual-tracker", alpha=0.1, options={"features": 1})
    simulate(learner, [0.5, 0.5], features=UNEVEN)


WRONG: list[tuple[Callable[[], object], type[KeyholeError], str]] = [
    (lambda: make_predictor().predict_batch(5), ScoreError, "outputs 5 are not a list; give"),  # type: ignore[arg-type]
    (lambda: make_predictor().predict_batch(np.array(0.5)), ScoreError, "are not a list; give"),
    (lambda: make_predictor().learn_batch(5, 5), FeedbackError, "5 is not a list of rounds; give"),  # type: ignore[arg-type]
    (lambda: make_predictor().learn_batch([], 5), FeedbackError, "5 is not a list of answers"),  # type: ignore[arg-type]
    (lambda: make_predictor().learn_batch(iter([]), []), FeedbackError, "is not a list of rounds"),  # type: ignore[arg-type]
    (lambda: make_predictor().calibrate(ROWS, 5), FeedbackError, "labels 5 are not a list; give"),  # type: ignore[arg-type]
    (lambda: make_predictor().calibrate(5, [0]), ScoreError, "outputs 5 are not a list; give"),  # type: ignore[arg-type]
    (lambda: Probabilities(labels=3), LabelError, "labels 3 are not a list; give each by its name"),  # type: ignore[arg-type]
    (lambda: CustomScores(max, 3), LabelError, "labels 3 are not a list; give each by its name"),  # type: ignore[arg-type]
    (lambda: make_gate(3), InvalidError, "give names instead of their number, 3"),
    (lambda: make_gate([[1]]), InvalidError, "[1] does not name one of the groups; use text"),
    (lambda: make_gate(["a", "a"]), InvalidError, "'a' is twice among the groups"),
    (lambda: make_gate(["a"]).decide(0.5, groups=3), InvalidError, "groups 3 are not a list; give [3]"),  # type: ignore[arg-type]
    (lambda: Predictor.restore("abc"), SnapshotError, "'abc' is not a snapshot, which is bytes"),  # type: ignore[arg-type]
    (lambda: Predictor.restore(None), SnapshotError, "restore what dump returned, or load a file"),  # type: ignore[arg-type]
    (lambda: Gate.restore(None), SnapshotError, "None is not a snapshot, which is bytes"),  # type: ignore[arg-type]
    (lambda: make("kt", alpha=0.1, options=5), InvalidError, "options 5 are not a dict; give {name:"),  # type: ignore[arg-type]
    (simulate_uneven, InvalidError, "features [[1], [2, 3]] are not a table of numbers; encode"),
    (lambda: simulate_against(make("kt", alpha=0.1), [1], rounds=5), InvalidError, "no adversary [1]"),  # type: ignore[arg-type]
    (lambda: bounds.doubling_factor("kt", rounds=5), InvalidError, "'kt' is not a learner; make one"),  # type: ignore[arg-type]
    (plot_by_text, InvalidError, "window 'wide' is not a number of rounds; try 100"),
]


@pytest.mark.parametrize(("ask", "error", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_what_is_of_the_wrong_kind_is_named_with_the_remedy(
    ask: Callable[[], object], error: type[KeyholeError], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        ask()


def test_a_gate_takes_none_for_no_groups_as_a_predictor_does() -> None:
    gate = make_gate(None)
    assert gate.groups == {}
    assert gate.decide(1.0, groups=None).accepted


def test_a_snapshot_may_come_as_any_bytes() -> None:
    dumped = Predictor(alpha=0.1).dump()
    assert Predictor.restore(memoryview(dumped)).alpha == 0.1  # type: ignore[arg-type]
