"""The page for everybody: by keyboard, by ear, in any colours, on a slow line, with any text."""

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.service.client.client import Client
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry, settings
from tests.patience import SECONDS
from tests.service.process import Service

VIEWS = ["/#/", "/#/streams/contracts", "/#/streams/approvals", "/#/streams/visits"]
VIEWS += ["/#/streams/unheard", "/#/streams/forecasts", "/#/streams/past", "/#/demo", "/docs"]
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BACKWARDS = "\u202egnp.exe"


def went(page: Any, path: str) -> Any:
    page.goto(path)
    page.wait_for_selector("h1")
    page.wait_for_selector(".chart svg, tbody tr, pre", state="attached")
    return page


@pytest.mark.parametrize("path", VIEWS)
@pytest.mark.parametrize("light", ["light", "dark", "phone"])
def test_axe_finds_nothing_serious(page: Any, path: str, light: str) -> None:
    pytest.importorskip("axe_playwright_python")
    script = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
    if light == "phone":
        page.set_viewport_size({"width": 390, "height": 844})
    else:
        page.emulate_media(color_scheme=light)
    went(page, path).evaluate(script)
    found = page.evaluate("axe.run()")["violations"]
    bad = [
        (one["id"], [node["html"][:120] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert bad == []


def test_the_skip_link_leads_to_the_content_of_the_same_view(page: Any) -> None:
    """Kills: a way past the navigation that is taken for another view."""
    went(page, "/#/streams/mail")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("/#/streams/mail")
    assert page.locator("h1:has-text('mail')").is_visible()


def test_the_focus_and_what_is_open_stay_when_a_stream_changes(page: Any, service: Service) -> None:
    went(page, "/#/streams/mail")
    page.locator("details.below summary").click()
    region = page.get_by_role("region", name="Last rounds")
    region.focus()
    with Client(service.url) as client:
        client.predict("mail", {"letter": 0.9, "offer": 0.1})
        newest = client.rounds("mail", limit=1)[0].round
    page.wait_for_selector(f"td:text-is('{newest:,}')")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Last rounds"
    assert page.locator("dl.settings").is_visible()


def colour(page: Any, selector: str, of: str) -> str:
    script = "(it, of) => getComputedStyle(it)[of]"
    return str(page.locator(selector).first.evaluate(script, of))


def test_charts_change_with_the_theme(page: Any) -> None:
    page.emulate_media(color_scheme="light")
    went(page, "/#/streams/mail")
    by_day = colour(page, ".chart .curve.main", "stroke")
    page.emulate_media(color_scheme="dark")
    assert colour(page, ".chart .curve.main", "stroke") != by_day


def test_forced_colours_leave_misses_apart_from_hits(page: Any) -> None:
    page.emulate_media(forced_colors="active")
    went(page, "/#/streams/contracts")
    missed, hit = (
        colour(page, f".strip i{which}", "backgroundColor") for which in (".missed", ":not(.missed)")
    )
    ground = colour(page, "body", "backgroundColor")
    assert len({missed, hit, ground}) == 3
    assert colour(page, ".chart .curve.main", "stroke") != ground


def test_long_and_backward_text_stays_where_it_is(page: Any, service: Service) -> None:
    """Kills: a label that makes a phone's page ten thousand pixels wide, or turns its neighbours."""
    label, url = "a" * 190, "https://example.org/" + "b" * 300
    with Client(service.url) as client:
        client.create_stream("hostile", alpha=0.1, description=f"{BACKWARDS} {url}")
        made = client.predict_batch("hostile", [{label: 0.9, BACKWARDS: 0.9}] * 3)
        client.learn(made[0], label=label)
    page.set_viewport_size({"width": 390, "height": 844})
    went(page, "/#/streams/hostile")
    page.wait_for_selector(".chip")
    assert page.evaluate(WIDE) == 0
    assert page.locator("table").last.evaluate("(it) => it.scrollWidth") < 1_000
    turned = page.get_by_text(BACKWARDS, exact=True).first
    assert turned.evaluate("(it) => it.tagName") == "BDI"


def test_every_number_is_rounded_and_every_time_has_its_day(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("seven", alpha=0.07)
        client.learn(client.predict("seven", [0.5, 0.25]), keyhole.HIT)
    went(page, "/#/streams/seven")
    labels = page.eval_on_selector_all("[role=img]", "all => all.map((one) => one.ariaLabel)")
    assert any("target 7\u00a0%" in words for words in labels)
    assert not any("7.0000" in words for words in [*labels, page.inner_text("main")])
    asked = page.locator("tbody tr td").nth(1).inner_text()
    assert len(asked.split(",")) == 2, asked


def test_an_amended_answer_says_what_was_said_first(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("revised", alpha=0.1)
        made = client.predict("revised", {"cat": 0.9, "dog": 0.8})
        client.learn(made, label="cat")
        client.amend(made, label="dog")
    went(page, "/#/streams/revised")
    text = page.locator("tbody tr td").last.inner_text()
    assert "dog" in text
    assert "first label cat" in text


def weigh(page: Any) -> list[float]:
    """Return where the bytes that come over the line from now on are added up."""
    total, session = [0.0], page.context.new_cdp_session(page)
    session.send("Network.enable")

    def add(event: Any) -> None:
        total[0] += event["encodedDataLength"]

    session.on("Network.loadingFinished", add)
    return total


def test_a_stream_weighs_less_than_a_hundred_kilobytes_at_first(browser: Any, service: Service) -> None:
    context = browser.new_context(base_url=service.url)
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    total = weigh(page)
    went(page, "/#/streams/contracts")
    page.wait_for_load_state("networkidle")
    context.close()
    assert 10_000 < total[0] < 100_000


def test_a_thousand_streams_are_few_bytes_and_few_elements(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    database = Database(url)
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1)
    for number in range(1_000):
        registry.create(database, f"stream-{number:04}", setup=setup, now=0.0)
    database.close()
    with Service(url) as service:
        page = browser.new_context(base_url=service.url).new_page()
        page.set_default_timeout(1000 * SECONDS)
        went(page, "/#/")
        page.wait_for_selector("button:has-text('all 1,000')")
        assert page.locator("*").count() < 2_000
        total = weigh(page)
        with page.expect_response("**/v1/overview*") as found:
            pass
        found.value.finished()
        page.get_by_role("searchbox").fill("stream-0999")
        page.wait_for_selector("tbody tr:first-child[data-key='stream-0999']")
        page.context.close()
    assert 0 < total[0] < 50_000
