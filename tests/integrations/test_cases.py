"""Cases and answers as adapters read them from tables."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from keyhole import Predictor
from keyhole.errors import FeedbackError, InvalidError
from keyhole.integrations._cases import learn_rows, read_case, read_context, start_predictor
from keyhole.scores import Probabilities


@dataclass
class Adapter:
    """What the adapters of other libraries have in common."""

    features: Any = None
    groups: Any = None
    alpha: float = 0.2
    learner: Any = None
    feedback: str = "semi-bandit"
    history: int = 0
    kind: Any = field(default_factory=Probabilities)


def test_a_predictor_has_every_parameter_of_its_adapter() -> None:
    adapter = Adapter(features=["load", 3], groups=[np.int64(0)], history=5, feedback="full")
    made = start_predictor(adapter, adapter.kind, seed=4)
    assert (made.alpha, made.seed, made.setup.feedback.value) == (0.2, 4, "full")
    assert made.setup.names.features == ("load", "x3")
    assert made.setup.names.groups == ("x0",)
    assert made.history()["round"].size == 0
    ready = Predictor(alpha=0.3).learner
    assert start_predictor(Adapter(learner=ready), adapter.kind, seed=4).alpha == 0.3


def test_rounds_without_an_answer_stay_open_and_the_others_get_their_own() -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.2, seed=1)
    shown = [predictor.predict([0.6, 0.4]) for _ in range(4)]
    learn_rows(predictor, iter(shown), np.array([0, np.nan, 1, np.nan], dtype=object))
    assert (predictor.rounds, predictor.open_rounds) == (2, 2)
    for number in (1, 3):
        predictor.skip(number)
    with pytest.raises(FeedbackError, match="1 answers came for 4 predictions"):
        learn_rows(predictor, shown, [0])


@pytest.mark.parametrize("named", [True, False])
def test_features_and_groups_are_columns_by_name_or_by_number(*, named: bool) -> None:
    cells = np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 1.0], [3.0, 0.0, 0.0]])
    table = pd.DataFrame(cells, columns=["load", "late", "new"]) if named else cells
    adapter = Adapter(*((["load"], ["late", "new"]) if named else ([0], [1, 2])))
    known = read_context(adapter, table, features=None, groups=None)
    assert known["features"].tolist() == [[1.0], [2.0], [3.0]]
    assert known["groups"] == [[1], [0, 1], []]
    beside = read_context(adapter, table, features="theirs", groups="given")
    assert beside == {"features": "theirs", "groups": "given"}
    assert read_context(Adapter(), table, features=None, groups=None) == {
        "features": None,
        "groups": None,
    }


@pytest.mark.parametrize(
    ("table", "column", "fault"),
    [
        (pd.DataFrame({"a": [1.0]}), "b", "the table has no column 'b'; give features="),
        (pd.DataFrame({"a": [1.0]}), 0, "the table has no column 0"),
        (np.ones((2, 3)), 3, "a table of 3 columns without names has no column 3"),
        (np.ones((2, 3)), -1, "has no column -1"),
        (np.ones((2, 3)), "a", "without names has no column 'a'"),
    ],
)
def test_a_column_that_is_not_there_is_named(table: Any, column: Any, fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        read_context(Adapter(features=[column]), table, features=None, groups=None)


def test_of_one_case_only_what_the_adapter_names_is_read() -> None:
    x = {"load": 2.0, "late": True, "new": 0, "more": 7}
    assert read_case(Adapter(features=["load", "none"]), x) == {"features": {"load": 2.0, "none": None}}
    assert read_case(Adapter(groups=["late", "new", "none"]), x) == {"groups": ["late"]}
    assert read_case(Adapter(features=(), groups=()), x) == {}
