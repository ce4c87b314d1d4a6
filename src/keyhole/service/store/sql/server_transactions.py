"""Transactions on a server, by its driver alone.

To send and to wait takes longer than to do: what is written is held back, and goes with what is waited
for next, be it rows or the end of the transaction. A statement is planned once by each connection, and
then called by its name.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sql

from keyhole.service.store.sql.transactions import Direct, Rows, Statement, named_errors, write_out

_MANY = 16  # Rows from which on a server takes them faster as a stream.


class ServerTransactions:
    """Transactions on connections of an engine that leaves it to us to begin and to end them."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    @contextmanager
    def begin(self) -> Iterator[Direct]:
        """Give a transaction whose changes are durable, all or none, once the block is left."""
        from psycopg import ClientCursor

        with named_errors():
            held = self._engine.raw_connection()
            plans: dict[str, str] = held.info.setdefault("plans", {})
            cursor = ClientCursor(held.driver_connection)  # type: ignore[arg-type]
            try:
                direct = ServerTransaction(cursor, self._engine.dialect, plans)
                yield direct
                direct.send("COMMIT")
            except BaseException:
                try:
                    # Which plans it came to make, before it failed, is not known.
                    cursor.execute("ROLLBACK; DEALLOCATE ALL")
                    plans.clear()
                except Exception:  # noqa: BLE001 - the connection is lost, and what it was lost by is raised.
                    held.invalidate()
                    self._engine.dispose()  # The others of its age are gone as well.
                raise
            finally:
                held.close()

    def close(self) -> None:
        """Leave it to the engine, whose the connections are."""


@dataclass(slots=True)
class ServerTransaction:
    """See ``Direct``; ``_plans`` has by their SQL the names of what the connection has planned."""

    _cursor: Any
    _dialect: sql.Dialect
    _plans: dict[str, str]
    _held: list[str] = field(default_factory=lambda: ["BEGIN"])

    def read(self, *asked: tuple[Statement, Any]) -> list[list[Any]]:
        cursor, found = self._cursor, []
        calls = [self._call(*statement.write(self._dialect, values)) for statement, values in asked]
        before = len(self._held)
        self.send(*calls, to_end=False)
        for _ in range(before):
            cursor.nextset()
        for statement, _ in asked:
            found.append([*map(statement.make_row, cursor.fetchall())])
            cursor.nextset()
        return found

    def change(self, statement: Statement, values: Any) -> int:
        self.send(self._cursor.mogrify(*statement.write(self._dialect, values)))
        return int(self._cursor.rowcount)

    def write(self, changes: Sequence[tuple[Statement, list[Any]]]) -> None:
        for statement, rows in changes:
            if len(rows) >= _MANY:
                self._copy(statement, rows)
            elif len(rows) == 1:
                self._held.append(self._call(*statement.write(self._dialect, rows[0])))
            else:
                self._held.append(self._call(*statement.write_all(self._dialect, rows)))

    def execute(self, statement: Any) -> Rows:
        self.send(self._cursor.mogrify(*write_out(statement, self._dialect)))
        return Rows(self._cursor.fetchall() if self._cursor.description else [])

    def _call(self, text: str, values: Sequence[Any]) -> str:
        """Return the SQL that calls a statement, after the one that plans it if none has yet."""
        name = self._plans.get(text)
        if name is None:
            name = self._plans[text] = f"keyhole_{len(self._plans)}"
            first, *rest = text.split("%s")
            places = [f"${place}{part}" for place, part in enumerate(rest, start=1)]
            self._held.append(f"PREPARE {name} AS {first}{''.join(places)}")
        call: str = self._cursor.mogrify(f"EXECUTE {name} ({', '.join(['%s'] * len(values))})", values)
        return call

    def _copy(self, statement: Statement, rows: list[Any]) -> None:
        self.send()
        with self._cursor.copy(statement.write_copy(self._dialect)) as copy:
            for row in rows:
                copy.write_row(row)

    def send(self, *last: str, to_end: bool = True) -> None:
        """Send what is held back, and these; go on to the results of the last of them, if told so."""
        text, self._held = ";".join([*self._held, *last]), []
        if text:
            self._cursor.execute(text.encode())
        while to_end and self._cursor.nextset():
            pass
