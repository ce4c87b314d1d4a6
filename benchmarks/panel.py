"""A panel of thousands of series in one call: rows a second of CPU, at once and one by one.

    python benchmarks/panel.py [--series 2000] [--rows 30]

"At once" is what ``add_intervals`` does; "one by one" plays the same rounds through ``predict`` and
``learn``. Both give the same intervals, which is checked. A first call, of a few series, compiles.
"""

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

import keyhole
from keyhole.integrations.frames import SeriesPredictors


def make_panel(series: int, rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    forecast = rng.normal(100, 10, size=series * rows)
    spread = np.repeat(np.exp(rng.normal(size=series)), rows)
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{number}" for number in range(series)], rows),
            "ds": np.tile(pd.date_range("2026-01-01", periods=rows), series),
            "M": forecast,
            "y": forecast + spread * rng.normal(size=forecast.size),
        }
    )


def play(table: pd.DataFrame, options: dict[str, Any], *, at_once: bool) -> tuple[pd.DataFrame, float]:
    whole: Any = keyhole.Predictor._play  # noqa: SLF001
    if not at_once:
        keyhole.Predictor._play = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001
    try:
        began = time.process_time()
        added = SeriesPredictors(alpha=0.1, seed=1, **options).add_intervals(table, "M")
        return added, time.process_time() - began
    finally:
        keyhole.Predictor._play = whole  # type: ignore[method-assign]  # noqa: SLF001


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=30)
    given = parser.parse_args()
    table, few = make_panel(given.series, given.rows), make_panel(5, given.rows)
    print(f"{'':<14} {'one by one':>12} {'at once':>12}   rows a second of CPU")
    for name, options in {"default": {}, "features=None": {"features": None}}.items():
        shown, rates = [], []
        for at_once in (False, True):
            play(few, options, at_once=at_once)
            added, seconds = play(table, options, at_once=at_once)
            shown.append(added)
            rates.append(len(table) / seconds)
        pd.testing.assert_frame_equal(*shown, check_exact=True)
        print(f"{name:<14} {rates[0]:>12,.0f} {rates[1]:>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
