"""What is built is what a stranger installs; `make test-release` runs these."""

import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import keyhole

pytest.importorskip("build", reason="make test-release has its own environment")

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def first_block() -> tuple[str, str]:
    """Return the README's first Python block and what it says that it prints."""
    text = (ROOT / "README.md").read_text()
    code, _, rest = text.split("```python\n", 1)[1].partition("```")
    return code, rest.split("```text\n", 1)[1].partition("```")[0]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def stranger(
    request: pytest.FixtureRequest, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An empty environment into which the wheel or the sdist was installed."""
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder / "env", with_pip=True)
    quiet = ("--quiet", "--disable-pip-version-check")
    run(folder / "env/bin/pip", "install", *quiet, only(dist, request.param), folder=folder)
    return folder


def test_the_description_and_its_metadata_are_whole(dist: Path) -> None:
    run(TOOLS / "twine", "check", "--strict", *dist.iterdir(), folder=dist)


def test_the_first_block_of_the_readme_prints_what_it_says(stranger: Path) -> None:
    code, printed = first_block()
    (stranger / "first.py").write_text(code)
    assert run(stranger / "env/bin/python", "first.py", folder=stranger) == printed


def test_the_command_is_there(stranger: Path) -> None:
    assert keyhole.__version__ in run(stranger / "env/bin/keyhole", "--version", folder=stranger)
    assert "informed-tracker" in run(stranger / "env/bin/keyhole", "learners", folder=stranger)


def test_numpy_is_all_that_comes_with_it(stranger: Path) -> None:
    listed = json.loads(run(stranger / "env/bin/pip", "list", "--format=json", folder=stranger))
    assert {row["name"] for row in listed} <= {"keyhole-conformal", "numpy", "pip", "setuptools"}


def test_the_bill_of_materials_names_what_is_installed(stranger: Path) -> None:
    tool, python = TOOLS / "cyclonedx-py", stranger / "env/bin/python"
    bill = json.loads(run(tool, "environment", "--output-format", "JSON", python, folder=stranger))
    assert {"keyhole-conformal", "numpy"} <= {part["name"] for part in bill["components"]}


def test_the_wheel_has_types_licences_and_data_but_no_tests(dist: Path) -> None:
    names = zipfile.ZipFile(only(dist, "*.whl")).namelist()
    assert "keyhole/py.typed" in names
    assert {Path(name).name for name in names} >= {"LICENSE", "NOTICE"}
    assert not [name for name in names if not name.startswith(("keyhole/", "keyhole_conformal-"))]


def test_the_sdist_has_what_its_tests_need(dist: Path) -> None:
    with tarfile.open(only(dist, "*.tar.gz")) as archive:
        parts = {name.split("/", 2)[1] for name in archive.getnames() if "/" in name}
    assert parts >= {"src", "tests", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "pyproject.toml"}


@pytest.mark.parametrize(
    "checker",
    [["mypy", "--strict", "--python-executable"], ["basedpyright", "--level", "error", "--pythonpath"]],
)
def test_a_typed_program_of_a_user_is_checked_against_our_types(
    stranger: Path, checker: list[str]
) -> None:
    program = stranger / "typed_program.py"
    program.write_text((HERE / "typed_program.py").read_text())
    (stranger / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    check: list[str | Path] = [TOOLS / checker[0], *checker[1:], stranger / "env/bin/python", program]
    run(*check, folder=stranger)
    program.write_text(program.read_text() + '\npredictor.learn(shown, label=1, chance="often")\n')
    wrong = subprocess.run(
        [str(part) for part in check], cwd=stranger, capture_output=True, check=False
    )
    assert wrong.returncode == 1, "a word where a number belongs must be noticed"
