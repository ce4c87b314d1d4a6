import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import keyhole

PUBLIC = [
    "GATES", "HIT", "LEARNERS", "MISS", "AsyncClient", "Client", "Gate", "Predictor",
    "Probabilities", "QuantileBands", "ScaledResiduals", "bounds", "compare", "kernel", "make",
    "register", "simulate",
]  # fmt: skip
MODULES = [
    module.name
    for module in pkgutil.walk_packages(keyhole.__path__, "keyhole.")
    if not module.name.endswith("__main__")
]


def test_public_names_are_these_sorted_and_there() -> None:
    assert keyhole.__all__ == PUBLIC
    assert keyhole.__all__ == sorted(keyhole.__all__, key=_sort_key)
    assert all(hasattr(keyhole, name) for name in keyhole.__all__)


def test_every_rule_is_found_by_its_name_and_nothing_else_is() -> None:
    assert keyhole.ocp_unlock_plus is keyhole.LEARNERS["ocp-unlock+"]
    assert keyhole.gate_split is keyhole.GATES["gate-split"]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = keyhole.nonsense


def test_rooms_are_found_without_being_imported() -> None:
    rooms = "keyhole.keyed.Fold, keyhole.errors.ScoreError, keyhole.learners.LEARNERS, keyhole.scores"
    shown = f"import keyhole; print(keyhole.simulation.Channel(delay=3).delay, {rooms})"
    subprocess.run([sys.executable, "-c", shown], check=True, capture_output=True)  # noqa: S603


def _sort_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


NO_EXAMPLE = {"AsyncClient", "Client"}  # they talk to a service: docs/howto/service.md runs one


def test_every_public_class_and_function_has_an_example() -> None:
    shown = [
        name
        for name in keyhole.__all__
        if inspect.isroutine(getattr(keyhole, name)) or inspect.isclass(getattr(keyhole, name))
    ]
    lacking = [name for name in shown if ">>>" not in (getattr(keyhole, name).__doc__ or "")]
    assert set(lacking) == NO_EXAMPLE


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    if module == "keyhole.integrations.spark":
        pytest.importorskip("pyspark")  # it has an environment of its own: make test-spark
    if module == "keyhole.integrations.bytewax":
        pytest.importorskip("bytewax")  # not for every Python
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert keyhole.__version__ == version("keyhole-conformal")


HEAVY = ("numba", "fastapi", "psycopg", "httpx", "joblib", "matplotlib", "sklearn", "pyspark")
FIRST_ROUND = """
import sys, keyhole
predictor = keyhole.Predictor(alpha=0.1)
predictor.learn(predictor.predict({"cat": 0.7, "lynx": 0.2}), label="cat")
print(sorted(set(sys.modules) & set(sys.argv[1:])))
"""


def test_a_first_round_imports_nothing_heavier_than_numpy() -> None:
    command = [sys.executable, "-c", FIRST_ROUND, *HEAVY]
    out = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert out.stdout.strip() == "[]"


WITHOUT_NUMBA = """
import sys, warnings
sys.modules["numba"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numba" else found(name, *more)
import keyhole
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    predictor = keyhole.Predictor("ocp-unlock+", alpha=0.1, seed=7)
    for _ in range(3):
        predictor.learn(predictor.predict({"cat": 0.7, "lynx": 0.2}), score=0.7)
    keyhole.simulate(keyhole.make("kt", alpha=0.1), [0.5] * 20)
print(predictor.rounds, len(said), "keyhole-conformal[fast]" in str(said[0].message))
"""


def test_without_numba_all_works_and_says_once_how_to_be_fast() -> None:
    command = [sys.executable, "-c", WITHOUT_NUMBA]
    out = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert out.stdout.strip() == "3 1 True"
