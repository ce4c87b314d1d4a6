"""The tables of Keyhole 0.1, carried over into those of now.

In 0.1 a stream's row held a blueprint, a tally in columns and a learner's state. What its learner had
learnt goes on. The rounds of that time were played by rules that have changed since, so that a replay
begins after them; they are linked, as every row is, from here on. A stream that cannot be carried over
is kept as it is, row by row, and says why: it is quarantined.
"""

import heapq
import json
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from itertools import repeat
from typing import Any

import sqlalchemy as sql

from keyhole.errors import InvalidError, KeyholeError
from keyhole.learners import Learner
from keyhole.predictor.monitor import Watch
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import measure_delay
from keyhole.predictor.scale import Scale
from keyhole.predictor.setup import Setup
from keyhole.predictor.tally import Tally
from keyhole.scores import Region
from keyhole.service.store import schema
from keyhole.service.store.chain import FIRST, make_link

_MOVED = ("streams", "rounds", "feedback", "open", "marks")
_PAGE = 1000
_VALVE = "+valve"
# What a learner's state has come to hold since; the rest is as it was.
_ADDED = {
    "logit-tracker": ("excess", "lateness"),
    "tracker": ("excess", "lateness"),
    "aci": ("excess", "lateness"),
    "agaci": ("moved", "lateness"),
    "self-scaled": ("lateness",),
}
_UNREADABLE = (KeyholeError, KeyError, TypeError, ValueError)


def carry_over(connection: sql.Connection) -> None:
    """Turn the tables of 0.1 into those of the next version, stream by stream."""
    connection.execute(sql.text("DROP INDEX rounds_key"))
    for name in _MOVED:
        connection.execute(sql.text(f'ALTER TABLE "{name}" RENAME TO "old_{name}"'))
    schema.tables.create_all(connection)
    old = sql.MetaData()
    old.reflect(connection, only=[f"old_{name}" for name in _MOVED])
    rows = connection.execute(sql.select(old.tables["old_streams"]).order_by(sql.column("id")))
    for row in rows.mappings().all():
        _Carried(connection, old, dict(row)).carry()
    old.drop_all(connection)
    if connection.dialect.name == "postgresql":
        connection.execute(
            sql.text(
                "SELECT setval(pg_get_serial_sequence('streams', 'id'), max(id)) FROM streams "
                "HAVING max(id) IS NOT NULL"
            )
        )


