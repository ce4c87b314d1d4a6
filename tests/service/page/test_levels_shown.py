"""The page of a stream of several levels: numbers of each, a fan, and what was refused."""

from typing import Any

import pytest

import keyhole
from keyhole.errors import FeedbackError
from tests.service.process import Service

LEVELS = [0.05, 0.2]


def test_every_level_has_a_line_and_curves_and_every_round_shows_each(
    service: Service, page: Any
) -> None:
    with keyhole.Client(service.url) as client:
        client.create_stream("layered", alpha=LEVELS, kind="interval", scale=2.0, seed=7)
        for n in range(60):
            shown = client.predict("layered", 10.0)
            client.learn(shown, label=40.0 if n == 59 else 10.0 + n % 4)
        view, (newest,) = client.stream("layered"), client.rounds("layered", limit=1)
        assert view.levels is not None
        assert newest.levels is not None
        assert shown.levels is not None
        assert (11.0 in shown.levels[0], 1e9 in shown.levels[1]) == (True, False)
        assert [one.missed for one in newest.levels] == [True, True]
    page.goto("/#/streams/layered")
    table = page.get_by_role("region", name="Levels")
    table.wait_for()
    rows = [row.get_by_role("cell").all_inner_texts() for row in table.get_by_role("row").all()[1:]]
    assert [row[0] for row in rows] == ["5\u00a0%", "20\u00a0%"]
    for row, level in zip(rows, view.levels, strict=True):
        assert level.miss_rate is not None
        assert row[3] == f"{100 * level.miss_rate:.1f}\u00a0%"
    fan = page.get_by_role("img", name="The last 60 intervals, at 2 levels")
    assert fan.locator("path.fan").count() == 2
    assert fan.locator("circle.bad").count() >= 1
    first = page.get_by_role("region", name="Last rounds").get_by_role("row").nth(1).inner_text()
    assert "5\u00a0% missed" in first
    assert "20\u00a0% missed" in first
    page.goto("/#/")
    line = page.locator("tr[data-key='layered']")
    line.wait_for()
    assert line.locator("td.target").inner_text() == "5, 20\u00a0%"


def test_answers_that_were_refused_are_counted_with_the_reason(service: Service, page: Any) -> None:
    with keyhole.Client(service.url) as client:
        client.create_stream("vague", alpha=LEVELS)
        shown = client.predict("vague", {"cat": 0.7, "dog": 0.3})
        for _ in range(2):
            with pytest.raises(FeedbackError, match="inner levels"):
                client.learn(shown, keyhole.HIT)
        assert client.stream("vague").refused == {"feedback": 2}
    page.goto("/#/streams/vague")
    page.get_by_text(
        "2 answers refused since this service was started: 2 that tell too little."
    ).wait_for()
