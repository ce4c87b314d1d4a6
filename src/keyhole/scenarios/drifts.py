"""Synthetic scenarios whose scores drift: up, down, slowly, in waves, back and forth, or in lumps.

Scores follow beta distributions, and a set's size is 1 - threshold, as for a bounded residual.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.errors import InvalidError
from keyhole.numeric import Array

_EASY = (8.0, 2.0)
_HARD = (3.0, 3.0)
_PIECES = 10  # of a scenario that never stops drifting


@dataclass(frozen=True, eq=False)
class DriftScenario:
    """Scores, and the rounds at which their distribution changes."""

    scores: Array
    changes: tuple[int, ...]

    def sizes(self, thresholds: Array) -> Array:
        """Return 1 - threshold, kept between 0 and 1."""
        return 1.0 - np.clip(thresholds, 0.0, 1.0)


Mix = Callable[[Array], Array]
"""From the share of the scenario that is over to the share of hard rounds."""


def steady(rounds: int, *, seed: int) -> DriftScenario:
    """Return a scenario that does not drift."""
    return _mix(rounds, seed, lambda when: np.zeros_like(when), changes=1)


def fall(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores that fall at once, halfway."""
    return _mix(rounds, seed, lambda when: (when >= 0.5).astype(float), changes=2)


def rise(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores that rise at once, halfway."""
    return _mix(rounds, seed, lambda when: (when < 0.5).astype(float), changes=2)


def slope(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores that fall all the time."""
    return _mix(rounds, seed, lambda when: when, changes=_PIECES)


def waves(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores that fall and rise in five even waves."""
    return _mix(rounds, seed, lambda when: 0.5 - 0.5 * np.cos(10.0 * np.pi * when), changes=2 * _PIECES)


def seasons(rounds: int, *, seed: int) -> DriftScenario:
    """Return easy and hard rounds in turn, ten times, changing at once."""
    return _mix(rounds, seed, lambda when: np.floor(_PIECES * when) % 2, changes=_PIECES)


def lumps(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores of which a third is exactly 0.5, a tenth 0, and all are rounded to twentieths."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(*_EASY, rounds) * 20.0) / 20.0
    scores[rng.random(rounds) < 1 / 3] = 0.5
    scores[rng.random(rounds) < 0.1] = 0.0
    return DriftScenario(scores, (0,))


def _mix(rounds: int, seed: int, share: Mix, *, changes: int) -> DriftScenario:
    """Return rounds that are hard with the probability of their time."""
    if rounds < changes:
        raise InvalidError(f"{rounds} rounds are too few to drift; use at least {changes}")
    rng = np.random.default_rng(seed)
    hard = rng.random(rounds) < share(np.arange(rounds) / rounds)
    scores = np.where(hard, rng.beta(*_HARD, rounds), rng.beta(*_EASY, rounds))
    starts = tuple(-(-rounds * piece // changes) for piece in range(changes))
    return DriftScenario(scores, starts)


DRIFTS = {
    "steady": steady,
    "fall": fall,
    "rise": rise,
    "slope": slope,
    "waves": waves,
    "seasons": seasons,
    "lumps": lumps,
}
