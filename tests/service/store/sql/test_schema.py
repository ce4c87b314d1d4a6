"""The tables of a database that exists: another column asks for another version and a migration."""

from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query

NOW = 1_800_000_000.0

# A star marks the primary key, a question mark what may be missing.
TABLES = {
    "meta": "version",
    "streams": "id* name setup lifetime window created archived? description? version progress sweep "
    "recent link fault?",
    "rounds": "stream* number* version at threshold size output labels? key? context? metadata? link",
    "feedback": "stream* version* number at answer miss? weight score? size link",
    "changes": "stream* version* at kind content progress? link",
    "open": "stream* number* expires then memo",
    "marks": "stream* version* at answered misses weight size bounded predicted accepted progress",
    "alarms": "stream* raised* raised_at kind since since_at cleared? cleared_at?",
    "tokens": "id* name scopes digest created revoked?",
}


def test_the_tables_of_version_2_are_these() -> None:
    found = {
        table.name: " ".join(
            one.name + "*" * one.primary_key + "?" * bool(one.nullable) for one in table.c
        )
        for table in schema.tables.sorted_tables
    }
    assert found == TABLES
    assert schema.VERSION == 2


@pytest.mark.parametrize("name", TABLES)
def test_postgresql_keeps_every_bit_of_a_float_and_counts_streams_alone(name: str) -> None:
    dialect: Any = postgresql.dialect  # it has no types
    made = str(CreateTable(schema.tables.tables[name]).compile(dialect=dialect()))
    assert made.count("FLOAT") == made.count("FLOAT(53)")
    assert ("SERIAL" in made) == (name == "streams")


@pytest.mark.parametrize("name", TABLES)
def test_sqlite_keeps_the_rows_of_a_stream_together(name: str) -> None:
    made = str(CreateTable(schema.tables.tables[name]).compile(dialect=sqlite.dialect()))
    assert ("WITHOUT ROWID" in made) == (name not in ("meta", "streams", "tokens", "open"))
    assert ("REFERENCES streams (id)" in made) == (name not in ("meta", "streams", "tokens"))


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
        ("feedback", {"version": 900}),  # a second answer to a round
        ("feedback", {"number": 100}),  # the same version
        ("changes", {}),
        ("open", {}),
        ("marks", {"version": 900}),  # a second snapshot after so many answers
        ("marks", {"answered": 200}),
    ],
)
def test_what_there_must_be_once_the_database_takes_once(
    played: Database, table: str, changed: dict[str, object]
) -> None:
    it = schema.tables.tables[table]

    def copy() -> None:
        with played.write() as connection:
            row = connection.execute(sql.select(it).limit(1)).mappings().one()
            connection.execute(it.insert().values(**{**row, **changed}))

    with pytest.raises(sql.exc.IntegrityError):
        copy()


def test_rounds_without_a_key_may_be_many_and_another_stream_may_use_the_same(
    played: Database,
) -> None:
    with played.read() as connection:
        keys = list(connection.execute(sql.select(schema.rounds.c.key)).scalars())
    assert keys.count(None) == 99
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(played, "other", setup=setup, now=NOW)
    (opened,) = proposals.predict(played, "other", asks=[Query([0.5], "first")], now=NOW)
    assert not opened.repeated


def test_a_row_of_no_stream_is_refused(light: Database) -> None:
    row = {"stream": 9, "number": 0, "expires": NOW, "then": 0, "memo": b""}

    def orphan() -> None:
        with light.write() as connection:
            connection.execute(schema.open_rounds.insert().values(**row))

    with pytest.raises(sql.exc.IntegrityError):
        orphan()
