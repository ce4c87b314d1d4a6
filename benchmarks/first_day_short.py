"""Many short series: 50 of 20 points each, whose scales differ, asked and answered together.

Scales are log-normal (0.7), residuals normal, at alpha 0.1; widths are over those of one who knows the
scales. Split conformal, by crepes and by MAPIE (``pip install crepes mapie``), is fitted anew before
every step: to the series' own residuals, or to those of all.
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from first_day_history import HALVES, check_peers
from keyhole.integrations.frames import SeriesPredictors
from keyhole.numeric import Array

ALPHA, SERIES, STEPS = 0.1, 50, 20
RIGHT = 2 * 1.6449


def make_panel(seed: int) -> tuple[Array, Array]:
    """Return the scale of each series, and its residuals."""
    rng = np.random.default_rng(seed)
    scales = np.exp(0.7 * rng.normal(size=SERIES))
    return scales, rng.normal(size=(SERIES, STEPS)) * scales[:, None]


def play_ours(residuals: Array, *, pool: bool) -> Array:
    """Return half the widths that ``SeriesPredictors`` shows."""
    series, time = np.repeat(np.arange(SERIES), STEPS), np.tile(np.arange(STEPS), SERIES)
    table = pd.DataFrame({"unique_id": series, "ds": time, "M": 0.0, "y": residuals.ravel()})
    added = SeriesPredictors(alpha=ALPHA, seed=0, pool=pool).add_intervals(table, "M")
    halves: Array = added["M-hi-90"].to_numpy().reshape(SERIES, STEPS)
    return halves


def play_split(peer: str, residuals: Array, *, pool: bool) -> Array:
    """Return half the widths of split conformal, fitted to the steps before."""
    find_half, halves = HALVES[peer], np.full((SERIES, STEPS), np.inf)
    for step in range(1, STEPS):
        if pool:
            halves[:, step] = find_half(residuals[:, :step].ravel(), ALPHA)
        else:
            halves[:, step] = [find_half(own, ALPHA) for own in residuals[:, :step]]
    return halves


WAYS: dict[str, Callable[[Array], Array]] = {
    "SeriesPredictors": lambda residuals: play_ours(residuals, pool=True),
    "SeriesPredictors(pool=False)": lambda residuals: play_ours(residuals, pool=False),
    **{
        f"{peer}, {name}": partial(play_split, peer, pool=pool)
        for peer in HALVES
        for name, pool in (("each alone", False), ("all as one", True))
    },
}


def print_tables(*, quick: bool) -> None:
    check_peers()
    print(
        "of the finite intervals after the first step: missed, in steps 2 to 6, in the five series of"
    )
    print("the smallest and the largest scale, mean width; share that is endless\n")
    head = ("missed", "steps 2-6", "smallest", "largest", "width", "endless")
    print(f"{'':<30}" + "".join(f"{name:>11}" for name in head))
    for name, play in WAYS.items():
        rows = []
        for seed in range(2 if quick else 50):
            scales, residuals = make_panel(seed)
            halves = play(residuals)[:, 1:]
            finite = np.isfinite(halves)
            missed = np.where(finite, np.abs(residuals[:, 1:]) > halves, np.nan)
            widths = np.where(finite, 2 * halves / (RIGHT * scales[:, None]), np.nan)
            order = np.argsort(scales)
            parts = (missed, missed[:, :5], missed[order[:5]], missed[order[-5:]], widths)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # where all are endless there is no mean
                rows.append([*(np.nanmean(part) for part in parts), np.mean(~finite)])
        print(f"{name:<30}" + "".join(f"{one:>11.3f}" for one in np.mean(rows, axis=0)), flush=True)
