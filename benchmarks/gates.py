"""What the gate accepts and gets wrong, over many seeds, beside thresholds that nobody could know.

``python benchmarks/gates.py --imagenet FILE`` plays top-1 probabilities drawn from a file of classifier
outputs (see ``keyhole imagenet-file --help``), and scenarios that are made up. Beside the gate stand
two who know the one threshold that is best for the whole source: ``known`` plays it, ``steered`` also
shifts it by a hundredth of a logit for every wrong answer that it is beyond alpha, so that its share of
wrong answers is alpha as the gate's is. ``of best`` is the share accepted over that of the best fixed
threshold of the same rounds in hindsight, which fits their noise. ``keep`` is the share of seeds within
0.005 of alpha (0.01 where one in five is audited, 0.012 where accuracy halves), and at 0.98 of best.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.learners import make
from keyhole.numeric import Array
from keyhole.scenarios import digits
from keyhole.scenarios.gate_cases import GateCases, make_calibrated, make_halving, read_imagenet_gate
from keyhole.simulation.gate_runs import best_fixed, simulate_gate

SEEDS, SPELL, AFTER = range(5000, 5040), 30_000, 3_000
ENOUGH = 0.98  # of what the best threshold in hindsight accepts
STEER = 0.01

Draw = Callable[..., GateCases]
Accepted = NDArray[np.bool_]


def rescale(draw: Draw, change: Callable[[Array], Array]) -> Draw:
    def drawn(rounds: int, *, seed: int) -> GateCases:
        scores, wrong = draw(rounds, seed=seed)
        return GateCases(change(scores), wrong)

    return drawn


def halve(draw: Draw) -> Draw:
    """Half of the right answers of the second half turn wrong."""

    def drawn(rounds: int, *, seed: int) -> GateCases:
        scores, wrong = draw(rounds, seed=seed)
        turned = np.random.default_rng([seed, 1]).random(rounds) < 0.5
        return GateCases(scores, np.where(turned & (np.arange(rounds) >= rounds // 2), 1.0, wrong))

    return drawn


def read_digits() -> Draw:
    """Return draws from what one classifier says of handwritten digits."""
    source = digits.digits(20_000, seed=12_345)
    scores = source.probabilities.max(axis=1)
    wrong = (source.probabilities.argmax(axis=1) != source.digits).astype(np.float64)

    def drawn(rounds: int, *, seed: int) -> GateCases:
        rows = np.random.default_rng(seed).integers(scores.size, size=rounds)
        return GateCases(scores[rows], wrong[rows])

    return drawn


def steer(cases: GateCases, threshold: float, *, alpha: float) -> Accepted:
    """Return what is accepted by one who knows the threshold, and keeps to alpha."""
    accepted, excess = np.zeros(cases.scores.size, dtype=np.bool_), 0.0
    least = math.log(threshold / (1.0 - threshold))
    logits = np.log(cases.scores) - np.log1p(-np.minimum(cases.scores, 1.0 - 1e-12))
    for number, (logit, bad) in enumerate(zip(logits.tolist(), cases.wrong.tolist(), strict=True)):
        if logit >= least + STEER * excess:
            accepted[number] = True
            excess += bad - alpha
    return accepted


class GateScenario(NamedTuple):
    """A source, by how much the share of wrong answers may be off, and the share that is audited."""

    name: str
    draw: Draw
    within: float = 0.005
    audit: float = 1.0
    is_known: bool = False  # whether those who know its threshold play it too


def measure(scenario: GateScenario, *, alpha: float, rounds: int) -> None:
    """Print a line for the gate, and one for each who knows the threshold."""
    learner, within = make("gate-tracker", alpha=alpha), scenario.within
    drawn = [scenario.draw(rounds, seed=seed) for seed in SEEDS]
    played = [
        simulate_gate(learner, *cases, seed=seed, audit=scenario.audit).accepted
        for seed, cases in zip(SEEDS, drawn, strict=True)
    ]
    print_run(f"{scenario.name:<25}{alpha:>5g}  gate", drawn, played, alpha=alpha, within=within)
    if scenario.is_known:
        known = best_fixed(*scenario.draw(1_000_000, seed=1), alpha=alpha)[0]
        fixed = [cases.scores >= known for cases in drawn]
        print_run(f"{'':<30}  known", drawn, fixed, alpha=alpha, within=within)
        steered = [steer(cases, known, alpha=alpha) for cases in drawn]
        print_run(f"{'':<30}  steered", drawn, steered, alpha=alpha, within=within)


def print_run(
    title: str,
    drawn: Sequence[GateCases],
    played: Sequence[Accepted],
    *,
    alpha: float,
    within: float,
) -> None:
    beyond, relative = [], []
    for cases, accepted in zip(drawn, played, strict=True):
        best = best_fixed(*cases, alpha=alpha)[1]
        beyond.append(cases.wrong[accepted].mean() - alpha if accepted.any() else 0.0)
        relative.append(accepted.mean() / best if best > 0.01 else math.nan)
    worst = max(beyond, key=abs)
    keep = np.mean(np.abs(beyond) <= within)
    line = f"{title:<39}{np.mean(beyond):>+8.4f}{np.std(beyond):>7.4f}{worst:>+8.4f}{keep:>6.0%}"
    if not np.isnan(relative).any():
        enough = np.mean(np.array(relative) >= ENOUGH)
        line += f"{np.mean(relative):>8.3f}{np.std(relative):>6.3f}{min(relative):>6.3f}{enough:>6.0%}"
    print(line, flush=True)


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
        f"{max(spent)};\n            then always right: 500 accepted after "
        f"{np.mean(waited):,.0f}, at most {max(waited):,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--imagenet", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30_000)
    given = parser.parse_args()
    imagenet, rounds = read_imagenet_gate(given.imagenet), given.rounds
    print(f"{len(SEEDS)} seeds, {rounds:,} rounds\n")
    print(f"{'':<39}{'wrong - alpha':>15}{'of best':>25}")
    print(f"{'':<25}{'alpha':>5}{'':<9}{'mean':>8}{'sd':>7}{'worst':>8}{'keep':>6}", end="")
    print(f"{'mean':>8}{'sd':>6}{'least':>6}{'keep':>6}")
    scenarios = [
        GateScenario("ImageNet, top-1", imagenet, is_known=True),
        GateScenario("the same cubed", rescale(imagenet, lambda scores: scores**3)),
        GateScenario("the same in .78 to .83", rescale(imagenet, lambda scores: 0.78 + 0.05 * scores)),
        GateScenario("digits", read_digits(), is_known=True),
        GateScenario("calibrated, made up", make_calibrated, is_known=True),
        GateScenario("ImageNet, 1 in 5 audited", imagenet, within=0.01, audit=0.2),
        GateScenario("ImageNet, halving midway", halve(imagenet), within=0.012),
        GateScenario("made up, halving midway", make_halving, within=0.012),
    ]
    for alpha in (0.05, 0.1):
        for scenario in scenarios:
            measure(scenario, alpha=alpha, rounds=rounds)
    print()
    for alpha in (0.05, 0.1):
        measure_spell(alpha)


if __name__ == "__main__":
    main()
