"""Both lanes compute the same bits, and what is compiled is kept on disk for exactly that code."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from keyhole.numeric import (
    Array,
    add_up,
    bind,
    cache_root,
    can_compile,
    compile_for,
    compile_function,
    exp,
    fingerprint,
    ln,
    sigmoid,
    tan,
)

needs_numba = pytest.mark.skipif(not can_compile(), reason="there is no compiled lane")
GRIDS = {
    exp: np.concatenate((-np.geomspace(1e-300, 1e300, 2_001), np.linspace(-45.0, 0.0, 2_001))),
    ln: np.concatenate((np.geomspace(5e-324, 1e308, 2_001), np.linspace(0.5, 2.0, 2_001))),
    tan: np.linspace(-1.5707963, 1.5707963, 4_001),
    sigmoid: np.linspace(-50.0, 50.0, 4_001),
}
NEAR = "from far import inner\n\n\ndef outer(x):\n    return inner(x) + 1.0\n"
FAR = "FACTOR = 2.0\n\n\ndef inner(x):\n    return FACTOR * x\n"
LOAD = """
from keyhole import make
from keyhole.learners import compile_learner

learner = make("exp3-ix", alpha=0.1, horizon=1_000, arms=5)
for entry in compile_learner(learner):
    print(sum(entry.stats.cache_hits.values()), sum(entry.stats.cache_misses.values()))
state = learner.start()
print(learner.choose(state, 0.7)[0])
"""


@pytest.mark.parametrize("function", GRIDS)
def test_compiled_and_interpreted_give_the_same_bits(function: Callable[[float], float]) -> None:
    fast = compile_function(function)
    points = GRIDS[function].tolist()
    both = [np.array([lane(x) for x in points]) for lane in (function, fast)]
    assert both[0].tobytes() == both[1].tobytes()


def test_bound_names_are_those_of_the_copy_alone() -> None:
    copy = bind(sigmoid, exp=lambda x: 1.0)  # noqa: ARG005
    assert copy(3.0) == 0.5
    assert sigmoid(3.0) > 0.9


def outer_of(folder: Path, *, near: str = NEAR, far: str = FAR) -> FunctionType:
    """The function ``outer`` of one module, which names ``inner`` of another."""
    folder.mkdir()
    (folder / "near.py").write_text(near)
    (folder / "far.py").write_text(far)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "far", raising=False)
        patch.syspath_prepend(folder)
        spec = spec_from_file_location("near", folder / "near.py")
        assert spec is not None
        assert spec.loader is not None
        module: Any = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules.pop("far")
    return module.outer


@pytest.mark.parametrize(
    "changed",
    [
        {"far": FAR.replace("FACTOR * x", "FACTOR + x")},
        {"far": FAR.replace("2.0", "2.0000000000000004")},
        {"near": NEAR.replace("1.0", "1.5")},
        {"far": FAR.replace("(x)", "(x, y=1.0)")},
        {"far": "import math\n\n\ndef inner(x):\n    return math.pi * x\n"},
    ],
    ids=["kernel elsewhere", "constant elsewhere", "own constant", "default", "module"],
)
def test_fingerprint_changes_with_the_code_however_far_away(
    changed: dict[str, str], tmp_path: Path
) -> None:
    before = fingerprint(outer_of(tmp_path / "before"))
    assert fingerprint(outer_of(tmp_path / "after", **changed)) != before


def test_fingerprint_changes_with_a_default_and_with_a_modules_constant(tmp_path: Path) -> None:
    def texts(value: str) -> list[str]:
        with_default = f"def inner(x, y={value}):\n    return x * y\n"
        of_module = "import constants\n\n\ndef inner(x):\n    return x * constants.FACTOR\n"
        return [with_default, of_module]

    prints: list[list[str]] = []
    for value in ("2.0", "3.0"):
        folder = tmp_path / value
        folder.mkdir()
        (folder / "constants.py").write_text(f"FACTOR = {value}\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(sys.modules, "constants", raising=False)
            patch.syspath_prepend(folder)
            outers = [outer_of(folder / str(n), far=far) for n, far in enumerate(texts(value))]
            sys.modules.pop("constants")
        prints.append([fingerprint(outer) for outer in outers])
    assert prints[0][0] != prints[1][0]
    assert prints[0][1] != prints[1][1]


def test_fingerprint_changes_with_the_name_of_a_module(tmp_path: Path) -> None:
    """What was compiled under the old name imports that module, which is no longer there."""
    outer = outer_of(tmp_path / "old")
    before = fingerprint(outer)
    outer.__module__ = "renamed"
    assert fingerprint(outer) != before


def test_fingerprint_stays_where_nothing_changed(tmp_path: Path) -> None:
    first, second = (fingerprint(outer_of(tmp_path / name)) for name in ("one", "two"))
    assert first == second


def _scale_by(factor: float) -> Callable[[float], float]:
    def inner(x: float) -> float:
        return factor * x

    return inner


def _outer(x: float) -> float:
    return inner(x)  # type: ignore[name-defined] # noqa: F821


def test_kernels_made_by_one_function_are_told_apart_by_what_they_enclose() -> None:
    """They have one code between them: kept under one name, the second would run as the first."""
    doubled, tripled = (bind(_outer, inner=_scale_by(factor)) for factor in (2.0, 3.0))
    assert fingerprint(doubled) != fingerprint(tripled)  # type: ignore[arg-type]
    assert [compile_function(doubled)(1.0), compile_function(tripled)(1.0)] == [2.0, 3.0]


def run_in(cache: Path, code: str = LOAD) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code],
        env={**os.environ, "KEYHOLE_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.splitlines()


@needs_numba
def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    first, second = output_of(run_in(tmp_path)), output_of(run_in(tmp_path))
    assert first == ["0 1", "0 1", "0.75"]
    assert second == ["1 0", "1 0", "0.75"]


@needs_numba
def test_of_two_processes_at_once_one_compiles_and_the_other_loads(tmp_path: Path) -> None:
    processes = [run_in(tmp_path), run_in(tmp_path)]
    outputs = [output_of(process) for process in processes]
    assert [sorted(told) for told in zip(*outputs, strict=True)] == [
        ["0 1", "1 0"],
        ["0 1", "1 0"],
        ["0.75", "0.75"],
    ]


@needs_numba
def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert output_of(run_in(tmp_path / "file" / "cache"))[-1] == "0.75"


def _sum_of_copy(numbers: Array) -> float:
    return float(numbers.copy().sum())


def _sum(numbers: Array) -> float:
    total = 0.0
    for number in numbers:
        total += number
    return total


@needs_numba
def test_references_to_arrays_are_counted_only_where_arrays_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty cache: what was compiled before is loaded, whatever was asked of the compiler."""
    monkeypatch.setenv("KEYHOLE_CACHE", str(tmp_path))
    numbers = np.arange(4.0)
    plain, copying = compile_for(_sum, numbers), compile_for(_sum_of_copy, numbers)
    assert [plain(numbers), copying(numbers)] == [6.0, 6.0]
    counted = [one.targetoptions.get("_nrt", True) for one in (plain, copying)]  # type: ignore[attr-defined]
    assert counted == [False, True]


