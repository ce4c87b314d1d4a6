"""What the how-to pages point to is there."""

import re
from pathlib import Path

import pytest

import keyhole

PAGES = sorted((Path(__file__).parents[2] / "docs" / "howto").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_links_and_benchmarks_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for script in re.findall(r"python (benchmarks/\w+\.py)", text):
        assert (Path(__file__).parents[2] / script).is_file(), script


def test_the_version_to_cite_is_this_one() -> None:
    research = next(page for page in PAGES if page.stem == "research")
    assert re.findall(r"version = {(.+)}", research.read_text()) == [keyhole.__version__]
