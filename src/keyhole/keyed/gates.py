"""The state of a key whose rounds are decisions of a gate, and its open rounds, as bytes.

Beside the version and the rule come how many closed rounds are remembered, the time, the length of the
progress and the progress itself, as a gate's file has it; then the ids of the remembered rounds and the
open ones, as in the state of a key of sets. A decision changes the state and waits only if it may be
judged. What an open one remembers stands before its score: its groups, and of all rounds and of each
group the rule's memo.
"""

import struct
from typing import Any

from keyhole.errors import InvalidError, SnapshotError
from keyhole.keyed.state import (
    DIGEST,
    KeyState,
    OpenRound,
    number_rule,
    pack_open,
    refuse_version,
    unpack_open,
)
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round
from keyhole.predictor.setup import Setup

VERSION = 8  # Those of keys of sets begin with another number.
_HEAD = struct.Struct("<BBB6sI")
_COUNT = struct.Struct("<H")


def pack(key: KeyState, setup: Setup[Any]) -> bytes:
    """Return the state of a key as bytes; equal states give equal bytes."""
    progress = key.progress.pack(setup.learner)
    time = key.clock.to_bytes(6, "little", signed=True)
    rule = number_rule(setup.learner.rule.name)
    head = _HEAD.pack(VERSION, len(key.closed) // DIGEST, rule, time, len(progress))
    return head + progress + key.closed + pack_open(key)


def unpack(content: bytes, setup: Setup[Any]) -> KeyState:
    """Return the state that ``pack`` wrote, or raise ``SnapshotError``."""
    try:
        version, closed, rule, time, length = _HEAD.unpack_from(content)
        if version != VERSION:
            raise refuse_version(version, VERSION)
        if rule != number_rule(setup.learner.rule.name):
            raise SnapshotError(
                f"a key's state is of another rule than {setup.learner.rule.name}; go on with that "
                "one, or start the keys afresh"
            )
        end = _HEAD.size + length
        last = end + DIGEST * closed
        progress: Any = Progress.unpack(content[_HEAD.size : end], setup=setup)
        waiting, count, earliest = unpack_open(content[last:])
    except (struct.error, InvalidError) as error:
        raise SnapshotError(
            f"{len(content)} bytes are no key's state ({error}); restore a copy"
        ) from None
    if len(content) < last:
        raise SnapshotError(f"{len(content)} bytes of a key's state are cut short; restore a copy")
    clock = int.from_bytes(time, "little", signed=True)
    return KeyState(progress, clock, content[end:last], waiting, count, earliest)


def pack_known(setup: Setup[Any], opened: Round[Any]) -> bytes:
    """Return what an open decision remembers: its groups and memos."""
    groups = opened.groups
    numbers = struct.pack(f"<{len(groups)}H", *groups)
    memos = b"".join([setup.learner.pack_memo(memo) for memo in opened.memo])
    return _COUNT.pack(len(groups)) + numbers + memos


def recall(setup: Setup[Any], waiting: OpenRound) -> Round[Any]:
    """Return an open decision again, to be judged; or raise."""
    content = waiting.output
    try:
        (count,) = _COUNT.unpack_from(content)
        groups = struct.unpack_from(f"<{count}H", content, _COUNT.size)
        begin = _COUNT.size * (1 + count)
        end = begin + setup.kind.measure_memo(setup, count)
        memos = setup.kind.unpack_memo(setup, content[begin:end], count)
        case: Any = setup.score.unpack(content[end:], waiting.labels)
    except (struct.error, InvalidError, ValueError, LookupError) as error:
        raise SnapshotError(
            f"an open decision of a key is not to be read ({error}); restore its state from a copy"
        ) from None
    if any(group >= setup.groups for group in groups):
        raise SnapshotError(
            f"an open decision of a key is of groups {groups}, and there are {setup.groups}; restore "
            "its state from a copy"
        )
    shown = case.region(waiting.number, waiting.threshold)
    return Round(shown, case, memos, waiting.then, groups)
