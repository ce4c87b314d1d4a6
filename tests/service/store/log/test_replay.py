"""What a replay counts, and that it names what is not as it was."""

import pytest
import sqlalchemy as sql

from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings, stream
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query

NOW = 1_800_000_000.0
ALARM = {"stream": 1, "raised": 2, "raised_at": 0.0, "kind": 1, "since": 1, "since_at": 0.0}


def play(database: Database, name: str, rounds: int, *, learner: str = "kt") -> None:
    setup, _ = settings.make_setup(learner, alpha=0.1, seed=7)
    registry.create(database, name, setup=setup, now=NOW)
    opened = proposals.predict(database, name, asks=[Query([1.0])] * rounds, now=NOW)
    answers.answer(database, [Reply(one.id, "hit") for one in opened[:3]], now=NOW)


def test_a_replay_counts_rounds_and_answers_and_ends_at_the_last_link(light: Database) -> None:
    play(light, "pets", 5)
    found = replay.replay(light, "pets")
    assert (found.stream, found.rounds, found.answers, found.unplayed) == ("pets", 5, 3, 0)
    assert found.link == registry.get(light, "pets").link
    assert found.difference is None


def test_a_log_without_its_beginning_comes_to_nothing(light: Database) -> None:
    play(light, "pets", 5)
    with light.write() as connection:
        connection.execute(schema.changes.delete())
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
        (schema.alarms.insert().values(ALARM), "list of alarms"),
        (schema.streams.update().values(description="forged"), "description"),
        (schema.feedback.update().where(schema.feedback.c.number == 1).values(weight=2.0), "weight"),
        (schema.feedback.update().where(schema.feedback.c.number == 1).values(size=9.0), "size"),
        (schema.rounds.update().where(schema.rounds.c.number == 1).values(metadata="{}"), "round 1"),
        (schema.changes.update().values(kind="archived"), "the log does not begin"),
        (schema.changes.update().values(kind="unheard of"), "cannot be replayed here"),
    ],
)
def test_what_was_forged_is_named(light: Database, edit: sql.Executable, named: str) -> None:
    play(light, "pets", 5)
    with light.write() as connection:
        connection.execute(edit)
    found = replay.replay(light, "pets")
    assert found.difference is not None
    assert named in found.difference


@pytest.mark.parametrize(
    "name",
    ["predicted", "answered", "misses", "weight", "size", "unreachable", "expired", "skipped"],
)
def test_a_count_of_the_streams_row_that_was_forged_is_named(light: Database, name: str) -> None:
    play(light, "pets", 5)
    here = registry.get(light, "pets")
    setattr(here.tally, name, getattr(here.tally, name) + 1)
    with light.write() as connection:
        stream.write(connection, here)
    difference = replay.replay(light, "pets").difference
    assert difference is not None
    assert difference.startswith(f"the stream's row: the {name} is ")
