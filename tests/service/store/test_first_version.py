"""What a database of Keyhole 0.1 holds once it is carried over, stream by stream."""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from keyhole.predictor.monitor import Watch
from keyhole.service.store import changes, history, replay, schema, streams
from keyhole.service.store.database import Database

FILE = Path(__file__).parent / "keyhole-0.1.db.gz"
NAMES = (
    "pets", "unlock", "bounded", "scaled", "scaled-valve", "mvp", "mean", "closed", "short", "young",
)  # fmt: skip
TRACKERS = {"excess": "excess", "lateness": 0}
ADDED: dict[str, dict[str, Any]] = {  # to the state of a learner since, and what it is then
    **dict.fromkeys(("pets", "bounded", "scaled", "short"), TRACKERS),
    "mean": {"moved": "excess", "lateness": 0},
    "scaled-valve": {"lateness": 0},
}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The rows of the streams as 0.1 left them."""
    path = tmp_path_factory.mktemp("old") / "old.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM streams").fetchall()
    connection.close()
    return {row["name"]: dict(row) for row in rows}


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The file, carried over once; these tests only read it."""
    path = tmp_path_factory.mktemp("carried") / "keyhole.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    database = Database(f"sqlite:///{path}")
    yield database
    database.close()


@pytest.mark.parametrize("name", NAMES)
def test_rounds_show_from_the_new_tables_what_was_shown(carried: Database, name: str) -> None:
    """Kills: an interval whose scale is not the one of its time."""
    entries, _ = history.last(carried, name, count=25)
    for entry in entries:
        assert entry.region.size == entry.size
        assert (entry.weight, entry.miss is None) in ((1.0, False), (None, True))


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_stands_where_it_stood(
    carried: Database, old: dict[str, dict[str, Any]], name: str
) -> None:
    here, was = streams.get(carried, name), old[name]
    blueprint = json.loads(was["blueprint"])
    tally = here.tally
    assert (tally.predicted, tally.answered) == (was["predicted"], was["answered"])
    assert (tally.misses, tally.weight) == (was["misses"], was["answered"])
    assert (tally.expired, tally.unreachable) == (was["expired"], was["bound_broken"])
    assert (here.lifetime, here.window) == (blueprint["lifetime"], blueprint["window"])
    assert (here.created, here.archived, here.sweep) == (was["created"], was["archived"], was["sweep"])
    assert here.version == was["version"] + (2 if here.archived is not None else 1)
    assert here.watch == Watch.begin(tally.answered)
    assert here.recent == int.from_bytes(was["recent"], "big")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_learner_had_learnt_goes_on_and_what_is_new_says_what_its_misses_say(
    carried: Database, old: dict[str, dict[str, Any]], name: str
) -> None:
    here, added = streams.get(carried, name), ADDED.get(name, {})
    learner = here.setup.learner
    excess = here.tally.misses - learner.alpha * here.tally.answered
    packed, kept, place = learner.pack(here.progress.state), b"", 0
    for part, content in learner.start_arrays()._asdict().items():
        own = packed[place : place + content.nbytes]
        place += content.nbytes
        if part in added:
            (found,) = memoryview(own).cast("d" if content.dtype.kind == "f" else "q")
            assert found == (excess if added[part] == "excess" else 0)
        else:
            kept += own
    assert kept == old[name]["state"]


@pytest.mark.parametrize("name", NAMES)
def test_open_rounds_wait_with_their_time_and_a_memo_that_fits(carried: Database, name: str) -> None:
    here = streams.get(carried, name)
    with carried.read() as connection:
        mine = schema.open_rounds.c.stream == here.id
        rows = connection.execute(sql.select(schema.open_rounds).where(mine)).all()
    assert len(rows) == here.open
    for row in rows:
        assert len(row.memo) == 8 * here.setup.learner.memory
        assert 0 <= row.then <= row.number
        assert row.expires >= here.sweep


@pytest.mark.parametrize("name", NAMES)
def test_none_of_its_rounds_is_played_again_and_the_log_says_so(carried: Database, name: str) -> None:
    found, here = replay.replay(carried, name), streams.get(carried, name)
    assert found.difference is None
    assert found.unplayed == found.rounds == here.tally.predicted
    with carried.read() as connection:
        table = schema.changes
        mine = sql.select(table.c.kind).where(table.c.stream == here.id).order_by(table.c.version)
        kinds = list(connection.execute(mine).scalars())
    archived = [changes.ARCHIVED] if here.archived is not None else []
    assert kinds == [changes.CREATED, changes.CARRIED, *archived]


def test_what_0_1_did_not_know_is_as_it_was_without_it(carried: Database) -> None:
    labelled: Any = streams.get(carried, "pets").setup.score
    assert (labelled.at_least, labelled.at_most) == (0, None)
    scaled: Any = streams.get(carried, "scaled").setup.score
    assert scaled.side == "both"
