"""A database that does not answer is said once, and once more when it answers again."""

import logging

from keyhole.errors import BusyError, DatabaseError

log = logging.getLogger("keyhole.service")


class Outage:
    """Whether the database is known not to answer."""

    def __init__(self) -> None:
        self.is_on = False

    def notice(self, error: Exception) -> None:
        """Say so if this error is the first of an outage."""
        if isinstance(error, DatabaseError) and not isinstance(error, BusyError) and not self.is_on:
            self.is_on = True
            log.error("%s", error)

    def end(self) -> None:
        """Say that the database answers again, if it did not."""
        if self.is_on:
            self.is_on = False
            log.error("the database answers again")
