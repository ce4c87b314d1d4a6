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
    page.wait_for_selector(".line")
    return page


def names(page: Any) -> list[str]:
    return list(
        page.eval_on_selector_all(
            ".lines:not(.archived *) > li", "all => all.map((one) => one.dataset.key)"
        )
    )


def test_an_alert_comes_first_and_says_which_test_speaks_and_since_when(streams: Any) -> None:
    assert names(streams)[0] == "contracts"
    first = streams.locator(".line").first
    assert "too many misses" in first.inner_text()
    assert "change detector, since" in first.inner_text()
    assert streams.title() == "1 alert · Streams · Keyhole"


def test_what_is_archived_is_apart(streams: Any) -> None:
    assert "past" not in names(streams)
    streams.get_by_text("Archived: 1").click()
    streams.get_by_role("link", name="past").wait_for()


def test_the_two_miss_rates_are_named(streams: Any) -> None:
    text = streams.locator(".line", has_text="contracts").inner_text()
    assert "missed\nlast 400, target 10 %" in text
    assert "missed\noverall, 400" in text


def test_a_search_leaves_what_is_like_it(streams: Any) -> None:
    streams.get_by_role("searchbox", name="Search streams").fill("contra")
    streams.wait_for_selector("[data-key='demand']", state="detached")
    assert names(streams) == ["contracts"]
    streams.get_by_role("searchbox").fill("nothing like it")
    streams.get_by_text("No stream matches.").wait_for()
    streams.get_by_role("searchbox").fill("")
    streams.get_by_role("button", name="alerts 1").click()
    assert names(streams) == ["contracts"]
    streams.get_by_role("button", name="all").click()


def test_the_focus_stays_on_a_stream_that_changes(streams: Any, service: Service) -> None:
    streams.locator("[data-key='mail'] a").focus()
    with Client(service.url) as client:
        client.predict("mail", {"letter": 0.9, "offer": 0.1})
        open_now = client.stream("mail").open
    streams.wait_for_selector(f"[data-key='mail']:has-text('{open_now}')")
    streams.wait_for_timeout(100)
    assert streams.evaluate("document.activeElement.closest('[data-key]').dataset.key") == "mail"


@pytest.mark.parametrize("width", [320, 600, 821, 900, 1020, 1021])
def test_a_line_fits_every_window(streams: Any, width: int) -> None:
    """Kills: six columns beside each other where there is room for five."""
    streams.set_viewport_size({"width": width, "height": 844})
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert streams.evaluate(wide) == 0


def test_sixty_streams_fit_a_phone(streams: Any, service: Service) -> None:
    with Client(service.url) as client:
        for number in range(60):
            client.create_stream(f"shop-{number:02}", alpha=0.1)
    streams.set_viewport_size({"width": 390, "height": 844})
    streams.wait_for_selector("[data-key='shop-59']")
    heights = streams.eval_on_selector_all(".line", "all => all.map((one) => one.offsetHeight)")
    assert len(heights) >= 60
    seen = [height for height in heights if height]  # What is archived is folded away.
    assert min(seen) >= 44  # What a finger finds,
    assert max(heights) <= 844 / 6  # and six of them on a screen.
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert streams.evaluate(wide) == 0
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
    page.wait_for_selector(".xtitle:has-text('answered rounds')")
    page.get_by_role("button", name="time").click()
    page.wait_for_selector(".xtitle:has-text('when answered')")
    page.get_by_role("button", name="rounds").click()
    page.wait_for_selector(".xtitle:has-text('answered rounds')")


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
    page.wait_for_selector("section:has-text('the promise holds for each') td:text-is('weekend')")
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
    page.wait_for_selector("section:has(h2:has-text('Groups')) td:text-is('known')")
    found = page.locator("section:has(h2:has-text('Groups')) tbody tr").all_inner_texts()
    assert [line.split() for line in found] == [
        ["new", "1", "100.0", "%", "0.9"],
        ["known", "0", "–", "0"],
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
    (dashed,) = drawn.evaluate("(it) => it.data.filter((one) => one.name === 'target')")
    assert (dashed["x"][0] > 80, dashed["x"][-1], len(drawn.evaluate("(it) => it.data"))) == (
        True,
        160,
        2,
    )
    assert [note["text"] for note in drawn.evaluate("(it) => it.layout.annotations")] == ["alpha 0.3"]
    whole = page.locator("section:has(h2:has-text('Overall miss rate'))").inner_text()
    assert "under several targets" in whole
    assert "shaded" not in whole
    newest = page.locator("section:has(h2:has-text('Recent answers'))").inner_text()
    assert "the target was different before the last 80." in newest
    assert "would at the target" not in newest
    assert page.locator(".tile:has-text('last 80')").count() == 1


def test_few_rounds_prove_nothing(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("few", alpha=0.1)
        client.learn(client.predict("few", [0.9, 0.1]), keyhole.HIT)
    opened(page, "few")
    certain = page.locator("section:has(h2:has-text('What is certain'))")
    certain.get_by_text("nothing is certain yet").wait_for()
    assert "cannot happen" not in certain.inner_text()


def test_a_long_verdict_leaves_the_numbers_their_line_on_a_phone(page: Any, service: Service) -> None:
    with Client(service.url) as client:
        client.create_stream("easy", alpha=0.2)
        client.calibrate("easy", [[0.9, 0.1]] * 1_000, ([0] * 7 + [1] * 3) * 100)
        for _ in range(9):
            made = client.predict_batch("easy", [[0.9, 0.1]] * 20)
            client.learn_batch([(one, keyhole.HIT) for one in made])
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/#/")
        line = page.locator(".line:has-text('easy'):has-text('fewer misses than promised')")
        rate, name = line.locator(".recent strong").bounding_box(), line.locator(".who strong")
        assert rate["height"] == name.bounding_box()["height"]  # neither is broken
        client.archive("easy")  # It must alarm no other test.


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
