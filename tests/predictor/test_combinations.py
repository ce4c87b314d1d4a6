"""Every promise in every combination: held against adversaries, or refused, as the docs say."""

from pathlib import Path

import pytest

from keyhole.numeric import can_compile
from tests.predictor.combinations import RULES, expect, judge, list_cells, write_table

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


@pytest.mark.skipif(can_compile(), reason="the interpreted lane plays them")
@pytest.mark.parametrize("rule", RULES)
def test_what_is_stated_holds_in_every_combination_and_is_what_the_docs_say(rule: str) -> None:
    for cell in list_cells(rule):
        found, expected = judge(cell), expect(cell)
        assert found == expected or (expected.startswith("refused") and found.startswith(expected)), (
            cell
        )


def test_the_page_has_the_table_of_combinations() -> None:
    """``python -m tests.predictor.combinations`` prints it."""
    assert write_table() in PAGE.read_text()
