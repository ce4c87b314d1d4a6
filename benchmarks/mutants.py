"""What the tests would not notice: one small change of the source at a time, and the tests that run it.

Cosmic-ray makes the changes. A first run of every quick test says which lines it executes and how long
it takes; a mutant then meets only the tests that execute its line, quickest first, in a fork of a
process that has imported everything but keyhole. All of it happens in a copy, in out/mutants, where the
results are kept: a second run goes on, and meets the survivors again where their tests have changed.
``python benchmarks/mutants.py --share 0.1 --seed 2 learners bounds`` takes a tenth of two rooms, with
another seed another tenth; with ``--survivors`` it lists those that are known. A survivor that
benchmarks/mutants_same.txt names, with the reason why nothing is different, is counted apart.
benchmarks/mutants.md has what was found.
"""

import argparse
import json
import math
import os
import shutil
import signal
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from mutate import Mutant, digest_of, find_change, list_mutants, mutate
from watch_tests import Quick, choose_tests, learn_tests, run_forked, run_pytest

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "mutants"
TREE = OUT / "tree"
SAME = Path(__file__).parent / "mutants_same.txt"
PARTS = ("src", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "README.md")
BOUNDS = ("src/keyhole/learners/bounds.py",)
ROOMS = {
    "bounds": BOUNDS,
    "learners": ("src/keyhole/learners/**/*.py",),  # without those of bounds
    "predictor": ("src/keyhole/predictor/*.py", "src/keyhole/feedback.py"),
    "keyed": ("src/keyhole/keyed/*.py",),
    "store": ("src/keyhole/service/store/**/*.py",),
    "integrations": ("src/keyhole/integrations/[!s]*.py", "src/keyhole/integrations/sklearn.py"),
}
TESTS = {
    "bounds": ("tests/learners/test_*bounds.py", "tests/learners/test_tuned_numbers.py"),
    "learners": ("tests/learners/test_*.py", "tests/docs/test_rules.py"),
    "predictor": (
        "tests/predictor/test_*.py",
        "tests/test_*.py",
        "tests/integrations/test_series.py",  # which plays its loop over the rows of tables
    ),
    "keyed": (
        "tests/test_key*.py",
        "tests/test_fold.py",
        "tests/integrations/test_r*.py",
        "tests/integrations/test_frames.py",
    ),
    "store": (
        "tests/service/store/**/test_*.py",
        *(
            f"tests/service/test_{name}.py"
            for name in ("amended", "erased", "gates_served", "history", "store")
        ),
    ),
    "integrations": ("tests/integrations/test_[!s]*.py", "tests/integrations/test_sklearn.py"),
}
NO_MUTANT = "no mutant"
TOO_LONG = 20  # seconds above what its tests take, after which a mutant is stopped


def copy_tree() -> None:
    """Bring the copy up to date; files that are the same keep their age, and so their bytecode."""
    for part in PARTS:
        source = ROOT / part
        files = source.rglob("*") if source.is_dir() else (source,)
        sources = {path.relative_to(ROOT) for path in files if path.is_file()}
        copies = {path.relative_to(TREE) for path in (TREE / part).rglob("*") if path.is_file()}
        for path in copies - sources:
            if "__pycache__" not in path.parts:
                (TREE / path).unlink()
        for path in sources:
            target = TREE / path
            if not target.exists() or target.read_bytes() != (ROOT / path).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, target)


def find(folder: Path, patterns: Iterable[str]) -> list[str]:
    found = {str(path.relative_to(folder)) for pattern in patterns for path in folder.glob(pattern)}
    return sorted(found)


def list_room(folder: Path, room: str) -> list[Mutant]:
    paths = [path for path in find(folder, ROOMS[room]) if room == "bounds" or path not in BOUNDS]
    return [mutant for path in paths for mutant in list_mutants(folder, path)]


def draw(mutants: list[Mutant], *, share: float, seed: int) -> list[Mutant]:
    """Return a random share of the mutants in random order, the same for the same seed."""
    order = sorted((mutant.place(seed), at) for at, mutant in enumerate(mutants))
    return [mutants[at] for place, at in order if place < share]


def meet(mutant: Mutant, nodes: list[str], *, seconds: float) -> str:
    """Return what became of the mutant: killed, survived or timeout; or that it is none."""
    file = TREE / mutant.path
    source, age = file.read_text(encoding="utf-8"), file.stat()
    changed = mutate(source, mutant)
    if changed is None:
        return NO_MUTANT
    if not nodes:
        return "survived"
    work = partial(run_pytest, TREE, nodes, plugin=Quick())
    try:
        file.write_text(changed, encoding="utf-8")
        code = run_forked(work, cpu=seconds + TOO_LONG, wall=3 * seconds + 6 * TOO_LONG)
    finally:
        file.write_text(source, encoding="utf-8")
        os.utime(file, ns=(age.st_atime_ns, age.st_mtime_ns))  # so that its bytecode counts again
    return {None: "timeout", 0: "survived"}.get(code, "killed")


