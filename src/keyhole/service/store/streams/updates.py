"""A stream changed while it lives: its target, its limits, its labels, and what people say of it.

A change is an event of the log, so that a replay makes it at the same round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from keyhole.errors import InvalidError, LabelError
from keyhole.feedback import is_miss
from keyhole.predictor.setup import change_alpha
from keyhole.scores import add_labels, find_labels
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.backend import Transaction
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import OpenRow, RoundRow
from keyhole.service.store.streams import alarms, changes
from keyhole.service.store.streams.changes import Change
from keyhole.service.store.streams.settings import LABELS, check_description, check_limits
from keyhole.service.store.streams.shadows import NewShadow, add_shadow, describe, find_shadow
from keyhole.service.store.streams.stream import Stream, change_stream


@dataclass(frozen=True, kw_only=True)
class Update:
    """What is to change; None, or no labels, leaves a thing as it is."""

    alpha: float | None = None
    lifetime: float | None = None
    window: int | None = None
    labels: Sequence[str] = ()
    description: str | None = None
    retention: float | None = None  # 0 keeps what rounds hold


def update(database: Database, name: str, update: Update, *, now: float) -> tuple[Stream, list[str]]:
    """Change a stream; return it, and what each change does to the promise. Twice is once."""
    with change_stream(database, name) as work:
        stream, transaction = work.stream, work.transaction
        content = _list_changes(stream, update)
        if not content:
            return stream, []
        effects = apply(stream, content)
        if "window" in content:
            stream.recent = gather_bits(list_misses(transaction, stream.id, most=stream.window))
        changes.note(work, Change(now, changes.CHANGED, content))
        alarms.note(transaction, stream.id, stream.watch, at=now)
    return stream, effects


def _list_changes(stream: Stream, update: Update) -> dict[str, Any]:
    content = {}
    if update.alpha is not None and stream.levels:
        raise InvalidError(
            "the alphas of a stream of several levels stay as they are; make a new stream, and "
            "calibrate it from this one",
            field="alpha",
        )
    now = {
        "alpha": stream.setup.learner.alpha,
        "lifetime": stream.lifetime,
        "window": stream.window,
        "description": stream.description or "",
        "retention": stream.retention or 0.0,
    }
    for name, value in now.items():
        new = getattr(update, name)
        if new is not None and new != value:
            content[name] = new
    known = find_labels(stream.setup.score)
    if update.labels:
        if known is None:
            raise LabelError(
                "the stream takes whatever labels a prediction names; there is nothing to add"
            )
        added = [label for label in update.labels if label not in known]
        if len(known) + len(added) > LABELS:
            raise LabelError(
                f"{len(known):,} labels and {len(added):,} more are more than the {LABELS:,} that an "
                "array of scores may have; add fewer"
            )
        content.update({"labels": added} if added else {})
    check_description(content.get("description"))
    check_limits(
        lifetime=content.get("lifetime", stream.lifetime),
        window=content.get("window", stream.window),
        retention=content.get("retention"),
    )
    return content


def apply(stream: Stream, content: dict[str, Any]) -> list[str]:
    """Change all but the recent rounds as an event of the log says; return what that does."""
    effects = []
    if "alpha" in content:
        effects.append(_change_alpha(stream, content["alpha"]))
    if "lifetime" in content:
        stream.lifetime = content["lifetime"]
        effects.append(
            f"New rounds wait {stream.lifetime:,.10g} seconds; those that are open keep their time."
        )
    if "window" in content:
        stream.window = content["window"]
        effects.append("Only what is shown as recent changes; the promise and its alarm do not.")
    if "labels" in content:
        effects.append(_add_labels(stream, content["labels"]))
    if "description" in content:
        stream.description = content["description"] or None
    if "retention" in content:
        stream.retention = content["retention"] or None
        effects.append(
            "Rounds are kept for ever."
            if stream.retention is None
            else f"What rounds hold is erased {stream.retention:,.10g} seconds after they were made."
        )
    return effects


def _change_alpha(stream: Stream, alpha: float) -> str:
    old, progress = stream.setup.learner, stream.progress
    setup = change_alpha(stream.setup, alpha)
    progress.state, *progress.states = (
        setup.learner.unpack(old.pack(state)) for state in (progress.state, *progress.states)
    )
    stream.setup = setup
    if progress.watch is not None:
        progress.watch.retarget(progress.tally.calibrated + progress.tally.answered)
    stream.retargeted = stream.watch.rounds
    return (
        f"From round {stream.tally.predicted:,} on the target is {alpha:g}, before it was "
        f"{old.alpha:g}. The learner goes on from where it stands and moves to the new target; what "
        "bounds its misses counts each round against the target of its time. The alarm starts anew, "
        "and the miss rate of the whole life mixes both targets."
    )


def _add_labels(stream: Stream, labels: list[str]) -> str:
    score = add_labels(stream.setup.score, labels)
    stream.setup = replace(stream.setup, score=score)
    for shadow in stream.shadows:
        shadow.setup = replace(shadow.setup, score=score)
    count = len(find_labels(score) or ())
    return (
        f"An array of scores now has {count:,} entries, the new ones last. Sets shown before could not "
        "hold the new labels: a true label that was no candidate is a miss. The promise stays."
    )


def add(database: Database, name: str, new: NewShadow, *, now: float) -> Stream:
    with change_stream(database, name) as work:
        stream = work.stream
        shadow = add_shadow(stream.shadows, stream.setup, new, since=stream.version + 1, at=now)
        changes.note(work, Change(now, changes.SHADOWED, describe(shadow)))
    return stream


def remove(database: Database, name: str, shadow: str, *, now: float) -> Stream:
    with change_stream(database, name) as work:
        stream = work.stream
        stream.shadows.remove(find_shadow(stream.shadows, shadow))
        changes.note(work, Change(now, changes.UNSHADOWED, {"name": shadow}))
    return stream


def promote(database: Database, name: str, shadow: str, *, now: float) -> tuple[Stream, list[str]]:
    """Let a shadow choose the sets of a stream from now on; return what that does to the promise."""
    with change_stream(database, name) as work:
        stream, transaction = work.stream, work.transaction
        effect = apply_promotion(stream, shadow)
        learner = stream.setup.learner
        for kept, opened, _ in transaction.fetch(statements.LIST_OPEN_ROUNDS, stream.id):
            memo = choose_again(stream, kept, opened)
            transaction.execute(statements.REMEMBER_ROUND, memo, stream.id, kept.number)
        content = {"name": shadow, "learner": learner.name, "alpha": learner.alpha}
        changes.note(work, Change(now, changes.PROMOTED, content))
        alarms.note(transaction, stream.id, stream.watch, at=now)
    return stream, [effect]


def choose_again(stream: Stream, kept: RoundRow, opened: OpenRow) -> bytes:
    setup = stream.setup
    waiting = setup.kind.recall(setup, kept, then=opened.then)
    return setup.learner.layout.pack_memo(setup.kind.choose_again(setup, stream.progress, waiting))


def apply_promotion(stream: Stream, name: str) -> str:
    """Put a shadow in the place of the stream's learner, or raise; return what that does."""
    shadow, old, progress = find_shadow(stream.shadows, name), stream.setup, stream.progress
    if shadow.setup.context != old.context:
        raise InvalidError(
            f"{shadow.setup.learner.name} takes no features or groups, and the stream's cases come "
            "with them; make a new stream for it",
            field="shadow",
        )
    stream.shadows.remove(shadow)
    stream.setup = shadow.setup
    progress.state, progress.states = shadow.progress.state, shadow.progress.states
    if progress.watch is not None:
        progress.watch.retarget(progress.tally.calibrated + progress.tally.answered)
    stream.retargeted = stream.watch.rounds
    learner = stream.setup.learner
    return (
        f"From round {stream.tally.predicted:,} on {learner.name} chooses, at alpha {learner.alpha:g}; "
        f"before it was {old.learner.name} at {old.learner.alpha:g}. It goes on from what it learnt "
        "as a shadow. No theorem bounds the misses of two learners together; the alarm starts anew."
    )


def list_misses(transaction: Transaction, stream_id: int, *, most: int) -> list[bool]:
    """Return which of the newest answered rounds of a stream missed, the oldest first."""
    misses = transaction.fetch(statements.LIST_MISSES, stream_id, most)
    return [is_miss(miss) is True for miss in misses][::-1]


def gather_bits(misses: Sequence[int]) -> int:
    """Return misses as the bits of a number, the last one lowest."""
    return int("".join("1" if missed else "0" for missed in misses) or "0", 2)
