"""Pinball regret against the number of arms: unlock-hedge, EXP3-IX and EXP3.P on the same loss.

Prints a table and draws docs/regret.png. ``make bench``.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from keyhole import grid
from keyhole.learners import strategy
from keyhole.learners.rules.exp3_ix import charge
from keyhole.learners.rules.exp3_ix import tune as tune_ix
from keyhole.learners.rules.unlock_hedge import unlock_hedge
from keyhole.learners.strategy import choose_arm, reward
from keyhole.numeric import Array, compile_function, kernel
from keyhole.predictor.draws import make_draws
from keyhole.simulation.simulate import play_clear

ALPHA = 0.1
ROUNDS = 20_000
RUNS = 5
ARMS = (11, 101, 1001)
PICTURE = Path(__file__).parents[1] / "docs" / "regret.png"


@kernel
def _by_bandit(
    epochs: Array, state: Any, memo: Array, arms: Array, scores: Array, uniforms: Array,
    is_ix: bool, played: Array,  # noqa: FBT001
) -> None:  # fmt: skip
    """Play a bandit on the shifted pinball loss of the arm it chose, which lies in [0, 1]."""
    for n in range(scores.size):
        arm = choose_arm(epochs, state, memo, uniforms[n])
        threshold = arms[arm]
        hit = threshold <= scores[n]
        loss = scores[n] - ALPHA * threshold if hit else (1.0 - ALPHA) * threshold
        if is_ix:
            charge(epochs, state, memo, loss)
        else:
            reward(epochs, state, memo, 1.0 - loss)
        played[n] = threshold


def bandit(arms: Array, scores: Array, seed: int, *, is_ix: bool) -> Array:
    tuned = tune_ix if is_ix else strategy.tuned
    played = np.empty(scores.size)
    compile_function(_by_bandit)(
        np.array([tuned(arms.size, scores.size)]), strategy.start_arms(arms.size),
        np.zeros(strategy.memory_of(arms.size)), arms, scores,
        make_draws(seed, 0, scores.size), is_ix, played,
    )  # fmt: skip
    return played


def hedge(arms: Array, scores: Array, seed: int, *, rate: float | None) -> Array:
    learner = unlock_hedge(alpha=ALPHA, arms=arms.size, window=None, rate=rate)
    played = np.empty(scores.size)
    play_clear(learner, scores, seed, played, np.empty(scores.size, dtype=np.bool_))
    return played


RULES: dict[str, Callable[[Array, Array, int], Array]] = {
    "unlock-hedge": lambda arms, scores, seed: hedge(arms, scores, seed, rate=None),
    "unlock-hedge, fixed rate": lambda arms, scores, seed: hedge(
        arms, scores, seed, rate=math.sqrt(math.log(arms.size) / ROUNDS)
    ),
    "EXP3-IX": lambda arms, scores, seed: bandit(arms, scores, seed, is_ix=True),
    "EXP3.P": lambda arms, scores, seed: bandit(arms, scores, seed, is_ix=False),
}


def regret(thresholds: Array, scores: Array) -> float:
    """Return the regret to the best of all thresholds, whether or not it is on the grid."""
    best = np.full(1, np.quantile(scores, ALPHA, method="inverted_cdf"))
    lost, least = (
        float(np.maximum((1 - ALPHA) * (played - scores), ALPHA * (scores - played)).sum())
        for played in (thresholds, best)
    )
    return lost - least


def measured() -> dict[str, list[tuple[float, float]]]:
    table: dict[str, list[tuple[float, float]]] = {name: [] for name in RULES}
    for count in ARMS:
        arms = grid.uniform(count)
        for name, rule in RULES.items():
            runs = []
            for seed in range(RUNS):
                scores = np.random.default_rng(seed).beta(6, 2, ROUNDS)
                runs.append(regret(rule(arms, scores, seed), scores))
            table[name].append((float(np.mean(runs)), float(np.std(runs, ddof=1) / math.sqrt(RUNS))))
    return table


def draw(table: dict[str, list[tuple[float, float]]]) -> None:
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    axis = figure.subplots()
    colours = ("#1d4ed8", "#7c3aed", "#ea580c", "#dc2626")
    for (name, values), colour in zip(table.items(), colours, strict=True):
        means, errors = zip(*values, strict=True)
        axis.errorbar(ARMS, means, yerr=errors, color=colour, marker="o", capsize=3)
        lift = {"EXP3.P": 7, "EXP3-IX": -7}.get(name, 0)
        axis.annotate(
            name, (ARMS[-1], means[-1]), xytext=(9, lift), textcoords="offset points", color=colour,
            va="center",
        )  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="number of thresholds, K", xlim=(9, 9_000))
    axis.set_xticks(ARMS, [str(count) for count in ARMS])
    axis.set_yticks([5, 20, 100, 500], ["5", "20", "100", "500"])
    axis.set_title(f"pinball regret after {ROUNDS:,} rounds", loc="left", fontsize=11)
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130, metadata={"Software": None})


def main() -> None:
    table = measured()
    print(f"pinball regret after {ROUNDS:,} rounds, mean of {RUNS} runs ± standard error")
    print(f"{'':<26}" + "".join(f"{f'K = {count}':>16}" for count in ARMS))
    for name, values in table.items():
        print(f"{name:<26}" + "".join(f"{mean:>9.1f} ±{error:>5.1f}" for mean, error in values))
    draw(table)
    print(f"picture: {PICTURE.relative_to(PICTURE.parents[1])}")


if __name__ == "__main__":
    main()
