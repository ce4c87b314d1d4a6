"""A database of Keyhole 0.1: opened, carried over, gone on with, verified.

``keyhole-0.1.db.gz`` was written by 0.1: ten streams of eight learners with answers out of order, open,
expired and keyed rounds, one archived, and two tokens. ``keyhole-0.1-postgresql.sql`` are its tables on
PostgreSQL.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from keyhole.errors import DatabaseError, QuarantinedError
from keyhole.scores import Interval
from keyhole.service.store import answers, proposals, replay, schema, stream, streams, tokens
from keyhole.service.store.answers import Counted
from keyhole.service.store.database import Database
from tests.service.store.old import unpack_file

HERE = Path(__file__).parent
NOW = 1_790_000_200.0  # while the open rounds of the file still wait
SCORES = {"cat": 0.71, "lynx": 0.22, "dog": 0.04}
NAMES = (
    "pets", "unlock", "bounded", "scaled", "scaled-valve", "mvp", "mean", "closed", "short", "young",
)  # fmt: skip
TOKEN = "kh_8378fe82_36emQSAT5hRExJdqoIYA9PFwfFO9bRy6wH6v23yegoM"  # noqa: S105
TABLES = ("meta", "streams", "tokens", "rounds", "feedback", "open", "marks")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The file as 0.1 left it."""
    return unpack_file(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request: pytest.FixtureRequest, old: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{old}"
    return _copy_to_postgres(old, str(request.getfixturevalue("postgres")()))


def _copy_to_postgres(old: Path, url: str) -> str:
    source, target = sql.create_engine(f"sqlite:///{old}"), sql.create_engine(url)
    known = sql.MetaData()
    with source.connect() as reader, target.begin() as writer:
        writer.exec_driver_sql((HERE / "keyhole-0.1-postgresql.sql").read_text())
        known.reflect(reader)
        for name in TABLES:
            rows = [dict(row) for row in reader.execute(sql.select(known.tables[name])).mappings()]
            if rows:
                writer.execute(known.tables[name].insert(), rows)
        writer.exec_driver_sql("SELECT setval('streams_id_seq', 10)")
    for engine in (source, target):
        engine.dispose()
    return url


def play(database: Database, name: str) -> None:
    """Answer a round that 0.1 left open, then open and answer thirty more."""
    here = streams.get(database, name)
    with database.read() as connection:
        table = schema.open_rounds
        mine = (table.c.stream == here.id, table.c.expires > NOW)
        waiting = connection.execute(sql.select(table.c.number).where(*mine)).scalars().all()
    replies = [answers.Reply(here.prediction_id(number), "miss") for number in waiting[:3]]
    results = answers.answer(database, replies, now=NOW)
    assert all(isinstance(result, Counted) for result in results), results
    for n in range(30):
        output: Any = 20.0 + n % 5 if name in ("bounded", "scaled") else SCORES
        (opened,) = proposals.predict(database, name, asks=[proposals.Query(output)], now=NOW)
        truth = 20.5 if isinstance(opened.region, Interval) else "cat"
        hit: Any = {"label": truth} if truth in opened.region else "miss"
        (result,) = answers.answer(database, [answers.Reply(opened.id, hit)], now=NOW)
        assert isinstance(result, Counted), result


def test_streams_of_0_1_go_on_predicting_and_answering_and_verify(old_url: str) -> None:
    database = Database(old_url)
    assert [here.name for here in streams.survey(database).usable] == list(NAMES)
    before = {name: streams.get(database, name).tally.predicted for name in NAMES}
    for name in NAMES:
        if name != "closed":
            play(database, name)
        found = replay.replay(database, name)
        assert found.difference is None, (name, found.difference)
        assert found.unplayed == before[name]
    database.close()


def test_what_0_1_had_counted_stands(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        rows = connection.execute(
            "SELECT name, predicted, answered, misses, expired, archived, recent FROM streams"
        ).fetchall()
    database = Database(f"sqlite:///{old}")
    for name, predicted, answered, misses, expired, archived, recent in rows:
        here = streams.get(database, name)
        tally = here.tally
        assert (tally.predicted, tally.answered, tally.misses) == (predicted, answered, misses)
        assert (tally.expired, here.archived) == (expired, archived)
        assert here.recent == int.from_bytes(recent, "big")
    database.close()


def test_a_learner_of_0_1_goes_on_from_the_threshold_it_had_come_to(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        (state,) = connection.execute("SELECT state FROM streams WHERE name = 'pets'").fetchone()
    database = Database(f"sqlite:///{old}")
    here = streams.get(database, "pets")
    assert here.setup.learner.pack(here.progress.state)[:8] == state[:8]
    database.close()


def test_tokens_and_keys_of_0_1_are_still_known(old: Path) -> None:
    database = Database(f"sqlite:///{old}")
    assert tokens.verify(database, TOKEN).name == "old client"
    with database.read() as connection:
        here = stream.find(connection, "pets")
        mine = (schema.rounds.c.stream == here.id, schema.rounds.c.number == 10)
        row = connection.execute(sql.select(schema.rounds).where(*mine)).one()
    labels, count = '["cat", "lynx", "dog"]', len(row.output) // 8
    assert (row.key, row.labels, count) == ("key-10", labels, 3)
    database.close()


def test_new_streams_get_an_id_of_their_own(old_url: str) -> None:
    database = Database(old_url)
    made = streams.create(database, "new", setup=streams.get(database, "pets").setup, now=NOW)
    assert made.id == 11
    assert replay.replay(database, "new").difference is None
    database.close()


def test_a_stream_that_cannot_be_carried_over_is_quarantined_and_nothing_of_it_lost(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute(
            "UPDATE streams SET blueprint = replace(blueprint, 'ocp-unlock+', 'no-such-rule')"
        )
        was = connection.execute(
            "SELECT state, predicted FROM streams WHERE name = 'unlock'"
        ).fetchone()
    database = Database(f"sqlite:///{old}")
    with pytest.raises(QuarantinedError, match=r"from Keyhole 0\.1: there is no learner"):
        streams.get(database, "unlock")
    play(database, "pets")
    with database.read() as connection:
        row = stream.find_row(connection, "unlock")
        mine = schema.rounds.c.stream == row.id
        kept = connection.execute(sql.select(sql.func.count()).where(mine)).scalar_one()
    assert (row.progress, kept) == was
    assert "no-such-rule" in str(replay.replay(database, "unlock").difference)
    database.close()


def test_a_file_that_cannot_be_carried_over_to_the_end_stays_as_it_was(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute("CREATE TABLE changes (another INTEGER)")  # where what happened would go
        before = list(connection.iterdump())
    with pytest.raises(DatabaseError, match="cannot open the database"):
        Database(f"sqlite:///{old}")
    with sqlite3.connect(old) as connection:
        assert list(connection.iterdump()) == before


@pytest.mark.parametrize(
    "edit",
    [
        'UPDATE rounds SET labels = \'["cat", "lynx", "yak"]\' WHERE stream = 1 AND number = 10',
        "UPDATE rounds SET threshold = 0.123 WHERE stream = 1 AND number = 10",
        "UPDATE feedback SET miss = 1 - miss WHERE stream = 1 AND number = 10",
        "UPDATE marks SET at = at + 1 WHERE stream = 1",
        "DELETE FROM marks WHERE stream = 1",
        "UPDATE changes SET content = replace(content, '\"then\"', '') || ' ' WHERE stream = 1",
    ],
)
def test_an_edit_of_what_0_1_wrote_is_named(old: Path, edit: str) -> None:
    Database(f"sqlite:///{old}").close()
    with sqlite3.connect(old) as connection:
        assert connection.execute(edit).rowcount > 0
    database = Database(f"sqlite:///{old}")
    assert replay.replay(database, "pets").difference is not None
    database.close()


def test_a_carried_database_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    described = []
    for one in (f"sqlite:///{old}", f"sqlite:///{tmp_path / 'new.db'}"):
        Database(one).close()
        engine = sql.create_engine(one)
        found = sql.MetaData()
        found.reflect(engine)
        engine.dispose()
        described.append(
            {
                name: [(c.name, c.nullable, c.primary_key) for c in table.c]
                for name, table in found.tables.items()
            }
        )
    assert described[0] == described[1]
