"""Intervals: what a new stream misses whose answers come in batches, and day-ahead prices.

Residuals are normal, Laplace or Student's with three degrees of freedom, at alpha 0.1; widths are over
the right one. Day-ahead prices need the file hourly_prices.npz, of ``hour``, ``price`` and two
forecasts, here or in ../shared/data.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

import keyhole
from keyhole.numeric import Array

ALPHA = 0.1
LEARNERS = ("logit-tracker", "informed-tracker")
BATCHES = (10, 24, 100, 168)
DAY, WINDOW = 24, 1_000
PRICES = "hourly_prices.npz"
NOISES: dict[str, tuple[Callable[[np.random.Generator, int], Array], float]] = {
    "normal": (lambda rng, count: rng.normal(size=count), 2 * 1.6449),
    "Laplace": (lambda rng, count: rng.laplace(size=count), 2 * math.log(10.0)),
    "Student's, 3": (lambda rng, count: rng.standard_t(3, size=count), 2 * 2.3534),
}


def play_batches(learner: str, truths: Array, size: int) -> tuple[Array, Array]:
    """Return of each round whether it missed, and its width, if it is answered with its batch."""
    predictor = keyhole.Predictor(learner, alpha=ALPHA, score=keyhole.ScaledResiduals())
    missed, widths = [], []
    for batch in truths.reshape(-1, size):
        shown = predictor.predict_batch([0.0] * size)
        predictor.learn_batch(shown, batch.tolist())
        missed += [truth not in one for truth, one in zip(batch.tolist(), shown, strict=True)]
        widths += [one.width for one in shown]
    return np.array(missed, dtype=float), np.array(widths)


def print_batches(runs: int) -> None:
    print("missed in the second / third / fourth batch, width of the second over the right one\n")
    print(f"{'residuals':<14}{'batch':>6}  " + "".join(f"{name:<28}" for name in LEARNERS))
    for name, (draw, right) in NOISES.items():
        for size in BATCHES:
            cells = []
            for learner in LEARNERS:
                played = [
                    play_batches(learner, draw(np.random.default_rng(seed), 4 * size), size)
                    for seed in range(runs)
                ]
                missed, widths = (np.mean(column, axis=0) for column in zip(*played, strict=True))
                rates = missed.reshape(4, size).mean(axis=1)[1:]
                second = widths[size : 2 * size].mean() / right
                cells.append(f"{' / '.join(f'{rate:.3f}' for rate in rates)}, {second:.2f}")
            print(f"{name:<14}{size:>6}  " + "".join(f"{cell:<28}" for cell in cells), flush=True)


def find_prices() -> Path | None:
    places = (Path(), Path(__file__).parents[2] / "shared" / "data")
    return next((place / PRICES for place in places if (place / PRICES).exists()), None)


def play_prices(learner: str, forecasts: Array, prices: Array) -> str:
    """Return miss rate, worst window and interval score over the best fixed width, after a week."""
    predictor = keyhole.Predictor(
        learner, alpha=ALPHA, score=keyhole.ScaledResiduals(), feedback="full"
    )
    ends = []
    for begin in range(0, prices.size, DAY):
        day = slice(begin, begin + DAY)
        shown = predictor.predict_batch(forecasts[day].tolist())
        predictor.learn_batch(shown, prices[day].tolist())
        ends += [(one.lower, one.upper) for one in shown]
    lower, upper = np.array(ends)[7 * DAY :].T
    truths, centres = prices[7 * DAY :], forecasts[7 * DAY :]
    missed = (truths < lower) | (truths > upper)
    beyond = np.maximum(lower - truths, 0.0) + np.maximum(truths - upper, 0.0)
    score = float(np.mean(upper - lower + 2.0 / ALPHA * beyond))
    errors = np.abs(truths - centres)
    best = min(
        float(np.mean(2.0 * half + 2.0 / ALPHA * np.maximum(errors - half, 0.0)))
        for half in np.quantile(errors, np.linspace(0.7, 0.98, 57))
    )
    sums = np.cumsum(np.concatenate(([0.0], missed)))
    rates = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    return f"{missed.mean():.3f} / {np.abs(rates - ALPHA).max():.3f} / {score / best:.3f}"


def print_prices(*, quick: bool) -> None:
    path = find_prices()
    if path is None:
        print(f"\nday-ahead prices: there is no {PRICES}")
        return
    print("\nday-ahead prices, 24 at a time, the truth always told: missed / worst |window of 1,000 -")
    print("alpha| / interval score over that of the best fixed width\n")
    held = np.load(path)
    count = DAY * (140 if quick else held["price"].size // DAY)
    learners = (*LEARNERS, "pi")
    print(f"{'forecast':<12}" + "".join(f"{name:<28}" for name in learners))
    for model in ("linear", "network"):
        cells = [play_prices(one, held[model][:count], held["price"][:count]) for one in learners]
        print(f"{model:<12}" + "".join(f"{cell:<28}" for cell in cells), flush=True)


def print_tables(*, quick: bool) -> None:
    print_batches(3 if quick else 50)
    print_prices(quick=quick)
