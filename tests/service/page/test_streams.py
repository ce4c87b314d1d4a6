"""The streams at a glance, and one of them: what an operator must see at once."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

import keyhole
from keyhole.service.client.client import Client
from tests.service.process import Service


@pytest.fixture
def streams(page: Any) -> Any:
    page.goto("/#/")
    page.wait_for_selector("tbody tr")
    return page


def names(page: Any) -> list[str]:
    return list(page.eval_on_selector_all("tbody tr", "all => all.map((one) => one.dataset.key)"))


WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_an_alert_comes_first_and_says_since_when(streams: Any) -> None:
    first = streams.locator("tbody tr").first
    assert names(streams)[0] == "contracts"
    assert names(streams)[1:] == sorted(names(streams)[1:])
    assert "too many misses" in first.inner_text()
    assert "since " in first.inner_text()
    assert streams.title() == "1 alert · Streams · Keyhole"


def test_what_is_archived_is_apart(streams: Any) -> None:
    assert "past" not in names(streams)
    streams.get_by_role("button", name="archived 1").click()
    streams.get_by_role("link", name="past").wait_for()
    assert names(streams) == ["past"]
    streams.get_by_role("button", name="all").click()
    streams.wait_for_selector("[data-key='mail']")


def test_the_two_miss_rates_and_the_target_are_named(streams: Any) -> None:
    heads = streams.locator("thead th").all_inner_texts()
    assert heads == ["stream", "promise", "recent", "target", "trend", "overall", "open"]
    cells = streams.locator("[data-key='contracts'] td").all_inner_texts()
    assert "missed, last 400" in cells[1]
    assert cells[2] == "10\u00a0%"
    assert "of 400" in cells[4]


def test_a_search_leaves_what_is_like_it(streams: Any) -> None:
    streams.get_by_role("searchbox", name="Search streams").fill("contra")
    streams.wait_for_selector("[data-key='demand']", state="detached")
    assert names(streams) == ["contracts"]
    streams.get_by_role("searchbox").fill("nothing like it")
    streams.get_by_text("No stream matches.").wait_for()
    streams.get_by_role("searchbox").fill("")
    streams.get_by_role("button", name="off target 1").click()
    streams.wait_for_selector("[data-key='demand']", state="detached")
    assert names(streams) == ["contracts"]
    streams.get_by_role("button", name="all").click()


def test_the_focus_stays_on_a_stream_that_changes(streams: Any, service: Service) -> None:
    streams.locator("[data-key='mail'] a").focus()
    with Client(service.url) as client:
        client.predict("mail", {"letter": 0.9, "offer": 0.1})
        open_now = client.stream("mail").open
    streams.wait_for_selector(f"[data-key='mail'] td:last-child:text-is('{open_now}')")
    assert streams.evaluate("document.activeElement.closest('[data-key]').dataset.key") == "mail"


def test_no_line_moves_under_the_pointer(streams: Any, service: Service) -> None:
    """Kills: a stream that is made sorts itself above the line that is being clicked."""
    before = names(streams)
    streams.locator("[data-key='visits']").hover()
    with Client(service.url) as client:
        client.create_stream("aaa", alpha=0.1)
    streams.wait_for_selector("[data-key='aaa']")
    assert names(streams) == [*before, "aaa"]
    streams.locator("h1").hover()
    streams.wait_for_selector("[data-key='contracts'] + [data-key='aaa']")


@pytest.mark.parametrize("width", [320, 600, 821, 900, 1020, 1021])
def test_the_table_fits_every_window(streams: Any, width: int) -> None:
    streams.set_viewport_size({"width": width, "height": 844})
    assert streams.evaluate(WIDE) == 0


def test_sixty_streams_come_in_two_pages_and_fit_a_phone(streams: Any, service: Service) -> None:
    with Client(service.url) as client:
        for number in range(60):
            client.create_stream(f"shop-{number:02}", alpha=0.1)
    streams.set_viewport_size({"width": 390, "height": 844})
    streams.get_by_role("button", name="Next").click()
    streams.wait_for_selector("[data-key='shop-59']")
    streams.get_by_role("button", name="Previous").click()
    streams.wait_for_selector("[data-key='contracts']")
    heights = streams.eval_on_selector_all("tbody tr", "all => all.map((one) => one.offsetHeight)")
    assert len(heights) == 50
    assert min(heights) >= 44  # What a finger finds,
    assert max(heights) <= 844 / 10  # and ten of them on a screen.
    assert streams.evaluate(WIDE) == 0
    streams.get_by_role("searchbox").fill("shop-42")
    streams.wait_for_selector("[data-key='shop-41']", state="detached")
    streams.get_by_role("searchbox").fill("")


def opened(page: Any, name: str) -> Any:
    page.goto(f"/#/streams/{name}")
    page.wait_for_selector(f"h1:has-text('{name}')")
    return page


def test_a_failure_in_the_last_rounds_is_seen_without_scrolling(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    opened(page, "contracts")
    page.wait_for_selector(".strip")
    assert page.locator(".strip .missed").count() > 40
    assert page.locator(".pill.many").bounding_box()["y"] < 200
    assert page.title().startswith("too many misses: contracts")
    page.get_by_role("heading", name="What to do").wait_for()
    assert "Did the model change?" in page.inner_text(".advice")


def test_curves_run_along_rounds_or_time(page: Any) -> None:
    opened(page, "contracts")
    assert page.locator(".chart text:text-is('answered rounds')").count() == 3
    page.get_by_role("button", name="time").click()
    assert page.locator(".chart text:text-is('when answered')").count() == 3
    page.get_by_role("button", name="rounds").click()
    assert page.locator(".chart text:text-is('answered rounds')").count() == 3


def test_sizes_lateness_and_what_is_certain_are_told_in_numbers(page: Any) -> None:
    opened(page, "contracts")
    page.wait_for_selector(".tile:has-text('set size, median'):has-text('empty')")
    page.wait_for_selector(".tile:has-text('answers come after'):has-text('1.5 hours')")
    page.wait_for_selector("section:has-text('What is certain'):has-text('cannot happen')")


def test_a_gate_shows_what_it_accepts_and_what_was_wrong_beside_the_target(page: Any) -> None:
    opened(page, "approvals")
    page.get_by_role("img", name="Accepted so far").wait_for()
    page.wait_for_selector("h2:has-text('Wrong, overall')")
    page.wait_for_selector(".tile:has-text('wrong, overall'):has-text('99 % sure')")
    page.wait_for_selector("td .chip:text-is('accepted')")


def test_each_group_has_a_line_of_its_own(page: Any) -> None:
    opened(page, "visits")
    page.wait_for_selector("section:has-text('the promise holds for each') bdi:text-is('weekend')")
    found = page.locator("section:has(h2:has-text('Groups')) tbody tr").all_inner_texts()
    assert [line.split()[0] for line in found] == ["weekend", "new", "known"]


def test_a_stream_that_was_asked_nothing_says_how_to_ask(page: Any) -> None:
    opened(page, "unheard")
    page.get_by_role("heading", name="No predictions yet").wait_for()
    assert "starting" in page.inner_text(".head")


def test_an_unbounded_interval_is_said_in_words(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        options = {"step": 3.0, "first": 3.0}
        client.create_stream("wide", learner="logit-tracker", alpha=0.1, scale=1.0, options=options)
        for _ in range(12):  # Misses enough for a threshold of 0.
            client.learn(client.predict("wide", 3.0), keyhole.MISS)
    opened(page, "wide")
    page.wait_for_selector("td:has-text('anything (no bounds yet)')")


def test_misses_of_sets_that_hold_everything_are_not_called_impossible(
    page: Any, service: Service
) -> None:
    with Client(service.url) as client:
        client.create_stream("untrue", learner="informed-tracker", alpha=0.1, scale=1.0)
        for _ in range(20):  # A miss of an interval without bounds is an answer that is not true.
            client.learn(client.predict("untrue", 3.0), keyhole.MISS)
    opened(page, "untrue")
    certain = page.locator("section:has(h2:has-text('What is certain'))")
    certain.get_by_text("nothing is certain yet").wait_for()
    assert "cannot happen" not in certain.inner_text()


def test_an_alarm_is_said_once(page: Any) -> None:
    opened(page, "contracts")
    assert page.inner_text("main").lower().count("since about answer") == 1


def test_the_rate_of_late_says_from_when_on_it_is_drawn(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("young", alpha=0.1)
        client.learn(client.predict("young", [0.5, 0.25]), keyhole.HIT)
    opened(page, "young")
    page.wait_for_selector("section:has(h2:has-text('Recent miss rate')) :text('from 50 answers on')")


def test_each_group_of_a_gate_has_a_line_of_its_own(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("desks", alpha=0.1, kind="gate", groups=["new", "known"])
        client.learn(client.decide("desks", 0.99, groups=["new"]), right=False)
    opened(page, "desks")
    page.wait_for_selector("section:has(h2:has-text('Groups')) bdi:text-is('known')")
    found = page.locator("section:has(h2:has-text('Groups')) tbody tr").all_inner_texts()
    assert [line.split() for line in found] == [
        ["new", "1", "100.0", "%", "0.9", "0.9"],
        ["known", "0", "–", "0", "0"],
    ]


def test_a_target_of_before_is_neither_drawn_nor_reckoned_with_as_todays(
    page: Any, service: Service
) -> None:
    """Kills: "at the target it would be" of rounds that had another, and its band around them."""
    with Client(service.url) as client:
        client.create_stream("moved", alpha=0.1)
        for target, every in ((0.1, 10), (0.3, 3)):
            client.update_stream("moved", alpha=target)
            made = client.predict_batch("moved", [[0.9, 0.1]] * 80)
            told = [keyhole.HIT if n % every else keyhole.MISS for n in range(80)]
            client.learn_batch(list(zip(made, told, strict=True)))
    opened(page, "moved")
    certain = page.locator("section:has(h2:has-text('What is certain'))")
    certain.get_by_text("The target was changed").wait_for()
    assert "At the target" not in certain.inner_text()
    drawn = page.locator("[aria-label^='Miss rate over']")
    dashed, line = (drawn.locator(f".curve.{look}").bounding_box() for look in ("target", "main"))
    assert dashed["x"] > line["x"] + 0.45 * line["width"]  # from half of the rounds on
    assert drawn.locator(".band").count() == 0
    assert drawn.locator("text:text-is('alpha 0.3')").count() == 1
    whole = page.locator("section:has(h2:has-text('Overall miss rate'))").inner_text()
    assert "under several targets" in whole
    assert "shaded" not in whole
    newest = page.locator("section:has(h2:has-text('Recent answers'))").inner_text()
    assert "the target was different before the last 80." in newest
    assert "would at the target" not in newest
    assert page.locator(".tile:has-text('last 80')").count() == 1
    assert page.locator(".tile:has-text('under several targets')").count() == 1


def test_few_rounds_prove_nothing(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("few", alpha=0.1)
        client.learn(client.predict("few", [0.9, 0.1]), keyhole.HIT)
    opened(page, "few")
    certain = page.locator("section:has(h2:has-text('What is certain'))")
    certain.get_by_text("nothing is certain yet").wait_for()
    assert "cannot happen" not in certain.inner_text()


def test_after_a_change_of_alpha_it_is_too_early_to_judge(page: Any, service: Service) -> None:
    """Kills: "promise kept" beside numbers of another target that deny it."""
    with Client(service.url) as client:
        client.create_stream("stricter", alpha=0.1)
        made = client.predict_batch("stricter", [[0.9, 0.1]] * 200)
        told = [keyhole.HIT if n % 10 else keyhole.MISS for n in range(200)]
        client.learn_batch(list(zip(made, told, strict=True)))
        client.update_stream("stricter", alpha=0.02)
    opened(page, "stricter")
    assert page.inner_text(".head .verdict").split("\n") == [
        "starting",
        "too early to judge: 0 answers since the target changed",
    ]
    page.goto("/#/")
    page.get_by_role("searchbox").fill("stricter")
    page.wait_for_selector("[data-key='stricter']:has-text('0 answers since the target changed')")
    page.get_by_role("searchbox").fill("")


def test_an_alarm_under_batches_names_them(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("nightly", alpha=0.1)
        client.calibrate("nightly", [[0.9, 0.1]] * 1_000, ([0] * 9 + [1]) * 100)
        for _ in range(3):
            made = client.predict_batch("nightly", [[0.9, 0.1]] * 100)
            client.learn_batch([(one, keyhole.MISS) for one in made])
        opened(page, "nightly")
        page.wait_for_selector(".lead:has-text('Answers come in batches of up to 100')")
        first = page.locator(".advice li").first.inner_text()
        client.archive("nightly")  # It must alarm no other test.
    assert first.startswith("Answers come in batches, of up to 100.")


def test_a_stream_that_cannot_be_used_says_why(context: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("hurt", alpha=0.1)
    with closing(sqlite3.connect(service.file)) as database:
        database.execute("UPDATE streams SET progress = x'00' WHERE name = 'hurt'")
        database.commit()
    page = context.new_page()  # Its console says that there was a conflict.
    page.goto("/#/")
    page.wait_for_selector(".note.broken:has-text('hurt cannot be used')")
    page.goto("/#/streams/hurt")
    page.wait_for_selector("h1:has-text('This stream is quarantined')")
    page.close()
    with Client(service.url) as client:
        client.delete("hurt")


def test_a_stream_that_is_not_there_is_said_to_be_missing(context: Any) -> None:
    page = context.new_page()  # Its console says that something was not found.
    page.goto("/#/streams/nowhere")
    page.wait_for_selector("h1:has-text('There is no such stream')")
    assert page.title() == "There is no such stream · Keyhole"
    page.close()
