"""Wrong answers beyond alpha times the accepted on the first day, and what is accepted then.

Of each stream: the excess that 95 % of runs stay below after 100, 300, 1,000 decisions, and the share
accepted in 3,000, with that of the best threshold in hindsight in brackets. *before* is what the rule
of 0.2 came to on the same runs, recorded when it was replaced.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from keyhole import make
from keyhole.numeric import Array
from keyhole.simulation.gate_runs import best_fixed, simulate_gate

MARKS, ROUNDS = (100, 300, 1_000), 3_000


class Stream(NamedTuple):
    """Cases whose chance to be right has a normal logit; the score is a function of it."""

    right: float  # the mean of the logit
    sharp: float  # its spread: what a score can tell
    score: Callable[[Array], Array]

    def draw(self, seed: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        logits = self.right + self.sharp * rng.normal(0.0, 1.0, ROUNDS)
        wrong = rng.random(ROUNDS) >= 1.0 / (1.0 + np.exp(-logits))
        told = logits if self.sharp else self.right + rng.normal(0.0, 1.0, ROUNDS)
        return 1.0 / (1.0 + np.exp(-self.score(told))), wrong.astype(np.float64)


def squeeze(logits: Array) -> Array:
    """Scores between 0.78 and 0.83."""
    score = 0.78 + 0.05 / (1.0 + np.exp(-logits))
    return np.log(score / (1.0 - score))


STREAMS = {
    "good, calibrated": Stream(1.5, 2.0, lambda logits: logits),
    "good, over-sure": Stream(1.5, 2.0, lambda logits: 2.5 * logits + 2.0),
    "good, in .78 to .83": Stream(1.5, 2.0, squeeze),
    "medium": Stream(1.2, 1.2, lambda logits: logits),
    "weak": Stream(0.9, 0.65, lambda logits: logits),
    "hopeless, 7 in 10 right": Stream(0.85, 0.0, lambda logits: logits),
    "hopeless, over-sure": Stream(0.0, 0.0, lambda logits: 2.5 * logits + 2.0),
}
WORLDS: dict[str, dict[str, Any]] = {
    "judged at once": {},
    "the referred too": {"feedback": "both"},
    "1 in 10 audited, the referred too": {"feedback": "referred", "audit": 0.1},
    "200 decisions late": {"delays": np.full(ROUNDS, 200)},
}
# By world and stream, at alpha 0.05, 0.1 and 0.2: the rule of 0.2, 100 runs.
BEFORE = {
    ("judged at once", "good, calibrated"): ("2 / 4 / 7, 0.42", "4 / 5 / 10, 0.62", "3 / 2 / 4, 0.86"),
    ("judged at once", "good, over-sure"): (
        "10 / 21 / 29, 0.40",
        "11 / 21 / 29, 0.58",
        "5 / 10 / 13, 0.86",
    ),
    ("judged at once", "good, in .78 to .83"): (
        "0 / 1 / 7, 0.29",
        "10 / 17 / 13, 0.55",
        "15 / 21 / 12, 0.85",
    ),
    ("judged at once", "medium"): (
        "3 / 4 / 10, 0.19",
        "4 / 10 / 15, 0.41",
        "5 / 10 / 11, 0.80",
    ),
    ("judged at once", "weak"): ("2 / 3 / 5, 0.03", "5 / 12 / 18, 0.12", "10 / 17 / 19, 0.45"),
    ("judged at once", "hopeless, 7 in 10 right"): (
        "4 / 5 / 7, 0.01",
        "7 / 14 / 21, 0.03",
        "12 / 23 / 29, 0.09",
    ),
    ("judged at once", "hopeless, over-sure"): (
        "13 / 20 / 29, 0.02",
        "18 / 25 / 29, 0.03",
        "22 / 25 / 29, 0.04",
    ),
    ("the referred too", "good, calibrated"): (
        "2 / 4 / 7, 0.43",
        "4 / 5 / 10, 0.63",
        "3 / 2 / 4, 0.86",
    ),
    ("the referred too", "good, over-sure"): (
        "10 / 21 / 29, 0.41",
        "11 / 21 / 29, 0.58",
        "5 / 10 / 13, 0.86",
    ),
    ("the referred too", "good, in .78 to .83"): (
        "1 / 2 / 7, 0.38",
        "10 / 17 / 15, 0.61",
        "15 / 21 / 12, 0.85",
    ),
    ("the referred too", "medium"): (
        "3 / 4 / 10, 0.20",
        "4 / 10 / 15, 0.42",
        "5 / 10 / 11, 0.80",
    ),
    ("the referred too", "weak"): ("2 / 3 / 5, 0.04", "5 / 12 / 21, 0.15", "10 / 18 / 20, 0.49"),
    ("the referred too", "hopeless, 7 in 10 right"): (
        "4 / 5 / 7, 0.01",
        "7 / 14 / 21, 0.03",
        "12 / 23 / 29, 0.11",
    ),
    ("the referred too", "hopeless, over-sure"): (
        "13 / 20 / 29, 0.02",
        "18 / 25 / 29, 0.03",
        "22 / 25 / 29, 0.04",
    ),
    ("1 in 10 audited, the referred too", "good, calibrated"): (
        "3 / 8 / 32, 0.41",
        "6 / 14 / 40, 0.61",
        "4 / 9 / 32, 0.84",
    ),
    ("1 in 10 audited, the referred too", "good, over-sure"): (
        "14 / 30 / 76, 0.56",
        "13 / 30 / 76, 0.70",
        "7 / 14 / 31, 0.87",
    ),
    ("1 in 10 audited, the referred too", "good, in .78 to .83"): (
        "3 / 9 / 13, 0.33",
        "20 / 40 / 56, 0.56",
        "14 / 32 / 93, 0.84",
    ),
    ("1 in 10 audited, the referred too", "medium"): (
        "4 / 10 / 27, 0.22",
        "10 / 21 / 54, 0.44",
        "9 / 16 / 56, 0.80",
    ),
    ("1 in 10 audited, the referred too", "weak"): (
        "3 / 5 / 19, 0.07",
        "12 / 28 / 54, 0.21",
        "14 / 31 / 92, 0.59",
    ),
    ("1 in 10 audited, the referred too", "hopeless, 7 in 10 right"): (
        "9 / 19 / 33, 0.02",
        "15 / 34 / 62, 0.07",
        "13 / 30 / 85, 0.32",
    ),
    ("1 in 10 audited, the referred too", "hopeless, over-sure"): (
        "25 / 47 / 70, 0.04",
        "28 / 57 / 96, 0.06",
        "27 / 66 / 134, 0.13",
    ),
    ("200 decisions late", "good, calibrated"): (
        "3 / 5 / 11, 0.44",
        "4 / 6 / 14, 0.64",
        "2 / -1 / -4, 0.86",
    ),
    ("200 decisions late", "good, over-sure"): (
        "14 / 34 / 70, 0.56",
        "13 / 31 / 64, 0.68",
        "7 / 10 / 20, 0.87",
    ),
    ("200 decisions late", "good, in .78 to .83"): (
        "0 / 1 / 4, 0.32",
        "26 / 64 / 78, 0.56",
        "16 / 35 / 78, 0.84",
    ),
    ("200 decisions late", "medium"): (
        "4 / 9 / 13, 0.22",
        "7 / 16 / 26, 0.44",
        "7 / 14 / 23, 0.81",
    ),
    ("200 decisions late", "weak"): ("3 / 5 / 6, 0.04", "11 / 24 / 37, 0.16", "15 / 34 / 53, 0.47"),
    ("200 decisions late", "hopeless, 7 in 10 right"): (
        "9 / 17 / 19, 0.03",
        "17 / 38 / 45, 0.07",
        "15 / 35 / 66, 0.19",
    ),
    ("200 decisions late", "hopeless, over-sure"): (
        "32 / 75 / 80, 0.06",
        "34 / 87 / 105, 0.08",
        "30 / 81 / 117, 0.13",
    ),
}


def measure(stream: Stream, world: dict[str, Any], *, alpha: float, runs: int) -> str:
    learner, excesses, shares, best = make("gate-tracker", alpha=alpha), [], [], []
    for seed in range(runs):
        scores, wrong = stream.draw(seed)
        run = simulate_gate(learner, scores, wrong, seed=seed, **world)
        excesses.append(run.excess[[mark - 1 for mark in MARKS]])
        shares.append(run.accepted_share)
        best.append(best_fixed(scores, wrong, alpha=alpha)[1])
    reached = " / ".join(f"{one:z.1f}" for one in np.quantile(excesses, 0.95, axis=0))
    return f"{reached}, {np.mean(shares):.2f} ({np.mean(best):.2f})"


def print_tables(*, quick: bool) -> None:
    for world, terms in WORLDS.items():
        print(f"\n{world}\n{'':<26}{'alpha':>6}   {'before':<30}now")
        for name, stream in STREAMS.items():
            for alpha, before in zip((0.05, 0.1, 0.2), BEFORE[world, name], strict=True):
                now = measure(stream, terms, alpha=alpha, runs=10 if quick else 100)
                print(f"{name:<26}{alpha:>6g}   {before:<30}{now}", flush=True)
