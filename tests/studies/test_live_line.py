import io

import pytest

from keyhole.live_line import live_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_finished_line_is_full_and_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    with live_line("a title that is much too long for its place", 3, file=terminal) as advance:
        for _ in range(3):
            advance()
    last = terminal.getvalue().rsplit("\r", maxsplit=1)[-1]
    assert "100%" in last


def test_pipe_gets_nothing() -> None:
    pipe = io.StringIO()
    with live_line("quiet", 1, file=pipe) as advance:
        advance()
    assert pipe.getvalue() == ""


def test_terminal_without_rich_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich", None)
    terminal = Terminal()
    with live_line("quiet", 1, file=terminal) as advance:
        advance()
    assert terminal.getvalue() == ""
