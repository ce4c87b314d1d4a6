"""Bodies: read once it is known who sends them, measured before anything is built from them.

A dependency made by ``body_of`` stands behind the one that checks the token, so that a stranger's body
is never read. What is long is measured, parsed and checked in a thread: the event loop goes on.
"""

import json
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from keyhole.errors import BusyError, InvalidError, RefusedError
from keyhole.service.http.faults import explain_body
from keyhole.service.http.limits import Limits
from keyhole.service.http.models import BATCHES, Body

_SMALL = 32_768  # Bytes: reading so few takes the event loop less time than starting a thread.
_NESTS = (dict, list)
TAKEN = "body_bytes"  # what a request's state says of its body
_PIECE = 65_536  # Bytes measured at a time: measuring takes ten times their room.
_UNMARKED = bytes(set(range(256)) - set(b'[]{},"'))


class Bodies:
    """Measures bodies as they come, each and all of them together, until their requests are done."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.taken = limits, 0

    async def take(self, request: Request) -> bytes:
        pieces, size, most = [], 0, self._limits.body_bytes
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise RefusedError(
                    f"the body is larger than {most:,} bytes; send smaller batches", code="too_large"
                )
            # What is small is let in even then, so that long bodies cannot keep everybody out.
            if size > _SMALL and self.taken + len(piece) > self._limits.bodies_bytes:
                raise BusyError("too many long bodies are being read; try again")
            self.taken += len(piece)
            request.scope.setdefault("state", {})[TAKEN] = size
            pieces.append(piece)
        return b"".join(pieces)


def body_of(model: type[Body]) -> Callable[[Request], Awaitable[object]]:
    """Return a dependency that gives what the body says, read by this model."""

    async def take(request: Request) -> object:
        content, limits = await request.app.state.bodies.take(request), request.app.state.limits
        if len(content) <= _SMALL:
            return parse(model, content, limits)
        return await run_in_threadpool(parse, model, content, limits)

    return take


def describe_body(model: type[Body]) -> dict[str, object]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def parse(model: type[Body], content: bytes, limits: Limits) -> object:
    # What is not a batch has few values, and every wrong one of them takes time and space.
    most = limits.batch_elements if issubclass(model, BATCHES) else limits.elements
    check_shape(content, elements=most, depth=limits.depth)
    try:
        found = model.model_validate_json(content)
    except ValidationError as error:
        raise explain_body(model, content, error) from None
    check_names(content, found)
    return found.read()


def check_names(content: bytes, found: Body) -> None:
    """Raise if an object of the body has a name twice: which one is meant nobody knows."""
    colons = content.count(b":")  # Every name has one.
    if colons == len(found.model_fields_set):  # It is flat, and none is within a string.
        return
    entries = _count_entries(found)
    if colons == entries:
        return
    plain = content.replace(rb"\\", b"").replace(rb"\"", b"")
    if b"".join(plain.split(b'"')[::2]).count(b":") > entries:  # outside of strings
        read_object(content)


def _count_entries(value: object) -> int:
    """Return how many names the objects of a body have."""
    if isinstance(value, Body):
        names = value.model_fields_set
        count = len(names)
        for name in names:
            count += _count_entries(getattr(value, name))
        return count
    if isinstance(value, dict):
        count = len(value)
        for one in value.values():
            if type(one) in _NESTS:
                count += _count_entries(one)
        return count
    if isinstance(value, list) and value and not isinstance(value[0], (float, str)):
        return sum(map(_count_entries, value))
    return 0


def read_object(content: str | bytes) -> object:
    """Return what JSON says, or raise if an object has a name twice."""
    return json.loads(content, object_pairs_hook=_check_pairs)


def _check_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise InvalidError(f"{twice[:80]!r} is there twice in one object; give every name once")
    return found


def check_shape(content: bytes, *, elements: int, depth: int) -> None:
    """Raise if JSON holds too many values, or holds them too deep, from its bytes alone.

    Examples
    --------
    >>> check_shape(b'{"scores": [0.5, 0.25]}', elements=10, depth=2)
    >>> check_shape(b"[[[1]]]", elements=10, depth=2)
    Traceback (most recent call last):
    ...
    keyhole.errors.RefusedError: the body is nested deeper than 2; send it flatter
    """
    opened = content.count(b"[") + content.count(b"{")
    if opened < depth and opened + content.count(b",") < elements:
        return  # Counted with what is inside strings, and still little enough.
    inside, level, count = False, 0, 0
    for piece in _cut(content):
        # Without escapes every quotation mark begins or ends a string; of the rest, few bytes matter.
        plain = piece.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in piece else piece
        bare = np.frombuffer(plain.translate(None, _UNMARKED), dtype=np.uint8)
        outside = np.logical_xor.accumulate(bare == ord('"')) == inside
        opening = ((bare == ord("[")) | (bare == ord("{"))) & outside
        closing = ((bare == ord("]")) | (bare == ord("}"))) & outside
        # Every value but the first of its list or object has a comma before it.
        count += int(np.count_nonzero(((bare == ord(",")) & outside) | opening))
        if count >= elements:
            raise RefusedError(
                f"the body holds more than {elements:,} values; send smaller batches", code="too_large"
            )
        steps = opening.astype(np.int8) - closing.astype(np.int8)
        levels = level + np.cumsum(steps[steps != 0], dtype=np.int32)
        if levels.max(initial=0) > depth:
            raise RefusedError(
                f"the body is nested deeper than {depth}; send it flatter", code="too_large"
            )
        level = int(levels[-1]) if levels.size else level
        inside ^= bool(np.count_nonzero(bare == ord('"')) % 2)


def _cut(content: bytes) -> Iterator[bytes]:
    """Yield the content in pieces, none of which ends within an escape."""
    start = 0
    while start < len(content):
        end = start + _PIECE
        while content[end - 1 : end] == b"\\":
            end += 1
        yield content[start:end]
        start = end
