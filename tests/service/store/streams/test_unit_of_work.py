"""Changes of one stream in one transaction: each as if it had been alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from keyhole.errors import (
    BusyError,
    DatabaseError,
    ExpiredError,
    RefusedError,
    ScoreError,
    UnknownStreamError,
)
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams import stream as streams
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.store.streams.stream import Task, UnitOfWork, run_tasks
from keyhole.service.wire.responses import Receipt
from tests.service.scene import read_table

NOW = 1_800_000_000.0
SCORES = {"cat": 0.71, "lynx": 0.22}


@pytest.fixture
def ready(database: Database) -> Database:
    setup, _ = settings.make_setup("ocp-unlock+", alpha=0.1, horizon=1000, seed=7)
    for name in ("pets", "other"):
        registry.create(database, name, setup=setup, now=NOW)
    return database


def predict(name: str, *asks: Query) -> Task:
    return proposals.make_task(name, asks=asks, now=NOW)


def reply(id_: str, given: Any) -> Task:
    (task,) = answers.make_tasks([Reply(id_, given)], now=NOW)
    return task


def test_predictions_and_answers_share_a_transaction_and_the_log_replays(ready: Database) -> None:
    (first,) = proposals.predict(ready, "pets", asks=[Query(SCORES)], now=NOW)
    tasks = [predict("pets", Query(SCORES)) for _ in range(5)]
    results = run_tasks(
        ready, [*tasks, reply(first.id, "miss"), predict("pets", Query(SCORES))]
    ).outcomes
    numbers = [made.round for result in (*results[:5], results[6]) for made in result.shown]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert isinstance(results[5][0], Receipt)
    again = run_tasks(ready, [reply(made.shown[0].id, "miss") for made in results[:5]]).outcomes
    assert all(isinstance(result[0], Receipt) for result in again)
    found = replay.replay(ready, "pets")
    assert (found.rounds, found.answers, found.difference) == (7, 6, None)


def test_what_one_asks_for_wrongly_changes_nothing_for_the_others(ready: Database) -> None:
    good, bad = predict("pets", Query(SCORES)), predict("pets", Query({"cat": -1.0}))
    results = run_tasks(ready, [good, bad, reply("1-99-0123456789abcdef", "miss"), good]).outcomes
    assert [len(results[0].shown), len(results[3].shown)] == [1, 1]
    assert isinstance(results[1], ScoreError)
    assert registry.get(ready, "pets").tally.predicted == 2
    assert replay.replay(ready, "pets").difference is None


def test_a_batch_that_is_refused_half_way_leaves_nothing_behind(ready: Database) -> None:
    proposals.predict(ready, "pets", asks=[Query(SCORES, "used")], now=NOW)
    half = predict("pets", Query(SCORES), Query({"cat": 0.5}, "used"))
    whole = predict("pets", Query(SCORES))
    results = run_tasks(ready, [whole, half, whole]).outcomes
    assert isinstance(results[1], RefusedError)
    assert [results[0].shown[0].round, results[2].shown[0].round] == [1, 2]
    found = replay.replay(ready, "pets")
    assert (found.rounds, found.difference) == (3, None)


def test_tasks_of_several_streams_are_done_apart(ready: Database) -> None:
    tasks = [predict(name, Query(SCORES)) for name in ("pets", "other", "none")]
    results = run_tasks(ready, tasks).outcomes
    assert [results[0].shown[0].round, results[1].shown[0].round] == [0, 0]
    assert isinstance(results[2], UnknownStreamError)


def test_a_commit_that_fails_is_nobodys_success(
    ready: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def begin() -> Iterator[Any]:
        with write() as transaction:
            yield transaction
        raise DatabaseError("the file was deleted")

    write = ready.write
    monkeypatch.setattr(ready, "write", begin)
    results = run_tasks(ready, [predict("pets", Query(SCORES)) for _ in range(3)]).outcomes
    assert all(isinstance(result, DatabaseError) for result in results)


@pytest.mark.parametrize("error", [BusyError, DatabaseError])
def test_a_database_that_fails_in_the_middle_is_nobodys_success(
    ready: Database, error: type[Exception]
) -> None:
    def fail(_work: UnitOfWork) -> None:
        raise error("not now")

    tasks = [predict("pets", Query(SCORES)), Task("pets", fail), predict("pets", Query(SCORES))]
    outcomes = run_tasks(ready, tasks).outcomes
    assert [type(outcome) for outcome in outcomes] == [error] * 3
    assert registry.get(ready, "pets").tally.predicted == 0


def test_an_expired_round_is_refused_among_others(ready: Database) -> None:
    (first,) = proposals.predict(ready, "pets", asks=[Query(SCORES)], now=NOW - 8 * 86_400.0)
    results = run_tasks(ready, [predict("pets", Query(SCORES)), reply(first.id, "miss")]).outcomes
    assert isinstance(results[1][0], ExpiredError)
    assert len(read_table(ready, schema.rounds)) == 2


@pytest.fixture
def few(light: Database) -> Database:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7, open_limit=2)
    registry.create(light, "few", setup=setup, now=NOW)
    return light


def test_a_round_that_one_task_pushes_out_cannot_be_answered_by_the_next(few: Database) -> None:
    first, second = proposals.predict(few, "few", asks=[Query(SCORES)] * 2, now=NOW)
    tasks = [predict("few", Query(SCORES)), reply(first.id, "miss"), reply(second.id, "miss")]
    ((opened,), _), (late,), (counted,) = run_tasks(few, tasks).outcomes
    assert opened.round == 2
    assert isinstance(late, ExpiredError)
    assert counted == Receipt(second.id, "few", missed=True)
    stream = registry.get(few, "few")
    assert (stream.tally.expired, stream.tally.answered, stream.open) == (1, 1, 1)
    assert replay.replay(few, "few").difference is None


def test_a_key_of_one_task_is_known_to_the_next_also_after_rounds_have_expired(few: Database) -> None:
    proposals.predict(few, "few", asks=[Query(SCORES, "old")] * 1, now=NOW)
    tasks = [predict("few", Query(SCORES), Query(SCORES)), predict("few", Query(SCORES, "old"))]
    _, ((again,), repeated) = run_tasks(few, tasks).outcomes
    assert (again.round, repeated) == (0, [True])
    assert registry.get(few, "few").tally.predicted == 3


def test_what_is_kept_to_save_unpacking_is_of_at_most_1024_streams(few: Database) -> None:
    """Kills: a service that grows with every stream it has ever served."""
    streams._kept.clear()
    for count, kept in ((1_022, 1_023), (1_023, 1_024), (1_024, 1)):
        streams._kept.clear()
        streams._kept.update(dict.fromkeys(range(count), Any))  # type: ignore[arg-type]
        proposals.predict(few, "few", asks=[Query(SCORES)], now=NOW)
        assert len(streams._kept) == kept
    assert list(streams._kept) == read_table(few, schema.streams)
    streams._kept.clear()
