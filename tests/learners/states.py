"""States of the rules written anew, drawn from all that there may be, to play one round from each."""

import numpy as np

from keyhole.learners.rules.informed_tracker import BINS, EDGE, MOST
from tests.docs.anew import InformedTracker


def draw_informed_state(rng: np.random.Generator, anew: InformedTracker) -> None:
    """Let it be in any state: young or old, told much or little, its guards near or far."""
    alpha = anew.alpha
    anew.alpha = alpha if rng.random() < 0.8 else 0.37  # It may have been changed.
    anew.k = int(rng.choice([0, 1, 5, 9, 298, 299, 300, 4_000]))
    held = int(rng.choice([0, 1, 640, 641, 30_000, MOST - 31, MOST - 1, MOST, MOST + 1]))
    anew.bins = rng.multinomial(held, rng.dirichlet(np.full(BINS, 0.05))).tolist()
    anew.left = int(rng.choice([0, 16, 300])) if anew.k == 0 else 0
    anew.move_place()
    anew.alpha, anew.word = alpha, float(rng.choice([0.0, 0.5, 3.75, 19.99]))
    offset = float(rng.choice([0.0, rng.normal(), 40 * rng.normal()]))
    anew.x = min(max(offset, 1e-6 - EDGE), EDGE - 1e-6)
    anew.excess = float(rng.choice([0.0, rng.normal(0, 5), 150.0, -150.0, rng.normal(0, 200)]))
    anew.excess = -alpha * anew.k if rng.random() < 0.2 else anew.excess  # no miss up to now
    anew.scale, anew.level = float(rng.choice([1.0, 2.0])), int(rng.choice([0, 3, 40]))
    anew.bare, anew.told = bool(rng.random() < 0.5), int(rng.choice([0, 4, 5]))
