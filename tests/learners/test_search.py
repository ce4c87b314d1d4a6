"""The informed tracker's bounds, against adversaries who search for the worst sequence."""

from pathlib import Path

import pytest

from tests.learners.search import GAMES, GUARD, search, write_table

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("game", GAMES)
def test_no_search_passes_the_bound_and_the_best_comes_within_a_tenth(game: str, sign: float) -> None:
    plays = search(game, sign).values()
    assert all(play.worst <= play.bound() + 1e-9 for play in plays)
    assert max(play.worst / play.bound() for play in plays) > 0.9


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("game", GAMES)
def test_a_guard_that_closes_too_late_is_found_out(game: str, sign: float) -> None:
    """The power of the test above: the bound is that of a guard at 4, and the guard is at 8."""
    stated = {
        how: play.bound() - play.state.scale[0] * GUARD
        for how, play in search(game, sign, guard=2 * GUARD).items()
    }
    assert any(play.worst > stated[how] for how, play in search(game, sign, guard=2 * GUARD).items())


def test_the_page_has_what_the_searches_reached() -> None:
    """``python -m tests.learners.search`` prints it."""
    assert write_table() in PAGE.read_text()
