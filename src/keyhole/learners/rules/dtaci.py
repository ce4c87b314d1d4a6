"""Dynamically-tuned ACI: levels of several speeds, weighted by their pinball losses."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.parameters import parameters, target, whole
from keyhole.learners.rule import About, Ask, Rule
from keyhole.learners.window import LIMITS, Window, add, largest_level, quantile, start_window
from keyhole.numeric import Array, Counts, exp, kernel

STEPS = tuple(0.001 * 2.0**n for n in range(8))


@parameters
class DtaciParameters:
    alpha: float = target()
    interval: int = whole("The length of the stretches on which it should do well (I).", default=500)
    window: int = whole("How many past scores to take quantiles of.", default=500, most=10**6)

    @property
    def speeds(self) -> Array:
        return np.array(STEPS)

    @property
    def sharing(self) -> float:
        """How much weight the experts share evenly each round (sigma)."""
        return 1.0 / (2.0 * self.interval)

    @property
    def rate(self) -> float:
        """How fast the weights move (eta)."""
        alpha, rest = self.alpha, 1.0 - self.alpha
        spread = rest**2 * alpha**3 + alpha**2 * rest**3
        logs = math.log(2.0 * len(STEPS) * self.interval) + 1.0
        return math.sqrt(3.0 / self.interval * logs / spread)


class DtaciState(NamedTuple):
    """Each expert's level and weight, and the past scores by size and by age."""

    levels: Array
    weights: Array
    ranked: Array
    aged: Array
    added: Counts


def start(settings: DtaciParameters) -> DtaciState:
    experts = settings.speeds.size
    return DtaciState(
        np.full(experts, settings.alpha),
        np.full(experts, 1.0 / experts),
        *start_window(settings.window),
    )


@kernel
def choose(settings: DtaciParameters, state: DtaciState, memo: Array, ask: Ask) -> float:
    """Return the quantile of the past scores at the experts' mean level."""
    level = 0.0
    for k in range(settings.speeds.size):
        level += state.weights[k] * state.levels[k]
    return quantile(Window(state.ranked, state.aged, state.added), level)


@kernel
def observe(settings: DtaciParameters, state: DtaciState, memo: Array, answer: Answer) -> None:
    """Weigh the experts by the pinball loss of their levels, and move each by its own miss."""
    scores = Window(state.ranked, state.aged, state.added)
    limit = largest_level(scores, answer.score)  # From this level on it misses.
    total = 0.0
    for k in range(settings.speeds.size):
        short = limit - state.levels[k]
        loss = settings.alpha * short - min(0.0, short)
        state.weights[k] *= exp(-settings.rate * loss)
        total += state.weights[k]
    even = settings.sharing / settings.speeds.size
    for k in range(settings.speeds.size):
        state.weights[k] = (1.0 - settings.sharing) * state.weights[k] / total + even
        own_miss = 1.0 if state.levels[k] >= limit else 0.0
        state.levels[k] += settings.speeds[k] * (settings.alpha - own_miss)
    add(scores, answer.score)


dtaci = Rule(
    name="dtaci",
    needs=Needs.LABEL_ALWAYS,
    parameters=DtaciParameters,
    choose=choose,
    observe=observe,
    state=start,
    limits=lambda _: LIMITS,
    about=About(
        summary="ACI at eight speeds, weighted by how well each level would have done",
        guarantee="regret to the best moving level on every interval of the chosen length",
        source="Gibbs and Candes (2024), arXiv 2208.08401",
    ),
)
