"""What a replay counts, and that it names what is not as it was."""

import pytest

from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import write_stream
from tests.service.scene import run_sql

NOW = 1_800_000_000.0


def play(database: Database, name: str, rounds: int, *, learner: str = "kt") -> None:
    setup, _ = settings.make_setup(learner, alpha=0.1, seed=7)
    registry.create(database, name, setup=setup, now=NOW)
    opened = proposals.predict(database, name, asks=[Query([1.0])] * rounds, now=NOW)
    answers.answer(database, [Reply(one.id, "hit") for one in opened[:3]], now=NOW)


def test_a_replay_counts_rounds_and_answers_and_ends_at_the_last_link(light: Database) -> None:
    play(light, "pets", 5)
    found = replay.replay(light, "pets")
    assert (found.stream, found.rounds, found.answers) == ("pets", 5, 3)
    assert found.link == registry.get(light, "pets").link
    assert found.difference is None


def test_a_log_without_its_beginning_comes_to_nothing(light: Database) -> None:
    play(light, "pets", 5)
    run_sql(light, "DELETE FROM changes")
    found = replay.replay(light, "pets")
    assert (found.rounds, found.answers) == (0, 0)
    assert found.difference is not None


def test_a_log_of_more_than_a_page_is_played_whole(light: Database) -> None:
    play(light, "pets", 1_005)
    found = replay.replay(light, "pets")
    assert (found.rounds, found.difference) == (1_005, None)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("INSERT INTO alarms VALUES (1, 2, 0.0, 1, 1, 0.0, NULL, NULL, 0)", "list of alarms"),
        ("INSERT INTO metadata VALUES (1, 'a', '1', 2)", "metadata"),
        ("UPDATE streams SET description = 'forged'", "description"),
        ("UPDATE streams SET retargeted = 1", "retargeted"),
        ("UPDATE answers SET weight = 2.0 WHERE number = 1", "weight"),
        ("UPDATE answers SET size = 9.0 WHERE number = 1", "size"),
        ("UPDATE answers SET kind = 'label' WHERE number = 1", "the kind is 'label'"),
        ("UPDATE answers SET format = 2 WHERE number = 1", "cannot be read"),
        ("UPDATE rounds SET metadata = '{}' WHERE number = 1", "round 1"),
        ("UPDATE changes SET kind = 'archived'", "the log does not begin"),
        ("UPDATE changes SET kind = 'unknown'", "cannot be replayed"),
    ],
)
def test_what_was_forged_is_named(light: Database, edit: str, named: str) -> None:
    play(light, "pets", 5)
    run_sql(light, edit)
    found = replay.replay(light, "pets")
    assert found.difference is not None
    assert named in found.difference


@pytest.mark.parametrize(
    "name",
    ["predicted", "answered", "misses", "weight", "size", "unreachable", "expired", "skipped"],
)
def test_a_count_of_the_streams_row_that_was_forged_is_named(light: Database, name: str) -> None:
    play(light, "pets", 5)
    stream = registry.get(light, "pets")
    setattr(stream.tally, name, getattr(stream.tally, name) + 1)
    with light.write() as connection:
        write_stream(connection, stream)
    difference = replay.replay(light, "pets").difference
    assert difference is not None
    assert difference.startswith(f"the stream's row: the {name} is ")
