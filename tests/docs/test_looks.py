"""The site can be read by everybody: axe finds nothing serious, formulas are typeset, all fits."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.docs.looks import DESKTOP, PHONE, SHOWN, SITE, find_faults, list_pages, open_page

_WIDE = """() => [...document.querySelectorAll(".md-content :is(.scroll, pre code, .arithmatex)")]
    .filter(one => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1)
    .map(one => one.textContent.slice(0, 60))"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """`make check` has built the site; without it, build it here."""
    if not (SITE / "index.html").exists():
        spec = importlib.util.spec_from_file_location(
            "site_builder", SITE.parents[1] / "docs" / "site.py"
        )
        assert spec is not None
        assert spec.loader is not None
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        assert builder.main() == 0


def test_axe_finds_nothing_serious(browser: Any) -> None:
    """On a dozen pages; `python -m tests.docs.looks` looks at all of them."""
    found: dict[str, list[str]] = {}
    for path in (
        SITE / f"{name}.html" for name in (*SHOWN, "paper", "glossary", "board", "reference/http")
    ):
        page = open_page(browser, path, DESKTOP, "light")
        if faults := find_faults(page):
            found[path.name] = faults
        page.close()
    assert found == {}


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_nor_in_the_dark_and_on_a_phone(browser: Any, viewport: dict[str, int], scheme: str) -> None:
    for name in ("index", "board", "howto/forecasts"):
        page = open_page(browser, SITE / f"{name}.html", viewport, scheme)
        assert find_faults(page) == [], name
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= viewport["width"], f"{name} is wider than the screen"
        page.close()


def test_tables_and_code_fit_a_desktop(browser: Any) -> None:
    page = browser.new_page(viewport=DESKTOP)
    wide = []
    for path in list_pages():
        page.goto(path.as_uri(), wait_until="load")
        wide += [f"{path.name}: {text}" for text in page.evaluate(_WIDE)]
    page.close()
    assert wide == []


def test_a_fault_would_be_found(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<html lang="en"><title>x</title><p style="color:#ccc;background:#fff">pale</p></html>'
    )
    page = open_page(browser, bad, DESKTOP, "light")
    assert "color-contrast" in find_faults(page)[0]
    page.close()


def test_formulas_are_typeset_without_a_program_or_an_address_from_elsewhere() -> None:
    method = (SITE / "method.html").read_text()
    assert method.count("<math ") > 50
    for path in list_pages():
        text = path.read_text()
        assert r"\(" not in text.split("<article")[1].split("<code")[0], path.name
        assert "cdn" not in text.split("<article")[0], path.name
