"""How rare false alarms are, and how soon a broken promise is found: ``python benchmarks/monitor.py``.

The monitor of ``keyhole.predictor.monitor`` beside what the service had before: an exact binomial test
of the last 1,000 rounds at a level of 0.001 each way, looked at after every round.
"""

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from keyhole import LEARNERS, make, simulate
from keyhole.predictor.monitor import ABOVE, BELOW, Monitor, Watch, find_bets
from keyhole.scenarios.drifts import steady

ALPHA, WINDOW, LEVEL = 0.1, 1_000, 0.001


def run_monitor(misses: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return at which round each row raised its first alarm, from 1; 0 if it never did."""
    monitor = Monitor(alpha=ALPHA)
    bets, weights = np.array(find_bets(ALPHA, 0).slopes), np.repeat((1 / 8, 1 / 6), (4, 3))
    evidence = np.zeros((misses.shape[0], len(ABOVE) + len(BELOW)))
    found = np.zeros(misses.shape[0], dtype=np.int64)
    for number, column in enumerate(misses.T.astype(float)):
        evidence = (1.0 + evidence) * (1.0 + np.multiply.outer(column - ALPHA, bets))
        evidence = np.minimum(evidence, 1e200)  # Rows go on after their alarm.
        found[(found == 0) & (evidence @ weights >= monitor.run_length)] = number + 1
    return found


def run_window(misses: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the same of the window; before it is full it says nothing."""
    chances = [
        math.exp(
            math.lgamma(WINDOW + 1) - math.lgamma(k + 1) - math.lgamma(WINDOW - k + 1)
            + k * math.log(ALPHA) + (WINDOW - k) * math.log1p(-ALPHA)
        )
        for k in range(WINDOW + 1)
    ]  # fmt: skip
    few, many = np.cumsum(chances) < LEVEL, np.cumsum(chances[::-1])[::-1] < LEVEL
    sums = np.cumsum(np.pad(misses, ((0, 0), (1, 0))), axis=1, dtype=np.int64)
    out = (few | many)[sums[:, WINDOW:] - sums[:, :-WINDOW]]
    return np.where(out.any(axis=1), out.argmax(axis=1) + WINDOW, 0)


def count_alarms(misses: NDArray[np.bool_]) -> int:
    """Return how many alarms the monitor raises in all rows, each played whole."""
    monitor, total = Monitor(alpha=ALPHA), 0
    for row in misses.tolist():
        watch, last = Watch(), 0
        for miss in row:
            monitor.observe(watch, miss)
            total += watch.raised != last
            last = watch.raised
    return total


def show_runs(rng: np.random.Generator, runs: int) -> None:
    rounds = 100_000
    print(f"independent misses at {ALPHA}: {runs} runs of {rounds:,} rounds")
    misses = rng.random((runs, rounds)) < ALPHA
    for name, found in (("monitor", run_monitor(misses)), ("window", run_window(misses))):
        fired = np.count_nonzero(found)
        print(f"  {name:<8} raised an alarm in {fired / runs:.1%} of the runs", end="")
        played = np.where(found > 0, found, rounds).sum()
        least = f"one in {played / fired:,.0f} rounds" if fired else f"none in {played:,} rounds"
        print(f": {least}")


def show_delays(rng: np.random.Generator, runs: int) -> None:
    print(f"rounds until it is found, median and 9 of 10, after 2,000 good ones ({runs} runs)")
    for ratio in (1.25, 1.5, 2.0, 4.0, 0.5, 0.1):
        before, after = rng.random((runs, 2_000)) < ALPHA, rng.random((runs, 8_000)) < ratio * ALPHA
        misses = np.concatenate((before, after), axis=1)
        cells = []
        for find in (run_monitor, run_window):
            found = find(misses)
            good = found[found > 2_000] - 2_000
            cells.append(
                f"{np.median(good):6.0f} {np.quantile(good, 0.9):6.0f} "
                f"({np.mean(found <= 2000):.1%} too early)"
            )
        print(f"  {ratio:>4} alpha   monitor {cells[0]}   window {cells[1]}", flush=True)


def show_learners(rounds: int, runs: int) -> None:
    print(f"learners at work on scores that do not drift: {runs} runs of {rounds:,} rounds")
    for name in sorted(LEARNERS):
        try:
            learner = make(name, alpha=ALPHA)
        except ValueError:
            learner = make(name, alpha=ALPHA, horizon=rounds)
        if learner.features or learner.groups:
            continue
        scores = np.stack([steady(rounds, seed=k).scores for k in range(runs)])
        misses = simulate(learner, scores, feedback="full").misses
        alarms, rate = count_alarms(misses), misses.mean()
        print(f"  {name:<18} miss rate {rate:.4f}   {alarms} alarms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20_000, help="of each learner's runs")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    show_runs(rng, options.runs)
    show_delays(rng, options.runs)
    show_learners(options.rounds, 3)


if __name__ == "__main__":
    main()
