"""Streams: made, listed, archived, deleted."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sql

from keyhole.errors import InvalidError, QuarantinedError, StreamExistsError
from keyhole.predictor.setup import Setup
from keyhole.scores import Region
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import streams
from keyhole.service.store.streams import alarms, calibrations, changes, stream
from keyhole.service.store.streams.calibrations import Lesson
from keyhole.service.store.streams.settings import (
    LIFETIME,
    WINDOW,
    check_description,
    check_limits,
    check_name,
)
from keyhole.service.store.streams.stream import Stream


def create(
    database: Database,
    name: str,
    *,
    setup: Setup[Region],
    now: float,
    lifetime: float = LIFETIME,
    window: int = WINDOW,
    description: str | None = None,
    calibrate_from: str | None = None,
) -> Stream:
    """Make a stream, taught by another one's log if told so, or raise if the name is taken."""
    check_limits(lifetime=lifetime, window=window)
    check_description(description)
    here = stream.start(
        setup, id=0, name=check_name(name), lifetime=lifetime, window=window, created=now
    )
    here.description = description
    lessons = [] if calibrate_from is None else _calibrate(database, here, calibrate_from)
    columns = {key: value for key, value in stream.list_columns(here).items() if key != "id"}
    content = {"name": name, "setup": setup.dump(), "lifetime": lifetime, "window": window}
    content.update({} if description is None else {"description": description})
    try:
        with database.write() as connection:
            made = connection.execute(streams.insert().values(**columns).returning(streams.c.id))
            here.id = made.scalar_one()
            changes.note(connection, here, kind=changes.CREATED, content=content, now=now)
            for lesson in lessons:
                lesson.note(connection, here, now=now)
            stream.write(connection, here)
            return here
    except sql.exc.IntegrityError:
        raise _taken(name) from None


def _calibrate(database: Database, here: Stream, old: str) -> list[Lesson]:
    """Teach a stream that is to be made another one's log, which may take minutes."""
    with database.read() as connection:  # So that whoever writes goes on meanwhile.
        if connection.execute(sql.select(streams.c.id).where(streams.c.name == here.name)).first():
            raise _taken(here.name)
        return calibrations.learn_log(connection, here, old)


def _taken(name: str) -> StreamExistsError:
    return StreamExistsError(f"there is a stream {name!r} already; choose another name")


def get(database: Database, name: str) -> Stream:
    """Return where a stream stands, or raise."""
    with database.read() as connection:
        return look(connection, name)


def look(connection: sql.Connection, name: str) -> Stream:
    """Return where a stream stands, with its last alarm and since when it has its target, or raise."""
    here = stream.find(connection, name)
    if here.watch.raised:
        here.alarmed = alarms.find_last(connection, here.id)
    changes.find_targets(connection, [here])
    return here


def list_names(database: Database) -> list[str]:
    """Return the names of all streams, the oldest first, whatever is to be said of them."""
    with database.read() as connection:
        return list(connection.execute(sql.select(streams.c.name).order_by(streams.c.id)).scalars())


class Survey(NamedTuple):
    """Streams that can be used, of the others by name what is wrong, and after which there are more."""

    usable: list[Stream]
    quarantined: dict[str, str]
    next: str | None


def survey(database: Database, *, after: str | None = None, limit: int | None = None) -> Survey:
    """Return every stream, the oldest first; or those made after one, and at most so many."""
    with database.read() as connection:
        query = sql.select(streams).order_by(streams.c.id).limit(limit)
        if after is not None:
            query = query.where(streams.c.id > stream.find_row(connection, after).id)
        rows = connection.execute(query).all()
        usable, quarantined = [], {}
        for row in rows:
            try:
                usable.append(stream.read_row(row))
            except QuarantinedError as error:
                quarantined[str(row.name)] = str(error)
        alarmed = alarms.find_newest(connection, [here.id for here in usable if here.watch.raised])
        changes.find_targets(connection, usable)
    for here in usable:
        here.alarmed = alarmed.get(here.id)
    return Survey(usable, quarantined, str(rows[-1].name) if len(rows) == limit else None)


class Changed(NamedTuple):
    """A digest of every row that can be used, by id; the streams of those that were not seen so."""

    digests: dict[int, int]
    changed: list[Stream]
    quarantined: dict[str, str]


def survey_changed(database: Database, seen: Mapping[int, int]) -> Changed:
    """Return the streams whose rows are not as they were seen, and those that cannot be used."""
    found = Changed({}, [], {})
    with database.read() as connection:
        for row in connection.execute(sql.select(streams).order_by(streams.c.id)):
            digest = hash(tuple(row))  # Reading the row costs little, and what it says much.
            if seen.get(row.id) != digest:
                try:
                    found.changed.append(stream.read_row(row))
                except QuarantinedError as error:
                    found.quarantined[str(row.name)] = str(error)
                    continue
            found.digests[row.id] = digest
        changes.find_targets(connection, found.changed)
    return found


def archive(database: Database, name: str, *, now: float) -> Stream:
    """Close a stream for good: it can be read and takes no more rounds. Twice is as good as once."""
    with database.write() as connection:
        here = stream.lock_any(connection, name)
        changes.find_targets(connection, [here])
        if here.archived is not None:
            return here
        changes.note(connection, here, kind=changes.ARCHIVED, content={}, now=now)
        stream.write(connection, here)
        connection.execute(streams.update().where(streams.c.id == here.id).values(archived=now))
        here.archived = now
        return here


def delete(database: Database, name: str) -> None:
    """Remove a stream that is archived, or cannot be used, and its log for good."""
    with database.write() as connection:
        row = stream.find_row(connection, name)
        if row.archived is None and _is_usable(row):
            raise InvalidError(f"stream {name!r} takes rounds still; archive it before you delete it")
        for table in (
            schema.open_rounds,
            schema.feedback,
            schema.rounds,
            schema.changes,
            schema.marks,
            schema.alarms,
        ):
            connection.execute(table.delete().where(table.c.stream == row.id))
        connection.execute(streams.delete().where(streams.c.id == row.id))


def _is_usable(row: Any) -> bool:
    try:
        stream.read_row(row)
    except QuarantinedError:
        return False
    return True
