"""The log read again: newest first, page by page, by what was noted with it, and as a curve."""

import math

import numpy as np
import pytest

from keyhole.errors import InvalidError, QuarantinedError, UnknownRoundError
from keyhole.service.store.log import export, history
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import AlarmRow, SnapshotRow, alarms, snapshots
from keyhole.service.store.sql.schema import answers as answered
from keyhole.service.store.streams import answers, changes, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.proposals import Query, pack_metadata
from keyhole.service.store.streams.stream import change_stream, write_stream
from tests.service.scene import read_table, run_sql

NOW = 1_800_000_000.0


@pytest.fixture
def played(light: Database) -> Database:
    """Ten rounds a second apart, the even ones answered a minute later; and another stream."""
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    for name in ("other", "pets"):
        registry.create(light, name, setup=setup, now=NOW)
    for n in range(10):
        noted = pack_metadata({"shop": n % 3, "text": '"shop":1'})
        ask = Query([0.9, 0.1 * (n % 2)], f"key {n}", metadata=noted)
        (opened,) = proposals.predict(light, "pets", asks=[ask], now=NOW + n)
        if n % 2 == 0:
            reply = Reply(opened.id, {"label": 0} if n % 4 else "miss")
            answers.answer(light, [reply], now=NOW + n + 60.0)
    proposals.predict(light, "other", asks=[Query([0.5], "key 3")], now=NOW)
    return light


def test_the_newest_rounds_come_first_and_say_before_which_there_are_more(played: Database) -> None:
    def page(count: int, before: int | None = None) -> tuple[list[int], int | None]:
        entries, more = history.last(played, "pets", count=count, before=before)
        return [one.row.number for one in entries], more

    assert page(4) == ([9, 8, 7, 6], 6)
    assert page(4, 6) == ([5, 4, 3, 2], 2)
    assert page(4, 2) == ([1, 0], None)
    assert page(10) == (list(range(9, -1, -1)), None)
    assert page(4, 99) == ([9, 8, 7, 6], 6)


def test_rounds_are_found_by_what_was_noted_with_them_and_not_by_what_looks_like_it(
    played: Database,
) -> None:
    entries, more = history.last(played, "pets", count=10, metadata={"shop": 1})
    assert ([one.row.number for one in entries], more) == ([7, 4, 1], None)
    entries, _ = history.last(played, "pets", count=10, metadata={"shop": 2, "text": '"shop":1'})
    assert [one.row.number for one in entries] == [8, 5, 2]
    assert history.last(played, "pets", count=10, metadata={"shop": 7}) == ([], None)
    assert history.last(played, "pets", count=10, metadata={"town": 1}) == ([], None)


@pytest.mark.parametrize(
    ("given", "alike"),
    [
        ({"shop": 1}, {"workshop": 1}),
        ({"shop": 1}, {"shop": 2}),
        ({"town": "a_b"}, {"town": "aXb"}),
        ({"town": "a%b"}, {"town": "aXXb"}),
        ({"zone": 1}, {"area": 1}),
    ],
    ids=str,
)
def test_a_round_is_found_behind_newer_ones_that_are_only_alike(
    light: Database, given: dict[str, object], alike: dict[str, object]
) -> None:
    """Asked for one round, so that a newer one that is looked at in vain would hide it."""
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    asks = [Query([0.9], metadata=pack_metadata({"a": 0, **noted})) for noted in (given, alike)]
    proposals.predict(light, "pets", asks=asks, now=NOW)
    entries, _ = history.last(light, "pets", count=1, metadata=given)
    assert [one.row.number for one in entries] == [0]


def stand_at(database: Database, *, predicted: int) -> None:
    """Let the stream have had so many rounds."""
    stream = registry.get(database, "pets")
    stream.tally.predicted = predicted
    with database.write() as connection:
        write_stream(connection, stream)


