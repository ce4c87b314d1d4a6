"""A series as a fan chart."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba

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
    assert [band.get_alpha() for band in bands] == pytest.approx([0.2, 0.35, 0.5])
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
    assert single.plot("a", axes=given).collections[5].get_alpha() == pytest.approx(0.35)
    for one in (figure, own.figure):
        plt.close(one)


def test_of_several_forecasts_of_one_time_the_last_that_was_made_is_drawn() -> None:
    rows = [(made + step, made, 10.0 * made) for made in range(6) for step in (3, 2, 1)]
    table = pd.DataFrame(rows, columns=["ds", "cutoff", "M"]).assign(unique_id="a")
    predictors = SeriesPredictors(alpha=0.1, seed=7)
    predictors.add_intervals(table.assign(y=table["ds"] + 0.5), "M")
    axes = predictors.plot("a")
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [*range(1, 9)]
    assert line.get_ydata().tolist() == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 50.0, 50.0]
    plt.close(axes.figure)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_outcomes_have_the_colour_of_text_and_narrow_axes_a_title_above_the_legend(style: str) -> None:
    predictors = SeriesPredictors(alpha=0.1, seed=7)
    predictors.add_intervals(make_table(), "M")
    with plt.style.context(style):
        tops = []
        for width in (8.0, 3.6):
            figure, made = plt.subplots(figsize=(width, 3.6), layout="constrained")
            given: Any = made
            axes = predictors.plot("a", axes=given)
            figure.canvas.draw()
            assert to_rgba(plt.rcParams["text.color"]) == tuple(axes.collections[1].get_facecolor()[0])
            title, legend = axes._left_title.get_window_extent(), axes.get_legend().get_window_extent()
            tops.append(title.y0 >= legend.y1)
            assert not title.overlaps(legend)
            plt.close(figure)
    assert tops == [False, True]
