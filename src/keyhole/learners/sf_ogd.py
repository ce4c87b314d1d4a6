"""Scale-free online gradient descent: steps shrink with the gradients seen so far."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._point import (
    EVERY,
    AlphaParameters,
    AlphaSettings,
    certain,
    one_number,
    prepare_alpha,
)
from keyhole.learners._rule import Rule


class SfOgdState(NamedTuple):
    """The radius, which is 1 - threshold and at least 0, and the sum of squared gradients."""

    radius: Array
    squares: Array


def start(settings: AlphaSettings) -> SfOgdState:  # noqa: ARG001
    """Return the state before the first round: threshold 1, as published."""
    return SfOgdState(np.zeros(1), np.zeros(1))


@kernel
def choose(settings: AlphaSettings, state: SfOgdState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the threshold."""
    memo[0] = max(EVERY, 1.0 - state.radius[0])
    return memo[0]


@kernel
def observe(
    settings: AlphaSettings,
    state: SfOgdState,
    memo: Array,  # noqa: ARG001
    missed: bool,
    score: float,  # noqa: ARG001
) -> None:
    """Step by gradient / sqrt(3 sum of squared gradients), the score's range being 1."""
    gradient = settings.alpha - (1.0 if missed else 0.0)
    state.squares[0] += gradient * gradient
    moved = state.radius[0] - gradient / math.sqrt(3.0 * state.squares[0])
    state.radius[0] = moved if moved > 0.0 else 0.0


sf_ogd = Rule(
    name="sf-ogd",
    needs=Needs.HIT_OR_MISS,
    parameters=AlphaParameters,
    prepare=prepare_alpha,
    start=start,
    memory=one_number,
    choose=choose,
    observe=observe,
    distribution=certain(choose, one_number),
    summary="scale-free gradient descent on the pinball loss; no step to tune",
    guarantee="pinball regret O(sqrt(T)) on any stream, at any time",
    source="Bhatnagar, Wang, Xiong and Bai (2023), arXiv 2302.07869; Orabona and Pal (2018)",
)