class _Carried:
    """One stream on its way: its row of 0.1, and what it has become so far."""

    def __init__(self, connection: sql.Connection, old: sql.MetaData, row: dict[str, Any]) -> None:
        self._connection, self._old, self._row = connection, old, row
        self._fault: str | None = None
        self._blueprint: Any = row["blueprint"]
        self._limits: dict[str, Any] = {"lifetime": 0.0, "window": 0}  # until they are read
        self._setup = self._read_setup()
        self._tally = Tally.start(0)
        self._then: dict[int, int] = {}  # of rounds without an answer: how many had one before
        self._link = FIRST
        self._marks = blake2b(digest_size=16)

    def carry(self) -> None:
        """Write the stream and all that is its own into the new tables."""
        self._connection.execute(schema.streams.insert().values(**self._start_columns()))
        self._change("created", 0, self._row["created"], self._created())
        for kind, rows in _gather(self._events()):
            self._connection.execute(_TABLES[kind].insert(), rows)
        opened = self._carry_open()
        progress = self._finish()
        content: dict[str, Any] = {"fault": self._fault, "sweep": self._row["sweep"]}
        content.update(marks=self._marks.hexdigest(), open=opened)
        if self._fault is not None:
            content["row"] = {
                name: value.hex() if isinstance(value, bytes) else value
                for name, value in self._row.items()
            }
        version = self._row["version"] + 1
        self._change("carried over", version, self._row["created"], content, progress)
        if self._row["archived"] is not None:
            version += 1
            self._change("archived", version, self._row["archived"], {})
        self._connection.execute(
            schema.streams.update()
            .where(schema.streams.c.id == self._row["id"])
            .values(version=version, progress=progress, link=self._link, fault=self._fault)
        )

    def _start_columns(self) -> dict[str, Any]:
        kept = ("id", "name", "created", "archived", "sweep")
        setup = self._row["blueprint"] if self._setup is None else self._setup.to_json()
        # Of a stream without answers 0.1 wrote no bits; now there is room for the whole window.
        recent = self._row["recent"].rjust(self._limits["window"] // 8 + 1, b"\0")
        known = {name: self._row[name] for name in kept} | self._limits
        begun = {"version": 0, "progress": b"", "link": FIRST}
        return {**known, "setup": setup, "recent": recent, **begun}

    def _created(self) -> dict[str, Any]:
        """Return what the stream was made with; of its log only the end is replayed."""
        setup = self._blueprint if self._setup is None else self._setup.dump()
        known = {"name": self._row["name"], "setup": setup, **self._limits}
        return {**known, "until": self._row["version"]}

    def _read_setup(self) -> Setup[Region] | None:
        try:
            told = self._blueprint = json.loads(self._row["blueprint"])
            self._limits = {name: told[name] for name in self._limits}
            inner = told["parameters"]["inner"] if told["learner"].endswith(_VALVE) else None
            parameters = told["parameters"] if inner is None else inner
            if told["learner"].removesuffix(_VALVE) == "mvp":
                parameters["groups"] -= 1  # It counted all rounds together as one.
            missing = {"at_least": 0, "at_most": None, "side": "both"}
            return Setup.load({**told, "score": {**missing, **told["score"]}})
        except _UNREADABLE as error:
            self._note_fault(error)
            return None

    def _note_fault(self, error: Exception) -> None:
        if self._fault is None:
            self._fault = f"it could not be carried over from Keyhole 0.1: {error}"

    def _events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows of the log as they are to be now, in the order of their versions."""
        sources = [
            zip(repeat(kind), self._read(kind, order))
            for kind, order in (("rounds", "number"), ("feedback", "version"), ("marks", "version"))
        ]
        for kind, row in heapq.merge(*sources, key=lambda event: event[1]["version"]):
            if kind == "marks":
                yield kind, self._carry_mark(row)
                continue
            row = self._carry_round(row) if kind == "rounds" else self._carry_answer(row)
            self._link = row["link"] = make_link(self._link, _TABLES[kind], row)
            yield kind, row

    def _carry_round(self, row: dict[str, Any]) -> dict[str, Any]:
        self._then[row["number"]] = self._tally.answered
        self._tally.predicted += 1
        scale = None if self._setup is None else Scale.start(self._setup.score)
        if scale is not None:
            row["output"] += array("d", [scale.value]).tobytes()
        return row

    def _carry_answer(self, row: dict[str, Any]) -> dict[str, Any]:
        number, tally = row["number"], self._tally
        then = self._then.pop(number, tally.answered)
        _, stale = measure_delay(number, then, tally.predicted, tally.answered)
        row["miss"], row["weight"] = float(row.pop("missed")), 1.0
        tally.count(row["miss"], row["size"], stale=stale)
        return row

    def _carry_mark(self, row: dict[str, Any]) -> dict[str, Any]:
        row.update({name: getattr(self._tally, name) for name in schema.SUMS})
        row = {**row, "progress": self._carry_progress(row.pop("state"))}
        self._marks.update(make_link(FIRST, schema.marks, row))
        return row

    def _carry_open(self) -> list[list[Any]]:
        """Write the open rounds, and return what a replay cannot find anew."""
        opened: list[list[Any]] = []
        for _, rows in _gather(zip(repeat("open"), self._read("open", "number"))):
            for row in rows:
                row["then"] = self._then.get(row["number"], 0)
                row["memo"] = self._carry_memo(row["memo"])
                opened.append([row["number"], row["expires"], row["then"], row["memo"].hex()])
            self._connection.execute(schema.open_rounds.insert(), rows)
        return opened

    def _finish(self) -> bytes:
        """Return the progress at the end, or what there was if the row and its log disagree."""
        tally, row = self._tally, self._row
        tally.expired, tally.unreachable = row["expired"], row["bound_broken"]
        for name in ("predicted", "answered", "misses"):
            found = getattr(tally, name)
            if found != row[name]:
                self._note_fault(ValueError(f"its row says {row[name]} {name}, its log {found:g}"))
        return self._carry_progress(row["state"])

    def _carry_progress(self, state: bytes) -> bytes:
        if self._setup is None:
            return state
        learner, scale = self._setup.learner, Scale.start(self._setup.score)
        if scale is not None:
            scale.residuals = [scale.value] * _ENOUGH  # 0.1 knew one scale for ever: so it stays.
        try:
            held = _carry_state(learner, state, self._tally)
        except _UNREADABLE as error:
            self._note_fault(error)
            return state
        return Progress(held, self._tally, scale, Watch.begin(self._tally.answered)).pack(learner)

    def _carry_memo(self, memo: bytes) -> bytes:
        if self._setup is None:
            return memo
        try:
            return _carry_memo(self._setup.learner, memo)
        except _UNREADABLE as error:
            self._note_fault(error)
            return memo

    def _change(
        self,
        kind: str,
        version: int,
        at: float,
        content: dict[str, Any],
        progress: bytes | None = None,
    ) -> None:
        row = {
            "stream": self._row["id"],
            "version": version,
            "at": at,
            "kind": kind,
            "content": json.dumps(content),
            "progress": progress,
        }
        self._link = row["link"] = make_link(self._link, schema.changes, row)
        self._connection.execute(schema.changes.insert().values(**row))

    def _read(self, name: str, order: str) -> Iterator[dict[str, Any]]:
        table, after = self._old.tables[f"old_{name}"], -1
        mine = sql.select(table).where(table.c.stream == self._row["id"]).order_by(table.c[order])
        while True:
            page = self._connection.execute(mine.where(table.c[order] > after).limit(_PAGE))
            rows = [dict(row) for row in page.mappings()]
            yield from rows
            if len(rows) < _PAGE:
                return
            after = rows[-1][order]


_TABLES = {"rounds": schema.rounds, "feedback": schema.feedback, "marks": schema.marks}
_ENOUGH = 25  # residuals after which a scale is fixed


def _carry_state(learner: Learner, content: bytes, tally: Tally) -> Any:
    """Return the state that 0.1 packed, with what it did not hold yet."""
    added = _ADDED.get(learner.name.removesuffix(_VALVE), ())
    # Behind a valve the learner did not hear of every round; then this is near, and no more.
    excess = tally.misses - learner.alpha * tally.answered
    parts, place = [], 0
    for name, part in learner.start_arrays()._asdict().items():
        if name in added:
            part[...] = excess if name in ("excess", "moved") else 0
            parts.append(part.tobytes())
        else:
            parts.append(content[place : place + part.nbytes])
            place += part.nbytes
    if place != len(content):
        raise InvalidError(f"{len(content)} bytes are not a state of {learner.name} in 0.1")
    return learner.unpack(b"".join(parts))


def _carry_memo(learner: Learner, content: bytes) -> bytes:
    """Return the memo that 0.1 packed, without what it need not hold any more."""
    numbers = array("d", content)
    own = 2 if learner.name.endswith(_VALVE) else 0  # of the valve
    inner = numbers[own:]
    if len(inner) != learner.memory - own:
        is_mvp = learner.name.removesuffix(_VALVE) == "mvp"
        inner = inner[:1] + inner[2:] if is_mvp else inner[:0]
    memo = (numbers[:own] + inner).tobytes()
    learner.unpack_memo(memo)
    return memo


def _gather(events: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield rows of one kind many at a time, each kind in its order."""
    held: dict[str, list[dict[str, Any]]] = {}
    for kind, row in events:
        rows = held.setdefault(kind, [])
        rows.append(row)
        if len(rows) == _PAGE:
            yield kind, held.pop(kind)
    yield from held.items()
