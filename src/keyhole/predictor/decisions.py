"""One round of a gate: what is decided, and what a judgement of it means.

The gate keeps its rounds in memory and the store keeps them in a database; both play them here.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from keyhole.feedback import Answer, GateFeedback
from keyhole.learners.entries import check_choice
from keyhole.learners.gates import ACCEPTED, CHANCE
from keyhole.predictor.judgements import (
    check_judged,
    find_groups,
    read_chance,
    read_wrong,
    refuse_features,
)
from keyhole.predictor.monitor import find_monitor
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import Round, measure_delay
from keyhole.predictor.setup import Setup
from keyhole.scores import Decision
from keyhole.scores.best import BestCase

_ALL = 0  # the place of the state that sees every round, before those of the groups


class Judged(NamedTuple):
    """What a judgement came to: 1 for wrong, 0 for right; and for how many accepted ones it counts."""

    miss: float
    weight: float


def find_places(setup: Setup[Any], features: Any, groups: Iterable[str] | None) -> tuple[int, ...]:
    """Return the places of the states that a case of these groups belongs to, or raise."""
    refuse_features(features)
    return (_ALL, *find_groups(groups, setup.names.groups))


def decide(
    setup: Setup[Any],
    progress: Progress,
    case: BestCase,
    *,
    draw: float,
    places: tuple[int, ...],
) -> Round[Any]:
    """Return the next round, decided; the progress has taken note of it."""
    learner, tally = setup.learner, progress.tally
    chosen = [learner.choose(_find_state(progress, place), draw) for place in places]
    for threshold, _ in chosen:
        check_choice(learner.name, threshold)
    decision = case.region(tally.predicted, max(threshold for threshold, _ in chosen))
    memos = [memo for _, memo in chosen]
    noted = Answer(math.nan, case.best)
    for place, memo in zip(places, memos, strict=True):
        memo[ACCEPTED], memo[CHANCE] = decision.size, 1.0
        learner.observe(_find_state(progress, place), memo, noted)
    tally.predicted += 1
    tally.size += decision.size
    shown: Any = decision
    asked: Any = case
    return Round(shown, asked, memos, tally.answered, places)


def is_awaited(setup: Setup[Any], decision: Decision) -> bool:
    """Return whether somebody may judge a decision."""
    return decision.accepted or setup.feedback != GateFeedback.ACCEPTED


def judge(
    setup: Setup[Any],
    progress: Progress,
    waiting: Round[Any],
    *,
    right: Any,
    chance: float | None,
    wrong: float,
) -> Judged:
    """Teach the progress whether the answer of a round was right, or raise, unchanged."""
    decision: Any = waiting.prediction
    check_judged(decision, setup.feedback)
    share = read_chance(chance, decision, setup.feedback)
    miss = read_wrong(right, wrong)
    learner, tally = setup.learner, progress.tally
    age, stale = measure_delay(decision.id, waiting.then, tally.predicted, tally.answered)
    heard = Answer(miss, decision.score, age, stale)
    for place, memo in zip(waiting.groups, waiting.memo, strict=True):
        memo[CHANCE] = share
        learner.observe(_find_state(progress, place), memo, heard)
    judged = Judged(miss, 1.0 / share if decision.accepted else 0.0)
    tally.answered += 1
    if decision.accepted:
        tally.misses += miss / share
        tally.weight += judged.weight
        for place in waiting.groups[1:]:
            tally.members[place - 1][0] += judged.weight
            tally.members[place - 1][1] += miss / share
        if progress.watch is not None:
            find_monitor(learner.alpha).observe(progress.watch, miss)
    return judged


def _find_state(progress: Progress, place: int) -> Any:
    return progress.state if place == _ALL else progress.states[place - 1]
