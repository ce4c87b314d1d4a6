"""What a table knows of its rows by itself."""

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from keyhole.integrations._forecasts import Cells, Forecasts, find_known
from keyhole.integrations._forecasts import read_known as read_columns

MONDAY = datetime(2026, 1, 5, 6, 30)


def find(times: list[Any], cutoffs: list[Any] | None = None, models: int = 1) -> tuple[str, ...]:
    forecasts = {f"M{n}": [1.0 + n] * len(times) for n in range(models)}
    return find_known(times, cutoffs or [None] * len(times), forecasts)


def read_known(
    names: tuple[str, ...], model: str, times: list[Any], cutoffs: list[Any], forecasts: Forecasts
) -> dict[str, list[Any]]:
    rows = np.arange(len(times))
    columns = read_columns(names, model, Cells(times, rows), Cells(cutoffs, rows), forecasts)
    return {name: [None if one != one else one for one in column] for name, column in columns.items()}


@pytest.mark.parametrize(
    ("times", "known"),
    [
        ([], ()),
        ([1, 2, 3], ()),
        ([MONDAY, 7], ()),
        ([date(2026, 1, 5)], ("weekday", "forecast")),  # a table of one day
        ([date(2026, 1, 5), date(2026, 1, 12)], ("forecast",)),  # all on Mondays
        ([date(2026, 1, 5), date(2026, 1, 6)], ("weekday", "forecast")),
        ([MONDAY, MONDAY + timedelta(days=7)], ("hour", "forecast")),
        ([datetime(2026, 1, 5), datetime(2026, 1, 12, 0, 15)], ("hour", "forecast")),
        ([date(2025, 1, 6), date(2026, 1, 5)], ("month", "forecast")),
        ([date(2025, 2, 3), date(2026, 1, 5)], ("forecast",)),  # eleven months
        ([date(2025, 12, 1), date(2026, 1, 5)], ("forecast",)),
        ([MONDAY, MONDAY + timedelta(days=371)], ("hour", "forecast")),  # too slow for hours
    ],
)
def test_features_are_what_varies(times: list[Any], known: tuple[str, ...]) -> None:
    assert find(times) == known


def test_the_step_ahead_counts_where_there_are_several_and_the_spread_with_two_models() -> None:
    mondays = [MONDAY.date(), MONDAY.date() + timedelta(days=7)]
    days = [timedelta(days=1), timedelta(days=2)]
    once = [time - days[0] for time in mondays]
    twice = [time - step for time, step in zip(mondays, days, strict=True)]
    assert find(mondays, once) == ("forecast",)
    assert find(mondays, twice) == ("horizon", "forecast")
    assert find(mondays, twice, models=2) == ("horizon", "forecast", "spread")
    assert find(mondays, [once[0], None]) == ("horizon", "forecast")


def test_each_row_has_its_own_numbers() -> None:
    times = [MONDAY, datetime(2026, 3, 7, 23, 45)]
    cutoffs = [MONDAY - timedelta(hours=1), None]
    forecasts: Forecasts = {"A": [1, 5], "B": [4.5, 2.0], "C": [2.0, 3.0]}
    names = ("hour", "weekday", "month", "horizon", "forecast", "spread")
    assert read_known(names, "B", times, cutoffs, forecasts) == {
        "hour": [6.5, 23.75],
        "weekday": [0, 5],
        "month": [1, 3],
        "horizon": [3600.0, None],
        "forecast": [4.5, 2.0],
        "spread": [3.5, 3.0],
    }


def test_only_what_is_asked_for_and_known_is_there() -> None:
    day = [date(2026, 3, 7)]
    assert read_known(("hour", "load"), "A", day, [None], {"A": [1.0]}) == {"hour": [0.0]}
    assert read_known(("forecast", "spread"), "Z", day, [None], {"A": [1.0]}) == {}
    assert read_known(("horizon",), "A", [7], [4], {"A": [1.0]}) == {"horizon": [3.0]}
    assert read_known(("spread",), "A", day, [None], {"A": [1.0], "B": [3.0]}) == {"spread": [2.0]}
