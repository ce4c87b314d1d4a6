"""Take the pictures of the page that the documents show: ``make screenshots``."""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.service.process import Service

SHOTS = (
    ("page-demo.png", "/#/demo", {"width": 1200, "height": 900}),
    ("page-stream.png", "/#/streams/digits", {"width": 1200, "height": 1000}),
    ("page-streams.png", "/#/", {"width": 1200, "height": 520}),
    ("page-phone.png", "/#/demo", {"width": 390, "height": 1120}),
)


def main(folder: Path) -> None:
    """Let a simulated person answer for a while, then take every picture."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        with Service(f"sqlite:///{Path(scratch) / 'keyhole.db'}", "--demo") as service:
            context = browser.new_context(base_url=service.url)
            for _ in range(6):
                context.request.post("/v1/demo/simulate", data={"rounds": 100})
            for name, path, size in SHOTS:
                page = context.new_page()
                page.set_viewport_size(size)  # type: ignore[arg-type]
                page.goto(path)
                page.wait_for_selector(".glance" if path == "/#/" else ".chart svg")
                page.wait_for_timeout(800)
                page.screenshot(path=folder / name)
                page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
