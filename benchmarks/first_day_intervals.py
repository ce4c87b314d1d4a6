"""Intervals: what a new stream misses whose answers come in batches, and day-ahead prices.

Residuals are normal, Laplace or Student's with three degrees of freedom, normal about a forecast that
is ten standard deviations too low, or normal and rounded to whole numbers, at alpha 0.1; widths are
over the right one. The contextual tracker knows the place in the batch and a feature that tells
nothing; without features it is the informed tracker, bit for bit. Then bands and first guesses of a
scale, with outcomes that are told where the interval held them. Day-ahead prices need the file
hourly_prices.npz, of ``hour``, ``price`` and two forecasts, here or in ../shared/data.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import keyhole
from keyhole.numeric import Array

ALPHA = 0.1
CONTEXTUAL = "contextual-tracker"
LEARNERS = ("logit-tracker", "informed-tracker", CONTEXTUAL)
MAYBE_ENDLESS = (
    "informed-tracker", "logit-tracker", CONTEXTUAL, "pi", "self-scaled", "tracker", "agaci", "aci",
    "kt", "sf-ogd", "tracker-decaying",
)  # fmt: skip
BATCHES = (10, 24, 100, 168)
DAY, WINDOW = 24, 1_000
PRICES = "hourly_prices.npz"
NOISES: dict[str, tuple[Callable[[np.random.Generator, int], Array], float]] = {
    "normal": (lambda rng, count: rng.normal(size=count), 2 * 1.6449),
    "Laplace": (lambda rng, count: rng.laplace(size=count), 2 * math.log(10.0)),
    "Student's, 3": (lambda rng, count: rng.standard_t(3, size=count), 2 * 2.3534),
}
BATCHED = NOISES | {
    "biased by 10": (lambda rng, count: rng.normal(10.0, 1.0, count), 2 * 11.2816),
    "whole numbers": (lambda rng, count: rng.normal(size=count).round(), 2 * 2.0),
}
# What is given of normal errors: bands, or the scale of residuals, whose median is .67.
GIVEN: dict[str, tuple[Any, Any]] = {
    f"bands {word}": (keyhole.QuantileBands(), (-1.6449 * factor, 1.6449 * factor))
    for word, factor in (
        ("2 times too narrow", 0.5),
        ("that are right", 1.0),
        ("2 times too wide", 2.0),
    )
} | {
    f"a scale 10 times too {word}": (keyhole.ScaledResiduals(scale=0.6745 * factor), 0.0)
    for word, factor in (("small", 0.1), ("large", 10.0))
}
HEADING = (
    "missed in the second / third / fourth batch, width of the second / fourth over the right one\n"
)


def play_batches(learner: str, truths: Array, size: int) -> tuple[Array, Array]:
    """Return of each round whether it missed, and its width, if it is answered with its batch."""
    known = 2 if learner == CONTEXTUAL else None
    predictor = keyhole.Predictor(learner, alpha=ALPHA, score=keyhole.ScaledResiduals(), features=known)
    missed, widths, rng = [], [], np.random.default_rng(0)
    for batch in truths.reshape(-1, size):
        features: Array = np.column_stack((np.arange(size), rng.random(size))).astype(np.float64)
        shown = predictor.predict_batch([0.0] * size, features=features if known else None)
        predictor.learn_batch(shown, batch.tolist())
        missed += [truth not in one for truth, one in zip(batch.tolist(), shown, strict=True)]
        widths += [one.width for one in shown]
    return np.array(missed, dtype=float), np.array(widths)


def play_given(learner: str, given: tuple[Any, Any], truths: Array, size: int) -> tuple[Array, Array]:
    """Return the same for bands or a scale that are given, where a miss does not tell its outcome."""
    score, output = given
    predictor = keyhole.Predictor(learner, alpha=ALPHA, score=score)
    missed, widths = [], []
    for batch in truths.reshape(-1, size):
        shown = predictor.predict_batch([output] * size)
        for one, truth in zip(shown, batch.tolist(), strict=True):
            missed.append(truth not in one)
            widths.append(one.width)
            if missed[-1]:
                predictor.learn(one, keyhole.MISS)
            else:
                predictor.learn(one, label=truth)
    return np.array(missed, dtype=float), np.array(widths)


def describe(played: list[tuple[Array, Array]], size: int, right: float) -> str:
    missed, widths = (np.mean(column, axis=0) for column in zip(*played, strict=True))
    rates = missed.reshape(4, size).mean(axis=1)[1:]
    second, fourth = (widths.reshape(4, size).mean(axis=1) / right)[[1, 3]]
    return f"{' / '.join(f'{rate:.3f}' for rate in rates)}, {second:.2f} / {fourth:.2f}"


def print_batches(runs: int) -> None:
    print(HEADING)
    print(f"{'residuals':<14}{'batch':>6}  " + "".join(f"{name:<35}" for name in LEARNERS))
    for name, (draw, right) in BATCHED.items():
        for size in BATCHES:
            cells = []
            for learner in LEARNERS:
                played = [
                    play_batches(learner, draw(np.random.default_rng(seed), 4 * size), size)
                    for seed in range(runs)
                ]
                cells.append(describe(played, size, right))
            print(f"{name:<14}{size:>6}  " + "".join(f"{cell:<35}" for cell in cells), flush=True)


def print_given(runs: int) -> None:
    (draw, right), (before, now, _) = NOISES["normal"], LEARNERS
    print(f"\n{HEADING}\n{'given':<30}{'batch':>6}  {before:<35}{now:<35}")
    for name, given in GIVEN.items():
        for size in (24, 100):
            cells = []
            for learner in (before, now):
                played = [
                    play_given(learner, given, draw(np.random.default_rng(seed), 4 * size), size)
                    for seed in range(runs)
                ]
                cells.append(describe(played, size, right))
            print(f"{name:<30}{size:>6}  " + "".join(f"{cell:<35}" for cell in cells), flush=True)


def find_file(name: str) -> Path | None:
    places = (Path(), Path(__file__).parents[2] / "shared" / "data")
    return next((place / name for place in places if (place / name).exists()), None)


def play_prices(learner: str, forecasts: Array, prices: Array, features: Array) -> str:
    """Return miss rate, worst window and interval score over the best fixed width, after a week."""
    predictor = keyhole.Predictor(
        learner,
        alpha=ALPHA,
        score=keyhole.ScaledResiduals(),
        feedback="full",
        features=features.shape[1] or None,
    )
    ends = []
    for begin in range(0, prices.size, DAY):
        day = slice(begin, begin + DAY)
        known = features[day] if predictor.learner.features else None
        shown = predictor.predict_batch(forecasts[day].tolist(), features=known)
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
    path = find_file(PRICES)
    if path is None:
        print(f"\nday-ahead prices: there is no {PRICES}")
        return
    print("\nday-ahead prices, 24 at a time, the truth always told: missed / worst |window of 1,000 -")
    print(
        "alpha| / interval score over that of the best fixed width; the contextual tracker knows hour,"
    )
    print("weekday and the forecast, and then how far apart the two forecasts are, too\n")
    held = np.load(path)
    count = DAY * (140 if quick else held["price"].size // DAY)
    hours, prices = held["hour"][:count], held["price"][:count]
    learners = ("logit-tracker", "informed-tracker", "pi", CONTEXTUAL, CONTEXTUAL)
    names = (*learners[:3], "contextual, 3 features", "contextual, 4 features")
    print(f"{'forecast':<12}" + "".join(f"{name:<24}" for name in names))
    for model in ("linear", "network"):
        forecasts = held[model][:count]
        apart = np.abs(held["linear"] - held["network"])[:count]
        known = np.column_stack((hours % DAY, (hours // DAY + 3) % 7, forecasts, apart)).astype(float)
        cells = [
            play_prices(one, forecasts, prices, known[:, :columns])
            for one, columns in zip(learners, (0, 0, 0, 3, 4), strict=True)
        ]
        print(f"{model:<12}" + "".join(f"{cell:<24}" for cell in cells), flush=True)


def print_endless(*, quick: bool) -> None:
    """Print which share of the intervals of day-ahead prices is the whole line, after a week."""
    path = find_file(PRICES)
    if path is None:
        return
    held = np.load(path)
    count = DAY * (60 if quick else held["price"].size // DAY)
    print("\nshare of intervals that are the whole line\n")
    for learner in MAYBE_ENDLESS:
        predictor = keyhole.Predictor(
            learner, alpha=ALPHA, score=keyhole.ScaledResiduals(), feedback="full"
        )
        endless = []
        for begin in range(0, count, DAY):
            shown = predictor.predict_batch(held["linear"][begin : begin + DAY].tolist())
            predictor.learn_batch(shown, held["price"][begin : begin + DAY].tolist())
            endless += [math.isinf(one.width) for one in shown]
        print(f"{learner:<20}{np.mean(endless[7 * DAY :]):.3f}", flush=True)


def print_tables(*, quick: bool) -> None:
    print_batches(3 if quick else 50)
    print_given(3 if quick else 50)
    print_prices(quick=quick)
    print_endless(quick=quick)
