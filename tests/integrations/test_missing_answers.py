"""Cells of a table that hold nothing leave their rounds open."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from keyhole.integrations._answers import is_missing
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
