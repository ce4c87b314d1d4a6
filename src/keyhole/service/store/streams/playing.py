"""A round of a stream of any kind, of sets or of a gate: opened, recalled from its rows, answered.

In the log an answer is JSON: ``"hit"``, ``"miss"``, ``"skip"``, or an object that holds ``label``,
``score``, ``loss``, ``hit``, ``miss`` or ``right``, and beside it ``chance`` or ``wrong`` where given.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import FeedbackError, InvalidError
from keyhole.feedback import HIT, MISS
from keyhole.numeric import Array
from keyhole.predictor import decisions, rounds
from keyhole.predictor.context import (
    NOTHING_KNOWN,
    Features,
    Groups,
    Known,
    read_context,
    show_context,
)
from keyhole.predictor.judgements import check_judged
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import (
    MISSING,
    Round,
    count_answer,
    list_groups,
    propose,
    read_answer,
    settle,
)
from keyhole.predictor.setup import Setup
from keyhole.scores import Case, Kind, Region, check_output
from keyhole.service.store.streams.stream import Stream

SKIP = "skip"
_WORDS: Mapping[str, Mapping[str, Any]] = {"hit": {"hit": True}, "miss": {"miss": True}}
_ONE_OF = frozenset(("label", "hit", "miss", "score", "loss"))
_BESIDE = frozenset(("chance", "wrong"))


def is_gate(setup: Setup[Any]) -> bool:
    """Return whether a stream accepts or refers, instead of proposing sets."""
    return setup.learner.rule.kind == "gate"


def find_kind(setup: Setup[Region]) -> Kind:
    """Return what a stream proposes, and from what."""
    return setup.score.kind


def read_case(setup: Setup[Any], progress: Progress, output: Any) -> Case[Region]:
    """Return the case of a model output, or raise."""
    check_output(setup.score, output)
    case: Case[Region] = progress.read(setup.score, output)
    return case


def read_known(setup: Setup[Any], features: Features | None, groups: Groups) -> Array:
    """Return what is known of a case as numbers, or raise; of a gate's, the groups alone."""
    if features is None and not groups and not setup.learner.context and not setup.names.groups:
        return NOTHING_KNOWN
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
        case = setup.score.unpack(row.output, row.labels)
        check_judged(case.region(row.number, row.threshold), setup.feedback)


def recall_round(setup: Setup[Any], row: Any) -> Round[Any]:
    """Return the open round of a row with its memo."""
    learner = setup.learner
    if learner.rule.kind == "gate":
        case = setup.score.unpack(row.output, row.labels)
        size, places = 8 * learner.memory, _find_places(unpack_context(setup, row.context))
        memos = [learner.unpack_memo(row.memo[size * n : size * (n + 1)]) for n, _ in enumerate(places)]
        return Round(case.region(row.number, row.threshold), case, memos, row.then, places)
    is_empty = learner.runs_interpreted and not learner.memory and not row.memo
    memo = [] if is_empty else learner.unpack_memo(row.memo)
    waiting = rounds.recall_round(setup.score, row, memo=memo)
    if not learner.groups:
        return waiting
    return waiting._replace(groups=list_groups(learner, unpack_context(setup, row.context)))


def pack_context(context: Array) -> bytes | None:
    """Return what is known of a case as bytes, None if nothing is asked for."""
    return context.tobytes() if context.size else None


def unpack_context(setup: Setup[Any], content: bytes | None) -> Array:
    """Return the context that ``pack_context`` wrote, or raise if it is another stream's."""
    if content is None:
        if not _count(setup):
            return NOTHING_KNOWN
        return np.zeros(_count(setup)) if is_gate(setup) else setup.learner.make_unknown_context()
    if len(content) != 8 * _count(setup):
        raise InvalidError(
            f"{len(content)} bytes are not what is known of a case: the stream takes "
            f"{8 * _count(setup)}; restore the database from a copy",
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


class Settled(NamedTuple):
    """What a reply came to, as the log keeps it; ``miss`` is None where the round was skipped.

    ``weight`` is how many rounds it counts for.
    """

    miss: float | None
    weight: float
    score: float | None
    size: float


def is_miss(miss: float | None) -> bool | None:
    """Return whether a loss is nearer to a miss than to a hit; None if there was no answer."""
    return None if miss is None else miss >= 0.5


def settle_reply(here: Stream, waiting: Round[Region], reply: Any) -> Settled:
    """Teach the stream's state what a reply tells, or raise."""
    size = waiting.prediction.size
    if reply == SKIP:
        here.tally.skipped += 1
        return Settled(None, 0.0, None, size)
    if is_gate(here.setup):
        return _settle_judgement(here, waiting, reply)
    told = _read(reply)
    learner, number = here.setup.learner, waiting.prediction.id
    outcome = read_answer(
        learner,
        waiting,
        HIT if "hit" in told else MISS if "miss" in told else None,
        label=told.get("label", MISSING),
        score=told.get("score"),
        loss=told.get("loss"),
        wrong=told.get("wrong", 0.0),
    )
    chance = told.get("chance", 1.0)
    times = 1 if chance == 1.0 else count_answer(chance, seed=here.setup.seed, number=number)
    settle(learner, here.progress, waiting, outcome, times=times)
    note_recent(here, outcome.miss)
    score = None if math.isnan(outcome.score) else outcome.score
    return Settled(outcome.miss, float(times), score, size)


def write_reply(reply: Any) -> str:
    """Return a reply as the log keeps it."""
    if type(reply) is dict and len(reply) == 1:
        ((name, value),) = reply.items()
        if type(value) is int or type(value) is str:
            # As ``json.dumps`` does, which for an object takes five times as long.
            return f'{{"{name}": {value if type(value) is int else json.dumps(value)}}}'
    return json.dumps(reply)


def note_recent(here: Stream, miss: float | None) -> None:
    """Remember an answered round among the recent ones."""
    here.recent = (here.recent << 1 | (is_miss(miss) is True)) & ((1 << here.window) - 1)


def _settle_judgement(here: Stream, waiting: Round[Any], reply: Any) -> Settled:
    """Teach a gate's state what a judgement tells, or raise."""
    if not isinstance(reply, Mapping) or "right" not in reply or not set(reply) <= {"right", *_BESIDE}:
        raise FeedbackError(f"{reply!r} is not a judgement; give right, true or false, or skip")
    judged = decisions.judge(
        here.setup,
        here.progress,
        waiting,
        right=reply["right"],
        chance=reply.get("chance"),
        wrong=reply.get("wrong", 0.0),
    )
    decision = waiting.prediction
    if decision.accepted:
        note_recent(here, judged.miss)
    return Settled(judged.miss, judged.weight, decision.score, decision.size)


def _read(reply: Any) -> Mapping[str, Any]:
    """Return the parts of a reply, or raise unless there is one answer among them."""
    told = _WORDS.get(reply, {}) if isinstance(reply, str) else reply
    if isinstance(told, dict):
        beside = told.keys() - _ONE_OF
        if len(told) - len(beside) == 1 and beside <= _BESIDE:
            return told
    raise FeedbackError(
        f"{reply!r} is not an answer; give label, hit, miss, score, loss or skip, one of them"
    )
