"""After n labels of history: split conformal by crepes and by MAPIE, and ours calibrated by the same n.

Intervals of normal, Laplace and Student's residuals, and sets of eight vague classes whose
probabilities are right, at alpha 0.1. Split conformal stays as it is; ours is shown as the history left
it, for the same 500 rounds, and as it goes on to learn in them, from labels at once. It needs ``pip
install crepes mapie``.
"""

import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import keyhole
from first_day_intervals import NOISES
from first_day_sets import make_cases
from keyhole.numeric import Array, Counts

ALPHA, AFTER = 0.1, 500
HISTORIES = (5, 10, 20, 50, 100, 200)
LEARNER = "informed-tracker"
Row = list[float]  # missed and size: of crepes, of MAPIE, of ours at first, of ours that learns


def check_peers() -> None:
    """Leave unless there is something to compare with."""
    if missing := [name for name in ("crepes", "mapie") if find_spec(name) is None]:
        sys.exit(f"this compares with crepes and mapie; pip install {' '.join(missing)}")


class Zero(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that always predicts 0, so that truths are residuals."""

    fitted_ = True

    def fit(self, _cases: Array, _truths: Array) -> "Zero":
        return self

    def predict(self, cases: Array) -> Array:
        return np.zeros(len(cases))


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model whose cases are their probabilities."""

    fitted_, classes_ = True, np.arange(8)

    def fit(self, _cases: Array, _labels: Counts) -> "Given":
        return self

    def predict_proba(self, cases: Array) -> Array:
        return cases

    def predict(self, cases: Array) -> Counts:
        return cases.argmax(axis=1)


def find_crepes_half(residuals: Array, alpha: float) -> float:
    """Return half the width of split conformal; endless below 1 / alpha residuals."""
    regressor = import_module("crepes").ConformalRegressor()
    regressor.fit(residuals)
    return float(regressor.predict_int(np.zeros(1), confidence=1.0 - alpha)[0, 1])


def find_mapie_half(residuals: Array, alpha: float) -> float:
    make = import_module("mapie.regression").SplitConformalRegressor
    regressor = make(Zero(), confidence_level=1.0 - alpha, prefit=True)
    regressor.conformalize(np.zeros((residuals.size, 1)), residuals)
    return float(regressor.predict_interval(np.zeros((1, 1)))[1][0, 1, 0])


def find_half(peer: Callable[[Array, float], float], residuals: Array, alpha: float) -> float:
    """Return half the width by a peer; endless below 1 / alpha residuals, where MAPIE refuses."""
    return math.inf if residuals.size < 1.0 / alpha else peer(residuals, alpha)


HALVES = {"crepes": partial(find_half, find_crepes_half), "MAPIE": partial(find_half, find_mapie_half)}


def hold_crepes(known: Array, labels: Counts, rest: Array) -> Any:
    """Return which labels the sets hold."""
    classifier = import_module("crepes").ConformalClassifier()
    classifier.fit(1.0 - known[np.arange(labels.size), labels])
    return classifier.predict_set(1.0 - rest, confidence=1.0 - ALPHA, smoothing=False) > 0


def hold_mapie(known: Array, labels: Counts, rest: Array) -> Any:
    make = import_module("mapie.classification").SplitConformalClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Not every label is in a short history.
        classifier = make(Given(), confidence_level=1.0 - ALPHA, prefit=True)
        return classifier.conformalize(known, labels).predict_set(rest)[1][:, :, 0]


def play_intervals(history: Array, truths: Array) -> Row:
    predictor = keyhole.Predictor(LEARNER, alpha=ALPHA, score=keyhole.ScaledResiduals())
    predictor.calibrate([0.0] * history.size, history.tolist())
    missed, widths = [], []
    for truth in truths.tolist():
        shown = predictor.predict(0.0)
        predictor.learn(shown, label=truth)
        missed.append(truth not in shown)
        widths.append(shown.width)
    row = []
    for half in (*(find(history, ALPHA) for find in HALVES.values()), widths[0] / 2):
        row += [float(np.mean(np.abs(truths) > half)), 2 * half]
    return [*row, float(np.mean(missed)), float(np.mean(widths))]


def play_sets(outputs: Array, labels: Counts, count: int) -> Row:
    true, rest, row = outputs[np.arange(labels.size), labels], outputs[count:], []
    for hold in (hold_crepes, hold_mapie):
        held = np.ones_like(rest, dtype=bool)  # below 1 / alpha labels
        if count >= 1.0 / ALPHA:
            held = hold(outputs[:count], labels[:count], rest)
        right = held[np.arange(held.shape[0]), labels[count:]]
        row += [float(np.mean(~right)), float(held.sum(axis=1).mean())]
    predictor = keyhole.Predictor(LEARNER, alpha=ALPHA)
    predictor.calibrate(outputs[:count].tolist(), labels[:count].tolist())
    first = predictor.distribution.thresholds[0]
    missed, sizes = [], []
    for output, label in zip(rest.tolist(), labels[count:].tolist(), strict=True):
        shown = predictor.predict(output)
        predictor.learn(shown, label=label)
        missed.append(label not in shown)
        sizes.append(len(shown))
    row += [float(np.mean(true[count:] < first)), float((rest >= first).sum(axis=1).mean())]
    return [*row, float(np.mean(missed)), float(np.mean(sizes))]


def print_row(name: str, count: int, rows: list[Row], right: float) -> None:
    cells = np.mean(rows, axis=0).reshape(4, 2)
    shown = [
        f"{miss:.3f}, {'endless' if math.isinf(size) else f'{size / right:.2f}'}"
        for miss, size in cells
    ]
    print(f"{name:<14}{count:>4}  " + "".join(f"{cell:<18}" for cell in shown), flush=True)


def print_tables(*, quick: bool) -> None:
    check_peers()
    runs = range(3 if quick else 200)
    print("missed, width over the right one, or labels in a set\n")
    print(f"{'':<14}{'n':>4}  {'crepes':<18}{'MAPIE':<18}{'ours, first':<18}ours, learning")
    for name, (draw, right) in NOISES.items():
        for count in HISTORIES:
            rngs = map(np.random.default_rng, runs)
            rows = [play_intervals(draw(rng, count), draw(rng, AFTER)) for rng in rngs]
            print_row(name, count, rows, right)
    for count in HISTORIES:
        cases = [make_cases(seed, count + AFTER, 1.0) for seed in runs]
        print_row("eight classes", count, [play_sets(*case, count) for case in cases], 1.0)
