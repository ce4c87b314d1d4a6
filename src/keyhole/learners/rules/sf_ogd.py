"""Scale-free online gradient descent: steps shrink with the gradients seen so far."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.parameters import (
    AlphaParameters,
    AlphaSettings,
)
from keyhole.learners.patience import slow
from keyhole.learners.rule import EVERY, Ask, Rule
from keyhole.numeric import Array, kernel


class SfOgdState(NamedTuple):
    """The radius, which is 1 - threshold and at least 0, and the sum of squared gradients."""

    radius: Array
    squares: Array


def start(settings: AlphaSettings) -> SfOgdState:  # noqa: ARG001
    """Return the state before the first round: threshold 1, as published."""
    return SfOgdState(np.zeros(1), np.zeros(1))


@kernel
def choose(settings: AlphaSettings, state: SfOgdState, memo: Array, ask: Ask) -> float:  # noqa: ARG001
    """Return the threshold."""
    return max(EVERY, 1.0 - state.radius[0])


@kernel
def observe(
    settings: AlphaSettings,
    state: SfOgdState,
    memo: Array,  # noqa: ARG001
    answer: Answer,
) -> None:
    """Step by gradient / sqrt(3 sum of squared gradients), the score's range being 1; less if stale."""
    gradient = settings.alpha - answer.miss
    state.squares[0] += gradient * gradient
    if state.squares[0] <= 0.0:
        return  # No sum of squares: a damaged file's.
    moved = state.radius[0] - gradient / math.sqrt(3.0 * state.squares[0]) / slow(answer.stale)
    state.radius[0] = moved if moved > 0.0 else 0.0


sf_ogd = Rule(
    name="sf-ogd",
    needs=Needs.HIT_OR_MISS,
    parameters=AlphaParameters,
    settings=AlphaSettings,
    start=start,
    choose=choose,
    observe=observe,
    late="a stale answer moves it less, but its early steps are long: with answers 100 rounds late "
    "sets are 20 times too large, with 1,000 thousands of times; use it only with prompt answers",
    summary="scale-free gradient descent on the pinball loss; no step to tune",
    guarantee="pinball regret O(sqrt(T)) on any sequence, at any time",
    source="Bhatnagar, Wang, Xiong and Bai (2023), arXiv 2302.07869; Orabona and Pal (2018)",
)
