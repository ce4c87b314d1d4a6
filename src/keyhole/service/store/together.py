"""Changes of one stream that were asked for at the same time, in one transaction.

A commit waits for the disk, and the row of a stream has one writer at a time; so whoever waits for the
same stream shares both. Nobody is told of a change before it is durable, and what one asks for wrongly
changes nothing for the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keyhole.errors import BusyError, DatabaseError, KeyholeError
from keyhole.service.store import stream
from keyhole.service.store.database import Database
from keyhole.service.store.direct import Connection
from keyhole.service.store.stream import Stream


class Job(NamedTuple):
    """A change of a stream: how to make it within a transaction, or alone in one of its own."""

    wanted: str | int
    join: Callable[[Connection, Stream], Any]
    alone: Callable[[], Any]


class _ApartError(Exception):
    """These jobs cannot share a transaction."""


def make_lone_job(wanted: str | int, change: Callable[[], Any]) -> Job:
    """Return a change of a stream that takes its turn with the others, and a transaction of its own."""

    def refuse(_connection: Connection, _here: Stream) -> None:
        raise _ApartError

    return Job(wanted, refuse, change)


def carry_out(database: Database, jobs: Sequence[Job]) -> list[Any]:
    """Return what each job returns, or the error that it raises, once all of it is durable."""
    if len(jobs) == 1:
        return [_try(jobs[0].alone)]
    try:
        with database.change() as connection:
            here = stream.lock_any(connection, jobs[0].wanted)
            return [_join(connection, here, job) for job in jobs]
    except (BusyError, DatabaseError) as error:
        return [error] * len(jobs)
    except Exception:  # noqa: BLE001 - whose fault it is shows when each is alone.
        return [_try(job.alone) for job in jobs]


def _join(connection: Connection, here: Stream, job: Job) -> Any:
    if job.wanted not in (here.id, here.name):
        raise _ApartError
    version = here.version
    try:
        return job.join(connection, here)
    except KeyholeError as error:
        if isinstance(error, (BusyError, DatabaseError)):
            raise
        if here.version != version:  # It was refused half-way, and the others must not build on it.
            raise _ApartError from None
        return error


def _try(change: Callable[[], Any]) -> Any:
    try:
        return change()
    except Exception as error:  # noqa: BLE001 - it is raised again where the change was asked for.
        return error
