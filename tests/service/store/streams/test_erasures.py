"""Erasures at the store's own door: which rounds, in how many goes, and what stays of them."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from keyhole.errors import InvalidError, UnknownRoundError
from keyhole.service.store.log import history, replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, erasures, proposals, registry, settings, updates
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.erasures import gather_ranges
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.updates import Update
from tests.service.scene import read_table

NOW = 1_800_000_000.0
DAY = 86_400.0


@pytest.fixture
def pets(light: Database) -> Database:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    return light


def ask(database: Database, *users: str, at: float = NOW) -> list[str]:
    asks = [Query([0.9, 0.1], metadata=json.dumps({"user": user, "site": "x"})) for user in users]
    return [one.id for one in proposals.predict(database, "pets", asks=asks, now=at)]


def list_erased(database: Database) -> list[int]:
    return [row.number for row in read_table(database, schema.rounds, "ORDER BY number") if row.digest]


@pytest.mark.parametrize("seed", range(5))
def test_ranges_hold_the_numbers_and_no_others(seed: int) -> None:
    numbers = np.flatnonzero(np.random.default_rng(seed).random(40) < 0.6).tolist()
    ranges = gather_ranges(numbers)
    assert [n for first, last in ranges for n in range(first, last + 1)] == numbers
    gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
    assert all(gap > 1 for gap in gaps)
    assert gather_ranges([]) == []


def test_the_rounds_of_one_person_are_erased_and_no_others(pets: Database) -> None:
    ids = ask(pets, *"aabcaab")
    answers.answer(pets, [Reply(ids[0], "hit"), Reply(ids[2], "hit")], now=NOW)
    chosen: Any = {"user": "a", "site": "x"}
    assert erasures.erase_matching(pets, "pets", metadata=chosen, now=NOW) == 4
    assert list_erased(pets) == [0, 1, 4, 5]
    assert erasures.erase_matching(pets, "pets", metadata=chosen, now=NOW) == 0
    stream = registry.get(pets, "pets")
    assert (stream.tally.answered, stream.tally.skipped, stream.open) == (2, 3, 2)
    with pets.read() as transaction:
        assert erasures.list_erased(transaction, stream.id) == {0, 1, 4, 5}
    (change,) = [row for row in read_table(pets, schema.changes) if "rounds" in row.content]
    assert json.loads(change.content)["rounds"] == [[0, 1], [4, 5]]
    assert replay.replay(pets, "pets").difference is None


def test_a_round_is_erased_once_and_only_by_its_own_id(pets: Database) -> None:
    first, second = ask(pets, "a", "b")
    assert erasures.erase_round(pets, "pets", second, now=NOW) == 1
    assert erasures.erase_round(pets, "pets", second, now=NOW) == 0
    assert list_erased(pets) == [1]
    stream, number, tag = first.split("-")
    for wrong in ("nonsense", f"9-{number}-{tag}", f"{stream}-1-{tag}", f"{stream}-7-{tag}"):
        with pytest.raises(UnknownRoundError, match="has no prediction"):
            erasures.erase_round(pets, "pets", wrong, now=NOW)
    entries, _ = history.last(pets, "pets", count=2)
    assert sorted(entry.is_erased for entry in entries) == [False, True]


@pytest.mark.parametrize("chosen", [None, {}])
def test_what_chooses_nothing_erases_nothing(pets: Database, chosen: Any) -> None:
    ask(pets, "a")
    with pytest.raises(InvalidError, match="would erase every round"):
        erasures.erase_matching(pets, "pets", metadata=chosen, now=NOW)
    assert list_erased(pets) == []


def test_many_rounds_go_five_hundred_at_a_time_each_with_a_note_in_the_log(pets: Database) -> None:
    for _ in range(6):
        ask(pets, *["a"] * 100)
    assert erasures.erase_matching(pets, "pets", before=NOW + 1, now=NOW + 2) == 600
    told = [json.loads(row.content) for row in read_table(pets, schema.changes, "ORDER BY version")]
    assert [one["rounds"] for one in told if "rounds" in one] == [[[0, 499]], [[500, 599]]]


def test_what_is_older_than_it_is_kept_goes_and_the_next_look_begins_behind_it(pets: Database) -> None:
    for day in range(5):
        ask(pets, "a", "b", at=NOW + day * DAY)
    assert erasures.erase_old(pets, "pets", first=0, now=NOW + 9 * DAY) == 0  # kept for ever
    assert erasures.list_retaining(pets) == []
    updates.update(pets, "pets", Update(retention=2 * DAY), now=NOW + 4 * DAY)
    assert erasures.list_retaining(pets) == ["pets"]
    assert erasures.erase_old(pets, "pets", first=0, now=NOW + 4 * DAY) == 4  # before the third day
    assert list_erased(pets) == [0, 1, 2, 3]
    assert erasures.erase_old(pets, "pets", first=4, now=NOW + 4 * DAY) == 4
    assert erasures.erase_old(pets, "pets", first=4, now=NOW + 5.5 * DAY) == 8
    assert list_erased(pets) == [*range(8)]
