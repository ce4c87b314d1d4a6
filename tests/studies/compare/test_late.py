"""The contest under late, batched and lost answers."""

import json

import pytest

from keyhole.errors import InvalidError
from keyhole.feedback import Feedback
from keyhole.simulation import Channel
from keyhole.studies.compare import listing, page, record, table
from keyhole.studies.compare.contest import Terms, hold
from keyhole.studies.compare.late import CHANNELS, LateContests, hold_late

NAMES = ["logit-tracker", "kt"]
TERMS = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=1_200, runs=2)


@pytest.fixture(scope="module")
def lateness() -> LateContests:
    scenarios = listing.pick_scenarios(["steady", "fall", "just-below"], listing.list_scenarios())
    return hold_late(NAMES, scenarios, TERMS)


def test_every_way_is_the_contest_over_its_channel(lateness: LateContests) -> None:
    steady = listing.pick_scenarios(["steady"], listing.list_scenarios())
    terms = Terms(alpha=0.1, feedback=Feedback.BANDIT, rounds=1_200, runs=2, channel=Channel(batch=100))
    alone = hold(["kt"], steady, terms).cells[0]
    within = lateness.contests["b100"].cells
    cell = next(c for c in within if (c.learner, c.scenario) == ("kt", "steady"))
    assert cell.figures["size"] == alone.figures["size"]
    assert cell.figures["miss_rate"] == alone.figures["miss_rate"]


def test_ways_are_those_of_the_field() -> None:
    channels = [named.channel for named in CHANNELS.values()]
    assert [c.delay for c in channels if c.batch == 1 and not c.geometric and not c.lost] == [
        0, 10, 100, 1_000,
    ]  # fmt: skip
    assert [c.batch for c in channels if c.batch > 1] == [100, 1_000]
    assert [c.lost for c in channels if c.lost] == [0.9]
    assert [c.delay for c in channels if c.geometric] == [300]


def test_adversaries_stay_out(lateness: LateContests) -> None:
    for contest in lateness.contests.values():
        assert [listed.name for listed in contest.scenarios] == ["steady", "fall"]
    with pytest.raises(InvalidError, match="which no adversary has"):
        hold_late(NAMES, listing.pick_scenarios(["just-below"], listing.list_scenarios()), TERMS)


def test_table_has_a_column_for_every_way_and_fits_eighty_columns(lateness: LateContests) -> None:
    lines = [line.text for line in table.write_late_lines(lateness)]
    assert max(map(len, lines)) <= 80
    heads = [line.split()[1:] for line in lines if line.startswith("learner ")]
    assert heads == [list(CHANNELS)] * 4
    shown = next(line for line in lines if line.startswith("kt ")).split()[1:]
    found = lateness.standings()["kt"]
    assert shown == [f"{found[channel].ratio:.2f}" for channel in CHANNELS]


def test_record_and_page_hold_every_way(lateness: LateContests) -> None:
    prompt = lateness.contests["prompt"]
    written = json.loads(record.text(prompt, lateness))
    assert list(written["late"]) == list(CHANNELS)
    assert written["late"]["b100"]["channel"]["batch"] == 100
    drawn = page.text(prompt, lateness)
    assert 'data-chart="late"' in drawn
