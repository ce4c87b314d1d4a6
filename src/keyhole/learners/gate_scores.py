"""Where the scores of a gate lie: how far from its threshold, and how high.

Scores need not be probabilities. A step of a twentieth of a logit is hardly one among scores that
spread over ten logits, and passes all of them where they lie between 0.78 and 0.79. So the threshold
moves in logits, or in the distance that half of the scores keep from it where that is less; from where
a trial would put it, while it lies higher than that.
"""

import math
from typing import Any

from keyhole.numeric import kernel

EDGE = math.log((1.0 - 1e-6) / 1e-6)  # beyond this logit a threshold is all or nothing
_FACTOR = 1.02  # by which a score moves the distance that half of them keep
_NEAREST = 0.001  # so that it can grow again after a thousand equal scores
_TENTH = 0.1  # high is what one case in ten reaches
_PACE = 0.1  # units by which high follows


@kernel
def unit(state: Any) -> float:
    """Return how many logits the threshold moves where it would move one."""
    return min(1.0, state.near[0])


@kernel
def watch_scores(state: Any, place: float) -> None:
    """Follow the distance that half of the scores keep, and the logit that one in ten reaches."""
    if state.rounds[0] == 0:
        state.high[0] = place
    if abs(place - min(state.position[0], state.high[0])) > state.near[0]:
        state.near[0] *= _FACTOR
    else:
        state.near[0] = max(_NEAREST, state.near[0] / _FACTOR)
    pace = _PACE * unit(state)
    # A pace lower than one in ten reaches: around a score that many share it would hover above them.
    reached = 1.0 if place > state.high[0] + pace else 0.0
    state.high[0] = min(EDGE, max(-EDGE, state.high[0] + pace * (reached - _TENTH)))
