"""What the gate accepts and gets wrong, over many seeds, beside thresholds that nobody could know.

``python benchmarks/gates.py --imagenet FILE`` plays top-1 probabilities drawn from a file of classifier
outputs (see ``keyhole imagenet-file --help``), and two scenarios that are made up. ``of best`` is the
share accepted over that of the best fixed threshold of the same rounds in hindsight, which fits their
noise; ``known`` is that of the one threshold that is best for the whole file.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keyhole.learners import make
from keyhole.simulation.gates import best_fixed, simulate_gate
from keyhole.studies.gates.scenarios import GateCases, make_halving, read_imagenet

ROUNDS, SEEDS, SPELL, AFTER = 30_000, range(100, 140), 30_000, 3_000


def cube(draw: Callable[..., GateCases]) -> Callable[..., GateCases]:
    def drawn(rounds: int, *, seed: int) -> GateCases:
        scores, wrong = draw(rounds, seed=seed)
        return GateCases(scores**3, wrong)

    return drawn


def halve(draw: Callable[..., GateCases]) -> Callable[..., GateCases]:
    """Half of the right answers of the second half turn wrong."""

    def drawn(rounds: int, *, seed: int) -> GateCases:
        scores, wrong = draw(rounds, seed=seed)
        turned = np.random.default_rng([seed, 1]).random(rounds) < 0.5
        return GateCases(scores, np.where(turned & (np.arange(rounds) >= rounds // 2), 1.0, wrong))

    return drawn


def measure(name: str, draw: Callable[..., GateCases], *, alpha: float, audit: float = 1.0) -> None:
    learner = make("gate-tracker", alpha=alpha)
    beyond, of_best, known = [], [], []
    whole = best_fixed(*draw(20 * ROUNDS, seed=1), alpha=alpha)[0]
    for seed in SEEDS:
        scores, wrong = draw(ROUNDS, seed=seed)
        run = simulate_gate(learner, scores, wrong, seed=seed, audit=audit)
        best = best_fixed(scores, wrong, alpha=alpha)[1]
        beyond.append(run.wrong_share - alpha)
        of_best.append(run.accepted_share / best if best > 0.01 else np.nan)
        known.append((scores >= whole).mean() / best if best > 0.01 else np.nan)
    print(f"{name:<27}{alpha:>6g}{tell(beyond, '+.4f')}{tell(of_best, '.3f')}{tell(known, '.3f')}")


def tell(values: list[float], form: str) -> str:
    if np.isnan(values).any():
        return f"{'-':>27}"
    told = f"{np.mean(values):{form}} ({min(values):{form}}, {max(values):{form}})"
    return f"{told:>27}"


def measure_spell(alpha: float) -> None:
    """Print what always wrong answers cost, and how soon 500 are accepted once all are right."""
    spent, waited = [], []
    for seed in SEEDS:
        scores = np.random.default_rng(seed).beta(5, 2, SPELL + AFTER)
        wrong = (np.arange(scores.size) < SPELL).astype(np.float64)
        accepted = simulate_gate(make("gate-tracker", alpha=alpha), scores, wrong).accepted
        spent.append(int(accepted[:SPELL].sum()))
        later = np.flatnonzero(accepted[SPELL:])
        waited.append(int(later[499]) + 1 if later.size >= 500 else AFTER)
    print(
        f"alpha {alpha:g}: {SPELL:,} rounds always wrong: {np.mean(spent):.0f} accepted, at most "
        f"{max(spent)}; then always right: 500 accepted after {np.mean(waited):,.0f}, at most "
        f"{max(waited):,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--imagenet", type=Path, required=True)
    imagenet = read_imagenet(parser.parse_args().imagenet)
    print(f"{len(SEEDS)} seeds, {ROUNDS:,} rounds: mean (least, most)\n")
    print(f"{'':<27}{'alpha':>6}{'wrong - alpha':>27}{'of best':>27}{'known':>27}")
    for alpha in (0.05, 0.1):
        measure("ImageNet, top-1", imagenet, alpha=alpha)
        measure("the same cubed", cube(imagenet), alpha=alpha)
        measure("one in five audited", imagenet, alpha=alpha, audit=0.2)
        measure("accuracy halves midway", halve(imagenet), alpha=alpha)
        measure("a made-up one that halves", make_halving, alpha=alpha)
    print()
    for alpha in (0.05, 0.1):
        measure_spell(alpha)


if __name__ == "__main__":
    main()
