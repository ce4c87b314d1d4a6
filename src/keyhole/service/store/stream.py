"""A stream: one row, locked while a request changes it."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from keyhole.errors import ArchivedError, KeyholeError, QuarantinedError, UnknownStreamError
from keyhole.feedback import GateRegime
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally
from keyhole.scores import Region
from keyhole.service.store import settings
from keyhole.service.store.alarms import Alarmed
from keyhole.service.store.chain import FIRST
from keyhole.service.store.direct import Connection
from keyhole.service.store.schema import streams


@dataclass(slots=True)
class Stream:
    """A stream's row: a predictor's setup and progress, and how long its rounds may wait."""

    id: int
    name: str
    setup: Setup[Region]
    lifetime: float
    window: int
    created: float
    archived: float | None
    version: int
    progress: Progress
    sweep: float  # No open round expires before this time.
    recent: int  # The last rounds as bits, 1 for a miss.
    link: bytes  # of the last row of its log
    description: str | None = None  # what people say of it
    alarmed: Alarmed | None = None  # The last alarm; only there for who asks to see the stream.

    @property
    def tally(self) -> Tally:
        """What its rounds add up to."""
        return self.progress.tally

    @property
    def watch(self) -> Watch:
        """What is known of whether the promise is kept."""
        return self.progress.watch or Watch()

    @property
    def open(self) -> int:
        """How many rounds wait for an answer."""
        tally = self.tally
        # A gate's tally sums sizes of 1 for what it accepts; what it refers may be nobody's to judge.
        awaited = int(tally.size) if self.setup.regime == GateRegime.ACCEPTED else tally.predicted
        return awaited - tally.answered - tally.expired - tally.skipped

    @property
    def recent_rounds(self) -> int:
        """How many rounds the recent miss rate runs over."""
        return min(self.watch.rounds, self.window)

    @property
    def recent_misses(self) -> int:
        """How many of them missed."""
        return self.recent.bit_count()

    def prediction_id(self, number: int) -> str:
        """Return the public id of a round."""
        return f"{self.id}-{number}-{settings.make_tag(self.setup, number)}"

    def note(self, *, missed: bool) -> None:
        """Remember an answered round among the recent ones."""
        self.recent = (self.recent << 1 | missed) & ((1 << self.window) - 1)


def start(
    setup: Setup[Region],
    *,
    id: int,  # noqa: A002
    name: str,
    lifetime: float,
    window: int,
    created: float,
) -> Stream:
    """Return a stream in which nothing has happened, not even its making."""
    return Stream(
        id=id,
        name=name,
        setup=setup,
        lifetime=lifetime,
        window=window,
        created=created,
        archived=None,
        version=-1,
        progress=Progress.start(setup.learner, setup.score, watch=True, states=count_states(setup)),
        sweep=np.inf,
        recent=0,
        link=FIRST,
    )


def count_states(setup: Setup[Region]) -> int:
    """Return how many groups have a state of their own: those of a gate."""
    return len(setup.names.groups) if setup.learner.rule.kind == "gate" else 0


def list_columns(stream: Stream) -> dict[str, Any]:
    """Return every column of a stream's row."""
    return {
        "id": stream.id,
        "name": stream.name,
        "setup": stream.setup.to_json(),
        "lifetime": stream.lifetime,
        "window": stream.window,
        "created": stream.created,
        "archived": stream.archived,
        "description": stream.description,
        **_list_moving(stream),
        "fault": None,
    }


def _list_moving(stream: Stream) -> dict[str, Any]:
    """Return the columns that predictions and answers change."""
    return {
        "version": stream.version,
        "progress": stream.progress.pack(stream.setup.learner),
        "sweep": stream.sweep,
        "recent": stream.recent.to_bytes(stream.window // 8 + 1, "big"),
        "link": stream.link,
    }


def read_row(row: Any) -> Stream:
    """Return the stream of a row, or raise ``QuarantinedError`` if it cannot be used."""
    if row.fault is not None:
        raise quarantine(row.name, row.fault)
    try:
        return _read_row(row)
    except (KeyholeError, LookupError, TypeError, ValueError, struct.error) as error:
        raise quarantine(row.name, f"its row cannot be read: {error}") from None


def quarantine(name: str, fault: str) -> QuarantinedError:
    """Return the error that says what is wrong with a stream."""
    return QuarantinedError(
        f"stream {name!r} is quarantined: {fault}; restore it from a backup, or make a new one"
    )


def _read_row(row: Any) -> Stream:
    setup = settings.load_setup(row.setup)
    return Stream(
        id=row.id,
        name=row.name,
        setup=setup,
        lifetime=row.lifetime,
        window=row.window,
        created=row.created,
        archived=row.archived,
        version=row.version,
        progress=Progress.unpack(row.progress, learner=setup.learner),
        sweep=row.sweep,
        recent=int.from_bytes(row.recent, "big"),
        link=row.link,
        description=row.description,
    )


_BY_NAME = sql.select(streams).where(streams.c.name == sql.bindparam("wanted"))
_BY_ID = sql.select(streams).where(streams.c.id == sql.bindparam("wanted"))
_LOCK_BY_NAME, _LOCK_BY_ID = _BY_NAME.with_for_update(), _BY_ID.with_for_update()


def find(connection: Connection, name: str) -> Stream:
    """Return where the stream of this name stands, or raise."""
    return _one(connection, _BY_NAME, name)


def find_row(connection: Connection, name: str) -> Any:
    """Return the row of the stream of this name, whatever it holds, or raise."""
    return _one_row(connection, _BY_NAME, name)


def lock(connection: Connection, wanted: str | int) -> Stream:
    """Return where a stream that is not archived stands, held as by ``lock_any``, or raise."""
    stream = lock_any(connection, wanted)
    check_open(stream)
    return stream


def lock_any(connection: Connection, wanted: str | int) -> Stream:
    """Return where a stream stands, by name or id; nobody else changes it until the commit."""
    return _one(connection, _LOCK_BY_NAME if isinstance(wanted, str) else _LOCK_BY_ID, wanted)


def check_open(stream: Stream) -> None:
    """Raise if the stream is archived."""
    if stream.archived is not None:
        raise ArchivedError(f"stream {stream.name!r} is archived; it takes no more rounds")


_WRITE = streams.update().where(streams.c.id == sql.bindparam("wanted"))


def write(connection: Connection, stream: Stream) -> None:
    """Put back what predictions and answers change."""
    connection.execute(_WRITE, {"wanted": stream.id, **_list_moving(stream)})


def _one(connection: Connection, query: Any, wanted: str | int) -> Stream:
    return read_row(_one_row(connection, query, wanted))


def _one_row(connection: Connection, query: Any, wanted: str | int) -> Any:
    possible = isinstance(wanted, int) or settings.is_name(wanted)
    row = connection.execute(query, {"wanted": wanted}).one_or_none() if possible else None
    if row is None:
        raise UnknownStreamError(f"there is no stream {wanted!r}; see the list of streams")
    return row
