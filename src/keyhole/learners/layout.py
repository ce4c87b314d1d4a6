"""How the state of a learner, and the memo of a round, are written as bytes, and read back."""

import math
import struct
from typing import Any

import numpy as np

from keyhole.errors import InvalidError

_CODES = {"f": "d", "i": "q", "b": "?"}


class Layout:
    """The numbers of a state one after another: floats and counts in eight bytes, truths in one.

    The counts of a light state take half the room while they fit; ``sizes`` are the bytes of a state,
    wide and narrow.
    """

    __slots__ = ("_first", "_is_light", "_memory", "_name", "_narrow", "_wide", "sizes")

    def __init__(self, name: str, first: Any, memory: int, *, is_light: bool) -> None:
        codes = "".join(_CODES[part.dtype.kind] * part.size for part in first)
        self._name, self._first, self._memory, self._is_light = name, first, memory, is_light
        self._wide = struct.Struct(f"<{codes}")
        self._narrow = struct.Struct(f"<{codes.replace('q', 'I') if is_light else codes}")
        self.sizes = self._wide.size, self._narrow.size

    def pack(self, state: Any) -> bytes:
        """Return a state as bytes."""
        if self._is_light:
            return self._wide.pack(*(part[0] for part in state))
        return b"".join(np.ascontiguousarray(part).tobytes() for part in state)

    def pack_narrow(self, state: Any) -> bytes:
        """Return a state as few bytes."""
        if self._is_light:
            try:
                return self._narrow.pack(*(part[0] for part in state))
            except struct.error:
                pass  # A count is negative, or past 2**32.
        return self.pack(state)

    def unpack(self, content: bytes) -> Any:
        """Return the state that was packed, narrow or not, or raise if it does not fit."""
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise InvalidError(f"a state of {self._name} is bytes, not {type(content).__name__}")
        if self._is_light and len(content) in self.sizes:
            form = self._wide if len(content) == self._wide.size else self._narrow
            numbers = form.unpack(content)
            total = sum(numbers)  # quick to look at; only where it is not finite, each is
            if total - total != 0.0 and not all(map(math.isfinite, numbers)):
                raise self._refuse_endless()
            return type(self._first)._make([[number] for number in numbers])
        if len(content) != self._wide.size:
            raise InvalidError(
                f"{len(content)} bytes are not a state of {self._name}, which has {self._wide.size}"
            )
        parts, place = [], 0
        for part in self._first:
            held = np.frombuffer(content, part.dtype, part.size, place)
            if not np.isfinite(held).all():
                raise self._refuse_endless()
            if held.dtype.kind == "b" and held.size and held.view(np.uint8).max() > 1:
                raise InvalidError(f"the state of {self._name} holds truths that are neither 0 nor 1")
            parts.append(held.reshape(part.shape).copy())
            place += part.nbytes
        return type(self._first)._make(parts)

    def _refuse_endless(self) -> InvalidError:
        return InvalidError(f"the state of {self._name} holds numbers that are not finite")

    def pack_memo(self, memo: Any) -> bytes:
        """Return a memo as bytes."""
        if not self._memory:
            return b""
        return memo.tobytes() if isinstance(memo, np.ndarray) else np.array(memo).tobytes()

    def unpack_memo(self, content: bytes) -> Any:
        """Return the memo that was packed, or raise if it does not fit."""
        if self._is_light and not content and not self._memory:
            return []
        # Numbers that may be changed: of a copy, as it is quicker to copy bytes.
        memo = np.frombuffer(bytearray(content[: len(content) // 8 * 8]))
        if len(content) != 8 * self._memory or not np.isfinite(memo).all():
            raise InvalidError(
                f"{len(content)} bytes are not what a round of {self._name} remembers; "
                f"that takes {8 * self._memory}"
            )
        return memo.tolist() if self._is_light else memo
