"""The states of many keys as one value, for an engine in which every value costs a trip."""

import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa

from keyhole.errors import InvalidError, SnapshotError
from keyhole.keyed import Fold, LevelFold

VERSION = 1
MOST_BUCKETS = 2**31 - 1
_HEAD = struct.Struct("<BIIQ")  # version, number of buckets, of keys, and bytes before compression
_CODEC = "zstd"  # a tenth to a quarter of the bytes, at 350 MB a second and more


class Bucket:
    """The states of the keys of a bucket.

    As bytes it is a head, which names its version, and compressed: the lengths of the keys, those of
    the states, then the keys and the states themselves, each one behind the other.
    """

    def __init__(self, states: dict[str, bytes]) -> None:
        self.states, self.is_changed = states, True

    def play(self, fold: Any, events: Mapping[str, Any]) -> Any:
        """Return the outputs of a table of events of the bucket's keys, which go on from there."""
        states, outputs = fold.run_many(self.states, events)
        before = self.states
        self.is_changed |= any(state != before.get(key, b"") for key, state in states.items())
        before.update((key, state) for key, state in states.items() if state)
        return outputs

    def find_dues(self, fold: Fold | LevelFold) -> dict[str, int]:
        """Return the next expiries of the keys that have one."""
        dues = ((key, fold.next_due(state)) for key, state in self.states.items())
        return {key: due for key, due in dues if due is not None}

    def pack(self, *, buckets: int) -> bytes:
        names = [key.encode() for key in self.states]
        states = list(self.states.values())
        lengths = np.fromiter(map(len, [*names, *states]), "<u4", 2 * len(names))
        body = b"".join([lengths.tobytes(), *names, *states])
        head = _HEAD.pack(VERSION, buckets, len(names), len(body))
        return head + pa.compress(body, codec=_CODEC, asbytes=True)

    @classmethod
    def unpack(cls, content: bytes, *, buckets: int | None = None) -> Self:
        """Return what ``pack`` wrote, or raise if there were then not so many buckets."""
        try:
            version, had, count, size = _HEAD.unpack_from(content)
        except struct.error as error:
            raise _refuse(content, error) from None
        _check_head(version, had, buckets)
        try:
            body = pa.decompress(content[_HEAD.size :], size, codec=_CODEC, asbytes=True)
            lengths = np.frombuffer(body, "<u4", 2 * count)
            begin = lengths.nbytes
            places = [begin, *(begin + np.cumsum(lengths, dtype=np.int64)).tolist()]
            states = [body[start:end] for start, end in pairwise(places[count:])]
            names = _cut_text(body, places[: count + 1])
        except (ValueError, OSError) as error:  # pyarrow's are of these
            raise _refuse(content, error) from None
        if places[-1] != len(body):
            raise _refuse(content, f"{len(body)} where {places[-1]} are named")
        bucket = cls(dict(zip(names, states, strict=True)))
        bucket.is_changed = False
        return bucket


def _cut_text(body: bytes, places: list[int]) -> list[str]:
    text = body[places[0] : places[-1]]
    if not text.isascii():
        return [body[start:end].decode() for start, end in pairwise(places)]
    begin, whole = places[0], text.decode()
    return [whole[start - begin : end - begin] for start, end in pairwise(places)]


def _refuse(content: bytes, fault: object) -> SnapshotError:
    return SnapshotError(f"{len(content)} bytes are no bucket of keys ({fault}); restore a copy")


def _check_head(version: int, had: int, buckets: int | None) -> None:
    if version != VERSION:
        raise SnapshotError(
            f"a bucket of keys has format version {version}, this Keyhole reads {VERSION}; go on with "
            "the keyhole-conformal that wrote it"
        )
    if buckets is not None and had != buckets:
        raise InvalidError(
            f"the checkpoint has {had} buckets, the query {buckets}: a key would be looked for in the "
            f"wrong one; go on with buckets={had}, or begin a new checkpoint with "
            "states=read_states(spark, checkpoint)",
            field="buckets",
        )
