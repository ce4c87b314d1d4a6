"""A round one at a time, from Python, beside the least that could do it; ratios in one run.

The references build the same set with the same rule, and check, remember and lock nothing. Where a row
has none, what counts is the time itself.
"""

import itertools
import math
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from river import bandit

import keyhole

ALPHA = 0.1
_BURSTS = 200
HEARD = 20  # answers up to which a predictor also hears what the model says of each label


class BareTracker:
    """The default's rule in ten lines of Python."""

    def __init__(self) -> None:
        self.z, self.rounds = 0.0, 0

    def threshold(self) -> float:
        return 1.0 / (1.0 + math.exp(-self.z))

    def learn(self, missed: bool) -> None:  # noqa: FBT001
        step = max(0.1, 0.5 / (1.0 + ALPHA * self.rounds))
        self.z -= step * (missed - ALPHA)
        self.rounds += 1


def bare_labels(scores: dict[str, float], truth: str) -> Callable[[], None]:
    tracker = BareTracker()

    def play() -> None:
        threshold = tracker.threshold()
        shown = sorted((s, k) for k, s in scores.items() if s >= threshold)
        labels = [k for _, k in reversed(shown)]
        tracker.learn(truth not in labels)

    return play


def bare_array(scores: np.ndarray, truth: int) -> Callable[[], None]:
    tracker = BareTracker()

    def play() -> None:
        kept = np.flatnonzero(scores >= tracker.threshold())
        tracker.learn(truth not in kept[np.argsort(-scores[kept])].tolist())

    return play


def bare_interval(centre: float, truth: float) -> Callable[[], None]:
    tracker = BareTracker()

    def play() -> None:
        half = 1.0 / tracker.threshold() - 1.0
        lower, upper = centre - half, centre + half
        tracker.learn(not lower <= truth <= upper)

    return play


def ours(predictor: keyhole.Predictor[Any], output: Any, truth: Any) -> Callable[[], None]:
    def play() -> None:
        predictor.learn(predictor.predict(output), label=truth)

    return play


def measure(*plays: Callable[[], object], rounds: int) -> list[float]:
    """Return the microseconds of each: the least of many short bursts, taken in turns.

    What else the machine does comes and goes; in so many bursts each finds a quiet moment.
    """
    for play in plays:
        for _ in range(200 if rounds > 1 else 3):
            play()
    best = [math.inf] * len(plays)
    for _ in range(_BURSTS):
        for index, play in enumerate(plays):
            began = time.perf_counter()
            for _ in range(rounds):
                play()
            best[index] = min(best[index], time.perf_counter() - began)
    return [seconds / rounds * 1e6 for seconds in best]


def report(name: str, mine: float, reference: float, *, of: str, reach: str) -> None:
    ratio = f"{mine / reference:.2f} x" if of else ""
    beside = f"{reference:.2f} us" if of else ""
    print(f"{name:<36}{mine:>8.2f} us{beside:>11}{ratio:>9}   {reach:<12}{of}")


def main() -> None:
    rng = np.random.default_rng(1)
    ten = {f"label {k}": float(p) for k, p in enumerate(rng.dirichlet(np.ones(10)))}
    many = rng.dirichlet(np.full(1000, 0.02))
    print(f"{'predict + learn':<36}{'keyhole':>11}{'beside':>11}{'ratio':>9}   reach")
    measure_one_by_one(ten, many)
    measure_grid(ten)
    measure_together(rng)
    measure_many(ten)


def measure_one_by_one(ten: dict[str, float], many: np.ndarray) -> None:
    default = keyhole.Predictor(alpha=ALPHA)
    mine, bare = measure(ours(default, ten, "label 3"), bare_labels(ten, "label 3"), rounds=50)
    report("default, dict of 10", mine, bare, of="ten lines of Python", reach="5 x")
    best = int(many.argmax())
    mine, bare = measure(ours(default, many, best), bare_array(many, best), rounds=30)
    report("default, array of 1,000", mine, bare, of="ten lines of NumPy", reach="2.5 x")
    thousand = {f"label {k}": float(p) for k, p in enumerate(many)}
    top = f"label {best}"
    mine, bare = measure(ours(default, thousand, top), bare_labels(thousand, top), rounds=10)
    report("default, dict of 1,000", mine, bare, of="ten lines of Python", reach="2 x")
    interval = keyhole.Predictor(alpha=ALPHA, score=keyhole.ScaledResiduals(scale=1.0))
    mine, bare = measure(ours(interval, 3.0, 3.7), bare_interval(3.0, 3.7), rounds=50)
    report("default, regression", mine, bare, of="ten lines of Python", reach="4 us")


def measure_grid(ten: dict[str, float]) -> None:
    unlock = keyhole.Predictor("ocp-unlock+", alpha=ALPHA, arms=200)
    exp3 = bandit.Exp3(gamma=0.1, seed=1)
    mine, theirs = measure(play_unlock(unlock, ten), play_exp3(exp3), rounds=20)
    report("ocp-unlock+ K = 200, dict of 10", mine, theirs, of="river's Exp3, K = 100", reach="0.33 x")


def measure_together(rng: np.random.Generator) -> None:
    default = keyhole.Predictor(alpha=ALPHA)
    (batch,) = measure(play_batch(default, rng.dirichlet(np.ones(10), 1000)), rounds=1)
    report("default, batches of 1,000 x 10", batch / 1000, 1.0, of="", reach="2 us")


def measure_many(ten: dict[str, float]) -> None:
    """Rounds of one predictor after another, and what each takes of memory."""
    alone = play_in_turn(make_many(1), ten)
    for count in (256, 1_000, 10_000):
        tracemalloc.start()
        crowd = make_many(count)
        held = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
        play = play_in_turn(crowd, ten)
        first, one = measure(play, alone, rounds=min(50, count * HEARD // 2 // _BURSTS))
        report(f"{count:,} in turn, first rounds", first, one, of="one alone", reach="")
        for _ in range(count * HEARD):
            play()
        turn, one = measure(play, alone, rounds=50)
        report(f"{count:,} predictors in turn", turn, one, of="one alone", reach="flat")
    print(f"{'memory of each of 10,000':<36}{held / 1000:>8.2f} kB{'':>20}   3 kB")


def make_many(count: int) -> list[keyhole.Predictor[Any]]:
    return [keyhole.Predictor(alpha=ALPHA) for _ in range(count)]


def play_in_turn(crowd: list[keyhole.Predictor[Any]], output: Any) -> Callable[[], None]:
    turns = itertools.cycle(crowd)

    def play() -> None:
        predictor = next(turns)
        predictor.learn(predictor.predict(output), label="label 3")

    return play


def play_exp3(exp3: bandit.Exp3) -> Callable[[], None]:
    arms = list(range(100))

    def play() -> None:
        exp3.update(exp3.pull(arms), 0.5)

    return play


def play_unlock(predictor: keyhole.Predictor[Any], output: Any) -> Callable[[], None]:
    def play() -> None:
        predictor.learn(predictor.predict(output), score=0.5)

    return play


def play_batch(predictor: keyhole.Predictor[Any], outputs: np.ndarray) -> Callable[[], None]:
    labels = outputs.argmax(axis=1).tolist()

    def play() -> None:
        predictor.learn_batch(predictor.predict_batch(outputs), labels)

    return play


if __name__ == "__main__":
    main()
