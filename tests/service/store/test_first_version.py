"""What a database of Keyhole 0.1 holds once it is carried over, stream by stream."""

import json
import sqlite3
from array import array
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from keyhole import learners
from keyhole.errors import QuarantinedError
from keyhole.predictor.monitor import Watch
from keyhole.predictor.scale import Scale
from keyhole.service.store import changes, first_version, history, replay, schema, streams
from keyhole.service.store.database import Database
from tests.service.store.old import unpack_file

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
    path = unpack_file(tmp_path_factory.mktemp("old"))
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT * FROM streams").fetchall()
    connection.close()
    return {row["name"]: dict(row) for row in rows}


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The file, carried over once; these tests only read it."""
    database = Database(f"sqlite:///{unpack_file(tmp_path_factory.mktemp('carried'))}")
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


def read_tables(database: Database) -> dict[str, list[Any]]:
    with database.read() as connection:
        return {
            table.name: [*connection.execute(sql.select(table).order_by(*table.primary_key))]
            for table in schema.tables.sorted_tables
        }


def test_a_log_of_many_pages_is_carried_over_as_one_of_a_single_page(
    carried: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose last page is just full: 120, 40 and 32 rows are pages of 8."""
    monkeypatch.setattr(first_version, "_PAGE", 8)
    paged = Database(f"sqlite:///{unpack_file(tmp_path)}")
    assert read_tables(paged) == read_tables(carried)
    paged.close()


def test_the_one_scale_that_0_1_knew_is_fixed(carried: Database) -> None:
    assert streams.get(carried, "scaled").progress.scale == Scale(2.0, [2.0] * 25)


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("logit-tracker", [0.4], []),
        ("ocp-unlock+", [3.0, 0.0, *[0.5] * 8], [3.0, 0.0, *[0.5] * 8]),  # its arm and its epoch
        ("mvp", [2.0, 1.0], [2.0]),
        ("mvp+valve", [0.1, 0.2, 7.0, 1.0], [0.1, 0.2, 7.0]),
        ("logit-tracker+valve", [0.1, 0.2, 0.4], [0.1, 0.2]),
        ("self-scaled+valve", [0.1, 0.2, -1.4, 0.3], [0.1, 0.2, -1.4, 0.3]),
    ],
)
def test_an_open_round_remembers_what_is_still_asked_for(
    name: str, then: list[float], now: list[float]
) -> None:
    given: Any = {"horizon": 1000, "arms": 8} if name == "ocp-unlock+" else {}
    learner = learners.make(name, alpha=0.1, **given)
    assert array("d", first_version._carry_memo(learner, array("d", then).tobytes())) == array("d", now)


FAULTS = {
    "a blueprint that is no JSON": ("UPDATE streams SET blueprint = '{' WHERE id = 1", "Expecting"),
    "a blueprint without a window": (
        "UPDATE streams SET blueprint = replace(blueprint, 'window', 'door') WHERE id = 1",
        "'window'",
    ),
    "a state of another learner": (
        "UPDATE streams SET state = zeroblob(17) WHERE id = 1",
        "17 bytes are not a state of logit-tracker in 0.1",
    ),
    "a memo of half a number": (
        "UPDATE open SET memo = zeroblob(4) WHERE stream = 1",
        "bytes length not a multiple of item size",
    ),
    "an answer that is gone": (
        "DELETE FROM feedback WHERE stream = 1 AND number = 10",
        "its row says 106 answered, its log 105",
    ),
    "a count of misses": (
        "UPDATE streams SET misses = 99 WHERE id = 1",
        "its row says 99 misses, its log 12",
    ),
    "a count of rounds": (
        "UPDATE streams SET predicted = 121 WHERE id = 1",
        "its row says 121 predicted, its log 120",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_that_does_not_hold_together_is_quarantined_and_its_row_kept_and_the_others_go_on(
    tmp_path: Path, fault: str
) -> None:
    path, (edit, named) = unpack_file(tmp_path), FAULTS[fault]
    with sqlite3.connect(path) as connection:
        assert connection.execute(edit).rowcount > 0
        connection.row_factory = sqlite3.Row
        was = dict(connection.execute("SELECT * FROM streams WHERE id = 1").fetchone())
    connection.close()
    database = Database(f"sqlite:///{path}")
    with pytest.raises(QuarantinedError, match=r"could not be carried over from Keyhole 0\.1") as said:
        streams.get(database, "pets")
    assert named in str(said.value)
    assert [here.name for here in streams.survey(database).usable] == list(NAMES[1:])
    with database.read() as reader:
        table = schema.changes
        mine = (table.c.stream == 1, table.c.kind == changes.CARRIED)
        content = reader.execute(sql.select(table.c.content).where(*mine)).scalar_one()
    packed = {name: was[name].hex() for name in ("recent", "state")}
    assert json.loads(content)["row"] == {**was, **packed}
    database.close()


def test_limits_that_cannot_be_read_are_not_made_up(tmp_path: Path) -> None:
    path = unpack_file(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE streams SET blueprint = '{'")
    connection.close()
    database = Database(f"sqlite:///{path}")
    with database.read() as reader:
        table = schema.streams
        found = reader.execute(sql.select(table.c.lifetime, table.c.window)).all()
    assert found == [(0.0, 0)] * len(NAMES)
    database.close()


def test_of_a_stream_that_is_carried_over_the_old_row_is_not_kept(carried: Database) -> None:
    with carried.read() as connection:
        wanted = sql.select(schema.changes.c.content).where(schema.changes.c.kind == changes.CARRIED)
        assert all("row" not in json.loads(one) for one in connection.execute(wanted).scalars())
