"""What a rule of one's own chooses is a number, or it is told that it is not."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, LEARNERS, Gate, Predictor, simulate
from keyhole.errors import InvalidError
from keyhole.learners import find
from keyhole.simulation import Channel

SCORES = np.random.default_rng(5).beta(6, 2, 20)


def choose_nan(_settings: Any, _state: Any, _memo: Any, _ask: Any) -> float:
    return math.nan


def choose_text(_settings: Any, _state: Any, _memo: Any, _ask: Any) -> Any:
    return "high"


def choose_nothing(_settings: Any, _state: Any, _memo: Any, _ask: Any) -> Any:
    return None


@pytest.mark.parametrize("name", ["kt", "gate-tracker", "ocp-unlock+"])  # light, a gate's, over a grid
@pytest.mark.parametrize(
    ("choose", "value"), [(choose_nan, "nan"), (choose_text, "'high'"), (choose_nothing, "None")]
)
@pytest.mark.filterwarnings("ignore::keyhole.errors.SpeedWarning")  # text is nothing for numba
def test_a_threshold_that_is_no_number_is_named_with_its_rule(
    name: str, choose: Any, value: str
) -> None:
    rule = dataclasses.replace(find(name), name="mine", choose=choose)
    holder: Any = Gate(rule(alpha=0.1)) if rule.kind.name == "gate" else Predictor(rule(alpha=0.1))
    ask = holder.decide if rule.kind.name == "gate" else holder.predict
    with pytest.raises(InvalidError, match=f"mine chose {value}, which is not a threshold"):
        ask({"cat": 0.7, "dog": 0.3})
    assert holder.open_rounds == 0


@pytest.mark.parametrize(("choose", "value"), [(choose_nan, "nan"), (choose_text, "'high'")])
@pytest.mark.filterwarnings("ignore::keyhole.errors.SpeedWarning")
def test_a_threshold_that_is_no_number_is_named_in_simulations(choose: Any, value: str) -> None:
    learner = dataclasses.replace(LEARNERS["kt"], name="mine", choose=choose)(alpha=0.1)
    with pytest.raises(InvalidError, match=f"mine chose {value}"):
        simulate(learner, SCORES)
    with pytest.raises(InvalidError, match=f"mine chose {value}"):
        simulate(learner, SCORES, channel=Channel(delay=2))


def choose_nan_later(_settings: Any, state: Any, _memo: Any, _ask: Any) -> float:
    return math.nan if state.rounds[0] > 2 else 0.5


def test_a_threshold_that_is_nan_only_later_is_named_too() -> None:
    learner = dataclasses.replace(LEARNERS["logit-tracker"], name="mine", choose=choose_nan_later)(
        alpha=0.1
    )
    with pytest.raises(InvalidError, match="mine chose nan"):
        simulate(learner, SCORES)
    table = np.array([[0.7, 0.3], [0.5, 0.5]])
    predictor: Predictor[Any] = Predictor(learner)
    for _ in range(3):
        predictor.learn(predictor.predict([0.7, 0.3]), HIT)
    with pytest.raises(InvalidError, match="mine chose nan"):
        predictor.predict_batch(table)
    with pytest.raises(InvalidError, match="mine chose nan"):
        predictor.predict([0.7, 0.3])
