"""Take the pictures of the page that the documents show: ``make screenshots``.

    python -m tests.service.page.screenshots FOLDER [--every]

``--every`` takes each state on a desktop and a phone, by day and by night, to be looked at.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.service.page.streams import begin, fill
from tests.service.process import Service

DESKTOP, PHONE = (1280, 800), (390, 844)


class Shot(NamedTuple):
    """A picture: its name, where it is taken, how large the window is, and by which light."""

    name: str
    path: str
    size: tuple[int, int]
    light: str = "light"
    whole: bool = False


KEPT = (
    Shot("page-demo", "/#/demo", DESKTOP),
    Shot("page-streams", "/#/", DESKTOP),
    Shot("page-stream", "/#/streams/contracts", (1280, 1100)),
    Shot("page-phone", "/#/", PHONE, "dark"),
    Shot("first-day-labels", "/#/streams/first-labels", (1280, 1000)),
    Shot("first-day-intervals", "/#/streams/first-intervals", (1280, 1000)),
)
STATES = {
    "demo": "/#/demo",
    "streams": "/#/",
    "alert": "/#/streams/contracts",
    "kept": "/#/streams/mail",
    "intervals": "/#/streams/demand",
    "levels": "/#/streams/forecasts",
    "gate": "/#/streams/approvals",
    "groups": "/#/streams/visits",
    "empty": "/#/streams/unheard",
    "archived": "/#/streams/past",
    "missing": "/#/streams/nowhere",
    "endpoints": "/docs",
}


def every_state() -> Iterator[Shot]:
    """Yield each state in both sizes and lights; the whole page, as far down as it goes."""
    for name, path in STATES.items():
        for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
            for light in ("light", "dark"):
                yield Shot(f"{name}-{device}-{light}", path, size, light, name != "endpoints")


def take(browser: Any, service: Service, shot: Shot, folder: Path) -> None:
    """Write one picture."""
    width, height = shot.size
    context = browser.new_context(
        base_url=service.url, viewport={"width": width, "height": height}, color_scheme=shot.light
    )
    page = context.new_page()
    page.goto(shot.path)
    page.wait_for_selector("h1")
    page.wait_for_timeout(1500)
    file = folder / f"{shot.name}.png"
    page.screenshot(path=file, full_page=shot.whole)
    context.close()
    # Few colours are enough for a page, and take a third of the room.
    Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)


def main() -> None:
    """Fill a service with streams in every state, then take every picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        url = f"sqlite:///{Path(scratch) / 'keyhole.db'}"
        fill(url, many=25, long=1200)
        begin(url)
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with Service(url, "--demo") as service:
            request = browser.new_context(base_url=service.url).request
            for _ in range(4):
                request.post("/v1/demo/simulate", data={"rounds": 100})
            for shot in every_state() if options.every else KEPT:
                take(browser, service, shot, options.folder)
        browser.close()


if __name__ == "__main__":
    main()
