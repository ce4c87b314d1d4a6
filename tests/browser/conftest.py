"""A real Chromium in front of a real service."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.service.process import Service

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _chromium() -> str:
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    missing = "no Chromium here; on Debian: apt-get install chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = _chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def service(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:  # noqa: ARG001
    """A service that the tests share: each looks at what it changes."""
    with Service(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'keyhole.db'}", "--demo") as running:
        yield running


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    with opened(browser, service) as one:
        yield one


@contextmanager
def opened(browser: Any, service: Service) -> Iterator[Any]:
    """Give a page of the service, and raise if anything was written to its console."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, base_url=service.url)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(60_000)
    yield page
    context.close()
    assert complaints == []
