"""What a smaller set would save, in the currency of misses.

Sets are best if the density of truths in a band above the threshold is everywhere the same in
proportion to the size that the band costs.
"""

from keyhole.feedback import Answer
from keyhole.numeric import Array, exp, kernel

_COSTS = 500  # rounds over which the usual cost of a band is averaged
_DEAREST = 10.0  # as many times the usual cost counts at most
_STRETCH, _NARROWEST, _WIDEST = 0.2, 0.02, 5.0


@kernel
def weigh_size(
    band: Array, cost: Array, alpha: float, rounds: int, above: float, answer: Answer
) -> float:
    """Return whether the truth lay in the band below ``above``, less alpha by what the band costs."""
    in_band = 1.0 if answer.miss == 0.0 and answer.score < above else 0.0
    cost[0] += (answer.cost - cost[0]) / min(rounds + 1, _COSTS)
    dear = min(answer.cost / cost[0], _DEAREST) if cost[0] > 0.0 else 1.0
    # exp is for numbers up to 0.
    shrunk, grown = exp(-_STRETCH * (1.0 - alpha)), 1.0 / exp(-_STRETCH * alpha)
    wide = band[0] * (shrunk if in_band > 0.0 else grown)
    band[0] = min(max(wide, _NARROWEST), _WIDEST)
    return in_band - alpha * dear
