"""A progress bar for a person, and silence for a pipe."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")
_WIDTH = 28
_SECONDS_BETWEEN = 0.1


class Bar:
    """One line on a terminal that says what is running, how far it is and how long is left."""

    def __init__(self, title: str, total: int, *, stream: TextIO | None = None) -> None:
        self._title = title
        self._total = max(1, total)
        self._stream = sys.stderr if stream is None else stream
        self._done = 0
        self._began = self._shown = time.monotonic()

    def advance(self, count: int = 1, *, title: str | None = None) -> None:
        """Count finished work, and redraw if the last drawing is old; a title says what is next."""
        self._done += count
        self._title = self._title if title is None else title
        now = time.monotonic()
        if now - self._shown >= _SECONDS_BETWEEN or self._done >= self._total:
            self._shown = now
            self._draw()

    def _draw(self) -> None:
        if not self._stream.isatty():
            return
        share = min(1.0, self._done / self._total)
        full = round(share * _WIDTH)
        line = f"{self._title:<30.30} {'█' * full}{'░' * (_WIDTH - full)} {share:4.0%} {self._left()}"
        self._stream.write(f"\r{line:<78}" + ("\n" if self._done >= self._total else ""))
        self._stream.flush()

    def _left(self) -> str:
        spent = time.monotonic() - self._began
        if self._done >= self._total:
            return f"in {_clock(spent)}"
        return f"{_clock(spent / self._done * (self._total - self._done))} left"


def track(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """Yield the items behind a progress bar."""
    bar = Bar(title, total)
    for item in items:
        yield item
        bar.advance()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