OF_A_SCRIPT = """
from keyhole import kernel
from keyhole.numeric import compile_for


@kernel
def twice(x):
    return 2.0 * x


fast = compile_for(twice, 1.0)
print(fast(2.0))
"""


@needs_numba
def test_what_a_script_defines_leaves_nothing_that_no_process_would_find_again(tmp_path: Path) -> None:
    assert output_of(run_in(tmp_path, OF_A_SCRIPT)) == ["4.0"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_cache_is_where_it_is_told_or_in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYHOLE_CACHE", "/somewhere")
    assert cache_root() == Path("/somewhere")
    monkeypatch.delenv("KEYHOLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/cache")
    assert cache_root() == Path("/home/cache/keyhole")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert cache_root() == Path.home() / ".cache" / "keyhole"


def test_a_sum_is_taken_from_left_to_right_whatever_python_it_is() -> None:
    """Kills: the built-in sum, which compensates from 3.12 on, so that a log would replay otherwise."""
    assert add_up([1.0, 1e100, 1.0, -1e100]) == 0.0
    assert add_up([0.1] * 10) == 0.9999999999999999


def test_first_rounds_of_a_grid_learner_do_without_numba_and_later_ones_give_the_same_bits() -> None:
    """To import numba takes longer than those rounds."""
    if not can_compile():
        pytest.skip("there is no compiled lane")
    code = (
        "import sys, keyhole\n"
        "predictor = keyhole.Predictor('ocp-unlock+', alpha=0.1, seed=3)\n"
        "for number in range(80):\n"
        "    if number == 20: print('numba' in sys.modules)\n"
        "    shown = predictor.predict({'a': 0.7, 'b': 0.3})\n"
        "    predictor.learn(shown, label='b')\n"
        "    print(shown.threshold.hex())\n"
        "print('numba' in sys.modules)\n"
    )

    def run(**changed: str) -> list[str]:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], env={**os.environ, **changed},
            capture_output=True, text=True, check=True, timeout=300,
        )  # fmt: skip
        return done.stdout.splitlines()

    mixed, interpreted = run(), run(NUMBA_DISABLE_JIT="1")
    assert (mixed.pop(20), mixed.pop()) == ("False", "True")
    assert (interpreted.pop(20), interpreted.pop()) == ("False", "False")
    assert mixed == interpreted
