"""Connections to PostgreSQL: how long they wait, what the driver's errors are to us."""

import inspect
import sqlite3
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from keyhole.errors import BusyError, DatabaseError
from keyhole.service.store.sql import sqlite, statements
from keyhole.service.store.sql.backend import Pool, Statement, Timeouts, read_scalar
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.postgres import PatientConnection, connect_arguments, name_error
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.stream import Task, UnitOfWork, run_task


def test_how_long_it_waits_unless_told() -> None:
    assert Timeouts() == Timeouts(lock=5.0, statement=30.0, connect=5.0, probe=1.0)


@pytest.mark.parametrize(
    ("timeouts", "statement", "options", "connect", "most"),
    [
        (Timeouts(), 30.0, "-c lock_timeout=5000 -c statement_timeout=30000", 5, 35_000),
        (
            Timeouts(connect=0.5, lock=1.5),
            0.25,
            "-c lock_timeout=1500 -c statement_timeout=250",
            2,
            1_750,
        ),
        (Timeouts(), 0.0, "-c lock_timeout=5000 -c statement_timeout=0", 5, 3_605_000),
    ],
)
def test_postgresql_is_told_the_same_timeouts_in_its_own_units(
    timeouts: Timeouts, statement: float, options: str, connect: int, most: int
) -> None:
    arguments = connect_arguments(timeouts, lock=timeouts.lock, statement=statement)
    assert arguments["options"] == options
    assert (arguments["connect_timeout"], arguments["tcp_user_timeout"]) == (connect, most)


@pytest.mark.parametrize(
    "kind",
    [
        psycopg.errors.LockNotAvailable,
        psycopg.errors.QueryCanceled,
        psycopg.errors.DeadlockDetected,
        psycopg.errors.SerializationFailure,
    ],
)
def test_what_a_server_refuses_for_now_may_be_asked_again(kind: type[psycopg.Error]) -> None:
    named = name_error(kind("canceling statement due to lock timeout\nCONTEXT: while locking"))
    assert isinstance(named, BusyError)
    assert str(named) == "the database is busy; try again"


def test_a_server_that_does_not_answer_is_told_from_a_busy_one_and_from_our_own_faults() -> None:
    for error in (psycopg.errors.AdminShutdown(), psycopg.OperationalError(), psycopg.InterfaceError()):
        assert isinstance(name_error(error), DatabaseError)
    for other in (ValueError("ours"), psycopg.IntegrityError(), psycopg.ProgrammingError()):
        assert name_error(other) is None
    assert isinstance(sqlite.name_error(sqlite3.OperationalError()), DatabaseError)
    assert sqlite.name_error(sqlite3.IntegrityError()) is None


def test_a_cable_that_was_cut_is_noticed_within_25_seconds_of_silence() -> None:
    arguments = connect_arguments(Timeouts(), lock=5.0, statement=30.0)
    signs = arguments["keepalives_count"] * arguments["keepalives_interval"]
    assert arguments["keepalives_idle"] + signs == 25


def test_the_driver_waits_where_a_connection_of_ours_can_end_it(postgres: Callable[[], str]) -> None:
    """Pins ``psycopg.Connection.wait``, which the documentation of the driver does not promise."""
    assert list(inspect.signature(psycopg.Connection.wait).parameters)[:2] == ["self", "gen"]
    with closing(PatientConnection.connect(postgres())) as connection:
        connection.seconds = 0.5
        with pytest.raises(psycopg.OperationalError, match=r"it did not answer for 0\.5 seconds"):
            connection.execute("SELECT pg_sleep(30)")
        assert connection.closed
    with closing(PatientConnection.connect(postgres())) as connection:
        connection.seconds = 0.5
        silence = pytest.raises(psycopg.OperationalError, match=r"it did not answer for 0\.5 seconds")
        with silence, connection.pipeline():
            connection.execute("SELECT pg_sleep(30)").fetchall()


def make_pool(closed: list[int], *, reset: Callable[[int], object] = int) -> Pool[int]:
    numbers = iter(range(100))
    return Pool(lambda: next(numbers), reset=reset, close=closed.append, most=2, seconds=0.05)


def test_while_every_connection_is_in_use_it_is_busy() -> None:
    pool = make_pool([])
    with (
        pool.take() as first,
        pool.take() as second,
        pytest.raises(BusyError, match="every connection to the database is in use"),
        pool.take(),
    ):
        pass
    assert (first, second) == (0, 1)
    with pool.take() as again:
        assert again in (first, second)


def leave(pool: Pool[int]) -> None:
    with pool.take():
        raise LookupError


def test_a_connection_that_can_be_reset_is_used_again_and_one_that_cannot_takes_the_others_along() -> (
    None
):
    closed: list[int] = []
    with pytest.raises(LookupError):
        leave(make_pool(closed))
    assert closed == []

    def fail(_connection: int) -> None:
        raise psycopg.OperationalError

    pool = make_pool(closed, reset=fail)
    with pool.take(), pool.take():
        pass
    with pytest.raises(LookupError):
        leave(pool)
    assert sorted(closed) == [0, 1]


_COUNT_READ = Statement(
    "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_xact_user_tables", read_scalar
)


def test_an_answer_reads_its_own_rounds_however_long_the_stream(postgres: Callable[[], str]) -> None:
    """Kills: a plan made while the tables were small, and kept, that reads all answers there are."""
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    with closing(Database(postgres())) as database:
        stream = registry.create(database, "pets", setup=setup, now=0.0)
        for _ in range(8):  # From its sixth time on a statement has a plan for all values.
            asks = [proposals.Query({"cat": 0.9})] * 10
            made = proposals.predict(database, "pets", asks=asks, now=1.0)
            answers.answer(database, [answers.Reply(one.id, "miss") for one in made[1:]], now=2.0)
        numbers = [made[0].round]

        def count(work: UnitOfWork) -> int:
            (before,) = work.transaction.fetch(_COUNT_READ)
            of_stream = (stream.id, numbers)
            asked = (statements.FIND_ASKED, of_stream), (statements.FIND_OPEN, of_stream)
            work.transaction.fetch_all(*asked)
            (after,) = work.transaction.fetch(_COUNT_READ)
            return int(after - before)

        assert run_task(database, Task(stream.id, count, numbers=numbers)) == 2  # it, and its memo
