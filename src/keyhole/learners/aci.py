"""Adaptive conformal inference on the level: quantiles of past scores, the level steered by misses.

The score of a miss is not seen; the threshold it fell short of stands in for it.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import _window
from keyhole.learners._point import certain, checked_count, checked_positive, one_number
from keyhole.learners._rule import Excess, Rule, checked_alpha
from keyhole.learners._window import Window


@dataclass(frozen=True, kw_only=True)
class AciParameters:
    """The parameters of ACI.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    step
        How fast the level moves (gamma).
    window
        How many past scores to take quantiles of.
    """

    alpha: float
    step: float = 0.005
    window: int = 500
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "step", checked_positive(self.step, "step", "try 0.005"))
        set_once(self, "window", checked_count(self.window, "window", "try 500"))


class AciSettings(NamedTuple):
    """The numbers the kernels read."""

    alpha: float
    step: float
    window: int


class AciState(NamedTuple):
    """The level, and the past scores by size and by age."""

    level: Array
    ranked: Array
    aged: Array
    added: NDArray[np.int64]


def prepare(parameters: AciParameters) -> AciSettings:
    """Return the numbers the kernels read."""
    return AciSettings(parameters.alpha, parameters.step, parameters.window)


def start(settings: AciSettings) -> AciState:
    """Return the state before the first round: no scores, hence every label."""
    return AciState(np.array([settings.alpha]), *_window.start(settings.window))


@kernel
def choose(settings: AciSettings, state: AciState, memo: Array, draw: float) -> float:  # noqa: ARG001
    """Return the quantile of the past scores at the present level."""
    scores = Window(state.ranked, state.aged, state.added)
    memo[0] = _window.quantile(scores, state.level[0])
    return memo[0]


@kernel
def observe(settings: AciSettings, state: AciState, memo: Array, missed: bool, score: float) -> None:
    """Move the level by step (alpha - miss), and keep the score or what stands in for it."""
    state.level[0] += settings.step * (settings.alpha - (1.0 if missed else 0.0))
    known = min(memo[0], 1.0) if missed else score
    _window.add(Window(state.ranked, state.aged, state.added), known)


def excess(parameters: AciParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds: the level is alpha - step excess; at 0 it cannot miss, at 1 it must."""
    p = parameters
    return Excess(least=-(1.0 - p.alpha) / p.step - p.alpha, most=p.alpha / p.step + (1.0 - p.alpha))


aci = Rule(
    name="aci",
    needs=Needs.LABEL_IF_HIT,
    parameters=AciParameters,
    prepare=prepare,
    start=start,
    memory=one_number,
    choose=choose,
    observe=observe,
    distribution=certain(choose, one_number),
    summary="a quantile of the last 500 scores, its level steered by the misses",
    guarantee="|miss rate - alpha| <= (1 - alpha + step) / (step T) on any stream",
    source="Gibbs and Candes (2021), arXiv 2106.00170; missed scores imputed here",
    excess=excess,
)
