"""How the state of a learner, and the memo of a round, are written as bytes, and read back.

Compiled kernels look up tables without asking whether there is such a place, and one that a damaged
file names would end the process. So a rule says the limits of numbers that are places in a table, or
counts: ``{"clock": (COUNT, 8), "memo": [8]}`` is the most that all numbers of a part of the state may
be, or as a list the first ones of it, and of the memo; ``ANY``, infinity, where there is no limit. With
one, a number is whole and from 0. What is read and lies beyond is refused.
"""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.numeric import Array

ANY = math.inf  # the limit of a number that may be any
COUNT = 2**53  # the most that a count may be: floats do not tell larger ones apart
MEMO = "memo"  # what the memo is called among the limits
Limits = Mapping[str, float | Sequence[float]]
_new: Any = tuple.__new__  # makes a named tuple in half the time
_CODES = {"f": "d", "i": "q", "b": "?"}
_MOST = {"B": 2**8 - 1, "H": 2**16 - 1, "I": 2**32 - 1}  # that a count of so few bytes can be


class _Part(NamedTuple):
    """A part of a state, and where in the bytes it begins.

    ``most`` are the limits of whole numbers, without a sign; ``limits`` those of floats, by place.
    """

    name: str
    first: NDArray[np.generic]
    place: int
    most: NDArray[np.uint64] | None
    limits: list[tuple[int, float]]


