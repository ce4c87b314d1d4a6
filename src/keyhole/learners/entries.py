"""A rule's kernels as they are called from outside the compiled lane."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.errors import InvalidError, NotCompiledError, SpeedWarning, warn_user
from keyhole.feedback import Answer
from keyhole.numeric import Array, Function, bind, can_compile, compile_for, kernel

if TYPE_CHECKING:
    from keyhole.learners.rule import Learner, Rule

_NOTHING = np.zeros(0)
_FIRST = 50  # calls of a learner that run interpreted, before numba is imported


class Ask(NamedTuple):
    """What a rule is asked with: its draw, and what is known of the case.

    ``context`` holds the features, NaN where one is missing, and then 1 for each group that the round
    belongs to and 0 for the others; it is empty for learners that take neither.
    """

    draw: float = 0.5
    context: Array = _NOTHING


# What stands for these names is bound anew for every rule.
_choose: Any = None
_observe: Any = None
_make_settings: Any = None
_make_state: Any = None
_COUNT = 0  # of the settings, which come before the state


@kernel
def _choose_flat(parts: Any, memo: Array, draw: float, context: Array) -> float:
    settings, state = _make_settings(*parts[:_COUNT]), _make_state(*parts[_COUNT:])
    return _choose(settings, state, memo, Ask(draw, context))


@kernel
def _observe_flat(
    parts: Any,
    memo: Array,
    miss: float,
    score: float,
    age: float,
    stale: float,
    cost: float,
    weight: float,
    pace: float,
    amends: float,
) -> None:
    settings, state = _make_settings(*parts[:_COUNT]), _make_state(*parts[_COUNT:])
    _observe(settings, state, memo, Answer(miss, score, age, stale, cost, weight, pace, amends))


@kernel
def _make_tuple(*parts: object) -> Any:
    return parts


_Entries = tuple[Callable[..., float], Callable[..., None]]
_ENTRIES: dict[Any, _Entries] = {}  # by rule


def compile_learner(learner: "Learner") -> _Entries:
    """Return a rule's kernels as called from outside the compiled lane, compiled now or loaded.

    They take settings and state as one plain tuple: to hand named ones over costs more than the round.
    A rule that numba cannot compile runs interpreted.
    """
    rule = learner.rule
    known = _ENTRIES.get(rule)
    if known is not None:
        return known
    parts = (*learner.settings, *learner.start_arrays())
    memo, context = np.zeros(learner.memory), np.zeros(learner.context)
    _ENTRIES[rule] = choose, observe = _bind_plain(learner)
    samples = (0.5, context), (0.0, math.nan, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0)
    choose, observe = compile_all(
        rule, (choose, (parts, memo, *samples[0])), (observe, (parts, memo, *samples[1]))
    )
    _ENTRIES[rule] = choose, observe
    return choose, observe


def compile_all(
    rule: "Rule[...]", *calls: tuple[Callable[..., Any], tuple[object, ...]]
) -> list[Callable[..., Any]]:
    """Return functions around a rule's kernels, each compiled for its arguments where all can be."""
    if can_compile():
        try:
            return [compile_for(function, *arguments) for function, arguments in calls]
        except NotCompiledError as error:
            warn_user(f"{rule.name} runs interpreted: {error}", SpeedWarning)
    return [function for function, _ in calls]


def bind_kernels(function: Function, learner: "Learner") -> Function:
    """Return a function in which the names of kernels, settings and state are those of a learner."""
    settings = learner.settings
    return bind(
        function,
        _choose=learner.rule.choose,
        _observe=learner.rule.observe,
        _make_settings=_find_maker(settings),
        _make_state=_find_maker(learner.start_arrays()),
        _COUNT=len(settings),
    )


def _bind_plain(learner: "Learner") -> _Entries:
    """Return a rule's kernels as they are called, interpreted."""
    return bind_kernels(_choose_flat, learner), bind_kernels(_observe_flat, learner)


def _find_maker(parts: object) -> Any:
    """Return what makes settings, or a state, like these of their parts: the class of a named tuple."""
    return type(parts) if hasattr(parts, "_fields") else _make_tuple


def bind_entries(learner: "Learner") -> _Entries:
    """Return how a learner's kernels are called: interpreted for the first calls, then compiled.

    To import numba and load what is compiled takes as long as hundreds of rounds, which a process that
    plays a few does without; both lanes give the same bits.
    """
    settings, entries, plain, calls = tuple(learner.settings), _ENTRIES.get(learner.rule), None, 0

    def find_entries() -> _Entries:
        nonlocal entries, plain, calls
        calls += 1
        entries = _ENTRIES.get(learner.rule) or (compile_learner(learner) if calls > _FIRST else None)
        plain = None if entries else plain or _bind_plain(learner)
        return entries or plain  # type: ignore[return-value]

    def choose_into(state: Any, memo: Any, ask: Ask) -> float:
        draw, context = ask
        return (entries or find_entries())[0](settings + state, memo, draw, context)

    def observe(state: Any, memo: Any, answer: Answer) -> None:
        (entries or find_entries())[1](settings + state, memo, *answer)

    return choose_into, observe


def check_choice(name: str, threshold: Any) -> None:
    """Raise if what the rule of this name chose is no number: no score could be compared with it."""
    try:
        if threshold <= math.inf:  # NaN is not
            return
    except (TypeError, ValueError):
        pass  # Text, None, or an array of several.
    raise InvalidError(
        f"{name} chose {threshold!r}, which is not a threshold; let its choose return a number"
    )


def check_choices(name: str, thresholds: Array) -> None:
    """Raise if one of the thresholds that a rule chose is NaN."""
    wrong = np.flatnonzero(np.isnan(thresholds))
    if wrong.size:
        check_choice(name, float(thresholds[wrong[0]]))
