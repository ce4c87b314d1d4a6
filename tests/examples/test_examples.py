"""Every example runs as a script, and is a notebook with the same code."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GALLERY = (ROOT / "docs" / "howto" / "gallery.md").read_text().split("\n## ")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_prints(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.strip()
    (shown,) = [entry for entry in GALLERY if f"`python examples/{path.name}`" in entry]
    for block in re.findall(r"```text\n(.*?)```", shown, flags=re.DOTALL):
        assert block in printed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_a_notebook_of_words_and_code(path: Path) -> None:
    import jupytext

    notebook = jupytext.read(path)
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds[0] == "markdown"
    assert notebook["cells"][0]["source"].startswith("# ")
    assert kinds.count("code") >= 2
    again = jupytext.reads(jupytext.writes(notebook, fmt="ipynb"), fmt="ipynb")
    assert [cell["source"] for cell in again["cells"]] == [cell["source"] for cell in notebook["cells"]]
