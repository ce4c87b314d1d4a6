"""The cost of a round: compiled loop, predictor, plain NumPy, plain C, in one run. ``make bench``."""

import ctypes
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from keyhole import Predictor, make
from keyhole.learners import Learner
from keyhole.numeric import Array
from keyhole.predictor.draws import make_draws
from keyhole.simulation.simulate import play_clear
from numpy_rule import NumpyUnlockPlus

ROUNDS = 50_000
FEW = 4_000
REPEATS = 5
SHORT, BURSTS = 10_000, 200  # What takes milliseconds is left alone now and then.
Played: TypeAlias = Callable[[], Array]


def best(call: Callable[[], object], rounds: int) -> float:
    """Microseconds a round, the best of a few repeats: the machine may be busy."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds) / rounds * 1e6


def time_compiled(learner: Learner, scores: Array) -> float:
    thresholds, misses = np.empty(scores.size), np.empty(scores.size, dtype=np.bool_)
    play_clear(learner, scores[:1], 0, thresholds[:1], misses[:1])
    return best(lambda: play_clear(learner, scores, 0, thresholds, misses), scores.size)


def one_at_a_time(learner: Learner, scores: Array, *, feedback: str = "semi-bandit") -> float:
    def rounds() -> None:
        predictor = Predictor(learner, seed=0, feedback=feedback)
        for score in scores[:FEW].tolist():
            predictor.learn(predictor.predict((score,)), score=score)

    rounds()
    return best(rounds, FEW)


def plain(learner: Learner, scores: Array) -> float:
    uniforms = make_draws(0, 0, FEW).tolist()

    def rounds() -> list[float]:
        rule = NumpyUnlockPlus(learner)
        return [rule.round(s, u) for s, u in zip(scores[:FEW].tolist(), uniforms, strict=True)]

    same = np.empty(FEW)
    play_clear(learner, scores[:FEW], 0, same, np.empty(FEW, dtype=np.bool_))
    differing = int((np.array(rounds()) != same).sum())
    assert differing <= FEW // 1000, "the NumPy rule plays other thresholds"
    return best(rounds, FEW)


def costs() -> None:
    scores = np.random.default_rng(0).beta(6, 2, ROUNDS)
    print(f"microseconds a round, ocp-unlock+, best of {REPEATS}")
    print(f"{'arms':>6}{'compiled':>11}{'predictor':>11}{'NumPy':>9}{'NumPy / compiled':>19}")
    for arms in (20, 200, 1000):
        learner = make("ocp-unlock+", alpha=0.1, horizon=ROUNDS, arms=arms)
        fast, step, slow = (f(learner, scores) for f in (time_compiled, one_at_a_time, plain))
        print(f"{arms:>6}{fast:>11.2f}{step:>11.1f}{slow:>9.1f}{slow / fast:>18.0f}x")


def default() -> None:
    """A compiled round of the default beside one of the logit tracker, in turns."""
    scores = np.random.default_rng(0).beta(6, 2, SHORT)
    thresholds, misses = np.empty(SHORT), np.empty(SHORT, dtype=np.bool_)
    seconds: dict[str, float] = {}
    learners = [make(name, alpha=0.1) for name in ("informed-tracker", "logit-tracker")]
    for _ in range(BURSTS):
        for learner in learners:
            took = _time(lambda one=learner: play_clear(one, scores, 0, thresholds, misses))  # type: ignore[misc]
            seconds[learner.name] = min(took, seconds.get(learner.name, math.inf))
    ours, theirs = (one / SHORT * 1e6 for one in seconds.values())
    print(
        f"\ncompiled, informed-tracker {ours:.3f} us a round, logit-tracker {theirs:.3f}: "
        f"{ours / theirs:.2f} x, reach 3 x"
    )


def flatness() -> None:
    """The cost of a round early and late in a long run, in microseconds."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=2_000_000, arms=200)
    scores = np.random.default_rng(0).beta(6, 2, 100_000)
    state = learner.start_arrays()
    thresholds, misses = np.empty(scores.size), np.empty(scores.size, dtype=np.bool_)
    parts = []
    for part in range(20):
        began = time.perf_counter()
        play_clear(learner, scores, part, thresholds, misses, state=state)
        parts.append((time.perf_counter() - began) / scores.size * 1e6)
    early, late = np.median(parts[1:7]), np.median(parts[-6:])
    size = sum(values.nbytes for values in state)
    print(
        f"\n2,000,000 rounds, 200 arms: {early:.2f} us a round early, {late:.2f} late; "
        f"state {size} bytes"
    )


