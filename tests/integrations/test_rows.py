from typing import Any

import pytest

pytest.importorskip("pyarrow")

from keyhole.integrations._arrow import name_key, read_index


@pytest.mark.parametrize(("label", "place"), [("3", 3), (3, 3), (3.0, 3)])
def test_a_label_that_is_a_place_is_read_as_one(label: Any, place: int) -> None:
    assert read_index(label) == place
    assert type(read_index(label)) is int


@pytest.mark.parametrize("label", ["cat", "3.5", 3.5, float("inf"), None, ""])
def test_a_label_that_is_no_place_is_left_as_it_is(label: Any) -> None:
    assert read_index(label) is label


def test_a_key_of_one_column_is_its_text_and_of_several_a_json_list() -> None:
    assert name_key([7]) == "7"
    assert name_key(["7", 8]) == '["7","8"]'
