"""Transactions write and return the same on every kind of database."""

from typing import Any

import pytest

from keyhole.service.store.sql.backend import Statement, read_scalar
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import TokenRow, tokens
from tests.service.scene import read_table

ROWS = [
    TokenRow("a", "one", "read", b"1", 1.0, None),
    TokenRow("b", "two", "read", b"2", 2.0, 5.0),
    TokenRow("c", "two", "admin", b"3", 3.0, float("inf")),
]
BY_NAME = Statement("SELECT * FROM tokens WHERE name = ? ORDER BY id", tokens.make_row)
SOME = Statement("SELECT id FROM tokens WHERE created > ? AND id = ANY(?) ORDER BY id", read_scalar)
REVOKE = Statement("UPDATE tokens SET revoked = ?, scopes = ? WHERE name = ?", read_scalar)


@pytest.fixture
def filled(database: Database) -> Database:
    with database.write() as transaction:
        transaction.insert(tokens, ROWS[:2])
        transaction.insert(tokens, ROWS[2:])
    return database


def look(database: Database) -> list[TokenRow]:
    return read_table(database, tokens, "ORDER BY id")


def test_what_was_written_alone_and_together_is_there(filled: Database) -> None:
    assert look(filled) == ROWS


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 40, 300])
def test_many_rows_are_there_bit_for_bit(database: Database, count: int) -> None:
    rows = [
        TokenRow(f"{n:03}", "\t\\n'%s", "ä", bytes(range(n % 256)), n / 7, None) for n in range(count)
    ]
    with database.write() as transaction:
        transaction.insert(tokens, rows)
        transaction.insert(tokens, ROWS)
    assert look(database) == [*rows, *ROWS]


def test_many_rows_are_gone_with_their_transaction(database: Database) -> None:
    rows = [TokenRow(f"{n:03}", "", "", b"", 0.0, None) for n in range(40)]

    def fail() -> None:
        with database.write() as transaction:
            transaction.insert(tokens, rows)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert look(database) == []


def test_several_statements_are_read_in_one_exchange(filled: Database) -> None:
    with filled.write() as transaction:
        transaction.insert(tokens, [TokenRow("d", "two", "read", b"4", 4.0, None)])
        one, two = transaction.fetch_all((BY_NAME, ("one",)), (BY_NAME, ("two",)))
        none, ids = transaction.fetch_all((BY_NAME, ("none",)), (SOME, (1.5, ["a", "b"])))
    assert [row.digest for row in one] == [b"1"]
    assert [row.id for row in two] == ["b", "c", "d"]
    assert (none, ids) == ([], ["b"])


@pytest.mark.parametrize(
    "sought", [[], ["a"], ["a", "c"], ["c", "b", "a"], ["a", "b", "c", "d", "e"], ["'", '"', "\\", "c"]]
)
def test_lists_may_have_any_length(filled: Database, sought: list[str]) -> None:
    with filled.read() as transaction:
        assert transaction.fetch(SOME, 1.5, sought) == sorted({"b", "c"} & set(sought))


def test_what_changed_is_returned(filled: Database) -> None:
    revoke = Statement(f"{REVOKE.text} RETURNING id", read_scalar)
    with filled.write() as transaction:
        assert sorted(transaction.fetch(revoke, 9.0, "feedback", "two")) == ["b", "c"]
        assert transaction.fetch(revoke, 9.0, "feedback", "none") == []
    assert [row[2::3] for row in look(filled)] == [("read", None), *[("feedback", 9.0)] * 2]


def test_a_transaction_that_failed_leaves_a_connection_that_works(filled: Database) -> None:
    def fail() -> None:
        with filled.write() as transaction:
            transaction.insert(tokens, ROWS[:1])  # which is there
            transaction.execute(REVOKE, 9.0, "feedback", "two")
            transaction.fetch(SOME, 1.5, ["a", "b", "c"])

    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)unique constraint"):
            fail()
    for _ in range(2):
        with filled.write() as transaction:
            transaction.execute(REVOKE, 9.0, "admin", "two")
            assert transaction.fetch(SOME, 1.5, ["a", "b", "c"]) == ["b", "c"]
    assert [row[2::3] for row in look(filled)] == [("read", None), *[("admin", 9.0)] * 2]


def test_what_goes_wrong_after_the_last_row_is_read_is_raised_too(filled: Database) -> None:
    """Kills: a commit that nobody waits for."""

    def fail() -> None:
        with filled.write() as transaction:
            transaction.insert(tokens, ROWS[:1])

    with pytest.raises(Exception, match=r"(?i)unique constraint"):
        fail()
    assert look(filled) == ROWS


def test_who_reads_sees_one_moment(filled: Database) -> None:
    with filled.read() as transaction:
        before = transaction.fetch(BY_NAME, "two")
        with filled.write() as other:
            other.execute(REVOKE, 9.0, "admin", "two")
        assert transaction.fetch(BY_NAME, "two") == before
    assert look(filled)[1].revoked == 9.0


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS"])
def test_text_is_kept_whatever_encoding_the_environment_asks_for(
    postgres: Any, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    rows = [TokenRow(f"{n:02}", "Größe 表' --", "€", b"1", 1.0, None) for n in range(12)]
    database = Database(postgres())
    with database.write() as transaction:
        transaction.insert(tokens, rows[:1])
        transaction.insert(tokens, rows[1:])
    assert look(database) == rows
    database.close()
