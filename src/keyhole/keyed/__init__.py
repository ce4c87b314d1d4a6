"""Many streams of rounds, separated by a key, in any engine: a fold over events.

A fold takes the state of a key, which is a few bytes, and an event, and returns the key's next state
and the outputs. It reads no clock and writes nothing. What it returns follows from the key, the state
and the event alone: beside them it has no more than a small cache of states that it returned last. The
engine stores one value of bytes for every key, starts with ``b""``, and passes the key's events one
after the other. A key makes the same choices as ``Predictor(seed=fold.seed_of(key), ...)``.

Time comes from the events, in whole numbers of any unit. The time of a key is the latest of its events.
A round is closed by its answer, by a skip, when its lifetime is over by the key's time, or as the
oldest of too many.

**Replays.** An ask is recognised by its id while its round is open, while its round is one of the
``recall`` rounds of its key that were closed last, and once its lifetime is over by the key's time; it
then changes nothing. A replayed answer changes nothing as long as its round is not open again. An ask
that is repeated in none of these cases, that is, within its lifetime but after ``recall`` or more later
closings, counts as a new one. A closed round is remembered by the CRC-32 of its id: if ids are as good
as random, one new ask in two thousand million is mistaken for one of two closed rounds; it is reported
as repeated, and can be sent again under another id. A replayed amendment is recognised as long as it is
one of the ``recall`` closings and amendments that came last.
"""

from keyhole.keyed.columns import OutputColumns
from keyhole.keyed.events import (
    Amended,
    Answered,
    Asked,
    Elapsed,
    Event,
    Kind,
    Output,
    Outputs,
    Skipped,
)
from keyhole.keyed.fold import OPEN_LIMIT, RECALL, Fold
from keyhole.keyed.levels import LevelFold
from keyhole.keyed.make import make_fold

__all__ = [
    "OPEN_LIMIT", "RECALL", "Amended", "Answered", "Asked", "Elapsed", "Event", "Fold", "Kind",
    "LevelFold", "Output", "OutputColumns", "Outputs", "Skipped", "make_fold",
]  # fmt: skip
