"""The loops over rounds, around a learner's own kernels, compiled into one piece where they can be."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import NotCompiledError, SpeedWarning, warn_user
from keyhole.feedback import Answer, correct_wrong, count_times
from keyhole.learners import Ask, Learner, Rule
from keyhole.learners.entries import check_choice, check_choices
from keyhole.numeric import Array, bind, can_compile, compile_for, compile_function, kernel
from keyhole.predictor.draws import make_draws
from keyhole.predictor.rounds import measure_delay
from keyhole.simulation import adversaries
from keyhole.simulation.adversaries import RECITE, next_score, take_note
from keyhole.simulation.channel import Channel, Deliveries, hear

_NOTHING = np.zeros((0, 0))

# What stands for these names is bound anew for every rule.
_choose: Any = None
_observe: Any = None


def play(
    learner: Learner,
    scores: Array,
    seed: int,
    thresholds: Array,
    misses: NDArray[np.bool_],
    *,
    tells: tuple[bool, bool],
    state: Any = None,
) -> None:
    """Play one run with prompt answers and write down what was played; a given state is played on."""
    arguments = (
        learner.settings,
        learner.start_arrays() if state is None else state,
        np.zeros(learner.memory),
        _lock(scores),
        _draw(learner, seed, scores.size),
        tells,
        thresholds,
        misses,
    )
    _find_loop(learner, arguments, watched=False)(*arguments)
    check_choices(learner.name, thresholds)


def play_channel(
    learner: Learner,
    kind: int,
    repertoire: Array,
    channel: Channel,
    seed: int,
    *,
    tells: tuple[bool, bool],
    context: Array,
    thresholds: Array,
    scores: Array,
) -> None:
    """Play one run whose world may watch the learner, and whose answers may be late, lost or wrong."""
    rounds = thresholds.size
    deliveries = channel.deliver(rounds, seed=seed)
    arguments = (
        learner.settings,
        learner.start_arrays(),
        np.zeros((deliveries.room, learner.memory)),
        learner.alpha,
        _draw(learner, seed, rounds),
        deliveries,
        kind,
        adversaries.notes(),
        _lock(repertoire),
        tells,
        context,
        thresholds,
        scores,
    )
    _find_loop(learner, arguments, watched=True)(*arguments)
    check_choices(learner.name, thresholds)


def _lock(values: Array) -> Array:
    """Return a view that cannot be written to: numba compiles apart for arrays that can be."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _draw(learner: Learner, seed: int, rounds: int) -> Array:
    """Return the draws of a run; none are made for a rule that heeds none."""
    return make_draws(seed, 0, rounds) if learner.rule.draws else np.full(rounds, 0.5)


_LOOPS: dict[tuple[Rule[...], bool], Callable[..., None]] = {}


def _find_loop(learner: Learner, arguments: tuple[Any, ...], *, watched: bool) -> Callable[..., None]:
    """Return the loop around the kernels of a rule, compiled where it can be."""
    rule = learner.rule
    found = _LOOPS.get((rule, watched))
    if found is not None:
        return found
    first = Ask(0.5, learner.make_unknown_context())
    state, memo = learner.start_arrays(), np.zeros(learner.memory)
    check_choice(rule.name, rule.choose(learner.settings, state, memo, first))
    names = {"_choose": rule.choose, "_observe": rule.observe}
    plain: Callable[..., None] = bind(_loop, **names)
    if watched:
        plain = bind(_loop_channel, **names, _answer=bind(_answer, **names))
    loop = plain
    if can_compile():
        loop = compile_function(plain)
        try:
            compile_for(loop, *arguments)
        except NotCompiledError as error:
            warn_user(f"{rule.name} runs interpreted: {error}", SpeedWarning)
            loop = plain
    return _LOOPS.setdefault((rule, watched), loop)


@kernel
def _loop(
    settings: Any,
    state: Any,
    memo: Array,
    scores: Array,
    uniforms: Array,
    tells: tuple[bool, bool],
    thresholds: Array,
    misses: NDArray[np.bool_],
) -> None:
    label_if_hit, label_if_miss = tells
    for n in range(scores.size):
        threshold = _choose(settings, state, memo, Ask(uniforms[n], scores[:0]))
        missed = scores[n] < threshold
        told = label_if_miss if missed else label_if_hit
        score = scores[n] if told else np.nan
        _observe(settings, state, memo, Answer(1.0 if missed else 0.0, score, 0.0, 0.0, 0.0))
        thresholds[n] = threshold
        misses[n] = missed


@kernel
def _loop_channel(
    settings: Any,
    state: Any,
    memos: Array,
    alpha: float,
    uniforms: Array,
    deliveries: Deliveries,
    kind: int,
    notebook: Array,
    repertoire: Array,
    tells: tuple[bool, bool],
    context: Array,
    thresholds: Array,
    scores: Array,
) -> None:
    free = np.arange(memos.shape[0])
    slots = np.zeros(uniforms.size, dtype=np.int64)
    before = np.zeros(uniforms.size, dtype=np.int64)  # answers counted when a round was predicted
    taken = 0
    heard = 0  # how many answers have come or been lost
    answered = 0
    for n in range(uniforms.size):
        slots[n] = free[taken]
        before[n] = answered
        taken += 1
        memo = memos[slots[n]]
        known = context[n] if context.shape[0] > 0 else uniforms[:0]
        median = _choose(settings, state, memo, Ask(0.5, known)) if kind != RECITE else 0.5
        scores[n] = next_score(kind, notebook, repertoire, n, median, alpha)
        thresholds[n] = _choose(settings, state, memo, Ask(uniforms[n], known))
        take_note(notebook, scores[n] < thresholds[n])
        while heard < deliveries.order.size and deliveries.arrivals[deliveries.order[heard]] <= n:
            past = deliveries.order[heard]
            age, stale = measure_delay(past, before[past], n + 1, answered)
            answered += _answer(
                settings, state, memos[slots[past]], deliveries, past,
                thresholds[past], scores[past], tells, age, stale,
            )  # fmt: skip
            taken -= 1
            free[taken] = slots[past]
            heard += 1


@kernel
def _answer(
    settings: Any,
    state: Any,
    memo: Array,
    deliveries: Deliveries,
    number: int,
    threshold: float,
    score: float,
    tells: tuple[bool, bool],
    age: float,
    stale: float,
) -> int:
    """Let the learner hear of a round what its answer says; return 1, or 0 if it never comes."""
    truly_missed = score < threshold
    chance = deliveries.told_if_missed if truly_missed else deliveries.told_if_hit
    if deliveries.report[number] >= chance:
        return 0
    missed, spoken = hear(deliveries, number, threshold, truly_missed, score)
    label_if_hit, label_if_miss = tells
    told = label_if_miss if missed else label_if_hit
    times = count_times(chance, deliveries.rounding[number]) if deliveries.known else 1
    miss, known = 1.0 if missed else 0.0, spoken if told else np.nan
    if deliveries.corrected:  # on average it then tells the truth
        miss, known = correct_wrong(miss, deliveries.wrong), np.nan
    for _ in range(times):
        _observe(settings, state, memo, Answer(miss, known, age, stale, 0.0))
    return 1
