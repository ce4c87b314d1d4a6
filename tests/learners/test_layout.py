"""How many bytes a number of a state takes."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from keyhole import make
from keyhole.errors import InvalidError
from keyhole.learners.layout import COUNT, Layout
from keyhole.numeric import Array, Counts


class State(NamedTuple):
    rate: Array = np.zeros(2)
    few: Counts = np.zeros(3, dtype=np.int64)
    some: Counts = np.zeros(1, dtype=np.int64)
    many: Counts = np.zeros(1, dtype=np.int64)


def fill(*parts: list[Any]) -> Any:
    """Return an interpreted state: lists in place of arrays."""
    made: Any = State
    return made(*parts)


def lay_out(**limits: float) -> Layout:
    return Layout("mine", State(), 1, interpreted=True, limits=limits)


@pytest.mark.parametrize(
    ("few", "size"),
    [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (COUNT, 4)],
)
def test_a_count_takes_as_few_bytes_as_its_limit_allows(few: int, size: int) -> None:
    layout = lay_out(few=few, some=9, many=COUNT)
    assert layout.sizes == (7 * 8, 2 * 8 + 3 * size + 1 + 4)
    most = min(few, 2**32 - 1)
    state = fill([0.5, -1e300], [0, 1, most], [9], [2**32 - 1])
    packed = layout.pack_narrow(state)
    assert len(packed) == layout.sizes[1]
    assert layout.unpack(packed) == state
    assert layout.unpack(layout.pack(state)) == state
    held = np.frombuffer(packed, layout.narrow)[0]
    assert [held[name].tolist() for name in State._fields] == list(state)


def test_a_count_that_does_not_fit_is_packed_wide() -> None:
    layout = lay_out(many=COUNT)
    state = fill([0.0, 0.0], [0, 0, 0], [0], [2**32])
    assert len(layout.pack_narrow(state)) == layout.sizes[0]
    assert layout.unpack(layout.pack_narrow(state)) == state


def test_the_state_of_the_default_takes_215_bytes() -> None:
    """Four numbers of 8, two counts of 4, three of 1, and two and the 84 bins of 2."""
    assert make("informed-tracker", alpha=0.1).layout.sizes == (
        8 * 95,
        4 * 8 + 2 * 4 + 3 + 2 * 2 + 84 * 2,
    )


@pytest.mark.parametrize("form", ["pack", "pack_narrow"])
def test_what_is_beyond_a_limit_is_named_in_either_form(form: str) -> None:
    layout = lay_out(few=5, some=1)
    spoilt = fill([0.0, 0.0], [0, 6, 0], [0], [0])
    with pytest.raises(InvalidError, match=r"the few of the state of mine holds 6, .* from 0 to 5"):
        layout.unpack(getattr(layout, form)(spoilt))
    with pytest.raises(InvalidError, match="the some of the state of mine holds 2"):
        layout.unpack(getattr(layout, form)(spoilt._replace(few=[0, 5, 0], some=[2])))
    with pytest.raises(InvalidError, match="not finite"):
        layout.unpack(getattr(layout, form)(fill([0.0, float("nan")], [0, 0, 0], [0], [0])))
