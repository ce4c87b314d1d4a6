"""What could have been: the best thresholds that someone who knew every score would have played."""

from collections.abc import Callable, Sequence

import numpy as np

from keyhole.numeric import Array

Sizes = Callable[[Array], Array]


def best_threshold(scores: Array, alpha: float) -> float:
    """Return the largest threshold that misses no more than alpha of these scores."""
    allowed = int(np.floor(alpha * scores.size + 1e-9))
    return float(np.partition(scores, allowed)[allowed]) if allowed < scores.size else 1.0


def best_per_segment(scores: Array, alpha: float, changes: Sequence[int]) -> Array:
    """Return for each round the best threshold of its segment."""
    thresholds = np.empty(scores.size)
    for start, end in zip(changes, (*changes[1:], scores.size), strict=True):
        thresholds[start:end] = best_threshold(scores[start:end], alpha)
    return thresholds


def pinball(thresholds: Array, scores: Array, alpha: float) -> float:
    """Return the sum of pinball losses of thresholds kept within [0, 1]."""
    played = np.clip(thresholds, 0.0, 1.0)
    return float(np.maximum((1.0 - alpha) * (played - scores), alpha * (scores - played)).sum())


def pinball_regret(thresholds: Array, scores: Array, alpha: float) -> float:
    """Return how much more was lost than by the best fixed threshold: a quantile of the scores."""
    quantile = np.quantile(scores, alpha, method="inverted_cdf")
    return pinball(thresholds, scores, alpha) - pinball(np.full(1, quantile), scores, alpha)


def worst_window(misses: Array, length: int) -> float:
    """Return the largest share of misses in any so many rounds in a row."""
    sums = np.concatenate(([0.0], np.cumsum(misses)))
    length = min(length, misses.size)
    return float((sums[length:] - sums[:-length]).max() / length)
