"""What the page shows when it cannot show what it should."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyhole.service.client.client import Client
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.page.proxy import Proxy
from tests.service.page.streams import fill
from tests.service.process import Service


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A service with streams in every state, behind a proxy."""
    url = f"sqlite:///{tmp_path_factory.mktemp('behind') / 'keyhole.db'}"
    fill(url, long=100)
    with Service(url) as service, Proxy(service.url) as found:
        yield found


@pytest.fixture
def visit(browser: Any, proxy: Proxy) -> Iterator[Any]:
    """A page behind the proxy; its console may say that something was lost."""
    page = browser.new_context(base_url=proxy.url).new_page()
    page.set_default_timeout(1000 * SECONDS)
    yield page
    proxy.mood = "pass"
    proxy.wakes.set()
    page.context.close()


@pytest.mark.parametrize("path", ["/#/", "/#/streams/mail"])
@pytest.mark.parametrize(("mood", "why"), [("502", "answers, with 502"), ("frozen", "not answered")])
def test_what_is_old_says_within_ten_seconds_since_when_and_recovers(
    visit: Any, proxy: Proxy, path: str, mood: str, why: str
) -> None:
    proxy.wakes.clear()
    visit.clock.install()
    visit.goto(path)
    visit.wait_for_selector("h1:not(:has-text('Waiting'))")
    visit.clock.pause_at(visit.evaluate("Date.now()") + 100)
    visit.wait_for_selector("#trouble", state="hidden")
    proxy.mood = mood
    visit.clock.run_for(9_000)
    visit.wait_for_selector("#trouble:has-text('What you see is from')")
    visit.wait_for_selector(f"#trouble:has-text('{why}')")
    visit.clock.run_for(2_000)
    visit.wait_for_selector("#trouble.old")
    assert visit.locator("h1").is_visible()  # What was there stays.
    proxy.mood = "pass"
    proxy.wakes.set()
    visit.clock.resume()
    visit.wait_for_selector("#trouble", state="hidden")
    visit.wait_for_selector("#age:not(.old):not(.late)")


def test_a_first_load_that_meets_a_proxy_alone_tries_again(visit: Any, proxy: Proxy) -> None:
    visit.goto("/#/")
    visit.wait_for_selector("tbody tr")
    proxy.mood = "502"
    visit.evaluate("location.hash = '#/streams/mail'")
    visit.wait_for_selector("h1:has-text('Waiting for the service')")
    proxy.mood = "pass"
    visit.wait_for_selector("h1:has-text('mail')")


def test_who_is_not_seen_asks_for_nothing_and_looks_at_once_when_seen(visit: Any) -> None:
    visit.clock.install()
    visit.goto("/#/")
    visit.wait_for_selector("tbody tr")
    asked: list[str] = []
    visit.on("request", lambda request: asked.append(request.url))
    hide = "Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })"
    turn = f"(hidden) => {{ {hide}; document.dispatchEvent(new Event('visibilitychange')); }}"
    visit.evaluate(turn, True)  # noqa: FBT003
    visit.clock.run_for(60_000)
    assert asked == []
    visit.wait_for_selector("#age.old")  # It does not say that it is newer than it is.
    visit.evaluate(turn, False)  # noqa: FBT003
    visit.wait_for_selector("#age:not(.old)")
    assert len(asked) == 1


def test_seven_tabs_of_streams_all_keep_up(browser: Any, tmp_path: Path) -> None:
    """Kills: a connection a tab that stays open, of which a browser allows six."""
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}") as service, Client(service.url) as client:
        client.create_stream("busy", alpha=0.1)
        context = browser.new_context(base_url=service.url)
        context.set_default_timeout(1000 * SECONDS)
        tabs = [context.new_page() for _ in range(7)]
        for tab in tabs:
            tab.goto("/#/streams/busy")
            tab.wait_for_selector("h1:has-text('busy')")
        client.predict("busy", [0.9, 0.1])
        for tab in tabs:
            tab.wait_for_selector(".tile:has-text('1 open')")
        context.close()


def test_the_token_is_asked_for_once_for_all_tabs_and_not_again_when_it_is_revoked(
    browser: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    database = Database(url)
    token = tokens.create(database, "page", scopes=["read"], now=0.0)
    tokens.create(database, "other", scopes=["read"], now=0.0)
    with Service(url) as service:
        context = browser.new_context(base_url=service.url)
        context.set_default_timeout(1000 * SECONDS)
        page, second = context.new_page(), context.new_page()
        page.goto("/#/")
        give(page, token)
        page.wait_for_selector("h2:has-text('No streams yet')")
        page.reload()
        page.wait_for_selector("h2:has-text('No streams yet')")
        second.goto("/#/")
        second.wait_for_selector("h2:has-text('No streams yet')")
        second.close()
        tokens.revoke(database, token.split("_")[1], now=1.0)
        page.wait_for_selector("dialog[open]")
        page.get_by_role("button", name="Not now").click()
        page.wait_for_selector("#trouble.old:has-text('revoked')")
        assert page.locator("dialog").count() == 0
        page.get_by_role("button", name="Enter a token").click()
        page.wait_for_selector("dialog[open]")
        context.close()
    database.close()


def test_a_wrong_token_is_named_and_a_service_that_is_gone_is_missed_until_it_is_back(
    browser: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    database = Database(url)
    token = tokens.create(database, "page", scopes=["read"], now=0.0)
    blind = tokens.create(database, "model", scopes=["predict"], now=0.0)
    database.close()
    with Service(url) as service:
        page = browser.new_context(base_url=service.url).new_page()
        page.set_default_timeout(1000 * SECONDS)
        page.goto("/#/")
        page.wait_for_selector("dialog[open]")
        assert page.text_content("#ask-fault") == ""
        page.get_by_role("button", name="Not now").click()
        page.wait_for_selector("h1:has-text('Nothing without a token')")
        page.get_by_role("button", name="Try again").click()
        give(page, "kh_aaaaaaaa_wrong")
        page.wait_for_selector("#ask-fault:has-text('unknown or revoked')")
        give(page, blind)
        page.wait_for_selector("h1:has-text('This token may not see that')")
        page.get_by_role("button", name="Use another token").click()
        give(page, token)
        page.wait_for_selector("h2:has-text('No streams yet')")
        service.kill()
        page.wait_for_selector(".trouble:has-text('cannot be reached')")
        assert page.locator("h2:has-text('No streams yet')").is_visible()
        service.start()
        page.wait_for_selector(".trouble", state="hidden")
        page.context.close()


def give(page: Any, token: str) -> None:
    page.wait_for_selector("dialog[open]")
    page.fill("#token", token)
    page.keyboard.press("Enter")
