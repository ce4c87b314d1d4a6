"""What kinds of database share: how long they wait, their errors, their connections."""

from typing import Any

import pytest

from keyhole.errors import BusyError, DatabaseError, KeyholeError
from keyhole.service.store.sql.backend import Pool, Timeouts, find_reason, named_errors


def test_a_lock_is_waited_for_five_seconds_a_statement_thirty_and_a_probe_one() -> None:
    assert Timeouts() == Timeouts(lock=5.0, statement=30.0, connect=5.0, probe=1.0)


@pytest.mark.parametrize(
    ("said", "reason"),
    [("a\nb", "a"), ("  c \n", "c"), ("", "no reason given"), ("\n", "no reason given")],
)
def test_the_reason_is_the_first_line_of_what_a_driver_says(said: str, reason: str) -> None:
    assert find_reason(ValueError(said)) == reason


def test_errors_get_the_names_that_they_are_given_and_ours_keep_theirs() -> None:
    def name(error: BaseException) -> KeyholeError | None:
        return DatabaseError("lost") if isinstance(error, OSError) else None

    with pytest.raises(DatabaseError, match="lost") as raised, named_errors(name):
        raise OSError("disk")
    assert isinstance(raised.value.__cause__, OSError)
    with pytest.raises(ZeroDivisionError), named_errors(name):
        raise ZeroDivisionError
    with pytest.raises(BusyError, match="ours"), named_errors(name):
        raise BusyError("ours")


class Connections:
    """Makes numbers as connections, and notes what becomes of them."""

    def __init__(self, *, can_reset: bool = True) -> None:
        self.made, self.closed, self.can_reset = 0, list[int](), can_reset
        self.pool: Pool[int] = Pool(
            self.connect, reset=self.reset, close=self.closed.append, most=2, seconds=0.01
        )

    def connect(self) -> int:
        self.made += 1
        return self.made

    def reset(self, _connection: int) -> None:
        if not self.can_reset:
            raise OSError("gone")

    def fail(self) -> None:
        with self.pool.take():
            raise LookupError


def test_a_connection_is_used_again_and_so_many_at_the_most() -> None:
    made = Connections()
    for _ in range(3):
        with made.pool.take() as one:
            assert one == 1
    with made.pool.take() as one, made.pool.take() as two:
        assert {one, two} == {1, 2}
        with pytest.raises(BusyError, match="every connection"), made.pool.take():
            pass
    with made.pool.take():
        assert made.made == 2
    made.pool.clear()
    assert sorted(made.closed) == [1, 2]


def test_one_that_was_left_with_an_error_is_reset_or_closed_with_all_of_its_age() -> None:
    made = Connections()
    with pytest.raises(LookupError):
        made.fail()
    assert (made.made, made.closed) == (1, [])
    with made.pool.take(), made.pool.take():
        pass
    made.can_reset = False
    with pytest.raises(LookupError):
        made.fail()
    assert sorted(made.closed) == [1, 2]
    with made.pool.take() as one:
        assert one == 3


def test_one_that_cannot_be_made_takes_no_place() -> None:
    def refuse() -> Any:
        raise OSError("down")

    pool: Pool[int] = Pool(refuse, reset=print, close=print, most=1, seconds=0.01)
    for _ in range(2):
        with pytest.raises(OSError, match="down"), pool.take():
            pass
