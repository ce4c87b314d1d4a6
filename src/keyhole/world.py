"""Runs in worlds that watch the learner, or whose answers come late, never or wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.channel import Channel, Fates, counted, heard
from keyhole.draws import draws
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import Learner
from keyhole.streams import adversaries
from keyhole.streams.adversaries import RECITE, next_score, take_note


def play(
    learner: Learner,
    kind: int,
    repertoire: Array,
    channel: Channel,
    seed: int,
    tells: tuple[bool, bool],
    groups: NDArray[np.bool_],
    thresholds: Array,
    scores: Array,
) -> None:
    """Play one run and write down the thresholds and the scores."""
    rounds = thresholds.size
    fates = channel.fates(rounds, seed=seed)
    _loop(
        learner.rule.choose,
        learner.rule.observe,
        learner.settings,
        learner.start(),
        np.tile(learner.memo(), (fates.room, 1)),
        learner.alpha,
        draws(seed, 0, rounds),
        fates,
        kind,
        adversaries.notes(),
        repertoire,
        tells,
        groups,
        thresholds,
        scores,
    )


@kernel
def _loop(
    choose: Callable[..., float],
    observe: Callable[..., None],
    settings: Any,
    state: Any,
    memos: Array,
    alpha: float,
    uniforms: Array,
    fates: Fates,
    kind: int,
    notebook: Array,
    repertoire: Array,
    tells: tuple[bool, bool],
    groups: NDArray[np.bool_],
    thresholds: Array,
    scores: Array,
) -> None:
    free = np.arange(memos.shape[0])
    slots = np.zeros(uniforms.size, dtype=np.int64)
    taken = 0
    answered = 0
    credit = 0.0
    for n in range(uniforms.size):
        slots[n] = free[taken]
        taken += 1
        memo = memos[slots[n]]
        for group in range(groups.shape[1]):
            memo[memo.size - groups.shape[1] + group] = 1.0 if groups[n, group] else 0.0
        median = choose(settings, state, memo, 0.5) if kind != RECITE else 0.5
        scores[n] = next_score(kind, notebook, repertoire, n, median, alpha)
        thresholds[n] = choose(settings, state, memo, uniforms[n])
        take_note(notebook, scores[n] < thresholds[n])
        while answered < fates.order.size and fates.arrivals[fates.order[answered]] <= n:
            past = fates.order[answered]
            credit = _answer(
                observe, settings, state, memos[slots[past]], fates, past,
                thresholds[past], scores[past], tells, credit,
            )  # fmt: skip
            taken -= 1
            free[taken] = slots[past]
            answered += 1


@kernel
def _answer(
    observe: Callable[..., None],
    settings: Any,
    state: Any,
    memo: Array,
    fates: Fates,
    number: int,
    threshold: float,
    score: float,
    tells: tuple[bool, bool],
    credit: float,
) -> float:
    """Let the learner hear of a round what its answer says, if it comes at all."""
    truly_missed = score < threshold
    chance = fates.told_if_missed if truly_missed else fates.told_if_hit
    if fates.report[number] >= chance:
        return credit
    missed, spoken = heard(fates, number, threshold, truly_missed, score)
    label_if_hit, label_if_miss = tells
    told = label_if_miss if missed else label_if_hit
    times = 1
    if fates.known:
        times, credit = counted(credit, chance)
    for _ in range(times):
        observe(settings, state, memo, missed, spoken if told else np.nan)
    return credit
