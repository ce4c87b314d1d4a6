"""Connections: how patient they are, how many there may be, what their drivers' errors are to us."""

from typing import Any

import pytest

from keyhole.errors import BusyError, DatabaseError
from keyhole.service.store.sql.engines import (
    Timeouts,
    _connect_arguments,
    make_engines,
    name_error,
    parse_url,
)


def test_how_long_it_waits_unless_told() -> None:
    assert Timeouts() == Timeouts(lock=5.0, statement=30.0, connect=5.0, probe=1.0)


@pytest.mark.parametrize(
    ("patience", "statement", "options", "connect", "most"),
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
def test_postgresql_is_told_the_same_patience_in_its_own_units(
    patience: Timeouts, statement: float, options: str, connect: int, most: int
) -> None:
    told = _connect_arguments(patience, lock=patience.lock, statement=statement)
    assert told["options"] == options
    assert (told["connect_timeout"], told["tcp_user_timeout"]) == (connect, most)


class OperationalError(Exception):
    """As a driver of PostgreSQL names its own."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("canceling statement due to lock timeout\nCONTEXT: while locking")
        self.sqlstate = sqlstate


@pytest.mark.parametrize("state", ["55P03", "57014", "40P01", "40001"])
def test_what_a_server_refuses_for_now_may_be_asked_again(state: str) -> None:
    named = name_error(OperationalError(state))
    assert isinstance(named, BusyError)
    assert str(named) == "the database is busy (canceling statement due to lock timeout); try again"


def test_a_server_that_does_not_answer_is_told_from_a_busy_one_and_from_our_own_faults() -> None:
    assert isinstance(name_error(OperationalError("57P01")), DatabaseError)
    assert isinstance(name_error(OperationalError(None)), DatabaseError)
    assert name_error(ValueError("ours")) is None


def test_a_cable_that_was_cut_is_noticed_within_25_seconds_of_silence() -> None:
    told = _connect_arguments(Timeouts(), lock=5.0, statement=30.0)
    signs = told["keepalives_count"] * told["keepalives_interval"]
    assert told["keepalives_idle"] + signs == 25


def test_a_server_is_asked_for_at_most_32_connections_of_a_kind() -> None:
    engines = make_engines(
        parse_url("postgresql://u@127.0.0.1:1/d"), Timeouts(lock=0.5), read_only=False
    )
    for engine in engines[:3]:
        pool: Any = engine.pool
        assert (pool.size(), pool.size() + pool._max_overflow, pool.timeout()) == (16, 32, 0.5)
