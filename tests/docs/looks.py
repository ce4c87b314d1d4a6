"""Look at the built site as people do: axe's findings of every page, and pictures of some.

python -m tests.docs.looks out/pictures
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.conftest import find_chromium

SITE = Path(__file__).parents[2] / "out" / "site"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOWN = (
    "index",
    "tutorial",
    "guarantees",
    "method",
    "rules",
    "peers",
    "reference/names",
    "howto/forecasts",
)


def list_pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")


def open_page(browser: Any, path: Path, viewport: dict[str, int], scheme: str) -> Any:
    page = browser.new_page(viewport=viewport, color_scheme=scheme)
    page.goto(path.as_uri(), wait_until="load")
    return page


def find_faults(page: Any) -> list[str]:
    """Return what axe finds that is serious or worse, with the first place of each."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {len(one['nodes'])} places, such as {one['nodes'][0]['html'][:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def take_pictures(browser: Any, folder: Path) -> Iterator[Path]:
    for name in SHOWN:
        for kind, viewport, scheme in (
            ("desktop", DESKTOP, "light"),
            ("dark", DESKTOP, "dark"),
            ("phone", PHONE, "light"),
        ):
            page = open_page(browser, SITE / f"{name}.html", viewport, scheme)
            picture = folder / f"{name.replace('/', '-')}-{kind}.png"
            page.screenshot(path=str(picture))
            page.close()
            yield picture


if __name__ == "__main__":
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for taken in take_pictures(chromium, to):
            sys.stdout.write(f"{taken}\n")
        for path in list_pages():
            for scheme in ("light", "dark"):
                page = open_page(chromium, path, DESKTOP, scheme)
                for fault in find_faults(page):
                    sys.stdout.write(f"{path.relative_to(SITE)} {scheme} {fault}\n")
                page.close()
        chromium.close()
