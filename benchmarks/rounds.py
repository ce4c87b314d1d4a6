"""The cost of a round: compiled loop, predictor, and plain NumPy, in one run. ``make bench``."""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from keyhole import Learner, Predictor, make
from keyhole.draws import draws
from keyhole.grid import Array
from keyhole.simulate import play
from numpy_rule import NumpyUnlockPlus

ROUNDS = 50_000
FEW = 4_000
REPEATS = 5


def best(call: Callable[[], object], rounds: int) -> float:
    """Microseconds a round, the best of a few repeats: the machine may be busy."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds) / rounds * 1e6


def compiled(learner: Learner, scores: Array) -> float:
    thresholds, misses = np.empty(scores.size), np.empty(scores.size, dtype=np.bool_)
    play(learner, scores[:1], 0, thresholds[:1], misses[:1])
    return best(lambda: play(learner, scores, 0, thresholds, misses), scores.size)


def one_at_a_time(learner: Learner, scores: Array, *, regime: str = "semi-bandit") -> float:
    def rounds() -> None:
        predictor = Predictor(learner, seed=0, regime=regime)
        for score in scores[:FEW].tolist():
            predictor.learn(predictor.predict((score,)), score=score)

    rounds()
    return best(rounds, FEW)


def plain(learner: Learner, scores: Array) -> float:
    uniforms = draws(0, 0, FEW).tolist()

    def rounds() -> list[float]:
        rule = NumpyUnlockPlus(learner)
        return [rule.round(s, u) for s, u in zip(scores[:FEW].tolist(), uniforms, strict=True)]

    same = np.empty(FEW)
    play(learner, scores[:FEW], 0, same, np.empty(FEW, dtype=np.bool_))
    differing = int((np.array(rounds()) != same).sum())
    assert differing <= FEW // 1000, "the NumPy rule plays other thresholds"
    return best(rounds, FEW)


def costs() -> None:
    scores = np.random.default_rng(0).beta(6, 2, ROUNDS)
    print(f"microseconds a round, ocp-unlock+, best of {REPEATS}")
    print(f"{'arms':>6}{'compiled':>11}{'predictor':>11}{'NumPy':>9}{'NumPy / compiled':>19}")
    for arms in (20, 200, 1000):
        learner = make("ocp-unlock+", alpha=0.1, horizon=ROUNDS, arms=arms)
        fast, step, slow = (f(learner, scores) for f in (compiled, one_at_a_time, plain))
        print(f"{arms:>6}{fast:>11.2f}{step:>11.1f}{slow:>9.1f}{slow / fast:>18.0f}x")


def flatness() -> None:
    """The cost of a round early and late in a long run, in microseconds."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=2_000_000, arms=200)
    scores = np.random.default_rng(0).beta(6, 2, 100_000)
    state = learner.start()
    thresholds, misses = np.empty(scores.size), np.empty(scores.size, dtype=np.bool_)
    parts = []
    for part in range(20):
        began = time.perf_counter()
        play(learner, scores, part, thresholds, misses, state=state)
        parts.append((time.perf_counter() - began) / scores.size * 1e6)
    early, late = np.median(parts[1:7]), np.median(parts[-6:])
    size = sum(values.nbytes for values in state)
    print(
        f"\n2,000,000 rounds, 200 arms: {early:.2f} us a round early, {late:.2f} late; "
        f"state {size} bytes"
    )


def first_prediction() -> None:
    code = (
        "import time; began = time.perf_counter(); import keyhole;"
        "ready = time.perf_counter() - began;"
        "keyhole.Predictor('ocp-unlock+', alpha=.1, horizon=1000).predict([.5]);"
        "print(ready, time.perf_counter() - began)"
    )
    numba = "import time; began = time.perf_counter(); import numba; print(time.perf_counter() - began)"
    runs = [[float(x) for x in _output(code).split()] for _ in range(3)]
    imported, first = (min(column) for column in zip(*runs, strict=True))
    alone = min(float(_output(numba)) for _ in range(3))
    print(
        f"\nfresh process: import numba {alone:.2f} s, import keyhole {imported:.2f} s, "
        f"first prediction after {first:.2f} s (compiled anew; nothing is cached on disk)"
    )


def _output(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    costs()
    flatness()
    first_prediction()
