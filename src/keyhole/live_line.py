"""A live line for a person at a terminal, by rich where it is installed; silence otherwise."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

Advance = Callable[..., None]


@contextmanager
def live_line(title: str, total: int, *, file: TextIO | None = None) -> Iterator[Advance]:
    """Say what is running, how far it is and how long is left; what is yielded counts finished work.

    It takes how much was finished, 1 by default, and a ``title`` that says what is next.
    """
    bar = _open_bar(sys.stderr if file is None else file)
    if bar is None:
        yield lambda count=1, *, title="": None  # noqa: ARG005
        return
    with bar:
        task, shown = bar.add_task(title, total=max(1, total)), title

        def advance(count: int = 1, *, title: str = "") -> None:
            nonlocal shown
            shown = title or shown
            bar.update(task, advance=count, description=f"{shown:<30.30}")

        yield advance


def _open_bar(file: TextIO) -> Any:
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