def test_a_round_is_found_by_its_metadata_however_many_came_since(played: Database) -> None:
    stand_at(played, predicted=500_004)
    entries, more = history.last(played, "pets", count=2, metadata={"shop": 1})
    assert ([one.row.number for one in entries], more) == ([7, 4], 4)
    entries, more = history.last(played, "pets", count=2, before=more, metadata={"shop": 1})
    assert ([one.row.number for one in entries], more) == ([1], None)
    everything, _ = history.last(played, "pets", count=20)
    assert len(everything) == 10


def test_metadata_is_kept_in_one_order_and_holds_finite_numbers() -> None:
    assert pack_metadata({"b": 1, "a": [2.5]}) == pack_metadata({"a": [2.5], "b": 1})
    for number in (math.nan, math.inf):
        with pytest.raises(InvalidError, match="not finite"):
            pack_metadata({"a": number})


def test_metadata_of_a_kilobyte_is_taken_and_no_more() -> None:
    assert len(pack_metadata({"a": "x" * (1024 - 8)})) == 1024
    with pytest.raises(InvalidError, match="metadata of 1,025 bytes is longer than 1,024"):
        pack_metadata({"a": "x" * (1024 - 7)})


def test_an_entry_holds_the_round_and_its_answer(played: Database) -> None:
    (entry, unanswered), _ = history.last(played, "pets", count=2, before=3)
    assert (entry.row.number, entry.row.key, entry.row.at) == (2, "key 2", NOW + 2)
    answered = entry.answered
    assert answered is not None
    assert (answered.miss, answered.weight, answered.score, answered.at) == (0.0, 1.0, 0.9, NOW + 62)
    assert entry.answer == {"label": 0}
    assert (unanswered.answer, unanswered.answered) == (None, None)
    assert entry.metadata == {"shop": 2, "text": '"shop":1'}
    assert history.find_round(played, "pets", "key 2") == entry.id


def test_a_key_finds_the_round_of_its_own_stream(played: Database) -> None:
    assert history.find_round(played, "other", "key 3").split("-")[:2] == ["1", "0"]
    assert history.find_round(played, "pets", "key 3").split("-")[:2] == ["2", "3"]
    with pytest.raises(UnknownRoundError, match="has the key 'key 4'"):
        history.find_round(played, "other", "key 4")


def test_of_a_key_or_an_id_that_is_too_long_the_first_80_letters_are_told(played: Database) -> None:
    with pytest.raises(UnknownRoundError, match=f"has the key '{'x' * 80}'$"):
        history.find_round(played, "pets", "x" * 500)
    (refused,) = answers.answer(played, [Reply("y" * 500, "hit")], now=NOW)
    assert str(refused) == f"there is no prediction '{'y' * 80}'; check the id"


def test_the_log_is_every_round_in_order(played: Database) -> None:
    assert [one.row.number for one in history.log(played, "pets")] == list(range(10))
    assert [one.row.number for one in history.log(played, "other")] == [0]


@pytest.mark.parametrize("count", [500, 501])
def test_a_log_is_whole_and_ends_where_it_ended_when_its_first_page_was_read(
    light: Database, count: int
) -> None:
    """A last page that is just full, and one of a single round."""
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    proposals.predict(light, "pets", asks=[Query([0.9])] * count, now=NOW)
    entries = history.log(light, "pets")
    first = next(entries)
    proposals.predict(light, "pets", asks=[Query([0.9])], now=NOW)
    assert [one.row.number for one in (first, *entries)] == list(range(count))


def test_the_curve_adds_up_answers_as_they_came(played: Database) -> None:
    stream, curve = history.curve(played, "pets", points=100)
    assert stream.tally.answered == 5
    assert curve.answered == [1, 2, 3, 4, 5]
    assert curve.levels[0].misses == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert curve.levels[0].weights == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert curve.at == [NOW + n + 60.0 for n in range(0, 10, 2)]
    assert curve.levels[0].sizes[-1] == stream.tally.sum_up().size
    assert curve.levels[0].bounded == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("points", "kept"), [(2, [1, 5]), (3, [1, 3, 5]), (5, [1, 2, 3, 4, 5])])
def test_a_curve_of_few_points_keeps_the_first_and_the_last(
    played: Database, points: int, kept: list[int]
) -> None:
    assert history.curve(played, "pets", points=points)[1].answered == kept


