"""Statements run by the driver itself return what SQLAlchemy would."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sql

from keyhole.service.store.database import Database
from keyhole.service.store.schema import tokens

ROWS = [
    {"id": "a", "name": "one", "scopes": "read", "digest": b"1", "created": 1.0, "revoked": None},
    {"id": "b", "name": "two", "scopes": "read", "digest": b"2", "created": 2.0, "revoked": 5.0},
    {"id": "c", "name": "two", "scopes": "admin", "digest": b"3", "created": 3.0, "revoked": None},
]
BY_NAME = sql.select(tokens).where(tokens.c.name == sql.bindparam("wanted")).order_by(tokens.c.id)
IS_REVOKED = sql.select(tokens.c.id, tokens.c.revoked.is_not(None).label("gone")).order_by(tokens.c.id)


@pytest.fixture
def filled(light: Database) -> Database:
    with light.change() as connection:
        connection.execute(tokens.insert(), ROWS[:2])
        connection.execute(tokens.insert(), ROWS[2])
    return light


def read(database: Database, look: Callable[[Any], Any]) -> list[Any]:
    """Return what somebody sees by the driver, and by SQLAlchemy."""
    with database.change() as connection:
        found = [look(connection)]
    with database.read() as connection:
        return [*found, look(connection)]


def test_what_was_written_one_by_one_and_together_is_there(filled: Database) -> None:
    found = read(filled, lambda to: list(map(tuple, to.execute(sql.select(tokens).order_by("id")))))
    assert found == [[tuple(row.values()) for row in ROWS]] * 2


def test_rows_are_read_by_name_as_mappings_and_by_their_first_value(filled: Database) -> None:
    two = {"wanted": "two"}
    looks: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda to: [row.digest for row in to.execute(BY_NAME, two)], [b"2", b"3"]),
        (lambda to: [dict(row) for row in to.execute(BY_NAME, two).mappings()], ROWS[1:]),
        (lambda to: list(to.execute(BY_NAME, two).scalars()), ["b", "c"]),
        (lambda to: to.execute(BY_NAME, {"wanted": "one"}).one_or_none().created, 1.0),
        (lambda to: to.execute(BY_NAME, {"wanted": "none"}).one_or_none(), None),
        (lambda to: to.execute(BY_NAME, {"wanted": "one"}).scalar(), "a"),
        (lambda to: to.execute(BY_NAME, {"wanted": "none"}).scalar(), None),
        (lambda to: to.execute(BY_NAME, {"wanted": "one"}).scalar_one(), "a"),
        (lambda to: to.execute(sql.select(sql.func.count()).select_from(tokens)).scalar_one(), 3),
    ]
    for look, expected in looks:
        assert read(filled, look) == [expected, expected]


def test_truths_are_truths(filled: Database) -> None:
    found = read(filled, lambda to: [row.gone for row in to.execute(IS_REVOKED)])
    assert found == [[False, True, False]] * 2
    assert all(one is True or one is False for one in found[0])


def test_lists_are_written_out_anew_each_time(filled: Database) -> None:
    some = sql.select(tokens.c.id).where(tokens.c.id.in_(sql.bindparam("some", expanding=True)))
    for wanted in (["a"], ["a", "c"], ["c", "b", "a"], []):
        found = read(filled, lambda to, w=wanted: sorted(to.execute(some, {"some": w}).scalars()))  # type: ignore[misc]
        assert found == [sorted(wanted)] * 2


def test_what_changed_is_counted(filled: Database) -> None:
    update = tokens.update().where(tokens.c.name == sql.bindparam("wanted"))
    with filled.change() as connection:
        values = {"revoked": 9.0, "scopes": "feedback"}
        assert connection.execute(update, {"wanted": "two", **values}).rowcount == 2
        assert connection.execute(update, {"wanted": "none", **values}).rowcount == 0
    found = read(
        filled, lambda to: [tuple(row)[2::3] for row in to.execute(BY_NAME, {"wanted": "two"})]
    )
    assert found == [[("feedback", 9.0)] * 2] * 2


def test_what_fails_leaves_nothing_and_the_next_goes_on(filled: Database) -> None:
    def fail() -> None:
        with filled.change() as connection:
            connection.execute(tokens.delete().where(tokens.c.id == "a"))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    ids = sql.select(tokens.c.id).order_by(tokens.c.id)
    assert read(filled, lambda to: list(to.execute(ids).scalars())) == [["a", "b", "c"]] * 2
