"""What a new stream misses that skips calibration, and one that learns 300 labelled cases first.

A classifier of eight vague classes that is three times too sure of itself, whose labels are told 200
rounds late (a missed one is not told), and intervals around forecasts with normal errors, answered in
batches of 100. Alpha is 0.1.
"""

from typing import Any

import numpy as np

import keyhole

ALPHA, HISTORY, ROUNDS = 0.1, 300, 1_000
LEARNERS = ("logit-tracker", "informed-tracker")


def draw_labels(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    true = rng.dirichlet([0.35] * 8, size=HISTORY + ROUNDS)
    labels = (true.cumsum(axis=1) > rng.random((len(true), 1))).argmax(axis=1)
    return true**3 / (true**3).sum(axis=1, keepdims=True), labels.tolist()


def draw_values(seed: int) -> tuple[Any, Any]:
    centres, errors = np.random.default_rng(seed).normal(size=(2, HISTORY + ROUNDS))
    return centres.tolist(), (centres + errors).tolist()


def play(predictor: Any, outputs: Any, labels: Any, *, late: int, batch: int) -> list[bool]:
    """Return which rounds missed."""
    waiting, missed = [], []
    for output, label in zip(outputs, labels, strict=True):
        shown = predictor.predict(output)
        missed.append(label not in shown)
        waiting.append((shown, label))
        if len(waiting) == late + batch:
            for past, true in waiting[:batch]:
                if batch == 1 and true not in past:
                    predictor.learn(past, keyhole.MISS)
                else:
                    predictor.learn(past, label=true)
            waiting = waiting[batch:]
    return missed


STREAMS: dict[str, Any] = {
    "labels, 200 late": (draw_labels, {}, {"late": 200, "batch": 1}),
    "intervals, batches of 100": (
        draw_values,
        {"score": keyhole.ScaledResiduals()},
        {"late": 0, "batch": 100},
    ),
}


def print_tables(*, quick: bool) -> None:
    print(f"missed of the first 100 / 500 / {ROUNDS:,}: at once, and after {HISTORY} labelled cases\n")
    for name, (draw, settings, arrival) in STREAMS.items():
        for learner in LEARNERS:
            cells = []
            for calibrated in (False, True):
                runs = []
                for seed in range(3 if quick else 20):
                    outputs, labels = draw(seed)
                    predictor = keyhole.Predictor(learner, alpha=ALPHA, **settings)
                    if calibrated:
                        predictor.calibrate(outputs[:HISTORY], labels[:HISTORY])
                    runs.append(play(predictor, outputs[HISTORY:], labels[HISTORY:], **arrival))
                missed = np.array(runs).mean(axis=0)
                rates = (missed[:count].mean() for count in (100, 500, ROUNDS))
                cells.append(" / ".join(f"{rate:.3f}" for rate in rates))
            print(f"{name:<27}{learner:<18}{cells[0]}   {cells[1]}", flush=True)