def load_results() -> dict[str, Any]:
    file = OUT / "results.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def run_room(
    room: str, *, share: float, seed: int, budget: float, slow: float, only: str, tests: list[str]
) -> None:
    """Meet every mutant of the share whose outcome is not known, in the random order of the seed.

    Those of the share that survived before are met again where their tests have changed.
    """
    print(f"{room}: which test executes which lines", flush=True)
    files = [file for file in find(TREE, TESTS[room]) if any(part in file for part in tests)]
    known_tests = learn_tests(TREE, files, kept=OUT / "watched", slow=slow)
    results = load_results()
    drawn = draw(list_room(TREE, room), share=share, seed=seed)
    mutants = [mutant for mutant in drawn if only in mutant.path]
    began = time.monotonic()
    with (OUT / "results.jsonl").open("a", encoding="utf-8") as log:
        for done, mutant in enumerate(mutants):
            nodes = choose_tests(mutant, known_tests, budget=budget)
            asked = digest_of(*nodes, *(known_tests[node]["digest"] for node in nodes))
            known = results.get(mutant.key)
            if known and (known["outcome"] != "survived" or known["asked"] == asked):
                continue
            seconds = sum(known_tests[node]["seconds"] for node in nodes)
            outcome = meet(mutant, nodes, seconds=seconds)
            row = {"key": mutant.key, "outcome": outcome, "asked": asked, "tests": len(nodes)}
            print(json.dumps(row), file=log, flush=True)
            if done % 50 == 0:
                print(f"  {done} of {len(mutants)}, {time.monotonic() - began:.0f} s", flush=True)


def report(room: str, *, share: float, seed: int, only: str, survivors: bool) -> None:
    """Print the score of the share of a room, of its mutants that were met, with its standard error."""
    results, mutants = load_results(), [one for one in list_room(ROOT, room) if only in one.path]
    drawn = draw(mutants, share=share, seed=seed)
    met = [one for one in drawn if results.get(one.key, {"outcome": NO_MUTANT})["outcome"] != NO_MUTANT]
    alive = [mutant for mutant in met if results[mutant.key]["outcome"] == "survived"]
    alive.sort(key=lambda mutant: (mutant.path, mutant.line))
    changes = [find_change((ROOT / one.path).read_text(encoding="utf-8"), one) for one in alive]
    known = load_same()
    same = sum((one.path, change) in known for one, change in zip(alive, changes, strict=True))
    late = sum(results[mutant.key]["outcome"] == "timeout" for mutant in met)
    killed, other = len(met) - len(alive), max(1, len(met) - same)
    left = 1.0 - len(met) / max(1, len(mutants))  # nothing is left to chance where all were met
    score = killed / other
    error = math.sqrt(score * (1.0 - score) / other * left)
    print(
        f"{room:<13}{score:6.1%} killed (standard error {error:.1%}): {killed - late} by a test, {late}"
        f" by time; {len(alive) - same} survived, {same} change nothing"
        f" ({killed / max(1, len(met)):.1%} with these); {len(met)} of {len(mutants)} met"
    )
    if survivors:
        for one, change in zip(alive, changes, strict=True):
            why = known.get((one.path, change))
            where = f"{one.path}:{one.line}: {one.operator.partition('/')[2]}: {change}"
            print(where if why is None else f"  the same: {where} ({why})")


def load_same() -> dict[tuple[str, str], str]:
    """Return why nothing is different, by the file and the changed line of each mutant judged so."""
    lines = SAME.read_text(encoding="utf-8").splitlines() if SAME.exists() else []
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {(f"src/keyhole/{path}", change): why for path, change, why in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all where none is named")
    parser.add_argument("--share", type=float, default=1.0, help="how many of the mutants, from 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tests for one mutant")
    parser.add_argument("--slow", type=float, default=2.0, help="seconds that leave a test out")
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument("--tests", nargs="+", default=[""], help="parts of the names of test files")
    parser.add_argument("--survivors", action="store_true", help="run nothing, list what is known")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it leaves nothing running
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TREE / "src")}
    rooms, share, seed = given.rooms or list(ROOMS), given.share, given.seed
    if not given.survivors:
        copy_tree()
        for room in rooms:
            limits = {"budget": given.budget, "slow": given.slow}
            run_room(room, share=share, seed=seed, only=given.only, tests=given.tests, **limits)
    for room in rooms:
        report(room, share=share, seed=seed, only=given.only, survivors=given.survivors)


if __name__ == "__main__":
    main()
