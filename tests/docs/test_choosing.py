"""The numbers in docs/choosing.md and docs/evidence.md come out again."""

from pathlib import Path

import pytest

from keyhole import LEARNERS, make
from keyhole.feedback import Feedback
from keyhole.learners import bounds
from keyhole.simulation import Channel
from keyhole.studies.compare import listing, table
from keyhole.studies.compare.contest import Terms, run_contest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "choosing.md").read_text() + (DOCS / "evidence.md").read_text()
UNTIMED = 75  # The last column, microseconds, is the machine's.


@pytest.mark.parametrize(
    ("scenario", "channel", "learners"),
    [
        ("fall", Channel(delay=100), ["logit-tracker", "tracker", "kt", "ocp-unlock+"]),
        ("lure-and-strike", Channel(), ["logit-tracker", "ocp-unlock+", "ocp-unlock++valve"]),
    ],
)
def test_lines_of_the_tables_come_out_again(
    scenario: str, channel: Channel, learners: list[str]
) -> None:
    terms = Terms(alpha=0.1, feedback=Feedback.SEMI_BANDIT, rounds=10_000, runs=5, channel=channel)
    contest = run_contest(learners, [listing.list_scenarios()[scenario]], terms)
    lines = [line for line in table.text(contest).splitlines() if line.split(" ")[0] in learners]
    assert len(lines) == len(learners)
    for line in lines:
        assert line[:UNTIMED].rstrip() in PAGE


def test_every_learner_is_on_the_page() -> None:
    assert [name for name in LEARNERS if f"`{name}`" not in PAGE] == []


def test_bounds_on_the_page_are_those_of_the_calculator() -> None:
    logit = bounds.excess(make("logit-tracker", alpha=0.1), rounds=10**6)
    assert f"between {logit.least:.0f} and {logit.most:.0f} at alpha 0.1" in PAGE
    for name in ("informed-tracker", "aci", "self-scaled", "contextual-tracker"):
        found = bounds.excess(make(name, alpha=0.1), rounds=10**6)
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"between {found.least:.1f} and {found.most:.1f} at alpha 0.1" in row
    valve = bounds.excess(make("sps+valve", alpha=0.1), rounds=10_000)
    assert f"no learner behind it misses more than {0.1 + valve.most / 10_000:.4f}" in PAGE
