"""The page, used as a person would: by keyboard, on a phone, after a reload."""

from typing import Any

from keyhole.service.client.client import Client
from tests.service.process import Service

MARKUP = "<img src=x onerror=alert(1)>"


def labels(page: Any) -> list[str]:
    return list(page.eval_on_selector_all(".choice", "all => all.map((one) => one.dataset.label)"))


def shown(page: Any) -> int:
    return int(page.get_attribute(".choices", "data-round"))


def answer(page: Any) -> str:
    """Press the key of the first proposed digit, or of none; return what was pressed."""
    before, key = shown(page), (labels(page) or ["n"])[0]
    page.keyboard.press(key)
    page.wait_for_selector(f'.choices[data-round="{before + 1}"]')
    return key


def visited(page: Any) -> int:
    """Go to the demo, and return which picture is shown."""
    page.goto("/#/demo")
    page.wait_for_selector(".choices[data-round]")
    return shown(page)


def test_twenty_digits_by_keyboard_are_counted_and_survive_a_reload(
    page: Any, service: Service
) -> None:
    first = visited(page)
    with Client(service.url) as client:
        before = client.stream("digits")
        pressed = [answer(page) for _ in range(20)]
        after = client.stream("digits")
        log = client.rounds("digits", limit=21)
    assert after.rounds == before.rounds + 20
    assert after.misses == before.misses + pressed.count("n")
    assert after.open == 1
    told = [row.answer["label"] if isinstance(row.answer, dict) else "n" for row in log[:0:-1]]
    assert told == pressed
    page.wait_for_selector(f".tile dd:has-text('{after.rounds}')")
    page.wait_for_selector(f".tile dd:has-text('{100 * (after.miss_rate or 0.0):.1f} %')")
    waiting = labels(page)
    page.reload()
    page.wait_for_selector(f".choices[data-round='{first + 20}']")
    assert labels(page) == waiting


def test_a_digit_that_is_not_proposed_is_not_taken(page: Any) -> None:
    visited(page)
    while len(labels(page)) == 10:
        answer(page)
    other = next(digit for digit in "0123456789" if digit not in labels(page))
    before = shown(page)
    page.keyboard.press(other)
    page.wait_for_selector(f".hint:has-text('{other} is not among the proposed digits')")
    assert page.locator(".hint").is_visible()
    assert shown(page) == before


def test_everything_has_a_name_for_a_screen_reader(page: Any) -> None:
    first = visited(page)
    answer(page)
    page.get_by_role("img", name=f"Miss rate over {first + 1} answered rounds").wait_for()
    assert page.get_by_role("img", name=f"Picture {first + 2}: a handwritten digit").count() == 1
    assert page.get_by_role("button", name="None of these").count() == 1
    assert "counted" in page.text_content("#said")
    unnamed = "all => all.filter((one) => !one.textContent.trim()).length"
    assert page.eval_on_selector_all("button, a", unnamed) == 0


def test_tab_and_enter_alone_are_enough(page: Any) -> None:
    first = visited(page)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "none":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(f".choices[data-round='{first + 1}']")


def test_a_phone_needs_no_sideways_scrolling(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/#/demo", "/#/streams/digits", "/#/"):
        page.goto(path)
        page.wait_for_selector("h1")
        wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide == 0, path


def test_markup_in_a_label_is_shown_as_text(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("markup", alpha=0.1, seed=1)
        for made in client.predict_batch("markup", [{MARKUP: 1.0, "plain": 0.5}] * 3):
            client.learn(made, label=MARKUP)
    page.goto("/#/streams/markup")
    page.wait_for_selector(f".chip bdi:text-is('{MARKUP}')")
    assert page.locator("main img").count() == 0


def test_the_glance_shows_every_stream_and_leads_to_it(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("triage", alpha=0.2, bound=5.0)
        client.predict("triage", 3.0)
    page.goto("/#/")
    page.get_by_role("link", name="triage").click()
    page.wait_for_selector("h1:has-text('triage')")
    page.wait_for_selector(".tile:has-text('1 open')")


def test_the_routes_are_described_without_anything_from_elsewhere(page: Any) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto("/docs")
    page.wait_for_selector("h2:has-text('/v1/predictions/{id}/feedback')")
    assert all(url.startswith("http://127.0.0.1:") for url in fetched)


# The last one: what was asked for before it was switched off may still be answered meanwhile.
def test_the_simulated_person_answers_until_switched_off(page: Any, service: Service) -> None:
    first = visited(page)
    switch = page.get_by_role("switch", name="Let a simulated person answer")
    switch.focus()
    page.keyboard.press("Space")
    page.wait_for_function(
        "last => document.querySelector('.choices').dataset.round >= last", arg=first + 20
    )
    page.keyboard.press("Space")
    assert switch.get_attribute("aria-checked") == "false"
    with Client(service.url) as client:
        assert client.stream("digits").rounds >= first + 20