class Layout:
    """The numbers of a state one after another: floats and counts in eight bytes, truths in one.

    The counts of an interpreted state take half the room while they fit, and less where their limits
    allow; ``sizes`` are the bytes of a state, wide and narrow. ``limits`` are what a rule says.
    """

    __slots__ = (
        "_forms", "_is_interpreted", "_kind", "_lengths", "_memo_limits", "_memory", "_name", "_narrow",
        "_narrow_codes", "_parts", "_wide", "sizes",
    )  # fmt: skip

    def __init__(
        self, name: str, first: Any, memory: int, *, interpreted: bool, limits: Limits
    ) -> None:
        codes = "".join(_CODES[part.dtype.kind] * part.size for part in first)
        self._name, self._kind, self._memory = name, type(first), memory
        self._is_interpreted = interpreted
        self._wide = struct.Struct(f"<{codes}")
        most = np.concatenate([spread(limits.get(n, ()), p.size) for n, p in first._asdict().items()])
        short = "".join(map(_narrow_code, codes, most)) if interpreted else codes
        self._narrow, self._narrow_codes = struct.Struct(f"<{short}"), short
        self.sizes = self._wide.size, self._narrow.size
        # How interpreted states are written, and which of the numbers must be held to their limits.
        narrow = [(place, at) for place, at in _list_limits(most) if at < _MOST.get(short[place], ANY)]
        self._forms = {}
        if interpreted:
            self._forms[self._narrow.size] = self._narrow, narrow
            self._forms[self._wide.size] = self._wide, _list_limits(most)
        lengths = [part.size for part in first]
        self._lengths = lengths if interpreted and max(lengths) > 1 else None
        unknown = sorted(limits.keys() - {*first._fields, MEMO})
        if unknown:
            raise InvalidError(f"{name} has limits for {unknown[0]!r}, which its state does not have")
        self._parts = _list_parts(first, limits)
        self._memo_limits = _list_limits(spread(limits.get(MEMO, ()), memory))

    @property
    def narrow(self) -> np.dtype[np.void]:
        """How the parts of a narrow state lie one behind the other, as NumPy says it."""
        kinds = {"d": "<f8", "q": "<i8", "I": "<u4", "H": "<u2", "B": "u1", "?": "?"}
        sizes = [part.first.size for part in self._parts]
        places = [sum(sizes[:which]) for which in range(len(sizes))]
        codes = [self._narrow_codes[place] for place in places]
        return np.dtype(
            [(p.name, kinds[code], (p.first.size,)) for p, code in zip(self._parts, codes, strict=True)]
        )

    def pack(self, state: Any) -> bytes:
        if self._is_interpreted:
            return self._wide.pack(*chain.from_iterable(state))
        return b"".join(np.ascontiguousarray(part).tobytes() for part in state)

    def pack_narrow(self, state: Any) -> bytes:
        if self._is_interpreted:
            try:
                return self._narrow.pack(*chain.from_iterable(state))
            except struct.error:
                pass  # A count is negative, or past 2**32.
        return self.pack(state)

    def unpack(self, content: bytes) -> Any:
        """Return the state that was packed, narrow or not, or raise if it does not fit."""
        if type(content) is not bytes and not isinstance(content, (bytearray, memoryview)):
            raise InvalidError(f"a state of {self._name} is bytes, not {type(content).__name__}")
        known = self._forms.get(len(content))
        if known is not None:
            form, limits = known
            numbers = form.unpack(content)
            total = sum(numbers)  # quick to look at; only where it is not finite, each is
            if total - total != 0.0 and not all(map(math.isfinite, numbers)):
                raise self._refuse_endless()
            for place, most in limits:
                number = numbers[place]
                if number < 0 or number > most or number % 1:
                    raise self._refuse(self._name_part(place), number, most)
            if self._lengths is None:
                return _new(self._kind, [[number] for number in numbers])
            rest = iter(numbers)
            return _new(self._kind, [list(islice(rest, length)) for length in self._lengths])
        if len(content) != self._wide.size:
            raise InvalidError(
                f"{len(content)} bytes are not a state of {self._name}, which has {self._wide.size}"
            )
        return _new(self._kind, [self._unpack_part(content, part) for part in self._parts])

    def _name_part(self, place: int) -> str:
        names = [part.name for part in self._parts for _ in range(part.first.size)]
        return names[place]

    def _unpack_part(self, content: bytes, part: _Part) -> NDArray[np.generic]:
        name, first, place, most, limits = part
        held = np.frombuffer(content, first.dtype, first.size, place)
        kind = first.dtype.kind
        if kind == "f" and not _is_finite(held):
            raise self._refuse_endless()
        if kind == "b" and held.size and held.view(np.uint8).max() > 1:
            raise InvalidError(f"the state of {self._name} holds truths that are neither 0 nor 1")
        # Without their sign, negative numbers are larger than any limit.
        if most is not None and b"\0" in (held.view(np.uint64) <= most).tobytes():
            wrong = int(np.argmax(held.view(np.uint64) > most))
            raise self._refuse(name, held[wrong], most[wrong])
        if limits:
            self._check(name, held, limits)
        return held.reshape(first.shape).copy()

    def _check(self, name: str, held: NDArray[np.generic], limits: Iterable[tuple[int, float]]) -> None:
        """Raise if one of these numbers, which are floats, is not whole, below 0 or above its limit."""
        look_up = held.item
        for place, most in limits:
            number = look_up(place)
            if not 0.0 <= number <= most or not number.is_integer():
                raise self._refuse(name, number, most)

    def _refuse(self, name: str, number: float, most: float) -> InvalidError:
        where = f"the {name} of a round" if name == MEMO else f"the {name} of the state"
        return InvalidError(
            f"{where} of {self._name} holds {number:.9g}, not a whole number from 0 to {most:.9g}"
        )

    def _refuse_endless(self) -> InvalidError:
        return InvalidError(f"the state of {self._name} holds numbers that are not finite")

    def pack_memo(self, memo: Array | list[float]) -> bytes:
        if not self._memory:
            return b""
        return memo.tobytes() if isinstance(memo, np.ndarray) else np.array(memo).tobytes()

    def unpack_memo(self, content: bytes) -> Array | list[float]:
        """Return the memo that was packed, or raise if it does not fit."""
        if self._is_interpreted and not content and not self._memory:
            return []
        # Numbers that may be changed: of a copy, as it is quicker to copy bytes.
        memo = np.frombuffer(bytearray(content[: len(content) // 8 * 8]))
        if len(content) != 8 * self._memory or not _is_finite(memo):
            raise InvalidError(
                f"{len(content)} bytes are not what a round of {self._name} remembers; "
                f"that takes {8 * self._memory}"
            )
        if self._memo_limits:
            self._check(MEMO, memo, self._memo_limits)
        return memo.tolist() if self._is_interpreted else memo


def spread(most: float | Sequence[float], size: int) -> Array:
    """Return a limit for each of so many numbers: one for all, or those of the first; then any."""
    limits = np.full(size, ANY)
    if not isinstance(most, Sequence):
        limits[:] = most
    elif len(most) > size:
        raise InvalidError(f"{len(most)} limits are too many for {size} numbers")
    else:
        limits[: len(most)] = most
    return limits


def _list_parts(first: Any, limits: Limits) -> list[_Part]:
    parts, place = [], 0
    for name, part in zip(first._fields, first, strict=True):
        most, listed = None, []
        if name in limits and part.dtype.kind == "i":
            most = _make_unsigned(spread(limits[name], part.size))
        elif name in limits:
            listed = _list_limits(spread(limits[name], part.size))
        parts.append(_Part(name, part, place, most, listed))
        place += part.nbytes
    return parts


def _narrow_code(code: str, most: float) -> str:
    """Return how a number of this limit is written in little room."""
    if code != "q":
        return code
    return "B" if most <= _MOST["B"] else "H" if most <= _MOST["H"] else "I"


def _make_unsigned(limits: Array) -> NDArray[np.uint64]:
    unsigned = np.full(limits.size, np.iinfo(np.uint64).max)
    unsigned[limits < ANY] = limits[limits < ANY].astype(np.uint64)
    return unsigned


def _list_limits(limits: Array) -> list[tuple[int, float]]:
    return [(int(place), float(limits[place])) for place in np.flatnonzero(limits < ANY)]


def _is_finite(numbers: NDArray[np.generic]) -> bool:
    """Return whether no number is endless or NaN; for a few, twice as fast as ``all``."""
    return b"\0" not in np.isfinite(numbers).tobytes()
