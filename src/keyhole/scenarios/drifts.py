"""Synthetic scenarios whose scores drift: up, down, slowly, in waves, back and forth, or in lumps.

Scores follow beta distributions, and a set's size is 1 - threshold, as for a bounded residual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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
    changes: tuple[int, ...] = (0,)

    def sizes(self, thresholds: Array) -> Array:
        return 1.0 - np.clip(thresholds, 0.0, 1.0)


def lumps(rounds: int, *, seed: int) -> DriftScenario:
    """Return scores of which a third is exactly 0.5, a tenth 0, and all are rounded to twentieths."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(*_EASY, rounds) * 20.0) / 20.0
    scores[rng.random(rounds) < 1 / 3] = 0.5
    scores[rng.random(rounds) < 0.1] = 0.0
    return DriftScenario(scores)


def _mix(rounds: int, *, seed: int, share: Callable[[Array], Array], changes: int) -> DriftScenario:
    """Return rounds that are hard with a probability: the share, of the share that is over."""
    if rounds < changes:
        raise InvalidError(f"{rounds} rounds are too few to drift; use at least {changes}")
    rng = np.random.default_rng(seed)
    hard = rng.random(rounds) < share(np.arange(rounds) / rounds)
    scores = np.where(hard, rng.beta(*_HARD, rounds), rng.beta(*_EASY, rounds))
    starts = tuple(-(-rounds * piece // changes) for piece in range(changes))
    return DriftScenario(scores, starts)


steady = partial(_mix, share=np.zeros_like, changes=1)
DRIFTS: dict[str, Callable[..., DriftScenario]] = {
    "steady": steady,
    "fall": partial(_mix, share=lambda over: (over >= 0.5).astype(float), changes=2),
    "rise": partial(_mix, share=lambda over: (over < 0.5).astype(float), changes=2),
    "slope": partial(_mix, share=lambda over: over, changes=_PIECES),
    "waves": partial(
        _mix, share=lambda over: 0.5 - 0.5 * np.cos(10.0 * np.pi * over), changes=2 * _PIECES
    ),
    "seasons": partial(_mix, share=lambda over: np.floor(_PIECES * over) % 2, changes=_PIECES),
    "lumps": lumps,
}
