import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import keyhole

PUBLIC = [
    "HIT",
    "LEARNERS",
    "MISS",
    "BoundedResiduals",
    "Channel",
    "Client",
    "CustomIntervals",
    "CustomScores",
    "Exp3P",
    "Hit",
    "Interval",
    "LabelSet",
    "Learner",
    "Missed",
    "Needs",
    "Predictor",
    "Probabilities",
    "Regime",
    "Revealed",
    "Rule",
    "ScaledResiduals",
    "Simulation",
    "bounds",
    "errors",
    "feedback",
    "grid",
    "make",
    "metrics",
    "ocp_bandit",
    "ocp_unlock",
    "ocp_unlock_plus",
    "safety_valve",
    "scores",
    "simulate",
    "simulate_against",
]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(keyhole.__path__, "keyhole.")
    if not module.name.endswith("__main__")
]


def test_public_names_are_these_sorted_and_there() -> None:
    assert keyhole.__all__ == PUBLIC
    assert keyhole.__all__ == sorted(keyhole.__all__, key=_sort_key)
    assert all(hasattr(keyhole, name) for name in keyhole.__all__)


def _sort_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert keyhole.__version__ == version("keyhole")


def test_import_needs_numpy_and_numba_only() -> None:
    code = "import sys, keyhole; print(sorted(set(sys.modules) & {'sklearn', 'matplotlib', 'joblib'}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert out.stdout.strip() == "[]"
