"""Worlds that watch: each sees how likely the learner is to play any threshold, not its draw.

A learner's threshold never falls as its draw rises, so that the threshold of draw 1/2 is the median
of those it may play; that is what an adversary asks for.
"""

from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.numeric import Array, kernel

RECITE = 0  # the kind that heeds nobody
_BELOW, _LURE, _ALTERNATE = 1, 2, 3
_PHASE, _SINCE, _RECENT = 0, 1, 2
_NOTES = 3
_PATIENCE = 2_000  # rounds after which a lure or a strike ends, whether it worked or not
_MEMORY = 100.0  # rounds over which the alternating adversary averages misses
_ADAPTED = 0.03


class Adversary(NamedTuple):
    kind: int
    about: str


ADVERSARIES = {
    "just-below": Adversary(_BELOW, "the score lies just below the median threshold"),
    "lure-and-strike": Adversary(_LURE, "scores of 1 until the learner is high, then of 0"),
    "alternating": Adversary(_ALTERNATE, "easy or hard rounds, changed once it has adapted"),
}


def find(name: str) -> Adversary:
    if name not in list(ADVERSARIES):  # A list tells names from what cannot be one.
        raise InvalidError(f"there is no adversary {name!r}; there are {', '.join(ADVERSARIES)}")
    return ADVERSARIES[name]


def repertoire(rounds: int, *, seed: int) -> Array:
    """Return the scores of easy rounds (row 0) and of hard ones (row 1)."""
    rng = np.random.default_rng(seed)
    return np.stack((rng.beta(8.0, 2.0, rounds), rng.beta(3.0, 3.0, rounds)))


def notes() -> Array:
    return np.zeros(_NOTES)


@kernel
def next_score(
    kind: int,
    notebook: Array,
    repertoire: Array,
    number: int,
    median: float,
    alpha: float,
) -> float:
    if kind == RECITE:
        return repertoire[0, number]
    if kind == _BELOW:
        return max(0.0, min(1.0, median) - 1e-9)
    if kind == _LURE:
        return _lure(notebook, median)
    return _alternate(notebook, repertoire, number, alpha)


@kernel
def _lure(notebook: Array, median: float) -> float:
    striking = notebook[_PHASE] > 0.0
    done = median <= 0.0 if striking else median > 0.95
    if done or notebook[_SINCE] >= _PATIENCE:
        striking = not striking
        notebook[_PHASE] = 1.0 if striking else 0.0
        notebook[_SINCE] = 0.0
    notebook[_SINCE] += 1.0
    return 0.0 if striking else 1.0


@kernel
def _alternate(notebook: Array, repertoire: Array, number: int, alpha: float) -> float:
    settled = notebook[_SINCE] >= 2.0 * _MEMORY
    if settled and abs(notebook[_RECENT] - alpha) < _ADAPTED:
        notebook[_PHASE] = 1.0 - notebook[_PHASE]
        notebook[_SINCE] = 0.0
    notebook[_SINCE] += 1.0
    return repertoire[int(notebook[_PHASE]), number]


@kernel
def take_note(notebook: Array, missed: bool) -> None:  # noqa: FBT001
    """Remember a round's outcome, of which an adversary sees the truth at once."""
    notebook[_RECENT] += ((1.0 if missed else 0.0) - notebook[_RECENT]) / _MEMORY
