"""Cells of a table that hold nothing leave their rounds open and their rows in no group."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from keyhole.checks import is_missing
from keyhole.errors import InvalidError
from keyhole.integrations._cases import read_case, read_context
from keyhole.integrations.sklearn import IntervalRegressor, SetClassifier

X = np.arange(20.0)[:, None]


@pytest.mark.parametrize("value", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_what_holds_nothing_is_missing(value: Any) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", "nan", False, np.array([1.0, np.nan]), ["a"]])
def test_what_holds_something_is_not(value: Any) -> None:
    assert not is_missing(value)


def test_an_interval_whose_outcome_is_nan_stays_open() -> None:
    model = IntervalRegressor(Ridge(), alpha=0.2).fit(X, X[:, 0])
    model.learn(model.predict_interval(X[:3]), pd.Series([1.0, None, 2.0]))
    assert (model.predictor_.rounds, model.predictor_.open_rounds) == (2, 1)


def test_a_set_whose_label_is_nan_stays_open() -> None:
    model = SetClassifier(LogisticRegression(), alpha=0.2).fit(X, X[:, 0] > 9)
    model.learn(model.predict_set(X[:3]), pd.Series([True, np.nan, False], dtype=object))
    assert (model.predictor_.rounds, model.predictor_.open_rounds) == (2, 1)


def _grouped(flags: Any) -> Any:
    table = pd.DataFrame({"x": X[:, 0], "late": flags})
    model = IntervalRegressor(Ridge(), alpha=0.2, groups=["late"])
    model.fit(table[["x"]].assign(late=0.0), X[:, 0])
    model.learn(model.predict_interval(table), X[:, 0])
    return model.predictor_.groups["late"].rounds


@pytest.mark.parametrize("flags", [[True, False] * 10, [1, 0] * 10, [1.0, 0.0] * 10])
def test_a_group_is_said_by_true_or_false_or_one_or_nought(flags: Any) -> None:
    assert _grouped(flags) == 10


@pytest.mark.parametrize("cell", ["yes", "True", 2, 0.5])
def test_a_group_that_is_said_otherwise_is_refused_not_left_empty(cell: Any) -> None:
    wrapper = IntervalRegressor(Ridge(), groups=["late"])
    with pytest.raises(InvalidError, match="say by true or false, or 1 or 0"):
        read_case(wrapper, {"late": cell})
    with pytest.raises(InvalidError, match="say by true or false, or 1 or 0"):
        read_context(wrapper, pd.DataFrame({"late": [cell]}), features=None, groups=None)


def test_a_row_whose_group_is_na_is_in_none() -> None:
    flags = pd.DataFrame({"late": pd.array([True, None], dtype="boolean")})
    wrapper = IntervalRegressor(Ridge(), groups=["late"])
    known = read_context(wrapper, flags, features=None, groups=None)
    assert known["groups"] == [[0], []]
