"""Streams: made, listed, archived."""

from typing import Any

import sqlalchemy as sql

from keyhole.errors import StreamExistsError
from keyhole.store import standing
from keyhole.store.blueprint import Blueprint, checked_name
from keyhole.store.database import Database
from keyhole.store.schema import streams
from keyhole.store.standing import Standing


def create(database: Database, name: str, *, blueprint: Blueprint, now: float) -> Standing:
    """Make a stream, or raise if the name is taken."""
    values: dict[str, Any] = {"name": checked_name(name), "blueprint": blueprint.dump(), "created": now}
    try:
        with database.write() as connection:
            connection.execute(streams.insert().values(**values, **standing.start(blueprint)))
            return standing.found(connection, name)
    except sql.exc.IntegrityError:
        raise StreamExistsError(f"there is a stream {name!r} already; choose another name") from None


def get(database: Database, name: str) -> Standing:
    """Return where a stream stands, or raise."""
    with database.read() as connection:
        return standing.found(connection, name)


def every(database: Database) -> list[Standing]:
    """Return where every stream stands, the oldest first."""
    with database.read() as connection:
        rows = connection.execute(sql.select(streams).order_by(streams.c.id)).all()
    return [standing.of_row(row) for row in rows]


def archive(database: Database, name: str, *, now: float) -> Standing:
    """Close a stream for good: it can be read and takes no more rounds. Twice is as good as once."""
    with database.write() as connection:
        here = standing.found(connection, name)
        mine = streams.c.id == here.id
        connection.execute(
            streams.update().where(mine, streams.c.archived.is_(None)).values(archived=now)
        )
        return standing.found(connection, name)
