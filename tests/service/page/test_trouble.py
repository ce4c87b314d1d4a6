"""What the page shows when it cannot show what it should."""

from pathlib import Path
from typing import Any

from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.process import Service


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
        page.wait_for_selector("h1:has-text('That did not work')")
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
