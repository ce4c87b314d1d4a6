"""The quantile tracker: after a miss the threshold falls, after a hit it rises a little."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from keyhole.feedback import Needs
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners._point import certain, checked_positive, checked_start, held_threshold, one_number
from keyhole.learners._rule import Excess, Rule, checked_alpha


@dataclass(frozen=True, kw_only=True)
class TrackerParameters:
    """The parameters of the tracker.

    Parameters
    ----------
    alpha
        Target miss rate, between 0 and 1/2.
    step
        How far a miss lowers the threshold, for a step of 1 - alpha; a hit raises it by alpha.
    start
        The first threshold.
    """

    alpha: float
    step: float = 0.005
    start: float = 0.5
    horizon: ClassVar[None] = None

    def __post_init__(self) -> None:
        set_once = object.__setattr__
        set_once(self, "alpha", checked_alpha(self.alpha))
        set_once(self, "step", checked_positive(self.step, "step", "try 0.005"))
        set_once(self, "start", checked_start(self.start))


class TrackerSettings(NamedTuple):
    """The numbers the kernels read."""

    alpha: float
    step: float
    start: float


class TrackerState(NamedTuple):
    """The threshold; it may leave [0, 1], and is never clipped."""

    threshold: Array


def prepare(parameters: TrackerParameters) -> TrackerSettings:
    """Return the numbers the kernels read."""
    return TrackerSettings(parameters.alpha, parameters.step, parameters.start)


def start(settings: TrackerSettings) -> TrackerState:
    """Return the state before the first round."""
    return TrackerState(np.array([settings.start]))


@kernel
def observe(
    settings: TrackerSettings,
    state: TrackerState,
    memo: Array,  # noqa: ARG001
    missed: bool,
    score: float,  # noqa: ARG001
) -> None:
    """Step against the gradient of the pinball loss, which is miss - alpha."""
    state.threshold[0] -= settings.step * ((1.0 if missed else 0.0) - settings.alpha)


def excess(parameters: TrackerParameters, rounds: int) -> Excess:  # noqa: ARG001
    """Return the bounds; the threshold tells the excess, and stays within a step of [0, 1].

    At or below 0 it cannot miss, and above 1 it must.
    """
    p = parameters
    return Excess(least=-(1.0 - p.start) / p.step - p.alpha, most=p.start / p.step + (1.0 - p.alpha))


tracker = Rule(
    name="tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=TrackerParameters,
    prepare=prepare,
    start=start,
    memory=one_number,
    choose=held_threshold,
    observe=observe,
    distribution=certain(held_threshold, one_number),
    summary="one step down after a miss, a small one up after a hit: ACI on the threshold itself",
    guarantee="|miss rate - alpha| <= (max(start, 1 - start) + step) / (step T) on any stream",
    source="Gibbs and Candes (2021), arXiv 2106.00170; Angelopoulos et al. (2023), arXiv 2307.16895",
    excess=excess,
)
