"""Few answers, and a judge who errs: sizes beside those of all answers, and what truly misses.

Eight vague classes whose probabilities are right. First at alpha 0.1, hit or miss told of one round in
twenty or fifty, picked at random: the size over that with all answers, and the share missed, from the
first 1,000 rounds on and in them. "Heard 1 / p times" is how 0.2 did it. Then a judge with 3.5 % false
misses and 10 % false hits: what truly misses if only the judge is heard, with one round in twenty
checked, and if the truth is always told. Last a gate with a judge who calls one right answer in ten
wrong and one wrong answer in five right: what it accepts, and how much of that is wrong.
"""

from collections.abc import Callable

import numpy as np

import keyhole
from first_day_sets import make_cases
from keyhole import HIT, MISS
from keyhole.numeric import Array, Counts
from keyhole.scores import LabelSet

ALPHA, ROUNDS, FIRST, DECISIONS = 0.1, 20_000, 1_000, 6_000
FALSE_MISS, FALSE_HIT, CHECKED = 0.035, 0.10, 0.05
LEARNERS = ("logit-tracker", "informed-tracker")
Tell = Callable[[keyhole.Predictor, LabelSet, bool], None]


def play(learner: str, alpha: float, cases: tuple[Array, Counts], tell: Tell) -> Array:
    """Return of each round whether it missed and the size of its set, as rows."""
    predictor = keyhole.Predictor(learner, alpha=alpha, feedback="bandit", seed=1)
    found = np.empty((len(cases[1]), 2))
    for n, (output, label) in enumerate(zip(cases[0].tolist(), cases[1].tolist(), strict=True)):
        shown = predictor.predict(output)
        found[n] = label not in shown, len(shown)
        tell(predictor, shown, bool(found[n, 0]))
    return found


def tell_some(chance: float, seed: int, *, repeat: bool) -> Tell:
    """Return what answers one round in so many; heard that often, as in 0.2, or once, by its weight."""
    rng = np.random.default_rng(seed)

    def tell(predictor: keyhole.Predictor, shown: LabelSet, missed: bool) -> None:  # noqa: FBT001
        if rng.random() >= chance:
            return
        if not repeat:
            predictor.learn(shown, MISS if missed else HIT, chance=chance)
            return
        state, answer = predictor._progress.state, MISS if missed else HIT  # noqa: SLF001
        for _ in range(round(1.0 / chance)):
            predictor.learner.observe(state, predictor.learner.new_memo(), answer)

    return tell


def tell_judged(checked: float, seed: int) -> Tell:
    """Return what tells a judge's word, and the truth of some rounds beside it; of all if 1."""
    rng = np.random.default_rng(seed)

    def tell(predictor: keyhole.Predictor, shown: LabelSet, missed: bool) -> None:  # noqa: FBT001
        truth, lie = MISS if missed else HIT, rng.random() < (FALSE_HIT if missed else FALSE_MISS)
        word = truth if not lie or len(shown) == 0 else HIT if missed else MISS
        if checked == 1.0:
            predictor.learn(shown, truth)
        elif rng.random() < checked:
            predictor.learn(shown, truth, judged=word)
        else:
            predictor.learn(shown, judged=word)

    return tell


def play_gate(alpha: float, first: int, checked: float, seed: int) -> tuple[float, float]:
    """Return what share is accepted and what share of it is wrong, if so many are checked.

    All of the first accepted answers are, and of the others that share.
    """
    rng, gate = np.random.default_rng(seed), keyhole.Gate(alpha=alpha)
    accepted = wrong = 0
    for score in rng.beta(3, 1, DECISIONS).tolist():
        right, is_checked = bool(rng.random() < score), rng.random() < checked
        decision = gate.decide(score)
        if not decision.accepted:
            continue
        accepted, wrong = accepted + 1, wrong + (not right)
        word = bool(rng.random() < (0.9 if right else 0.2))
        if checked == 1.0:
            gate.learn(decision, right=right)
        elif accepted <= first or is_checked:
            gate.learn(decision, right=right, judged=word)
        else:
            gate.learn(decision, judged=word)
    return accepted / DECISIONS, wrong / max(accepted, 1)


def print_gates(*, runs: int) -> None:
    print("\na gate: accepted, wrong of these\n")
    ways = {"one check in 20": (0, CHECKED), "first 100 too": (100, CHECKED), "the truth": (0, 1.0)}
    print(f"{'alpha':<8}" + "".join(f"{way:<20}" for way in ways))
    for alpha in (0.05, 0.1):
        cells = []
        for first, checked in ways.values():
            shares = np.mean([play_gate(alpha, first, checked, seed) for seed in range(runs)], axis=0)
            cells.append(f"{shares[0]:.3f}, {shares[1]:.3f}")
        print(f"{alpha:<8}" + "".join(f"{cell:<20}" for cell in cells), flush=True)


def print_tables(*, quick: bool) -> None:
    seeds = range(1 if quick else 5)
    rounds = 5_000 if quick else ROUNDS
    cases = [make_cases(seed, rounds, 1.0) for seed in seeds]
    print("size over that of all answers, missed after the first 1,000, missed in them\n")
    print(f"{'answers':<34}" + "".join(f"{name:<26}" for name in LEARNERS))
    full: dict[str, float] = {}
    for name, chance, repeat in (
        ("all", 1.0, False),
        ("1 in 20, heard 20 times", 0.05, True),
        ("1 in 20", 0.05, False),
        ("1 in 50, heard 50 times", 0.02, True),
        ("1 in 50", 0.02, False),
    ):
        cells = []
        for learner in LEARNERS:
            if repeat and learner != "logit-tracker":
                cells.append("-")
                continue
            runs = [
                play(learner, ALPHA, cases[seed], tell_some(chance, seed, repeat=repeat))
                for seed in seeds
            ]
            missed, size = np.mean([run[FIRST:].mean(axis=0) for run in runs], axis=0)
            first = np.mean([run[:FIRST, 0].mean() for run in runs])
            size = full.setdefault(learner, size) and size / full[learner]
            cells.append(f"{size:.3f}, {missed:.3f}, {first:.3f}")
        print(f"{name:<34}" + "".join(f"{cell:<26}" for cell in cells), flush=True)
    print("\ntruly missed, mean size\n")
    print(f"{'alpha':<8}{'the judge alone':<20}{'one check in 20':<20}{'the truth':<20}")
    for alpha in (0.02, 0.05, 0.1):
        cells = []
        for checked in (0.0, CHECKED, 1.0):
            runs = [
                play(keyhole.learners.DEFAULT, alpha, cases[seed], tell_judged(checked, seed))
                for seed in seeds
            ]
            missed, size = np.mean([run.mean(axis=0) for run in runs], axis=0)
            cells.append(f"{missed:.3f}, {size:.2f}")
        print(f"{alpha:<8}" + "".join(f"{cell:<20}" for cell in cells), flush=True)
    print_gates(runs=2 if quick else 20)