def beside_c() -> None:
    """The compiled lane beside plain C loops, in turns; the same thresholds but for rounding.

    ``-Ofast`` may reorder sums and fuse products with them, which we may not: both lanes give the same
    bits. The last row is beside C that may not either.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        print("\nno C compiler: nothing to lay the compiled lane beside")
        return
    scores, draws = np.random.default_rng(0).beta(6, 2, SHORT), make_draws(0, 0, SHORT)
    with tempfile.TemporaryDirectory() as folder:
        probe = build_probe(compiler, Path(folder) / "fast.so", "-Ofast")
        exact = build_probe(compiler, Path(folder) / "exact.so", "-O3", "-ffp-contract=off")
        print(f"\n{'beside plain C (cc -Ofast)':<28}{'compiled':>12}{'C':>12}{'ratio':>9}   reach")
        for arms, reach in ((20, "1.4 x"), (200, "0.97 x"), (1000, "0.82 x")):
            learner = make("ocp-unlock+", alpha=0.1, horizon=ROUNDS, arms=arms)
            in_c = probe_unlock(probe, learner, scores, draws)
            report_beside(f"ocp-unlock+, K = {arms}", learner, scores, in_c, reach)
        learner = make("logit-tracker", alpha=0.1)
        report_beside("logit-tracker", learner, scores, probe_tracker(probe, learner, scores), "1.3 x")
        same = probe_tracker(exact, learner, scores)
        report_beside("logit-tracker, -O3, same bits", learner, scores, same, "", apart=0.0)


def build_probe(compiler: str, library: Path, *options: str) -> ctypes.CDLL:
    source = Path(__file__).with_name("probe.c")
    always = ["-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, *always, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def probe_unlock(probe: ctypes.CDLL, learner: Learner, scores: Array, draws: Array) -> Played:
    settings = learner.settings
    arms = settings.grid.size
    gains, running, thresholds = np.zeros(arms), np.zeros(arms), np.empty(scores.size)
    tables = (settings.grid, settings.epochs[0], settings.hit_gains[0], settings.miss_gains[0])
    parts = (*tables, scores, draws, gains, running, thresholds)
    pointers = [_point(part) for part in parts]

    def play() -> Array:
        parts[-3][:] = 0.0  # the gains; all parts must live as long as their pointers
        probe.play_unlock_plus(ctypes.c_size_t(arms), ctypes.c_size_t(scores.size), *pointers)
        return thresholds

    return play


def probe_tracker(probe: ctypes.CDLL, learner: Learner, scores: Array) -> Played:
    thresholds, settings = np.empty(scores.size), learner.settings
    names = ("alpha", "step", "first", "edge", "reach", "most", "least")
    numbers = [getattr(settings, name) for name in names]
    arguments = [*map(ctypes.c_double, numbers), _point(scores), _point(thresholds)]

    def play() -> Array:
        probe.play_logit_tracker(ctypes.c_size_t(scores.size), *arguments)
        return thresholds

    return play


def _point(values: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def report_beside(
    name: str, learner: Learner, scores: Array, in_c: Played, reach: str, *, apart: float = 1e-9
) -> None:
    thresholds, misses = np.empty(scores.size), np.empty(scores.size, dtype=np.bool_)
    play_clear(learner, scores, 0, thresholds, misses)
    differing = np.abs(in_c() - thresholds) > apart
    assert differing.mean() <= 0.01 * (apart > 0.0), "the C rule plays other thresholds"
    ours, theirs = math.inf, math.inf
    for _ in range(BURSTS):  # in turns, so that both find quiet moments
        ours = min(ours, _time(lambda: play_clear(learner, scores, 0, thresholds, misses)))
        theirs = min(theirs, _time(in_c))
    mine, plain_c = ours / scores.size * 1e6, theirs / scores.size * 1e6
    print(f"{name:<30}{mine:>7.3f} us{plain_c:>9.3f} us{mine / plain_c:>7.2f} x   {reach}")


def _time(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def first_round() -> None:
    """The seconds of processor time that a fresh process takes to a first round, beside NumPy's own."""
    code = (
        "import keyhole; p = keyhole.Predictor({}alpha=.1);"
        "p.learn(p.predict({{'a': .7, 'b': .3}}), score=.7)"
    )
    with tempfile.TemporaryDirectory() as cache:
        alone = _quickest("import numpy", cache)
        imported = _quickest("import keyhole", cache)
        predictor = _quickest("from keyhole import Predictor", cache)
        played, of_grid = (
            _quickest(code.format(""), cache),
            _quickest(code.format("'ocp-unlock+', "), cache),
        )
    print(f"\n{'a fresh process':<44}{'seconds':>9}{'of import numpy':>18}   reach")
    for name, seconds, reach in (
        ("import numpy", alone, ""),
        ("import keyhole", imported, "1.5 x"),
        ("from keyhole import Predictor", predictor, "1.5 x"),
        ("and a first round of the default", played, "2 x"),
        ("and a first round of ocp-unlock+", of_grid, "4 x"),
    ):
        print(f"{name:<44}{seconds:>9.2f}{seconds / alone:>16.2f} x   {reach}")


def _quickest(code: str, cache: str, *, times: int = 5) -> float:
    """Return the least processor time that a process of its own took for this code."""
    command = [sys.executable, "-c", code]
    # What is installed has its bytecode beside it.
    where = {**os.environ, "KEYHOLE_CACHE": cache, "PYTHONPYCACHEPREFIX": f"{cache}/bytecode"}
    where.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, env=where)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


if __name__ == "__main__":
    costs()
    default()
    flatness()
    beside_c()
    first_round()
