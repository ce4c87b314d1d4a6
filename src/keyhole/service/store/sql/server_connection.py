"""A connection to a server that is given up when the server says nothing for too long.

A server that is frozen ends no statement by itself, and its kernel keeps the connection alive, so that
neither its timeouts nor TCP's ever come.
"""

import math
import time
from collections.abc import Generator
from typing import Any

import psycopg
import sqlalchemy as sql


class PatientConnection(psycopg.Connection[Any]):
    """A connection that waits so many seconds for each of the server's answers, and is then closed.

    The driver lets generators wait, and wakes them every tenth of a second: a subclass is its way to
    have a word in that.
    """

    seconds: float = math.inf

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        """Return what the generator returns, or raise if the server says nothing for too long."""
        return super().wait(self._watch(gen), *arguments, **named)

    def _watch(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        end = time.monotonic() + self.seconds
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.close()  # What it will say when it goes on is nobody's answer any more.
                    raise psycopg.OperationalError(f"it said nothing for {self.seconds:g} seconds")
                wanted = waiting.send(ready)
        except StopIteration as done:
            return done.value


def limit_waiting(engine: sql.Engine, seconds: float) -> None:
    """Let connections of the engine wait so long for each answer."""

    @sql.event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, given: Any, named: Any) -> PatientConnection:
        connection = PatientConnection.connect(*given, **named)
        connection.seconds = seconds
        return connection
