"""A real Chromium in front of a real service."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.patience import SECONDS
from tests.service.page.streams import fill
from tests.service.process import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that a module's tests share, with streams in every state.

    Not those of another module, which may have let it raise an alarm.
    """
    url = f"sqlite:///{tmp_path_factory.mktemp('shared') / 'keyhole.db'}"
    fill(url, long=400)
    with Service(url, "--demo") as running:
        yield running


@pytest.fixture(scope="module")
def context(browser: Any, service: Service) -> Iterator[Any]:
    """One context for a module's tests, so that what the page is made of is fetched once."""
    one = browser.new_context(viewport={"width": 1200, "height": 900}, base_url=service.url)
    one.set_default_timeout(1000 * SECONDS)
    yield one
    one.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    """A page of the service; whatever it writes to its console fails the test."""
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert complaints == []
