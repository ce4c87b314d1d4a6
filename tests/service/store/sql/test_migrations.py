"""The version of a database: made, brought up to date step by step, or refused."""

import pytest
import sqlalchemy as sql

from keyhole.errors import DatabaseError
from keyhole.service.store.sql import migrations, schema
from keyhole.service.store.sql.database import Database


def test_a_newer_database_is_refused(url: str) -> None:
    database = Database(url)
    with database.write() as connection:
        connection.execute(schema.meta.update().values(version=schema.VERSION + 1))
    database.close()
    with pytest.raises(DatabaseError, match="upgrade keyhole-conformal"):
        Database(url)


def test_an_older_database_is_migrated_step_by_step(database: Database) -> None:
    def add(name: str) -> migrations.Migration:
        return lambda connection: (
            connection.execute(sql.text(f"ALTER TABLE tokens ADD COLUMN {name} TEXT")),
            None,
        )[1]

    steps = {schema.VERSION: add("first"), schema.VERSION + 1: add("second")}
    for _ in range(2):
        with database.write() as connection:
            migrations.prepare(connection, version=schema.VERSION + 2, migrations=steps)
    with database.read() as connection:
        columns = [column["name"] for column in sql.inspect(connection).get_columns("tokens")]
        version = connection.execute(sql.select(schema.meta.c.version)).scalar_one()
    assert columns[-2:] == ["first", "second"]
    assert version == schema.VERSION + 2


def test_a_database_of_now_is_opened_without_a_step(light: Database) -> None:
    with light.write() as connection:
        migrations.prepare(connection, migrations={})
    with light.read() as connection:
        migrations.check(connection, "here")
        assert connection.execute(sql.select(schema.meta.c.version)).scalar_one() == schema.VERSION
