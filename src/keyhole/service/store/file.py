"""The file of a SQLite database, which somebody may delete, replace or cut short while it is open."""

import os
import time
from pathlib import Path

from keyhole.errors import LostDatabaseError

_HEADER_SIZE = 100
_LOOKS, _SECONDS_BETWEEN_LOOKS = 10, 0.1


class DatabaseFile:
    """A file as it was when it was opened.

    SQLite goes on working in a file that has no name any more: what it writes there is lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = path.stat()
        self._identity, self._seen = (found.st_dev, found.st_ino), (0, 0)

    def check(self) -> None:
        """Raise if the file is not the one that was opened, or was cut short."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - half the price of Path.stat
        except FileNotFoundError:
            raise self._lost("was deleted") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise self._lost("was replaced by another")
        # Changes go into the write-ahead log; the file itself changes only now and then.
        seen = (found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            self._check_length()
            self._seen = seen

    def _check_length(self) -> None:
        """Raise if the file is shorter than its own header says, and stays so."""
        for _ in range(_LOOKS):
            if self._is_whole():
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)  # It may be growing just now.
        raise self._lost("was cut short")

    def _is_whole(self) -> bool:
        with self._path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
            length = os.fstat(file.fileno()).st_size
        size = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        # The largest size does not fit into its two bytes, and is written as 1.
        return len(header) == _HEADER_SIZE and pages * (65_536 if size == 1 else size) <= length

    def _lost(self, what: str) -> LostDatabaseError:
        return LostDatabaseError(
            f"the database file {self._path} {what} while the service used it; nothing is written any "
            "more: restore it (see keyhole backup) and start again"
        )
