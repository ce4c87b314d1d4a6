"""What is known to be out of order: a database that does not answer, streams that cannot be used."""

import asyncio
import logging
import time

from anyio import CapacityLimiter, to_thread

from keyhole.errors import BusyError, DamagedDatabaseError, DatabaseError, KeyholeError
from keyhole.service.store.sql.backend import find_reason
from keyhole.service.store.sql.database import Database

log = logging.getLogger("keyhole.service")
_SECONDS_TO_WAIT = 2.0
_SECONDS_TO_REMEMBER = 1.0


class Outage:
    """Whether the database is known not to answer: logged once, and once more when it answers again."""

    def __init__(self) -> None:
        self.is_on = False
        self.damage: DamagedDatabaseError | None = None  # which no retry mends

    def notice(self, error: Exception) -> None:
        if isinstance(error, DamagedDatabaseError):
            self.damage = error
        if isinstance(error, DatabaseError) and not isinstance(error, BusyError) and not self.is_on:
            self.is_on = True
            log.error("%s%s", error, f" ({find_reason(error.__cause__)})" if error.__cause__ else "")

    def end(self) -> None:
        if self.is_on:
            self.is_on = False
            log.error("the database answers again")


class Quarantine:
    """Which streams could not be used when they were last read, and why."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def update(self, found: dict[str, str]) -> None:
        """Take what was found now, and log what is new about it."""
        for name in found.keys() - self.reasons.keys():
            log.error("%s", found[name])
        for name in self.reasons.keys() - found.keys():
            log.error("stream %r is not quarantined any more", name)
        self.reasons = found


class Readiness:
    """Whether the database took a write, asked at most once a second and one at a time.

    One whose file a request has found damaged is ready no more.
    """

    def __init__(self, database: Database, outage: Outage) -> None:
        self._database, self._outage, self._at = database, outage, 0.0
        self._fault: KeyholeError | None = None
        self._thread: CapacityLimiter | None = None

    async def check(self) -> None:
        """Raise unless the database could be written a moment ago."""
        if self._outage.damage is not None:
            raise self._outage.damage
        if self._thread is None:
            self._thread = CapacityLimiter(1)  # A thread of its own: the others may all be waiting.
        if time.monotonic() - self._at >= _SECONDS_TO_REMEMBER:
            try:
                async with asyncio.timeout(_SECONDS_TO_WAIT):
                    await to_thread.run_sync(self._probe, limiter=self._thread, abandon_on_cancel=True)
            except TimeoutError:
                raise DatabaseError(
                    f"the database took no write within {_SECONDS_TO_WAIT:g} seconds"
                ) from None
        if self._fault is not None:
            raise self._fault

    def _probe(self) -> None:
        if time.monotonic() - self._at < _SECONDS_TO_REMEMBER:
            return  # Another request has probed while this one waited.
        try:
            self._database.try_write()
            self._fault = None
        except KeyholeError as error:
            self._fault = error
        self._at = time.monotonic()
