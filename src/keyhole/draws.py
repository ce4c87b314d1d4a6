"""The random draw of a round: a function of the seed and the round's number alone."""

import secrets
from functools import lru_cache

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import SeedError
from keyhole.grid import Array

_DRAWS_AT_ONCE = 1024
_PER_COUNT = 4  # Philox makes four 64-bit words for each value of its counter.


def checked_seed(seed: int | None) -> int:
    """Return the seed, or one that nobody can guess if there is none."""
    if seed is None:
        return secrets.randbits(63)
    if not is_whole(seed, least=0, most=2**64 - 1):
        raise SeedError(f"seed {seed!r} is not a whole number from 0 to 2**64 - 1; try 7")
    return int(seed)


def draws(seed: int, start: int, count: int) -> Array:
    """Return the uniform draws of the rounds ``start`` to ``start + count - 1``.

    Examples
    --------
    >>> bool(draws(7, 1_000_001, 1)[0] == draws(7, 1_000_000, 2)[1])
    True
    """
    bits = np.random.Philox(key=seed)
    bits.advance(start // _PER_COUNT)
    skipped = start % _PER_COUNT
    return np.random.Generator(bits).random(count + skipped)[skipped:]


def draw_of(seed: int, number: int) -> float:
    """Return the uniform draw of one round; those near it are kept, as they are likely next."""
    place = number % _DRAWS_AT_ONCE
    return float(_block(seed, number - place)[place])


@lru_cache(maxsize=256)
def _block(seed: int, start: int) -> Array:
    return draws(seed, start, _DRAWS_AT_ONCE)
