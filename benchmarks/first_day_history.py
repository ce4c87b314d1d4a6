"""After n labels of history: split conformal by crepes, and ours calibrated by the same n.

Intervals of normal, Laplace and Student's residuals, and sets of eight vague classes whose
probabilities are right, at alpha 0.1. Split conformal stays as it is; ours is shown as the history left
it, for the same 500 rounds, and as it goes on to learn in them, from labels at once. It needs ``pip
install crepes``.
"""

import math
from importlib import import_module

import numpy as np

import keyhole
from first_day_intervals import NOISES
from first_day_sets import make_cases
from keyhole.numeric import Array, Counts

ALPHA, AFTER = 0.1, 500
HISTORIES = (5, 10, 20, 50, 100, 200)
LEARNER = "informed-tracker"
Row = tuple[float, ...]  # missed and size: of split conformal, of ours at first, of ours that learns


def find_half(residuals: Array, alpha: float) -> float:
    """Return half the width by crepes' split conformal regressor; endless below 1 / alpha residuals."""
    if residuals.size < 1.0 / alpha:
        return math.inf
    regressor = import_module("crepes").ConformalRegressor()
    regressor.fit(residuals)
    return float(regressor.predict_int(np.zeros(1), confidence=1.0 - alpha)[0, 1])


def play_intervals(history: Array, truths: Array) -> Row:
    half = find_half(history, ALPHA)
    predictor = keyhole.Predictor(LEARNER, alpha=ALPHA, score=keyhole.ScaledResiduals())
    predictor.calibrate([0.0] * history.size, history.tolist())
    missed, widths = [], []
    for truth in truths.tolist():
        shown = predictor.predict(0.0)
        predictor.learn(shown, label=truth)
        missed.append(truth not in shown)
        widths.append(shown.width)
    beyond = [float(np.mean(np.abs(truths) > one)) for one in (half, widths[0] / 2)]
    return beyond[0], 2 * half, beyond[1], widths[0], float(np.mean(missed)), float(np.mean(widths))


def play_sets(outputs: Array, labels: Counts, count: int) -> Row:
    true = outputs[np.arange(labels.size), labels]
    classifier = import_module("crepes").ConformalClassifier()
    classifier.fit(1.0 - true[:count])
    if count < 1.0 / ALPHA:
        held = np.ones_like(outputs[count:], dtype=bool)
    else:
        rest = 1.0 - outputs[count:]
        held = classifier.predict_set(rest, confidence=1.0 - ALPHA, smoothing=False) > 0
    predictor = keyhole.Predictor(LEARNER, alpha=ALPHA)
    predictor.calibrate(outputs[:count].tolist(), labels[:count].tolist())
    first = predictor.distribution.thresholds[0]
    missed, sizes = [], []
    for output, label in zip(outputs[count:].tolist(), labels[count:].tolist(), strict=True):
        shown = predictor.predict(output)
        predictor.learn(shown, label=label)
        missed.append(label not in shown)
        sizes.append(len(shown))
    right = held[np.arange(held.shape[0]), labels[count:]]
    return (
        float(np.mean(~right)), float(held.sum(axis=1).mean()), float(np.mean(true[count:] < first)),
        float((outputs[count:] >= first).sum(axis=1).mean()), float(np.mean(missed)),
        float(np.mean(sizes)),
    )  # fmt: skip


def print_row(name: str, count: int, rows: list[Row], right: float) -> None:
    cells = np.mean(rows, axis=0).reshape(3, 2)
    shown = [
        f"{miss:.3f}, {'endless' if math.isinf(size) else f'{size / right:.2f}'}"
        for miss, size in cells
    ]
    print(f"{name:<14}{count:>4}  " + "".join(f"{cell:<18}" for cell in shown), flush=True)


def print_tables(*, quick: bool) -> None:
    runs = range(3 if quick else 200)
    print("missed, width over the right one, or labels in a set\n")
    print(f"{'':<14}{'n':>4}  {'split conformal':<18}{'ours, first':<18}ours, learning")
    for name, (draw, right) in NOISES.items():
        for count in HISTORIES:
            rngs = map(np.random.default_rng, runs)
            rows = [play_intervals(draw(rng, count), draw(rng, AFTER)) for rng in rngs]
            print_row(name, count, rows, right)
    for count in HISTORIES:
        cases = [make_cases(seed, count + AFTER, 1.0) for seed in runs]
        print_row("eight classes", count, [play_sets(*case, count) for case in cases], 1.0)
