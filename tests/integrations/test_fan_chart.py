"""A series as a fan chart."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from keyhole.integrations.frames import SeriesPredictors


def make_table() -> pd.DataFrame:
    truths = np.random.default_rng(1).normal(size=12)
    return pd.DataFrame({"unique_id": "a", "ds": range(12), "M": 0.0, "y": truths})


def test_a_fan_is_darkest_inside_and_breaks_where_an_interval_is_endless() -> None:
    table = make_table().assign(low=-1.0, high=1.0)
    predictors = SeriesPredictors(alpha=[0.05, 0.1, 0.2], seed=7, features=None)
    added = predictors.add_intervals(table.sample(frac=1.0, random_state=1), ["M", ("low", "high")])
    figure, made = plt.subplots()
    given: Any = made
    axes = predictors.plot("a", "M", axes=given)
    assert axes is given
    bands, dots = axes.collections[:3], axes.collections[3:]
    assert [band.get_alpha() for band in bands] == pytest.approx([0.15, 0.3, 0.45])
    ends = added.sort_values("ds")[["M-lo-95", "M-hi-95"]].to_numpy()
    assert np.isinf(ends[0]).all()
    heights = bands[0].get_paths()[0].vertices[:, 1]
    assert (np.nanmin(heights), np.nanmax(heights)) == (ends[1:, 0].min(), ends[1:, 1].max())
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [*range(12)]
    told = np.concatenate([one.get_offsets() for one in dots])
    assert sorted(told[:, 0]) == [*range(12)]
    assert axes.get_title(loc="left") == "a"
    own = predictors.plot("a", "low-high", last=5)
    assert not own.lines  # two quantiles are no line
    assert sum(len(one.get_offsets()) for one in own.collections[3:]) == 5
    single = SeriesPredictors(alpha=0.1, seed=7, features=None)
    single.add_intervals(table, "M")
    assert single.plot("a", axes=given).collections[5].get_alpha() == pytest.approx(0.3)
    for one in (figure, own.figure):
        plt.close(one)
