"""Every snippet of README and docs runs, in the order of its page, and prints what the page says."""

from pathlib import Path

import pytest

from tests.docs.snippets import PAGES, ROOT, find_snippets, is_as_said, run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run_and_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "snippet"}
    for snippet in find_snippets(page):
        printed = run(snippet, page, names)
        said = snippet.printed or ""
        assert is_as_said(printed, said), f"{page.name}, line {snippet.line}, printed:\n{printed}"


def test_a_wrong_output_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    (snippet,) = find_snippets(page)
    assert snippet.line == 4
    assert not is_as_said(run(snippet, page, {}), snippet.printed or "")
