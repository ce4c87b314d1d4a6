import json
import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from keyhole import Channel, Regime, make, simulate
from keyhole.compare import listing, page, record, table
from keyhole.compare.contest import Contest, Terms, hold
from keyhole.errors import InvalidError

NAMES = ["logit-tracker", "ocp-unlock+", "dtaci"]


@pytest.fixture(scope="module")
def contest() -> Contest:
    terms = Terms(alpha=0.1, regime=Regime.SEMI_BANDIT, rounds=1_500, runs=3)
    streams = listing.chosen(["fall", "digits-by-label", "lure-and-strike"], listing.listing())
    return hold(NAMES, streams, terms)


def test_figures_are_those_of_the_runs(contest: Contest) -> None:
    cell = next(c for c in contest.cells if c.learner == "logit-tracker" and c.stream == "fall")
    built = [listing.listing()["fall"].build(1_500, seed) for seed in range(3)]  # type: ignore[misc]
    run = simulate(make("logit-tracker", alpha=0.1), np.stack([b.stream.scores for b in built]))
    rates = run.misses.mean(axis=1)
    assert cell.figures["miss_rate"].mean == pytest.approx(rates.mean())
    assert cell.figures["miss_rate"].error == pytest.approx(rates.std(ddof=1) / math.sqrt(3))
    assert cell.figures["size"].mean == pytest.approx((1 - run.thresholds).mean())
    assert cell.figures["microseconds"].mean > 0.0


def test_learners_that_need_more_are_shown_and_not_run(contest: Contest) -> None:
    for listed in contest.streams:
        (refused,) = contest.refused(listed.name)
        assert refused.learner == "dtaci"
        assert "label always" in str(refused.refusal)
        assert refused.figures == {}


def test_everyone_runs_where_the_label_is_always_told() -> None:
    terms = Terms(alpha=0.1, regime=Regime.FULL, rounds=400, runs=1)
    full = hold(["dtaci"], [listing.listing()["steady"]], terms)
    assert full.refused("steady") == []
    assert math.isnan(full.cells[0].figures["miss_rate"].error)


def test_too_short_a_stream_is_a_refusal_with_its_reason() -> None:
    terms = Terms(alpha=0.1, regime=Regime.SEMI_BANDIT, rounds=50, runs=1, arms=200)
    short = hold(["ocp-unlock+"], [listing.listing()["steady"]], terms)
    assert "too short for 200 arms" in str(short.cells[0].refusal)


def test_terminal_table_fits_eighty_columns(contest: Contest) -> None:
    lines = table.text(contest).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any(line.startswith("logit-tracker") for line in lines)
    assert any(line.startswith("not run: dtaci") for line in lines)


def test_record_is_strict_json_with_every_cell(contest: Contest) -> None:
    written = json.loads(record.text(contest))
    assert len(written["cells"]) == 9
    ran = [cell for cell in written["cells"] if "figures" in cell]
    assert {"miss_rate", "worst_window", "size", "full", "empty"} < set(ran[0]["figures"])
    assert len(ran[0]["over_time"]["rounds"]) == 60


class Balanced(HTMLParser):
    """Counts tags that are opened and not closed, and notes what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.fetched = 0, [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag not in ("meta", "line", "circle", "polyline", "polygon")
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag != "circle"


def test_page_is_whole_and_fetches_nothing(contest: Contest) -> None:
    text = page.text(contest)
    parser = Balanced()
    parser.feed(text)
    assert parser.depth == 0
    assert parser.fetched == [""]
    assert "target 0.1" in text
    assert "nan" not in text.lower().replace("dominant", "")


def test_page_has_a_dot_for_every_learner_and_stream_that_ran(contest: Contest) -> None:
    given = [c for c in contest.cells if c.refusal is None and c.stream in contest.frontiers]
    assert page.text(contest).count('<circle class="dot') == len(given) == 4


def test_delay_reaches_the_runs() -> None:
    late = Terms(alpha=0.1, regime=Regime.SEMI_BANDIT, rounds=600, runs=1, channel=Channel(delay=50))
    steady = [listing.listing()["steady"]]
    slow = hold(["logit-tracker"], steady, late).cells[0].figures["miss_rate"].mean
    scores = steady[0].build(600, 0).stream.scores  # type: ignore[misc]
    direct = simulate(make("logit-tracker", alpha=0.1), scores, channel=Channel(delay=50))
    assert slow == direct.misses.mean()


def test_unknown_streams_and_empty_runs_are_named() -> None:
    with pytest.raises(InvalidError, match="no stream 'storm'; there are steady"):
        listing.chosen(["storm"], listing.listing())
    with pytest.raises(InvalidError, match="runs 0"):
        Terms(alpha=0.1, regime=Regime.FULL, rounds=10, runs=0)


def test_own_log_is_a_stream_of_its_own_length(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", scores=np.random.default_rng(1).random(300))
    listed = listing.logged(tmp_path / "mine.npz")
    terms = Terms(alpha=0.1, regime=Regime.BANDIT, rounds=10_000, runs=2)
    mine = hold(["kt"], [listed], terms)
    assert listed.rounds == 300
    assert mine.cells[0].curve is not None
    assert mine.cells[0].curve.rounds[-1] == 300