def test_an_export_says_in_how_many_rounds_of_its_own_stream_the_score_is_known(
    played: Database,
) -> None:
    described = export.describe_scores(played, "pets")
    assert described == "10 rounds; the true label's score is known in 2 of them (20.0%)"
    assert "known in 0 of them (0.0%)" in export.describe_scores(played, "other")
    assert len([row for row in read_table(played, answered) if row.score is not None]) == 2


def test_a_stream_without_rounds_is_told_too(light: Database) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1)
    registry.create(light, "new", setup=setup, now=NOW)
    assert export.describe_scores(light, "new").startswith("0 rounds")
    assert history.last(light, "new", count=5) == ([], None)
    assert list(history.log(light, "new")) == []
    assert history.curve(light, "new", points=5)[1].answered == []


def fill_with_snapshots(database: Database, answered: int) -> None:
    """Let a stream stand after so many answers, with a snapshot after every hundredth."""
    stream = registry.get(database, "pets")
    tally = stream.progress.tally
    tally.answered, tally.predicted, tally.misses, tally.weight = answered, answered + 9, 7.0, 8.0
    tally.size = 3.0 * answered
    packed = stream.progress.pack(stream.setup.learner)
    with database.write() as connection:
        for count in range(100, answered + 1, 100):
            sums = {"answered": count, "misses": count / 10, "weight": float(count)}
            sums |= {"size": 2.0 * count, "bounded": count, "predicted": count + 3, "accepted": 0}
            place = {"stream": stream.id, "version": 1_000_000 + count, "at": NOW + count}
            row = SnapshotRow(**place, **sums, progress=packed)  # type: ignore[arg-type]
            connection.insert(snapshots, [row])
        write_stream(connection, stream)


def test_a_long_curve_is_read_from_snapshots_and_ends_where_the_stream_stands(
    played: Database,
) -> None:
    fill_with_snapshots(played, 2_350)
    _, curve = history.curve(played, "pets", points=100)
    assert curve.answered == [*range(100, 2_301, 100), 2_350]
    own = curve.levels[0]
    assert (own.misses[:2], own.misses[-1]) == ([10.0, 20.0], 7.0)
    assert (own.weights[0], own.sizes[0], curve.predicted[0]) == (100.0, 200.0, 103)
    assert curve.at == [*(NOW + count for count in range(100, 2_301, 100)), NOW + 8 + 60.0]
    _, few = history.curve(played, "pets", points=4)
    assert few.answered == [100, 1_200, 2_300, 2_350]


@pytest.mark.parametrize(("points", "kept"), [(3, [100, 2_300]), (4, [100, 1_200, 2_300])])
def test_a_long_curve_that_ends_at_a_snapshot_has_it_once(
    played: Database, points: int, kept: list[int]
) -> None:
    fill_with_snapshots(played, 2_300)
    assert history.curve(played, "pets", points=points)[1].answered == kept


def test_the_last_snapshot_is_in_the_curve_however_many_answers_came_since(played: Database) -> None:
    fill_with_snapshots(played, 2_380)
    assert history.curve(played, "pets", points=4)[1].answered == [100, 1_200, 2_300, 2_380]


@pytest.mark.parametrize(("predicted", "kept"), [(20_000, [1, 2, 3, 4, 5]), (20_001, [5])])
def test_past_20000_rounds_few_answers_are_read_from_snapshots_too(
    played: Database, predicted: int, kept: list[int]
) -> None:
    stand_at(played, predicted=predicted)
    assert history.curve(played, "pets", points=10)[1].answered == kept


def test_an_answer_that_stands_for_several_rounds_counts_for_them_in_the_curve(
    light: Database,
) -> None:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    asks = [Query([0.9, 0.8, 0.7])] * 2
    first, second = proposals.predict(light, "pets", asks=asks, now=NOW)
    answers.answer(light, [Reply(first.id, {"loss": 0.25, "chance": 0.25})], now=NOW)
    answers.answer(light, [Reply(second.id, "miss")], now=NOW)
    stream, curve = history.curve(light, "pets", points=10)
    assert curve.levels[0].weights == [4.0, 5.0]
    assert curve.levels[0].misses == [1.0, 2.0] == [1.0, stream.tally.misses]
    assert curve.levels[0].sizes == [3.0, 6.0]


