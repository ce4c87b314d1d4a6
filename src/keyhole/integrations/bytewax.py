"""Streams by the million on Bytewax, which is Python and needs no Java (extra ``bytewax``).

``streams`` is an operator: events of keys in, outputs out. Bytewax keeps each key's state, a few bytes,
in its recovery store, and goes on from there after a crash.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from keyhole.errors import MissingExtraError
from keyhole.keyed import Elapsed, Event, Fold, Output, Outputs

try:
    import bytewax.operators as op
    from bytewax.dataflow import operator
    from bytewax.operators import KeyedStream, StatefulBatchLogic
except ImportError:
    raise MissingExtraError(
        "Bytewax is not installed; pip install 'keyhole-conformal[bytewax]'"
    ) from None

__all__ = ["streams"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
Keyed = tuple[str, Event]
State = tuple[str, bytes]


def read_clock() -> datetime:
    return datetime.now(UTC)


class KeyLogic(StatefulBatchLogic[Keyed, Output, State]):
    """A key's state between its events; the key is part of it, since Bytewax does not say it."""

    def __init__(self, fold: Fold, clock: Callable[[], datetime], state: State | None) -> None:
        self._fold, self._clock = fold, clock
        self._key, self._state = state or ("", b"")

    def on_batch(self, values: list[Keyed]) -> tuple[Outputs, bool]:
        self._key = values[0][0]
        return self._run([event for _, event in values])

    def on_notify(self) -> tuple[Outputs, bool]:
        return self._run([Elapsed((self._clock() - _EPOCH) // _MS)])

    def _run(self, events: list[Event]) -> tuple[Outputs, bool]:
        self._state, outputs = self._fold.run(self._key, self._state, events)
        return outputs, StatefulBatchLogic.RETAIN

    def notify_at(self) -> datetime | None:
        due = self._fold.next_due(self._state)
        return None if due is None else _EPOCH + due * _MS

    def snapshot(self) -> State:
        return self._key, self._state


@operator
def streams(
    step_id: str,  # noqa: ARG001 - the decorator's
    up: KeyedStream[Event],
    fold: Fold,
    clock: Callable[[], datetime] = read_clock,
) -> KeyedStream[Output]:
    """Return the outputs of keyed events, every key learning from its own answers.

    Parameters
    ----------
    step_id
        The name of the step in the dataflow.
    up
        Events (``keyhole.keyed.Asked``, ``Answered``, ``Skipped``) by key; ``at`` is in milliseconds
        since 1970, UTC. Those of a key must come in their order.
    fold
        How rounds are played, from ``keyhole.keyed.make_fold``.
    clock
        Says the time when Bytewax wakes a key because the lifetime of one of its rounds may be over.
    """
    named = op.map("name", up, lambda pair: (pair[0], pair))
    return op.stateful_batch("fold", named, partial(KeyLogic, fold, clock))
