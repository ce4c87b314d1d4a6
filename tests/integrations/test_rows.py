from typing import Any

import pytest

from keyhole.integrations.rows import read_index


@pytest.mark.parametrize(("label", "place"), [("3", 3), (3, 3), (3.0, 3)])
def test_a_label_that_is_a_place_is_read_as_one(label: Any, place: int) -> None:
    assert read_index(label) == place
    assert type(read_index(label)) is int


@pytest.mark.parametrize("label", ["cat", "3.5", 3.5, float("inf"), None, ""])
def test_a_label_that_is_no_place_is_left_as_it_is(label: Any) -> None:
    assert read_index(label) is label
