"""Changes of one stream in one transaction: each as if it had been alone."""

from typing import Any

import pytest
import sqlalchemy as sql

from keyhole.errors import DatabaseError, ExpiredError, KeyReusedError, ScoreError, UnknownStreamError
from keyhole.service.store import answers, proposals, replay, schema, settings, streams
from keyhole.service.store.answers import Counted, Reply
from keyhole.service.store.database import Database
from keyhole.service.store.proposals import Ask
from keyhole.service.store.together import Job, carry_out

NOW = 1_800_000_000.0
SCORES = {"cat": 0.71, "lynx": 0.22}


@pytest.fixture
def ready(database: Database) -> Database:
    setup, _ = settings.make_setup("ocp-unlock+", alpha=0.1, horizon=1000, seed=7)
    for name in ("pets", "other"):
        streams.create(database, name, setup=setup, now=NOW)
    return database


def predict(database: Database, name: str, *asks: Ask) -> Job:
    return Job(
        name,
        lambda connection, here: proposals.join(connection, here, asks=asks, now=NOW),
        lambda: proposals.predict(database, name, asks=asks, now=NOW),
    )


def reply(database: Database, id_: str, told: Any) -> Job:
    replies = [Reply(id_, told)]
    return Job(
        answers.find_stream(id_) or -1,
        lambda connection, here: answers.join(connection, here, replies, now=NOW),
        lambda: answers.answer(database, replies, now=NOW),
    )


def test_predictions_and_answers_share_a_transaction_and_the_log_replays(ready: Database) -> None:
    (first,) = proposals.predict(ready, "pets", asks=[Ask(SCORES)], now=NOW)
    jobs = [predict(ready, "pets", Ask(SCORES)) for _ in range(5)]
    results = carry_out(
        ready, [*jobs, reply(ready, first.id, "miss"), predict(ready, "pets", Ask(SCORES))]
    )
    numbers = [made.number for result in (*results[:5], results[6]) for made in result]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert isinstance(results[5][0], Counted)
    again = carry_out(ready, [reply(ready, made[0].id, "miss") for made in results[:5]])
    assert all(isinstance(result[0], Counted) for result in again)
    found = replay.replay(ready, "pets")
    assert (found.rounds, found.answers, found.difference) == (7, 6, None)


def test_what_one_asks_for_wrongly_changes_nothing_for_the_others(ready: Database) -> None:
    good, bad = predict(ready, "pets", Ask(SCORES)), predict(ready, "pets", Ask({"cat": -1.0}))
    results = carry_out(ready, [good, bad, reply(ready, "1-99-0123456789", "miss"), good])
    assert [len(results[0]), len(results[3])] == [1, 1]
    assert isinstance(results[1], ScoreError)
    assert streams.get(ready, "pets").tally.predicted == 2
    assert replay.replay(ready, "pets").difference is None


def test_a_batch_that_is_refused_half_way_leaves_nothing_behind(ready: Database) -> None:
    proposals.predict(ready, "pets", asks=[Ask(SCORES, "used")], now=NOW)
    half = predict(ready, "pets", Ask(SCORES), Ask({"cat": 0.5}, "used"))
    results = carry_out(
        ready, [predict(ready, "pets", Ask(SCORES)), half, predict(ready, "pets", Ask(SCORES))]
    )
    assert isinstance(results[1], KeyReusedError)
    assert [results[0][0].number, results[2][0].number] == [1, 2]
    found = replay.replay(ready, "pets")
    assert (found.rounds, found.difference) == (3, None)


def test_jobs_of_several_streams_are_done_apart(ready: Database) -> None:
    jobs = [predict(ready, name, Ask(SCORES)) for name in ("pets", "other", "none")]
    results = carry_out(ready, jobs)
    assert [results[0][0].number, results[1][0].number] == [0, 0]
    assert isinstance(results[2], UnknownStreamError)


def test_a_commit_that_fails_is_nobodys_success(
    ready: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise DatabaseError("the disk is full")

    jobs = [predict(ready, "pets", Ask(SCORES)) for _ in range(3)]
    with monkeypatch.context() as patched:
        patched.setattr(Database, "check_file", fail)
        results = carry_out(ready, jobs)
    assert all(isinstance(result, DatabaseError) for result in results)


def test_an_expired_round_is_refused_among_others(ready: Database) -> None:
    (first,) = proposals.predict(ready, "pets", asks=[Ask(SCORES)], now=NOW - 8 * 86_400.0)
    results = carry_out(ready, [predict(ready, "pets", Ask(SCORES)), reply(ready, first.id, "miss")])
    assert isinstance(results[1][0], ExpiredError)
    with ready.read() as connection:
        assert connection.execute(sql.select(sql.func.count()).select_from(schema.rounds)).scalar() == 2
