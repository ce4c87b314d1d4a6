"""Links between README and docs lead somewhere, headings included."""

import re
from pathlib import Path

import pytest

from tests.docs.snippets import PAGES, ROOT

_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _slugs(page: Path) -> set[str]:
    """Return the anchors that the site gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", page.read_text())):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, heading = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), f"{page.name} links to {target}"
        assert not heading or heading in _slugs(found), f"{page.name} links to {target}"
