"""The random draw of a round: a function of the seed and the round's number alone."""

import os
from array import array

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError
from keyhole.numeric import Array

_DRAWS_AT_ONCE = 128
_PER_COUNT = 4  # Philox makes four 64-bit words for each value of its counter.
CALIBRATION = 3  # the kind of draws that are no round's
ROUNDING = 2  # Philox takes two words as its key; the learner's draws have 0 for the second.


def check_seed(seed: int | None) -> int:
    """Return the seed, or one that nobody can guess if there is none."""
    if seed is None:
        return int.from_bytes(os.urandom(8), "big") >> 1
    if not is_whole(seed, least=0, most=2**64 - 1):
        raise InvalidError(
            f"seed {seed!r} is not a whole number from 0 to 2**64 - 1; try 7", field="seed"
        )
    return int(seed)


def make_draws(seed: int, start: int, count: int, *, kind: int = 0) -> Array:
    """Return the uniform draws of the rounds ``start`` to ``start + count - 1``.

    Examples
    --------
    >>> bool(make_draws(7, 1_000_001, 1)[0] == make_draws(7, 1_000_000, 2)[1])
    True
    """
    # A list of the two would go through floats where the seed is 2**63 or more.
    bits = np.random.Philox(key=np.array([seed, kind], dtype=np.uint64))
    bits.advance(start // _PER_COUNT)
    skipped = start % _PER_COUNT
    return np.random.Generator(bits).random(count + skipped)[skipped:]


class Draws:
    """The draws of one seed; those near the last one are kept, as they are likely next."""

    __slots__ = ("_block", "_seed", "_start")

    def __init__(self, seed: int) -> None:
        self._seed, self._start = seed, -_DRAWS_AT_ONCE
        self._block = array("d")  # a quarter of the room that a list takes

    def of(self, number: int) -> float:
        place = number - self._start
        if not 0 <= place < _DRAWS_AT_ONCE:
            self._start = number - number % _DRAWS_AT_ONCE
            self._block = array("d", make_draws(self._seed, self._start, _DRAWS_AT_ONCE).tobytes())
            place = number - self._start
        return self._block[place]


def draw_rounding(seed: int, number: int) -> float:
    return float(make_draws(seed, number, 1, kind=ROUNDING)[0])
