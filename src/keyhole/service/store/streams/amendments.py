"""A stream changed while it lives: its target, its limits, its labels, and what people say of it.

A change is an event of the log, so that a replay makes it at the same round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keyhole.errors import LabelError
from keyhole.feedback import is_miss
from keyhole.predictor.setup import change_alpha
from keyhole.scores import Probabilities, find_labels
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import alarms, changes, stream
from keyhole.service.store.streams.settings import LABELS, check_description, check_limits
from keyhole.service.store.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Amendment:
    """What is to change; None, or no labels, leaves a thing as it is."""

    alpha: float | None = None
    lifetime: float | None = None
    window: int | None = None
    labels: Sequence[str] = ()
    description: str | None = None


def amend(
    database: Database, name: str, amendment: Amendment, *, now: float
) -> tuple[Stream, list[str]]:
    """Change a stream; return it, and what each change does to the promise. Twice is once."""
    with database.write() as transaction:
        here = stream.lock(transaction, name)
        content = _list_changes(here, amendment)
        if not content:
            return here, []
        was_on = bool(here.watch.alarm)
        effects = apply(
            here, content, read_recent=lambda count: _read_recent(transaction, here.id, count)
        )
        changes.note(transaction, here, kind=changes.CHANGED, content=content, now=now)
        if was_on and not here.watch.alarm:
            alarms.note(transaction, here.id, here.watch, at=now)
        stream.write(transaction, here)
    return here, effects


def _list_changes(here: Stream, amendment: Amendment) -> dict[str, Any]:
    """Return what would be other than it is, as the log keeps it, or raise."""
    content: dict[str, Any] = {}
    now = {
        "alpha": here.setup.learner.alpha,
        "lifetime": here.lifetime,
        "window": here.window,
        "description": here.description or "",
    }
    for name, value in now.items():
        wanted = getattr(amendment, name)
        if wanted is not None and wanted != value:
            content[name] = wanted
    known = find_labels(here.setup.score)
    if amendment.labels:
        if known is None:
            raise LabelError(
                "the stream takes whatever labels a prediction names; there is nothing to add"
            )
        added = [label for label in amendment.labels if label not in known]
        if len(known) + len(added) > LABELS:
            raise LabelError(
                f"{len(known):,} labels and {len(added):,} more are more than the {LABELS:,} that an "
                "array of scores may have; add fewer"
            )
        content.update({"labels": added} if added else {})
    check_description(content.get("description"))
    check_limits(
        lifetime=content.get("lifetime", here.lifetime), window=content.get("window", here.window)
    )
    return content


def apply(here: Stream, content: dict[str, Any], *, read_recent: Callable[[int], int]) -> list[str]:
    """Change a stream as an event of its log says; return what that does to the promise."""
    effects = []
    if "alpha" in content:
        effects.append(_change_alpha(here, content["alpha"]))
    if "lifetime" in content:
        here.lifetime = content["lifetime"]
        effects.append(
            f"New rounds wait {here.lifetime:,.10g} seconds; those that are open keep their time."
        )
    if "window" in content:
        here.window = content["window"]
        here.recent = read_recent(here.window)
        effects.append("Only what is shown as recent changes; the promise and its alarm do not.")
    if "labels" in content:
        effects.append(_add_labels(here, content["labels"]))
    if "description" in content:
        here.description = content["description"] or None
    return effects


def _change_alpha(here: Stream, alpha: float) -> str:
    old, progress = here.setup.learner, here.progress
    setup = change_alpha(here.setup, alpha)
    progress.state, *progress.states = (
        setup.learner.unpack(old.pack(state)) for state in (progress.state, *progress.states)
    )
    here.setup = setup
    if progress.watch is not None:
        if progress.watch.alarm:
            progress.watch.cleared = progress.watch.rounds
        progress.watch.begin_anew()
    here.retargeted = here.watch.rounds
    return (
        f"From round {here.tally.predicted:,} on the target is {alpha:g}, before it was {old.alpha:g}. "
        "The learner goes on from where it stands and moves to the new target; what bounds its misses "
        "counts each round against the target of its time. The alarm starts anew, and the miss rate of "
        "the whole life mixes both targets."
    )


def _add_labels(here: Stream, labels: list[str]) -> str:
    score = here.setup.score
    if not isinstance(score, Probabilities) or score.labels is None:
        raise LabelError("the stream has no labels of its own; there is nothing to add to")
    here.setup = replace(here.setup, score=replace(score, labels=(*score.labels, *labels)))
    count = len(score.labels) + len(labels)
    return (
        f"An array of scores now has {count:,} places, the new ones last. Sets shown before could not "
        "hold the new labels: a true label that was no candidate is a miss. The promise stays."
    )


def _read_recent(transaction: Transaction, wanted: int, count: int) -> int:
    """Return the newest answers as bits, 1 for a miss, from the log."""
    return gather_bits(list_misses(transaction, wanted, most=count))


def list_misses(transaction: Transaction, wanted: int, *, most: int) -> list[bool]:
    """Return which of the newest answered rounds of a stream missed, the oldest first."""
    misses = transaction.fetch(statements.LIST_MISSES, wanted, most)
    return [is_miss(miss) is True for miss in misses][::-1]


def gather_bits(misses: Sequence[int]) -> int:
    """Return misses as the bits of a number, the last one lowest."""
    return int("".join("1" if missed else "0" for missed in misses) or "0", 2)
