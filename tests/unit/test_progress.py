import io

from keyhole.progress import Bar, track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_finished_bar_is_full_and_fits_80_columns() -> None:
    terminal = Terminal()
    bar = Bar("a title that is much too long for its place", 3, stream=terminal)
    for _ in range(3):
        bar.advance()
    last = terminal.getvalue().split("\r")[-1]
    assert "100%" in last
    assert last.endswith("\n")
    assert len(last.rstrip("\n")) <= 80


def test_pipe_gets_nothing() -> None:
    pipe = io.StringIO()
    Bar("quiet", 1, stream=pipe).advance()
    assert pipe.getvalue() == ""


def test_items_pass_through() -> None:
    assert list(track("abc", "letters", 3)) == ["a", "b", "c"]
