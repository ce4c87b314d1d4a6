"""Where a stream stands: one row, locked while a request changes it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql

from keyhole.errors import ArchivedError, UnknownStreamError
from keyhole.learners import Learner
from keyhole.rounds import Outcome, Tally
from keyhole.store import blueprint
from keyhole.store.blueprint import Blueprint
from keyhole.store.schema import streams


@dataclass(slots=True)
class Standing:
    """A stream's row: what it is, what its rounds add up to, what its learner has learnt."""

    id: int
    name: str
    blueprint: Blueprint
    created: float
    archived: float | None
    version: int
    tally: Tally
    sweep: float  # No open round expires before this time.
    recent: int  # The last rounds as bits, 1 for a miss.
    state: Any

    @property
    def open(self) -> int:
        """How many rounds wait for an answer."""
        return self.tally.predicted - self.tally.answered - self.tally.expired

    @property
    def recent_rounds(self) -> int:
        """How many rounds the recent miss rate runs over."""
        return min(self.tally.answered, self.blueprint.window)

    @property
    def recent_misses(self) -> int:
        """How many of them missed."""
        return self.recent.bit_count()

    def prediction_id(self, number: int) -> str:
        """Return the public id of a round."""
        return f"{self.id}-{number}-{self.blueprint.tag(number)}"

    def count(self, outcome: Outcome) -> None:
        """Add an answered round."""
        self.tally.count(outcome)
        self.recent = (self.recent << 1 | outcome.missed) & ((1 << self.blueprint.window) - 1)


def start(blueprint: Blueprint) -> dict[str, Any]:
    """Return the columns of a stream in which nothing has happened."""
    zeros = dict.fromkeys(("version", "predicted", "answered", "misses", "expired", "bound_broken"), 0)
    state = pack_state(blueprint.learner.start())
    return {**zeros, "size": 0.0, "sweep": np.inf, "recent": b"", "state": state}


def afresh(here: Standing) -> Standing:
    """Return the stream as it was before its first round."""
    return Standing(
        id=here.id,
        name=here.name,
        blueprint=here.blueprint,
        created=here.created,
        archived=None,
        version=0,
        tally=Tally(),
        sweep=np.inf,
        recent=0,
        state=here.blueprint.learner.start(),
    )


def of_row(row: Any) -> Standing:
    """Return where the stream of a row stands."""
    plan = blueprint.load(row.blueprint)
    return Standing(
        id=row.id,
        name=row.name,
        blueprint=plan,
        created=row.created,
        archived=row.archived,
        version=row.version,
        tally=Tally(
            predicted=row.predicted,
            answered=row.answered,
            misses=row.misses,
            size=row.size,
            expired=row.expired,
            bound_broken=row.bound_broken,
        ),
        sweep=row.sweep,
        recent=int.from_bytes(row.recent, "big"),
        state=unpack_state(plan.learner, row.state),
    )


_BY_NAME = sql.select(streams).where(streams.c.name == sql.bindparam("wanted"))
_BY_ID = sql.select(streams).where(streams.c.id == sql.bindparam("wanted"))
_LOCK_BY_NAME, _LOCK_BY_ID = _BY_NAME.with_for_update(), _BY_ID.with_for_update()


def found(connection: sql.Connection, name: str) -> Standing:
    """Return where the stream of this name stands, or raise."""
    return _one(connection, _BY_NAME, name)


def locked(connection: sql.Connection, wanted: str | int) -> Standing:
    """Return where a stream stands, by name or id; nobody else changes it until the commit."""
    standing = _one(connection, _LOCK_BY_NAME if isinstance(wanted, str) else _LOCK_BY_ID, wanted)
    if standing.archived is not None:
        raise ArchivedError(f"stream {standing.name!r} is archived; it takes no more rounds")
    return standing


_WRITE = streams.update().where(streams.c.id == sql.bindparam("wanted"))


def write_predicted(connection: sql.Connection, here: Standing) -> None:
    """Put back what predictions change: the learner's state is not among it."""
    tally = here.tally
    counts = {"version": here.version, "predicted": tally.predicted, "expired": tally.expired}
    connection.execute(_WRITE, {"wanted": here.id, **counts, "sweep": here.sweep})


def write_answered(connection: sql.Connection, here: Standing) -> None:
    """Put back what answers change."""
    tally = here.tally
    changed = {
        "version": here.version,
        "answered": tally.answered,
        "misses": tally.misses,
        "size": tally.size,
        "bound_broken": tally.bound_broken,
        "recent": here.recent.to_bytes(here.blueprint.window // 8 + 1, "big"),
        "state": pack_state(here.state),
    }
    connection.execute(_WRITE, {"wanted": here.id, **changed})


def pack_state(state: Any) -> bytes:
    """Return a learner's state as bytes."""
    return b"".join(np.ascontiguousarray(part).tobytes() for part in state)


def unpack_state(learner: Learner, content: bytes) -> Any:
    """Return the state that was packed."""
    state, place = learner.start(), 0
    for part in state:
        size = part.nbytes
        part[...] = np.frombuffer(content[place : place + size], dtype=part.dtype).reshape(part.shape)
        place += size
    return state


def _one(connection: sql.Connection, query: Any, wanted: str | int) -> Standing:
    possible = isinstance(wanted, int) or blueprint.is_name(wanted)
    row = connection.execute(query, {"wanted": wanted}).one_or_none() if possible else None
    if row is None:
        raise UnknownStreamError(f"there is no stream {wanted!r}; see the list of streams")
    return of_row(row)
