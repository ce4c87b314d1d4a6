"""Sets of labels: the share missed in the first rounds, with answers at once, late or in batches.

Eight vague classes whose probabilities are right, three times too sure, or three times too shy, at
alpha 0.1; labels are told where the set held them. The contextual tracker knows the largest probability
and a feature that tells nothing; without features it is the informed tracker, bit for bit.
"""

from collections.abc import Iterator

import numpy as np

import keyhole
from keyhole.numeric import Array, Counts

ALPHA, CLASSES, ROUNDS = 0.1, 8, 1500
BATCH = 100
ARRIVALS = {"at once": (0, 1), "200 late": (200, 1), "1,000 late": (1_000, 1)}
ARRIVALS |= {f"batches of {BATCH}": (0, BATCH)}
MODELS = {"right": 1.0, "three times too sure": 3.0, "three times too shy": 1.0 / 3.0}
LEARNERS = ("logit-tracker", "informed-tracker", "contextual-tracker")


def make_cases(seed: int, rounds: int, power: float) -> tuple[Array, Counts]:
    """Return outputs and labels; the labels follow the outputs before these are raised to a power."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.full(CLASSES, 0.35), rounds)
    labels = (true.cumsum(axis=1) > rng.random((rounds, 1))).argmax(axis=1)
    told = true**power
    return told / told.sum(axis=1, keepdims=True), labels


def play(
    learner: str, outputs: Array, labels: Counts, arrival: tuple[int, int]
) -> Iterator[tuple[bool, int]]:
    """Yield of each round whether it missed, and the size of its set."""
    late, batch = arrival
    has_features = learner == "contextual-tracker"
    predictor = keyhole.Predictor(learner, alpha=ALPHA, features=2 if has_features else None)
    features = np.column_stack((outputs.max(axis=1), np.random.default_rng(0).random(len(outputs))))
    shown: list[keyhole.LabelSet] = []
    for n, output in enumerate(outputs.tolist()):
        shown.append(predictor.predict(output, features=features[n] if has_features else None))
        yield int(labels[n]) not in shown[n], len(shown[n])
        answered = n + 1 - late
        if answered <= 0 or answered % batch:
            continue
        for m in range(answered - batch, answered):
            past, label = shown[m], int(labels[m])
            if label in past:
                predictor.learn(past, label=label)
            else:
                predictor.learn(past, keyhole.MISS)


def print_tables(*, quick: bool) -> None:
    print("missed in the first 100 / in the first 500 / in all, mean size\n")
    print(f"{'probabilities':<24}{'answers':<16}" + "".join(f"{name:<28}" for name in LEARNERS))
    second: dict[str, list[str]] = {}
    for model, power in MODELS.items():
        for name, arrival in ARRIVALS.items():
            cells = []
            for learner in LEARNERS:
                runs = [
                    list(play(learner, *make_cases(seed, ROUNDS, power), arrival))
                    for seed in range(2 if quick else 20)
                ]
                missed, size = np.array(runs, dtype=float).mean(axis=0).T
                rates = [missed[:count].mean() for count in (100, 500, ROUNDS)]
                cells.append(f"{' / '.join(f'{rate:.3f}' for rate in rates)}, {size.mean():.2f}")
                if arrival[1] == BATCH:
                    second.setdefault(model, []).append(f"{missed[BATCH : 2 * BATCH].mean():.3f}")
            print(f"{model:<24}{name:<16}" + "".join(f"{cell:<28}" for cell in cells), flush=True)
    print(f"\nmissed in the second batch of {BATCH}\n")
    for model, rates_of_second in second.items():
        print(f"{model:<40}" + "".join(f"{rate:<28}" for rate in rates_of_second))
