"""Many streams of rounds, told apart by a key, in any engine's hands: a fold over events.

A fold takes a key's state, which is a few bytes, and an event, and returns the key's next state and
what is to be said. It reads no clock, writes nothing and keeps nothing: whoever runs it keeps one value
of bytes for every key, begins with ``b""``, and hands it the key's events one after the other. What a
key shows is, choice for choice, what ``Predictor(seed=fold.seed_of(key), ...)`` shows.

Time is the events' own, in whole numbers of any unit. A key's time is the latest that any of its events
had. A round is closed by its answer, by a skip, when its lifetime is over by the key's time, or as the
oldest of too many.

**Replays.** An ask is known again by its id while its round is open, while it is among the ``recall``
rounds of its key that were closed last, and once its lifetime is over by the key's time; then it
changes nothing. A replayed answer changes nothing as long as its round is not open again. An ask that
comes again in none of these cases, that is, within its lifetime but after ``recall`` or more later
closings, is taken for a new one. A closed round is remembered by the CRC-32 of its id: where ids are
as good as random, one new ask in two thousand million is taken for one of two closed rounds; it is
said to be repeated, and is new under another id.
"""

from keyhole.keyed.events import Answered, Asked, Elapsed, Event, Kind, Output, Outputs, Skipped
from keyhole.keyed.fold import OPEN_LIMIT, RECALL, Fold, make_fold

__all__ = [
    "OPEN_LIMIT",
    "RECALL",
    "Answered",
    "Asked",
    "Elapsed",
    "Event",
    "Fold",
    "Kind",
    "Output",
    "Outputs",
    "Skipped",
    "make_fold",
]
