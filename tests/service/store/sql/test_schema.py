"""The tables of a database that exists: another column asks for another version."""

import sqlite3

import pytest

from keyhole.service.store.sql import postgres, schema, sqlite
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import OpenRow
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import run_task
from tests.service.scene import read_table

NOW = 1_800_000_000.0

# A star marks the primary key, a question mark what may be missing.
TABLES = {
    "meta": "version",
    "streams": "id* name setup seed lifetime window created archived? description? retargeted? "
    "retention? shadows? version progress next_expiry recent link",
    "rounds": "stream* number* format version at threshold size output labels? key? context? metadata? "
    "levels? salt digest? link",
    "answers": "stream* version* format number at kind answer miss? weight score? size levels? "
    "salt digest? link",
    "amendments": "stream* version* format number at kind answer miss weight score? levels? "
    "salt digest? link",
    "changes": "stream* version* format at kind content progress? link",
    "open_rounds": "stream* number* expires then memo shadows?",
    "metadata": "stream* name* value* number*",
    "snapshots": "stream* version* at answered misses weight size bounded predicted accepted progress "
    "shadows?",
    "alarms": "stream* raised* raised_at kind since since_at cleared? cleared_at? level*",
    "tokens": "id* name scopes digest created revoked? expires? streams",
}


def test_the_tables_of_version_4_are_these() -> None:
    found = {
        table.name: " ".join(
            name + "*" * (name in table.key) + "?" * nullable for name, _, nullable in table.columns
        )
        for table in schema.TABLES
    }
    assert found == TABLES
    assert (schema.VERSION, set(schema.FORMAT.values())) == (4, {1})


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_postgresql_keeps_every_bit_of_a_float_and_counts_streams_alone(
    table: schema.Table[object],
) -> None:
    made = " ".join(schema.define(table, postgres._WORDS))
    floats = [column for column in table.columns if column.kind is float]
    assert made.count("DOUBLE PRECISION") == len(floats)
    assert ("IDENTITY" in made) == (table.name == "streams")


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_sqlite_keeps_the_rows_of_a_stream_together(table: schema.Table[object]) -> None:
    made = " ".join(schema.define(table, sqlite._WORDS))
    apart = ("meta", "streams", "tokens", "open_rounds")
    assert ("WITHOUT ROWID" in made) == (table.name not in apart)
    assert ("REFERENCES streams (id)" in made) == (table.name not in ("meta", "streams", "tokens"))


@pytest.fixture
def played(light: Database) -> Database:
    """A stream of 100 answered rounds, two of them with a key, and one that is open."""
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    asks = [Query([0.9, 0.1], "first"), Query([0.9, 0.1], "second"), *[Query([0.9, 0.1])] * 99]
    opened = proposals.predict(light, "pets", asks=asks, now=NOW)
    answers.answer(light, [Reply(one.id, "miss") for one in opened[:100]], now=NOW)
    return light


@pytest.mark.parametrize(
    ("table", "changed"),
    [
        ("streams", {"id": 2}),  # the same name
        ("rounds", {"number": 200}),  # the same key
        ("rounds", {"key": "third"}),  # the same number
        ("answers", {"version": 900}),  # a second answer to a round
        ("answers", {"number": 100}),  # the same version
        ("changes", {}),
        ("open_rounds", {}),
        ("snapshots", {"version": 900}),  # a second snapshot after so many answers
        ("snapshots", {"answered": 200}),
    ],
)
def test_what_there_must_be_once_the_database_takes_once(
    played: Database, table: str, changed: dict[str, object]
) -> None:
    (it,) = (one for one in schema.TABLES if one.name == table)

    def copy() -> None:
        row = read_table(played, it)[0]._replace(**changed)
        with played.write() as transaction:
            transaction.insert(it, [row])

    with pytest.raises(sqlite3.IntegrityError):
        copy()


def test_rounds_without_a_key_may_be_many_and_another_stream_may_use_the_same(
    played: Database,
) -> None:
    keys = [row.key for row in read_table(played, schema.rounds)]
    assert keys.count(None) == 99
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(played, "other", setup=setup, now=NOW)
    task = proposals.make_task("other", asks=[Query([0.5], "first")], now=NOW)
    assert run_task(played, task).repeated == [False]


def test_a_row_of_no_stream_is_refused(light: Database) -> None:
    def orphan() -> None:
        with light.write() as transaction:
            transaction.insert(schema.open_rounds, [OpenRow(9, 0, NOW, 0, b"")])

    with pytest.raises(sqlite3.IntegrityError):
        orphan()
