"""A live line for a person at a terminal, by rich where it is installed; silence otherwise."""

import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")


class LiveLine:
    """One line that says what is running, how far it is and how long is left, while it is entered."""

    def __init__(self, title: str, total: int, *, file: TextIO | None = None) -> None:
        self._title = title
        self._bar = _bar(sys.stderr if file is None else file)
        self._task = None if self._bar is None else self._bar.add_task(title, total=max(1, total))

    def __enter__(self) -> "LiveLine":
        """Show the line."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the line as it is."""
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1, *, title: str | None = None) -> None:
        """Count finished work; a title says what is next."""
        if self._bar is not None:
            self._title = self._title if title is None else title
            self._bar.update(self._task, advance=count, description=f"{self._title:<30.30}")


def track(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """Yield the items, counting them on a live line."""
    with LiveLine(title, total) as line:
        for item in items:
            yield item
            line.advance()


def _bar(file: TextIO) -> Any:
    """Return rich's bar, or None where nobody would see it."""
    if not file.isatty():
        return None
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=None),
        progress.TaskProgressColumn(),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(file=file)
    return progress.Progress(*columns, console=console, expand=console.width <= 80)
