"""Groups: what each misses on the first day, by one threshold for all and by the groups' own.

One round in five belongs to the group "few", every other one to "rest". With labels (eight vague
classes; a missed label is not told) the probabilities of the few are three times too sure, the others'
are right; with intervals the errors of the few are three times as large. Alpha is 0.1; what is
calibrated learns 500 labelled cases first.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import keyhole
from first_day_sets import make_cases
from keyhole.numeric import Array

Flags = NDArray[np.bool_]
ALPHA, ROUNDS, HISTORY, SHARE = 0.1, 2_000, 500, 0.2
SPANS = ((0, 200), (200, 500), (500, ROUNDS))
ARRIVALS = {"at once": (0, 1), "200 late": (200, 1), "batches of 100": (0, 100)}
GROUPS = ("few", "rest")


def draw_labels(seed: int) -> tuple[Any, Any, Flags]:
    outputs, labels = make_cases(seed, HISTORY + ROUNDS, 1.0)
    is_few = np.random.default_rng([seed, 1]).random(HISTORY + ROUNDS) < SHARE
    outputs[is_few] **= 3
    return (outputs / outputs.sum(axis=1, keepdims=True)).tolist(), labels.tolist(), is_few


def draw_values(seed: int) -> tuple[Any, Any, Flags]:
    rng = np.random.default_rng([seed, 2])
    centres, errors = rng.normal(size=(2, HISTORY + ROUNDS))
    is_few = rng.random(HISTORY + ROUNDS) < SHARE
    return centres.tolist(), (centres + np.where(is_few, 3.0, 1.0) * errors).tolist(), is_few


STREAMS: dict[str, Any] = {
    "labels": (draw_labels, {}),
    "intervals": (draw_values, {"score": keyhole.ScaledResiduals()}),
}


WAYS = ("one threshold", "groups", "groups, calibrated")


def play(kind: str, seed: int, arrival: tuple[int, int], way: str) -> tuple[Array, Flags]:
    """Return which rounds missed, and which were of the group "few"."""
    draw, settings = STREAMS[kind]
    outputs, labels, is_few = draw(seed)
    known: Any = None if way == WAYS[0] else [[GROUPS[0 if few else 1]] for few in is_few.tolist()]
    predictor = keyhole.Predictor(alpha=ALPHA, groups=known and GROUPS, **settings)
    if way == WAYS[2]:
        predictor.calibrate(outputs[:HISTORY], labels[:HISTORY], groups=known[:HISTORY])
    waiting, missed = [], np.empty(ROUNDS)
    for n in range(ROUNDS):
        case = HISTORY + n
        label = labels[case]
        shown = predictor.predict(outputs[case], groups=known and known[case])
        missed[n] = label not in shown
        waiting.append((shown, label))
        if len(waiting) < sum(arrival):
            continue
        for past, true in waiting[: arrival[1]]:
            if kind == "labels" and true not in past:
                predictor.learn(past, keyhole.MISS)
            else:
                predictor.learn(past, label=true)
        waiting = waiting[arrival[1] :]
    return missed, is_few[HISTORY:]


def print_tables(*, quick: bool) -> None:
    spans = " / ".join(f"{start:,} to {end:,}" for start, end in SPANS)
    print(f"missed in rounds {spans}, of the few and of the rest\n")
    print(f"{'':<27}" + "".join(f"{way + ': few':<24}{'rest':<24}" for way in WAYS))
    for kind in STREAMS:
        for name, arrival in ARRIVALS.items():
            cells = []
            for way in WAYS:
                runs = [play(kind, seed, arrival, way) for seed in range(3 if quick else 20)]
                missed, is_few = (np.array(part) for part in zip(*runs, strict=True))
                cells += [
                    " / ".join(f"{missed[:, a:b][of[:, a:b]].mean():.3f}" for a, b in SPANS)
                    for of in (is_few, ~is_few)
                ]
            print(f"{kind:<11}{name:<16}" + "".join(f"{cell:<24}" for cell in cells), flush=True)
