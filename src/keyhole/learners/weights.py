"""Exponential weights: from cumulative gains to a drawn arm."""

import numpy as np

from keyhole.grid import SCAN
from keyhole.numeric import Array, exp, kernel


@kernel
def largest(values: Array) -> float:
    """Return the largest value; four lanes, because one would wait for itself."""
    a = b = c = d = values[0]
    whole = values.size // 4 * 4
    for k in range(0, whole, 4):
        a = values[k] if values[k] > a else a
        b = values[k + 1] if values[k + 1] > b else b
        c = values[k + 2] if values[k + 2] > c else c
        d = values[k + 3] if values[k + 3] > d else d
    for k in range(whole, values.size):
        a = values[k] if values[k] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@kernel
def accumulate(values: Array) -> None:
    """Replace the values by their running sums; by fours, because one chain of sums is slow."""
    total = 0.0
    whole = values.size // 4 * 4
    for k in range(0, whole, 4):
        first = values[k]
        two = first + values[k + 1]
        third = values[k + 2]
        last_two = third + values[k + 3]
        values[k] = total + first
        values[k + 1] = total + two
        values[k + 2] = total + (two + third)
        total = total + (two + last_two)
        values[k + 3] = total
    for k in range(whole, values.size):
        total += values[k]
        values[k] = total


@kernel
def weigh(gains: Array, rate: float, weights: Array) -> None:
    """Fill ``weights`` with the running sums of exp(rate (gain - largest gain))."""
    # Gains are logarithms of weights: a product of 3,000 weights overflows.
    top = largest(gains)
    for k in range(gains.size):
        weights[k] = exp(rate * (gains[k] - top))
    accumulate(weights)


@kernel
def first_above(weights: Array, share: float, floor: float, draw: float) -> int:
    """Return the first arm k with share weights[k] + floor (k + 1) above the draw."""
    low, size = 0, weights.size - 1  # The last arm is left where no other is above.
    while size > SCAN:
        half = size // 2
        middle = low + half
        low = middle if share * weights[middle - 1] + floor * middle <= draw else low
        size -= half
    below = low
    near = weights[low : low + size]
    for k in range(near.size):
        below += 1 if share * near[k] + floor * (low + k + 1) <= draw else 0
    return below


def shares(gains: Array, rate: float) -> Array:
    """Return the probabilities proportional to exp(rate gain), none of them 0."""
    weights = np.array([exp(power) for power in rate * (gains - gains.max())])
    return weights / weights.sum()
