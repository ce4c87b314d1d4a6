"""The cache of finished runs is keyed by all that a run depends on, and by nothing else."""

import shutil
from pathlib import Path

import pytest

import keyhole
from keyhole.studies.paper.runs import digest_sources, find_sources

PLAYS = ("keyhole.studies.paper.one_run", "keyhole.learners.rules.ocp_unlock_plus")
PACKAGE = Path(keyhole.__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("copy") / "keyhole"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def changes_the_key(package: Path, name: str) -> bool:
    before = digest_sources(PLAYS, package=package)
    file = package / name
    kept = file.read_bytes()
    file.write_bytes(kept + b"\n")
    try:
        return digest_sources(PLAYS, package=package) != before
    finally:
        file.write_bytes(kept)


@pytest.mark.parametrize(
    "name",
    [
        "learners/rules/ocp_unlock_plus.py",
        "learners/__init__.py",
        "learners/strategy.py",
        "numeric.py",
        "feedback.py",
        "grid.py",
        "simulation/simulate.py",
        "scenarios/airfoil.py",
        "scenarios/imagenet_like.py",
        "scenarios/data/airfoil.csv",
        "predictor/draws.py",
        "studies/paper/one_run.py",
    ],
)
def test_a_byte_of_what_a_run_uses_changes_the_key(package: Path, name: str) -> None:
    assert changes_the_key(package, name)


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "cli.py",
        "service/commands.py",
        "service/store/sql/database.py",
        "learners/rules/sps.py",
        "scenarios/digits.py",
        "studies/engine.py",
        "live_line.py",
        "studies/compare/contest_page.py",
        "studies/paper/figures.py",
        "studies/paper/words.py",
        "studies/paper/runs.py",
    ],
)
def test_a_byte_of_anything_else_does_not(package: Path, name: str) -> None:
    assert not changes_the_key(package, name)


def test_a_renamed_file_changes_the_key(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name / "keyhole"
        folder.mkdir(parents=True)
        (folder / "entry.py").write_text(f"import keyhole.{name}\n")
        (folder / f"{name}.py").write_text("")
    first, second = (
        digest_sources(["keyhole.entry"], package=tmp_path / name / "keyhole")
        for name in ("one", "two")
    )
    assert first != second


def test_imports_in_functions_count_and_those_for_type_checkers_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "keyhole"
    folder.mkdir()
    (folder / "entry.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from keyhole import drawn\n"
        "def late() -> None:\n    from keyhole import used\n"
    )
    for name in ("drawn", "used"):
        (folder / f"{name}.py").write_text("")
    found = find_sources(["keyhole.entry"], package=folder)
    assert [path.stem for path in found] == ["entry", "used"]
