"""Statements run by the driver itself write and return what SQLAlchemy would."""

from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy.dialects import sqlite

from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import tokens
from keyhole.service.store.sql.transactions import Statement, insert

ROWS: list[Any] = [
    ("a", "one", "read", b"1", 1.0, None),
    ("b", "two", "read", b"2", 2.0, 5.0),
    ("c", "two", "admin", b"3", 3.0, float("inf")),
]
ADD = insert(tokens)
BY_NAME = Statement(
    sql.select(tokens).where(tokens.c.name == sql.bindparam("wanted")).order_by(tokens.c.id), "wanted"
)
SOME = Statement(
    sql.select(tokens.c.id)
    .where(
        tokens.c.created > sql.bindparam("after"),
        tokens.c.id.in_(sql.bindparam("many", expanding=True)),
    )
    .order_by(tokens.c.id),
    "after",
    "many",
)
REVOKE = Statement(
    tokens.update().where(tokens.c.name == sql.bindparam("wanted")), "revoked", "scopes", "wanted"
)


@pytest.fixture
def filled(database: Database) -> Database:
    with database.change() as connection:
        connection.write([(ADD, ROWS[:2]), (ADD, ROWS[2:])])
    return database


def look(database: Database) -> list[Any]:
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(sql.select(tokens).order_by(tokens.c.id))]


def test_what_was_written_alone_and_together_is_there(filled: Database) -> None:
    assert look(filled) == ROWS


@pytest.mark.parametrize("count", [2, 15, 16, 40, 300])
def test_many_rows_are_there_bit_for_bit(database: Database, count: int) -> None:
    rows = [(f"{n:03}", "\t\\n'%s", "ä", bytes(range(n % 256)), n / 7, None) for n in range(count)]
    with database.change() as connection:
        connection.write([(ADD, rows), (ADD, ROWS)])
    assert look(database) == [*rows, *ROWS]


def test_many_rows_are_gone_with_their_transaction(database: Database) -> None:
    rows = [(f"{n:03}", "", "", b"", 0.0, None) for n in range(40)]

    def fail() -> None:
        with database.change() as connection:
            connection.write([(ADD, rows)])
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert look(database) == []


def test_several_statements_are_read_in_one_exchange_by_name(filled: Database) -> None:
    with filled.change() as connection:
        connection.write([(ADD, [("d", "two", "read", b"4", 4.0, None)])])
        one, none, two = connection.read(*[(BY_NAME, (name,)) for name in ("one", "none", "two")])
    assert [row.digest for row in one] == [b"1"]
    assert none == []
    assert [row.id for row in two] == ["b", "c", "d"]


@pytest.mark.parametrize("wanted", [["a"], ["a", "c"], ["c", "b", "a"], ["a", "b", "c", "d", "e"]])
def test_lists_of_any_length_are_written_out(filled: Database, wanted: list[str]) -> None:
    with filled.change() as connection:
        ((*found,),) = connection.read((SOME, (1.5, wanted)))
    assert [row.id for row in found] == sorted({"b", "c"} & set(wanted))


def test_lists_are_written_in_few_lengths_so_that_few_texts_are_prepared() -> None:
    texts = {}
    for length in range(1, 9):
        text, values = SOME.write(sqlite.dialect(), (1.5, ["a"] * length))
        assert text.count("?") == len(values)
        texts[length] = len(values) - 1
    assert texts == {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8}


def test_what_changed_is_counted(filled: Database) -> None:
    with filled.change() as connection:
        assert connection.change(REVOKE, (9.0, "feedback", "two")) == 2
        assert connection.change(REVOKE, (9.0, "feedback", "none")) == 0
    assert [row[2::3] for row in look(filled)] == [("read", None), *[("feedback", 9.0)] * 2]


def test_after_a_failure_statements_are_planned_again(filled: Database) -> None:
    def fail() -> None:
        with filled.change() as connection:  # What comes after the row that is there is never planned.
            connection.write([(ADD, ROWS[:1]), (REVOKE, [(9.0, "feedback", "two")])])
            connection.read((SOME, (1.5, ["a", "b", "c"])))

    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)unique constraint"):
            fail()
    for _ in range(2):
        with filled.change() as connection:
            connection.write([(REVOKE, [(9.0, "admin", "two")])])
            (found,) = connection.read((SOME, (1.5, ["a", "b", "c"])))
        assert [row.id for row in found] == ["b", "c"]
    assert [row[2::3] for row in look(filled)] == [("read", None), *[("admin", 9.0)] * 2]


def test_any_other_statement_returns_its_rows(filled: Database) -> None:
    with filled.change() as connection:
        some = sql.select(tokens.c.id).where(tokens.c.id.in_(["c", "a"])).order_by(tokens.c.id)
        assert [row[0] for row in connection.execute(some).all()] == ["a", "c"]
        assert connection.execute(tokens.delete().where(tokens.c.id == "a")).all() == []
    assert look(filled) == ROWS[1:]


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS"])
def test_text_is_kept_whatever_encoding_the_environment_asks_for(
    postgres: Any, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    rows = [(f"{n}", "Größe 表' --", "€", b"1", 1.0, None) for n in range(3)]
    database = Database(postgres())
    with database.change() as connection:
        connection.write([(ADD, rows[:1]), (ADD, rows[1:])])
    assert look(database) == rows
    database.close()
