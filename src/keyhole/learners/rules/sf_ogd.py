"""Scale-free online gradient descent: steps shrink with the gradients seen so far."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import slow
from keyhole.learners.parameters import AlphaParameters
from keyhole.learners.rule import EVERY, About, Ask, Rule
from keyhole.numeric import Array, kernel


class SfOgdState(NamedTuple):
    """The radius, which is 1 - threshold and at least 0, and the sum of squared gradients."""

    radius: Array = np.zeros(1)  # threshold 1, as published
    squares: Array = np.zeros(1)


@kernel
def choose(settings: AlphaParameters, state: SfOgdState, memo: Array, ask: Ask) -> float:
    return max(EVERY, 1.0 - state.radius[0])


@kernel
def observe(settings: AlphaParameters, state: SfOgdState, memo: Array, answer: Answer) -> None:
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
    choose=choose,
    observe=observe,
    state=SfOgdState,
    about=About(
        summary="scale-free gradient descent on the pinball loss; no step to tune",
        guarantee="pinball regret O(sqrt(T)) on any sequence, at any time",
        source="Bhatnagar, Wang, Xiong and Bai (2023), arXiv 2302.07869; Orabona and Pal (2018)",
        late="a stale answer moves it less, but its early steps are long: with answers 100 rounds late "
        "sets are 20 times too large, with 1,000 thousands of times; use it only with prompt answers",
    ),
)
