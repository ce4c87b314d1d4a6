"""Functions that a compiler and an interpreter compute alike, bit for bit.

The C library's may differ in the last bit from one lane to the other; these use only operations
that IEEE 754 rounds exactly.
"""

import math

from keyhole.kernel import kernel
from keyhole.learners._weights import exp

_LN_2 = 0.6931471805599453
_HALF_ROOT = 0.7071067811865476
_SERIES = 12  # terms of the series of atanh; the next would be below 1e-18
_FRACTIONS = 14  # levels of the continued fraction of tan


@kernel
def ln(x: float) -> float:
    """Return the natural logarithm of x > 0."""
    part, power = math.frexp(x)
    if part < _HALF_ROOT:
        part *= 2.0
        power -= 1
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    total = 0.0
    for n in range(_SERIES, -1, -1):
        total = total * square + 1.0 / (2 * n + 1)
    return 2.0 * ratio * total + power * _LN_2


@kernel
def tan(x: float) -> float:
    """Return the tangent of x, for x between -pi/2 and pi/2, by its continued fraction."""
    square = x * x
    rest = 2.0 * _FRACTIONS + 1.0
    for n in range(_FRACTIONS - 1, -1, -1):
        rest = 2.0 * n + 1.0 - square / rest
    return x / rest


@kernel
def sigmoid(z: float) -> float:
    """Return 1 / (1 + e^-z)."""
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    power = exp(z)
    return power / (1.0 + power)


@kernel
def logit(share: float, edge: float) -> float:
    """Return ln(share / (1 - share)), kept between -edge and edge."""
    if share <= 0.0:
        return -edge
    if share >= 1.0:
        return edge
    z = ln(share) - ln(1.0 - share)
    return min(edge, max(-edge, z))
