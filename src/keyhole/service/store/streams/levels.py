"""Several levels: a stream whose rounds show nested sets or intervals, each with a promise of its own.

The stream's own learner is that of the smallest alpha; those of the others are kept like shadows. Each
hears the outcome of what it chose itself, and its figures are those of a stream of that alpha alone.
What is shown is nested: a level shows what the inner ones chose where that is more, which can only
prevent misses. The log keeps what each chose; what was shown follows from it.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from keyhole.errors import FeedbackError
from keyhole.learners import Learner
from keyhole.predictor.monitor import Watch
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Region
from keyhole.service.store.sql.schema import AmendmentRow, AnswerRow, RoundRow
from keyhole.service.store.streams.shadows import Shadow, start_shadow

if TYPE_CHECKING:
    from keyhole.service.store.streams.stream import Stream

MOST = 10
_TELLS_ALL = {"label", "score", "miss", "chance"}


def start_levels(setup: Setup[Region], learners: Sequence[Learner], *, at: float) -> list[Shadow]:
    """Return the inner levels of a new stream; they come after its making, in the log."""
    return [
        start_shadow(setup, one, name=f"{one.alpha:g}", since=since, at=at, is_level=True)
        for since, one in enumerate(learners, start=1)
    ]


def check_answer(answer: Any) -> None:
    """Raise unless an answer tells the outcome of every level."""
    names = {answer} if isinstance(answer, str) else set(answer)
    if names - _TELLS_ALL:
        raise FeedbackError(
            f"{sorted(names - _TELLS_ALL)[0]} is about the outermost level only: it does not say "
            "which of the inner levels contain the truth; give label, score, or miss if the outermost "
            "one misses"
        )


def list_watches(stream: "Stream") -> list[Watch]:
    """Return what watches the promise of each level."""
    return [stream.watch, *(one.progress.watch or Watch() for one in stream.levels)]


def unpack_reals(content: bytes | None) -> tuple[float, ...]:
    return struct.unpack(f"<{len(content) // 8}d", content) if content else ()


def list_outcomes(row: AnswerRow | AmendmentRow) -> list[tuple[float, float]]:
    """Return the miss and the size of what each inner level chose."""
    found = unpack_reals(row.levels)
    return list(zip(found[::2], found[1::2], strict=True))


def show_regions(case: Case[Region], row: RoundRow) -> tuple[Region, ...]:
    """Return what a round showed on each level: what the lowest threshold from there inwards gives."""
    if row.levels is None:
        return (case.region(row.number, row.threshold),)
    thresholds = (row.threshold, *unpack_reals(row.levels))
    shown = list(accumulate(reversed(thresholds), min))[::-1]
    return tuple(case.region(row.number, threshold) for threshold in shown)


def show_misses(row: AnswerRow | AmendmentRow) -> Sequence[float | None]:
    """Return what an answer came to on each level: what was shown misses if all that it holds do."""
    if row.levels is None or row.miss is None:
        return [row.miss]
    own = [row.miss, *(miss for miss, _ in list_outcomes(row))]
    return list(accumulate(reversed(own), min))[::-1]
