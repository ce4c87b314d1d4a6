"""The contest under late, batched and lost answers."""

import json
from pathlib import Path

import pytest

from keyhole.errors import InvalidError
from keyhole.feedback import Feedback
from keyhole.simulation import Channel
from keyhole.studies.compare import contest_page, listing, table
from keyhole.studies.compare.contest import (
    CHANNELS,
    Contest,
    Terms,
    run_contest,
    run_late,
    summarise_late,
    write_record,
)

NAMES = ["logit-tracker", "kt"]
TERMS = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=1_200, runs=2)


@pytest.fixture(scope="module")
def lateness() -> Contest:
    scenarios = listing.pick_scenarios(["steady", "fall", "just-below"], listing.list_scenarios())
    return run_late(NAMES, scenarios, TERMS)


def test_every_way_is_the_contest_over_its_channel(lateness: Contest) -> None:
    steady = listing.pick_scenarios(["steady"], listing.list_scenarios())
    terms = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=1_200, runs=2, channel=Channel(batch=100))
    alone = run_contest(["kt"], steady, terms).cells[0]
    within = lateness.late["b100"].cells
    cell = next(c for c in within if (c.learner, c.scenario) == ("kt", "steady"))
    assert cell.figures["size"] == alone.figures["size"]
    assert cell.figures["miss_rate"] == alone.figures["miss_rate"]


def test_ways_are_those_of_the_field() -> None:
    channels = [channel for _, channel in CHANNELS.values()]
    assert [c.delay for c in channels if c.batch == 1 and not c.geometric and not c.lost] == [
        0, 10, 100, 1_000,
    ]  # fmt: skip
    assert [c.batch for c in channels if c.batch > 1] == [100, 1_000]
    assert [c.lost for c in channels if c.lost] == [0.9]
    assert [c.delay for c in channels if c.geometric] == [300]


def test_adversaries_stay_out(lateness: Contest) -> None:
    for contest in lateness.late.values():
        assert [listed.name for listed in contest.scenarios] == ["steady", "fall"]
    with pytest.raises(InvalidError, match="which no adversary has"):
        run_late(NAMES, listing.pick_scenarios(["just-below"], listing.list_scenarios()), TERMS)


def test_table_has_a_column_for_every_way_and_fits_eighty_columns(lateness: Contest) -> None:
    lines = [line.text for line in table.write_lines(lateness)]
    assert max(map(len, lines)) <= 80
    heads = [line.split()[1:] for line in lines if line.startswith("learner ")]
    assert heads == [list(CHANNELS)] * 4
    shown = next(line for line in lines if line.startswith("kt ")).split()[1:]
    found = summarise_late(lateness.late)["kt"]
    assert shown == [f"{found[channel].ratio:.2f}" for channel in CHANNELS]


def test_record_and_page_hold_every_way(tmp_path: Path, lateness: Contest) -> None:
    written = json.loads(write_record(lateness, tmp_path / "late.json").read_text())
    assert list(written["late"]) == list(CHANNELS)
    assert written["late"]["b100"]["channel"]["batch"] == 100
    drawn = contest_page.make_page(lateness)
    assert 'data-chart="late"' in drawn
