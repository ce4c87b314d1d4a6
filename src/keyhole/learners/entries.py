"""A rule's kernels as they are called from outside the compiled lane."""

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyhole.errors import NotCompiledError, SpeedWarning
from keyhole.feedback import Answer
from keyhole.numeric import Array, bind, can_compile, compile_for, compiled, kernel

if TYPE_CHECKING:
    from keyhole.learners.rule import Learner

_NOTHING = np.zeros(0)


class Ask(NamedTuple):
    """What a rule is asked with: its draw, and what is known of the case.

    ``context`` holds the features, NaN where one is missing, and then 1 for each group that the round
    belongs to and 0 for the others; it is empty for learners that take neither.
    """

    draw: float = 0.5
    context: Array = _NOTHING


@kernel
def _choose_flat(settings: Any, state: Any, memo: Array, draw: float, context: Array) -> float:
    return choose(settings, state, memo, Ask(draw, context))  # type: ignore[name-defined] # noqa: F821


@kernel
def _observe_flat(
    settings: Any,
    state: Any,
    memo: Array,
    miss: float,
    score: float,
    age: float,
    stale: float,
    cost: float,
) -> None:
    observe(settings, state, memo, Answer(miss, score, age, stale, cost))  # type: ignore[name-defined] # noqa: F821


_Entries = tuple[Callable[..., float], Callable[..., None]]
_ENTRIES: dict[Any, _Entries] = {}  # by rule


def compile_learner(learner: "Learner") -> _Entries:
    """Return a rule's kernels as called from outside the compiled lane, compiled now or loaded.

    Named tuples are unpacked there: to hand one over costs more than the round. A rule that numba
    cannot compile runs interpreted.
    """
    rule = learner.rule
    known = _ENTRIES.get(rule)
    if known is not None:
        return known
    plain = bind(_choose_flat, choose=rule.choose), bind(_observe_flat, observe=rule.observe)
    state, memo = learner.start_arrays(), np.zeros(learner.memory)
    context = np.zeros(learner.context)
    samples = (0.5, context), (0.0, math.nan, 0.0, 0.0, 0.0)
    _ENTRIES[rule] = plain
    if can_compile():
        made: _Entries = compiled(plain[0]), compiled(plain[1])
        try:
            for entry, sample in zip(made, samples, strict=True):
                compile_for(entry, learner.settings, state, memo, *sample)
            _ENTRIES[rule] = made
        except NotCompiledError as error:
            warnings.warn(f"{rule.name} runs interpreted: {error}", SpeedWarning, stacklevel=3)
    return _ENTRIES[rule]
