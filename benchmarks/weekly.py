"""Weekly panels whose outcomes come 1 to 4 weeks late and are revised: how wide intervals are.

    python benchmarks/weekly.py [--series 100] [--weeks 104] [--seeds 3]

Sales of many products, each with its own spread; the forecast is the season. The outcome of a week is
told 1 to 4 weeks later, by product, from incomplete books: 0 to 15 % of it are missing, and are booked
in two revisions, one and three weeks later, which ``amend`` takes. The width is compared with
hindsight's: of each product the narrowest fixed width around its forecasts that misses a tenth of the
final outcomes. The whole line, which is shown until anything is known, is counted apart. ``missed`` is
of final outcomes. The last row is a logit tracker for each series, as the default of 0.2 was.
"""

import argparse
from typing import Any

import numpy as np
import pandas as pd

from keyhole.integrations.frames import SeriesPredictors

ALPHA = 0.1
ROWS: dict[str, dict[str, Any]] = {
    "default": {},
    "features=None": {"features": None},
    "features=None, pool=False": {"features": None, "pool": False},
    "logit-tracker, pool=False": {"learner": "logit-tracker", "pool": False},
}


def make_panel(series: int, weeks: int, seed: int) -> pd.DataFrame:
    """Return a row for each product and week: forecast, final outcome, two earlier ones, and lag."""
    rng = np.random.default_rng(seed)
    ids, number = np.repeat(np.arange(series), weeks), np.tile(np.arange(weeks), series)
    level = np.repeat(np.exp(rng.normal(4.0, 1.0, size=series)), weeks)
    forecast = level * (1.0 + 0.3 * np.sin(2 * np.pi * number / 52))
    spread = np.repeat(rng.uniform(0.05, 0.3, size=series), weeks)
    final = forecast * np.exp(spread * rng.standard_t(5, size=ids.size))
    open_books = rng.uniform(0.0, 0.15, size=ids.size)
    return pd.DataFrame(
        {
            "unique_id": ids,
            "week": number,
            "ds": pd.Timestamp("2024-01-01") + pd.to_timedelta(7 * number, unit="D"),
            "Season": forecast,
            "first": final * (1.0 - open_books),
            "second": final * (1.0 - open_books / 3.0),
            "final": final,
            "lag": np.repeat(rng.integers(1, 5, size=series), weeks),
        }
    )


def play(panel: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """Return the panel with its intervals, as week after week would have brought them."""
    predictors = SeriesPredictors(alpha=ALPHA, seed=1, amend_limit=100, **options)
    due = {"first": panel["lag"], "second": panel["lag"] + 1, "final": panel["lag"] + 3}
    shown = []
    for week in range(panel["week"].max() + 1):
        for version, after in due.items():
            told = panel[panel["week"] + after == week].assign(y=lambda rows, v=version: rows[v])
            if len(told):
                tell = predictors.learn if version == "first" else predictors.amend
                tell(told[["unique_id", "ds", "y"]])
        now = panel[panel["week"] == week]
        shown.append(predictors.add_intervals(now[["unique_id", "ds", "Season"]], "Season"))
    added = pd.concat(shown)[["unique_id", "ds", "Season-lo-90", "Season-hi-90"]]
    return panel.merge(added, on=["unique_id", "ds"])


def judge(played: pd.DataFrame) -> dict[str, float]:
    lower, upper = played["Season-lo-90"], played["Season-hi-90"]
    off = (played["final"] - played["Season"]).abs()
    best = 2.0 * off.groupby(played["unique_id"]).quantile(1 - ALPHA)
    bounded = np.isfinite(upper - lower)
    widths = ((upper - lower) / played["unique_id"].map(best))[bounded]
    year = played["week"][bounded] >= 26
    return {
        "missed": float(((played["final"] < lower) | (played["final"] > upper)).mean()),
        "endless": float(1 - bounded.mean()),
        "width": float(widths.mean()),
        "width later": float(widths[year].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--weeks", type=int, default=104)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print(f"{'':<26} {'missed':>7} {'endless':>8} {'width / best':>13} {'after week 26':>14}")
    for name, options in ROWS.items():
        runs = [
            judge(play(make_panel(given.series, given.weeks, seed), options))
            for seed in range(given.seeds)
        ]
        mean = {figure: np.mean([run[figure] for run in runs]) for figure in runs[0]}
        print(
            f"{name:<26} {mean['missed']:>7.3f} {mean['endless']:>8.3f} {mean['width']:>13.2f} "
            f"{mean['width later']:>14.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
