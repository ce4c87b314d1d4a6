"""Every example runs as a script, and is a notebook with the same code."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_prints(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


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
