"""Streams made, listed page by page, archived and removed."""

import math

import pytest

from keyhole.errors import ArchivedError, InvalidError, StreamExistsError, UnknownStreamError
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from tests.service.scene import read_table, run_sql

NOW = 1_800_000_000.0


@pytest.fixture
def three(light: Database) -> Database:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    for name in ("c", "a", "b"):
        registry.create(light, name, setup=setup, now=NOW)
    return light


def test_a_new_stream_stands_where_nothing_has_happened(three: Database) -> None:
    stream = registry.get(three, "a")
    assert (stream.version, stream.tally.predicted, stream.open, stream.recent_rounds) == (0, 0, 0, 0)
    assert (stream.created, stream.archived, stream.description) == (NOW, None, None)
    assert stream.next_expiry == math.inf
    assert stream.recent_misses == 0


def test_streams_are_listed_in_pages_the_oldest_first(three: Database) -> None:
    def page(after: str | None, limit: int | None) -> tuple[list[str], str | None]:
        found = registry.survey(three, after=after, limit=limit)
        return [stream.name for stream in found.usable], found.next

    assert page(None, None) == (["c", "a", "b"], None)
    assert page(None, 1) == (["c"], "c")
    assert page(None, 2) == (["c", "a"], "a")
    assert page(None, 3) == (["c", "a", "b"], "b")
    assert page("a", 2) == (["b"], None)
    assert page("c", 2) == (["a", "b"], "b")
    assert page("b", 2) == ([], None)
    assert registry.list_names(three) == ["c", "a", "b"]


def test_a_name_is_taken_once_and_unknown_ones_are_named(three: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1)
    with pytest.raises(StreamExistsError, match="stream 'a' already"):
        registry.create(three, "a", setup=setup, now=NOW)
    for name in ("d", "no name at all"):
        with pytest.raises(UnknownStreamError):
            registry.get(three, name)


def test_an_archived_stream_takes_no_rounds_and_stays_archived_since_the_first_time(
    three: Database,
) -> None:
    assert registry.archive(three, "a", now=NOW + 1.0).archived == NOW + 1.0
    assert registry.archive(three, "a", now=NOW + 2.0).archived == NOW + 1.0
    assert registry.get(three, "a").version == 1
    with pytest.raises(ArchivedError):
        proposals.predict(three, "a", asks=[Query([0.5])], now=NOW + 3.0)


def test_only_an_archived_stream_is_removed_and_nothing_of_it_or_of_others_stays_or_goes(
    three: Database,
) -> None:
    for name in ("a", "b"):
        ask = Query([0.5], metadata='{"a":1}')
        for _ in range(40):  # until the promise is judged, and an alarm raised
            opened = proposals.predict(three, name, asks=[ask] * 10, now=NOW)
            answers.answer(three, [Reply(one.id, "miss") for one in opened], now=NOW)
        proposals.predict(three, name, asks=[ask], now=NOW)
    with pytest.raises(InvalidError, match="archive it before you delete it"):
        registry.delete(three, "a")
    registry.archive(three, "a", now=NOW)
    registry.delete(three, "a")
    assert registry.list_names(three) == ["c", "b"]
    for table in set(schema.OF_STREAMS) - {schema.amendments}:  # of which there are none
        owners = {row.stream for row in read_table(three, table)}
        assert owners == ({1, 3} if table is schema.changes else {3})


def test_a_new_stream_does_not_get_the_id_of_one_that_was_removed(three: Database) -> None:
    """Kills: answers to the rounds of the old stream taken for answers to the new one's."""
    registry.archive(three, "b", now=NOW)
    registry.delete(three, "b")
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    assert registry.create(three, "b", setup=setup, now=NOW).id == 4


def test_a_stream_that_cannot_be_read_is_quarantined_in_the_list_and_can_be_removed(
    three: Database,
) -> None:
    run_sql(three, "UPDATE streams SET progress = x'00' WHERE name = 'a'")
    found = registry.survey(three)
    assert [stream.name for stream in found.usable] == ["c", "b"]
    assert list(found.quarantined) == ["a"]
    registry.delete(three, "a")
    assert registry.list_names(three) == ["c", "b"]


def test_a_survey_of_what_changed_tells_those_alone_and_damaged_streams_hide_none(
    three: Database,
) -> None:
    first = registry.survey_changed(three, {})
    assert [stream.name for stream in first.changed] == ["c", "a", "b"]
    assert registry.survey_changed(three, first.digests) == (first.digests, [], {})
    proposals.predict(three, "b", asks=[Query([0.5])], now=NOW)
    run_sql(three, "UPDATE streams SET progress = x'00' WHERE name = 'a'")
    second = registry.survey_changed(three, first.digests)
    assert [stream.name for stream in second.changed] == ["b"]
    assert list(second.quarantined) == ["a"]
    assert set(second.digests) == {1, 3}
    assert list(registry.survey_changed(three, second.digests).quarantined) == ["a"]


def test_a_stream_may_be_made_with_what_people_say_of_it_and_verifies(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    for name, text in (("a", "of ours"), ("b", None)):
        registry.create(light, name, setup=setup, now=NOW, description=text)
        assert registry.get(light, name).description == text
        assert replay.replay(light, name).difference is None