def test_a_curve_shows_the_newest_hundred_alarms_and_changes_of_its_own_stream(
    light: Database,
) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    for name in ("pets", "other"):
        registry.create(light, name, setup=setup, now=NOW)
    with change_stream(light, "other") as work:
        for n in range(1, 103):
            work.transaction.insert(alarms, [AlarmRow(1, n, NOW, 1, 1, NOW)])
            changes.note(work, Change(NOW, changes.CHANGED, {"window": n}))
    _, curve = history.curve(light, "pets", points=10)
    assert [one.raised for one in curve.alarms] == list(range(3, 103))
    assert curve.changes == []
    _, other = history.curve(light, "other", points=10)
    assert [one.content["window"] for one in other.changes] == list(range(3, 103))
    assert other.alarms == []


def test_up_to_two_thousand_answers_every_one_is_read(played: Database) -> None:
    fill_with_snapshots(played, 2_000)
    assert history.curve(played, "pets", points=50)[1].answered == [1, 2, 3, 4, 5]
    stream = registry.get(played, "pets")
    stream.tally.answered = 2_001
    with played.write() as connection:
        write_stream(connection, stream)
    assert history.curve(played, "pets", points=50)[1].answered[0] == 100


def test_the_curve_of_a_gate_counts_the_decisions_before_each_judgement(light: Database) -> None:
    setup, _ = settings.make_setup(alpha=0.1, kind="gate", seed=7)
    registry.create(light, "gate", setup=setup, now=NOW)
    opened = []
    for score in (1.0, 0.0, 1.0, 1.0):
        opened += proposals.predict(light, "gate", asks=[Query(score)], now=NOW)
        if len(opened) in (2, 4):
            answers.answer(light, [Reply(opened[-2].id, {"right": len(opened) == 4})], now=NOW)
    _, curve = history.curve(light, "gate", points=10)
    assert (curve.answered, curve.levels[0].misses) == ([1, 2], [1.0, 1.0])
    assert (curve.predicted, curve.accepted) == ([2.0, 4.0], [1.0, 3.0])
    assert (curve.levels[0].sizes, curve.levels[0].bounded) == ([0.0, 0.0], [0.0, 0.0])


def test_unbounded_intervals_add_nothing_to_the_sizes_of_the_curve(light: Database) -> None:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, kind="interval", seed=7)
    registry.create(light, "forecasts", setup=setup, now=NOW)
    widths = []
    for _ in range(5):
        (opened,) = proposals.predict(light, "forecasts", asks=[Query(5.0)], now=NOW)
        widths.append(opened.size)
        answers.answer(light, [Reply(opened.id, {"label": 6.0})], now=NOW)
    _, curve = history.curve(light, "forecasts", points=10)
    assert widths[0] == math.inf  # until a value is known
    assert curve.levels[0].bounded == [0, 1, 2, 3, 4]
    assert curve.levels[0].sizes == [0.0, *np.cumsum(widths[1:]).tolist()]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rounds SET output = x'00' WHERE number = 4",
        "UPDATE rounds SET output = 7 WHERE number = 4",
        "UPDATE rounds SET labels = '[' WHERE number = 4",
        "UPDATE rounds SET labels = '{}' WHERE number = 4",
        "UPDATE rounds SET metadata = '[' WHERE number = 4",
        "UPDATE rounds SET threshold = 'x' WHERE number = 4",
    ],
)
def test_a_round_that_cannot_be_read_is_named(played: Database, damage: str) -> None:
    run_sql(played, damage)
    with pytest.raises(QuarantinedError, match=r"'pets' is quarantined: its round 4 cannot be read"):
        history.last(played, "pets", count=10)
    entries, _ = history.last(played, "pets", count=3)
    assert [one.row.number for one in entries] == [9, 8, 7]
