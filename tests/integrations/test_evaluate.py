"""Figures of intervals, whoever made them, against plain sums."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from keyhole.errors import InvalidError
from keyhole.integrations.frames import evaluate


def make_table(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    time = rng.permutation(rows)
    return pd.DataFrame(
        {
            "unique_id": rng.choice(["b", "a", "c"], rows),
            "shop": rng.choice([10, 9], rows),
            "ds": time,
            "cutoff": time - rng.choice([10, 2, 1], rows),
            "y": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "M-lo-80": np.where(rng.random(rows) < 0.1, -np.inf, rng.normal(-1.0, 0.3, rows)),
            "M-hi-80": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(1.0, 0.3, rows)),
            "M-lo-97.5": -2.0,
            "M-hi-97.5": 2.0,
            "N-x-lo-50": -0.5,
            "N-x-hi-50": 0.5,
            "O-lo-50": 0.0,  # without its other end
            "P-lo-high": 0.0,
            "P-hi-high": 0.0,
        }
    )


def figure(rows: pd.DataFrame, model: str, level: str, window: int) -> dict[str, Any]:
    """Every figure as its definition has it, one row after the other."""
    alpha = 1.0 - float(level) / 100.0
    missed, widths, scores, endless = [], [], [], 0
    for _, row in rows.sort_values("ds").iterrows():
        low, high, y = row[f"{model}-lo-{level}"], row[f"{model}-hi-{level}"], row["y"]
        if np.isnan([low, high, y]).any():
            continue
        missed.append(not low <= y <= high)
        if np.isinf(high - low):
            endless += 1
            continue
        widths.append(high - low)
        outside = max(low - y, y - high, 0.0)
        scores.append(high - low + 2.0 / alpha * outside)
    windows = [missed[n : n + window] for n in range(len(missed) - window + 1)]
    return {
        "rows": len(missed),
        "coverage": 1.0 - np.mean(missed),
        "width": np.mean(widths) if widths else np.nan,
        "interval_score": np.mean(scores) if scores else np.nan,
        "unbounded": endless / len(missed),
        "worst_window": max((abs(np.mean(one) - alpha) for one in windows), default=np.nan),
    }


@pytest.mark.parametrize("window", [1, 7, 60])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_every_figure_is_its_definition(window: int, kind: str) -> None:
    table = make_table()
    given: Any = pl.from_pandas(table) if kind == "polars" else table
    found = evaluate(given, window=window)
    found = found.to_dicts() if kind == "polars" else found.to_dict("records")
    pairs = [("M", "80"), ("M", "97.5"), ("N-x", "50")]
    assert [(row.pop("model"), row.pop("level")) for row in found] == [
        (model, float(level)) for model, level in pairs
    ]
    for row, pair in zip(found, pairs, strict=True):
        assert row == pytest.approx(figure(table, *pair, window), nan_ok=True)


def test_series_and_steps_are_told_apart_in_their_own_order() -> None:
    table = make_table()
    found = evaluate(
        table, models=["N-x"], by=["series", "horizon"], window=3, series=["unique_id", "shop"]
    )
    steps = table.assign(horizon=table["ds"] - table["cutoff"])
    cells = [(name, shop, step) for name in "abc" for shop in (9, 10) for step in (1, 2, 10)]
    assert [*zip(found["unique_id"], found["shop"], found["horizon"], strict=True)] == cells
    names = ["unique_id", "shop", "horizon"]
    for row, cell in zip(found.to_dict("records"), cells, strict=True):
        rows = steps[(steps[names] == list(cell)).all(axis=1)]
        expected = figure(rows, "N-x", "50", 3)
        assert {name: row[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_without_an_outcome_there_are_no_figures() -> None:
    (row,) = evaluate(make_table().assign(y=None), models=["N-x"]).to_dict("records")
    assert row["rows"] == 0
    assert np.isnan([row["coverage"], row["width"], row["unbounded"], row["worst_window"]]).all()


def test_numbers_come_before_names_where_series_are_both() -> None:
    table = make_table(4).assign(unique_id=["b", 10, "a", 9], y=0.0)
    found = evaluate(table, models=["N-x"], by=["series"])
    assert found["unique_id"].tolist() == [9, 10, "a", "b"]


@pytest.mark.parametrize(
    ("change", "options", "fault"),
    [
        ({"y": "much"}, {}, "the column 'y' holds what is no number"),
        ({}, {"window": 0}, "window 0"),
        ({}, {"window": 1.5}, "window 1.5"),
        ({}, {"models": ["O"]}, "no columns O-lo-... and O-hi-..."),
        ({}, {"by": ["horizon", "day"]}, "by .*'day'.* is unknown"),
    ],
)
def test_what_cannot_be_measured_is_named(change: Any, options: Any, fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        evaluate(make_table().assign(**change), **options)
