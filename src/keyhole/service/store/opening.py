"""A round of a stream of any kind, of sets or of a gate: opened, and recalled from its rows."""

from typing import Any

import numpy as np

from keyhole.errors import ContextError
from keyhole.numeric import Array
from keyhole.predictor import decisions
from keyhole.predictor.context import Features, Groups, Known, read_context, show_context
from keyhole.predictor.judgements import check_judged
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, list_groups, propose
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Region
from keyhole.service.store import settings


def is_gate(setup: Setup[Any]) -> bool:
    """Return whether a stream accepts or refers, instead of proposing sets."""
    return setup.learner.rule.kind == "gate"


def read_known(setup: Setup[Any], features: Features | None, groups: Groups) -> Array:
    """Return what is known of a case as numbers, or raise; of a gate's, the groups alone."""
    if not is_gate(setup):
        return read_context(setup.learner, features, groups, names=setup.names)
    context = np.zeros(_count(setup))
    for place in decisions.find_places(setup, features, groups)[1:]:  # type: ignore[arg-type]
        context[place - 1] = 1.0
    return context


def open_round(
    setup: Setup[Any], progress: Progress, case: Case[Region], *, draw: float, context: Array
) -> Round[Any]:
    """Return the next round, open and counted."""
    if is_gate(setup):
        places = _find_places(context)
        best: Any = case
        return decisions.decide(setup, progress, best, draw=draw, places=places)
    opened = propose(setup.learner, progress, case, draw=draw, context=context)
    progress.tally.predicted += 1
    return opened


def is_awaited(setup: Setup[Any], opened: Round[Any]) -> bool:
    """Return whether a round waits for an answer: a referred case may be nobody's to judge."""
    return not is_gate(setup) or decisions.is_awaited(setup, opened.prediction)


def check_awaited(setup: Setup[Any], row: Any) -> None:
    """Raise if the round of a row was referred, and such rounds are nobody's to judge here."""
    if is_gate(setup):
        case = settings.unpack_case(setup, row.output, row.labels)
        check_judged(case.region(row.number, row.threshold), setup.regime)


def recall_round(setup: Setup[Any], row: Any) -> Round[Any]:
    """Return the open round of a row with its memo."""
    learner, case = setup.learner, settings.unpack_case(setup, row.output, row.labels)
    context = unpack_context(setup, row.context)
    region = case.region(row.number, row.threshold)
    if not is_gate(setup):
        memo = learner.unpack_memo(row.memo)
        return Round(region, case, memo, row.then, list_groups(learner, context))
    size, places = 8 * learner.memory, _find_places(context)
    memos = [learner.unpack_memo(row.memo[size * n : size * (n + 1)]) for n, _ in enumerate(places)]
    return Round(region, case, memos, row.then, places)


def pack_context(context: Array) -> bytes | None:
    """Return what is known of a case as bytes, None if nothing is asked for."""
    return context.tobytes() if context.size else None


def unpack_context(setup: Setup[Any], content: bytes | None) -> Array:
    """Return the context that ``pack_context`` wrote, or raise if it is another stream's."""
    if content is None:
        return np.zeros(_count(setup)) if is_gate(setup) else setup.learner.know_nothing()
    if len(content) != 8 * _count(setup):
        raise ContextError(
            f"{len(content)} bytes are not what is known of a case: the stream takes "
            f"{8 * _count(setup)}; restore the database from a copy"
        )
    return np.frombuffer(content)


def show_known(setup: Setup[Any], content: bytes | None) -> Known:
    """Return what was known of a case, by name."""
    context, names = unpack_context(setup, content), setup.names
    if is_gate(setup):
        return Known(groups=tuple(names.groups[place - 1] for place in _find_places(context)[1:]))
    return show_context(setup.learner, context, names)


def _count(setup: Setup[Any]) -> int:
    """Return how many numbers are known of a case."""
    return len(setup.names.groups) if is_gate(setup) else setup.learner.context


def _find_places(context: Array) -> tuple[int, ...]:
    """Return the places of a gate's states: that of all rounds, then those of the groups."""
    return (0, *(1 + np.flatnonzero(context)).tolist())
