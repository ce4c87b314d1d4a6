"""The file of a SQLite database, which somebody may delete, replace or cut short while it is open."""

import os
import time
from pathlib import Path

from keyhole.errors import LostDatabaseError

_HEADER_SIZE = 100
_RESTORE = "restore it (see keyhole backup)"
_LOOKS, _SECONDS_BETWEEN_LOOKS = 100, 0.1


class DatabaseFile:
    """A file as it was when it was opened.

    SQLite goes on working in a file that has no name any more: what it writes there is lost. The same
    is true of the write-ahead log beside it, which is there for as long as a connection is open.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, Path(f"{path}-wal")
        self._identity = _identify(path.stat())
        self._seen: tuple[int, int] | None = None
        # Opened once: when a process closes any handle to a file, the system takes away all its locks
        # there, SQLite's too, and the next to close the database would remove the log in use.
        self._handle = os.open(path, os.O_RDONLY)
        self._logged = _identify(self._log.stat()) if self._log.is_file() else None

    def check(self) -> None:
        """Raise if the file or its log is not the one that was opened, or the file was cut short."""
        found = self._find(self._path, self._identity)
        if self._logged is not None:
            self._find(self._log, self._logged)
        # Changes go into the write-ahead log; the file itself changes only now and then.
        seen = (found.st_size, found.st_mtime_ns)
        if seen != self._seen:
            self._check_length()
            self._seen = seen

    def close(self) -> None:
        """Close the file, which no connection may use any more."""
        os.close(self._handle)

    def _find(self, path: Path, identity: tuple[int, int]) -> os.stat_result:
        try:
            found = os.stat(path)  # noqa: PTH116 - half the price of Path.stat
        except FileNotFoundError:
            raise self._lost("was deleted", path) from None
        if _identify(found) != identity:
            raise self._lost("was replaced by another", path)
        return found

    def _check_length(self) -> None:
        """Raise if the file is shorter than its own header says, and stays so."""
        for _ in range(_LOOKS):
            if self._is_whole():
                return
            # It may be growing just now, by a process that is slow: the header is written first.
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise self._lost("was cut short")

    def _is_whole(self) -> bool:
        header = os.pread(self._handle, _HEADER_SIZE, 0)
        length = os.fstat(self._handle).st_size
        size = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        # The largest size does not fit into its two bytes, and is written as 1.
        return len(header) == _HEADER_SIZE and pages * (65_536 if size == 1 else size) <= length

    def _lost(self, what: str, path: Path | None = None) -> LostDatabaseError:
        # The log is read once more when the last connection to it closes.
        remedy = "see with keyhole verify what is there" if path == self._log else _RESTORE
        return LostDatabaseError(
            f"the database file {path or self._path} {what} while the service used it; nothing is "
            f"written any more: {remedy}, and start again"
        )


def _identify(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
