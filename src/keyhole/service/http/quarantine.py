"""Streams that cannot be used: said once in the log, and shown until they can be again."""

import logging

from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.stream import Stream

log = logging.getLogger("keyhole.service")


class Quarantine:
    """Which streams could not be used when they were last looked at, and why."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def note(self, found: dict[str, str]) -> None:
        """Take what was found now, and say what is new about it."""
        for name in found.keys() - self.reasons.keys():
            log.error("%s", found[name])
        for name in self.reasons.keys() - found.keys():
            log.error("stream %r is not quarantined any more", name)
        self.reasons = found

    def survey(self, database: Database) -> list[Stream]:
        """Return the streams that can be used, and note the others."""
        found = registry.survey(database)
        self.note(found.quarantined)
        return found.usable
