"""Real classifiers: how far off the first rounds are, by what is told and how late.

Handwritten digits that come with the package, and ImageNet by MobileNetV2 where the file
imagenet_val5000_mobilenet_v2.npz is, here or in ../shared/data; probabilities and their cube roots, in
random order and sorted by class, at alpha 0.05, 0.1 and 0.2. Each cell is a mean over all of these.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

import keyhole
from first_day_intervals import find_file
from keyhole import HIT, MISS
from keyhole.numeric import Array, Counts
from keyhole.scenarios import imagenet
from keyhole.scenarios.digits import digit_guesses
from keyhole.scores import LabelSet, Probabilities

IMAGENET = "imagenet_val5000_mobilenet_v2.npz"
ALPHAS, POWERS, ROUNDS, WINDOW = (0.05, 0.1, 0.2), (1.0, 1.0 / 3.0), 5_000, 500
ARRIVALS = {"at once": (0, 1), "20 late": (20, 1), "batches of 100": (0, 100)}
ARRIVALS |= {"200 late": (200, 1), "1,000 late": (1_000, 1)}
# The rule before, and what the default is told of each round.
ENTRANTS = (
    ("logit-tracker", "bandit"),
    ("informed-tracker", "bandit"),
    ("informed-tracker", "semi-bandit"),
    ("informed-tracker", "full"),
)


class Classified(NamedTuple):
    """What a classifier said of each case, as probabilities, and the true classes."""

    outputs: Array
    labels: Counts


def list_classified() -> Iterator[Classified]:
    """Yield each pool of cases, in the order of the classes."""
    digits = digit_guesses()
    yield Classified(*sort_cases(digits.probabilities, digits.digits))
    path = find_file(IMAGENET)
    if path is None:
        print(f"without ImageNet, because {IMAGENET} is not here")
        return
    pool = imagenet.load(path)
    logits = np.asarray(pool.values, dtype=np.float64)
    outputs = np.exp(logits - logits.max(axis=1, keepdims=True))
    yield Classified(*sort_cases(outputs / outputs.sum(axis=1, keepdims=True), pool.labels))


def sort_cases(outputs: Array, labels: Counts) -> tuple[Array, Counts]:
    order = np.argsort(labels, kind="stable")
    return outputs[order], labels[order]


def draw(pool: Classified, seed: int, rounds: int, *, is_sorted: bool) -> Classified:
    """Return so many cases at random, in their order in the pool or in a random one."""
    rows = np.random.default_rng(seed).integers(len(pool.labels), size=rounds)
    rows = np.sort(rows) if is_sorted else rows
    return Classified(pool.outputs[rows], pool.labels[rows])


def play(
    entrant: tuple[str, str],
    cases: Classified,
    alpha: float,
    power: float,
    late: tuple[int, int],
) -> Array:
    """Return of each round whether it missed and the size of its set, as rows."""
    learner, feedback = entrant
    score = Probabilities(power=power)
    predictor = keyhole.Predictor(learner, alpha=alpha, score=score, feedback=feedback, seed=1)
    shown: list[LabelSet] = []
    found = np.empty((len(cases.labels), 2))
    for n, label in enumerate(cases.labels.tolist()):
        shown.append(predictor.predict(cases.outputs[n]))
        found[n] = label not in shown[n], len(shown[n])
        answered = n + 1 - late[0]
        if answered > 0 and answered % late[1] == 0:
            for m in range(answered - late[1], answered):
                is_hit = found[m, 0] == 0.0
                if feedback == "full" or (feedback == "semi-bandit" and is_hit):
                    predictor.learn(shown[m], label=int(cases.labels[m]))
                else:
                    predictor.learn(shown[m], HIT if is_hit else MISS)
    return found


def find_best_size(cases: Classified, alpha: float) -> float:
    """Return the mean size of sets at the threshold that misses a share alpha in hindsight."""
    true = cases.outputs[np.arange(len(cases.labels)), cases.labels]
    return float((cases.outputs >= np.quantile(true, alpha)).sum(axis=1).mean())


def rate(found: Array, alpha: float, best: float) -> list[float]:
    """Return how far off the first 100, 500, all rounds and the worst window are, and the size."""
    missed, size = found.T
    windows = np.convolve(missed, np.full(WINDOW, 1.0 / WINDOW), mode="valid")
    parts = [abs(missed[:count].mean() - alpha) for count in (100, 500, len(missed))]
    return [*parts, float(np.abs(windows - alpha).max()), size.mean() / best]


def print_tables(*, quick: bool) -> None:
    rounds = 1_500 if quick else ROUNDS
    pools = list(list_classified())
    print(
        "|missed - alpha| of the first 100 / 500 / all rounds, of the worst 500; size over the best\n"
    )
    names = [f"{learner}, {feedback}" for learner, feedback in ENTRANTS]
    print(f"{'answers':<16}" + "".join(f"{name:<38}" for name in names))
    for name, late in ARRIVALS.items():
        cells = []
        for entrant in ENTRANTS:
            rows = []
            for pool, is_sorted, alpha, power in product(pools, (False, True), ALPHAS, POWERS):
                cases = draw(pool, 1, rounds, is_sorted=is_sorted)
                best = find_best_size(cases, alpha)
                rows.append(rate(play(entrant, cases, alpha, power, late), alpha, best))
            *rates, size = np.mean(rows, axis=0)
            cells.append(f"{' / '.join(f'{rate:.3f}' for rate in rates)}, {size:.2f}")
        print(f"{name:<16}" + "".join(f"{cell:<38}" for cell in cells), flush=True)
