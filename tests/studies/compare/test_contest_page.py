"""The page stands alone, draws every learner, and is drawn by plotly in a real browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plotly import graph_objects

from keyhole.studies.compare import contest_page
from keyhole.studies.compare.contest import Contest
from tests.patience import SECONDS


@pytest.fixture(scope="module")
def text(contest: Contest) -> str:
    return contest_page.make_page(replace(contest, late={"prompt": contest}))


@pytest.fixture(scope="module")
def charts(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


class Balanced(HTMLParser):
    """Counts tags that are opened and not closed, and notes what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.fetched = 0, [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag != "meta"
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.depth -= 1


def test_page_is_whole_and_fetches_nothing(text: str) -> None:
    parser = Balanced()
    parser.feed(text)
    assert parser.depth == 0
    assert parser.fetched == [""]


def test_every_chart_is_one_that_plotly_accepts(charts: dict[str, Any]) -> None:
    for chart in charts.values():
        graph_objects.Figure(chart)  # It refuses what it does not know.


def test_field_has_a_dot_for_every_learner_and_scenario_that_ran(
    contest: Contest, charts: dict[str, Any]
) -> None:
    given = [c for c in contest.cells if c.refusal is None and c.scenario in contest.frontiers]
    dots = [trace for trace in charts["field"]["data"] if trace["meta"]["kind"] == "dot"]
    assert sum(len(trace["x"]) for trace in dots) == len(given) == 4
    spoken = [words for trace in dots for words in trace["text"]]
    for cell in given:
        rate = cell.figures["miss_rate"].mean
        assert any(f"{cell.learner} on {cell.scenario}: misses {rate:.3f}" in w for w in spoken)


def test_every_scenario_has_its_curves(contest: Contest, charts: dict[str, Any]) -> None:
    for listed in contest.scenarios:
        traces = charts[f"over-time {listed.name}"]["data"]
        assert {(t["name"], t["yaxis"]) for t in traces} == {
            (name, axis) for name in ("logit-tracker", "ocp-unlock+") for axis in ("y", "y2")
        }


def test_text_in_a_name_cannot_end_the_script() -> None:
    assert "</script>" not in contest_page._embed({"</script>": {}})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_browser_draws_it_in_both_schemes_without_scrolling_sideways(
    contest: Contest, tmp_path: Path, browser: Any, scheme: Any, width: int
) -> None:
    path = tmp_path / "compare.html"
    contest_page.write_page(contest, path)
    with browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme) as shown:
        shown.set_default_timeout(1000 * SECONDS)
        faults: list[str] = []
        shown.on("pageerror", lambda error: faults.append(str(error)))
        shown.goto(path.as_uri())
        shown.wait_for_selector("[data-chart=field] .scatterlayer .trace")
        ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        shown.click("button[data-learner='logit-tracker']")
        assert shown.get_attribute("button[data-learner='logit-tracker']", "aria-pressed") == "false"
    assert faults == []
