"""Sets and intervals of rounds as numbers: where they end, and what an answer says of them."""

import numpy as np

from keyhole.keyed.event_table import (
    BANDS,
    BOTH,
    BOUNDED,
    HIT,
    LABEL,
    LABELS,
    LOWER,
    MISS,
    PLACE,
    SCORE,
    TOLD,
    UPPER,
)
from keyhole.keyed.packed import (
    ENDLESS,
    FIRST,
    OUTPUTS,
    ROW,
    SCALE_NOW,
    SECOND,
    SIZE,
    THRESHOLD,
    Form,
    Key,
    read_output,
)
from keyhole.numeric import Array, Counts, called, kernel, logit, sigmoid
from keyhole.scores.residuals import EDGE


@called
def rate_residual(score: int, residual: float, scale: float) -> float:
    """Return the score of a residual; 1 while there is no scale."""
    rated = 1.0
    if scale != ENDLESS:
        if score == BOTH:
            rated = 1.0 / (1.0 + abs(residual) / scale)
        else:
            sign = -1.0 if score == UPPER else 1.0
            rated = sigmoid(max(-EDGE, min(EDGE, sign * residual / scale)))
    return rated


@kernel
def _rate(form: Form, first: float, second: float, value: float) -> float:
    """Return the score of a true value: of a band from first to second, or by a centre and a scale."""
    if form.score == BANDS:
        middle, half = 0.5 * (first + second), 0.5 * (second - first)
        rated = 1.0 / (1.0 + abs(value - middle) / half)
    elif form.score == BOUNDED:
        rated = 1.0 - abs(value - first) / form.bound
    else:
        rated = rate_residual(form.score, value - first, second)
    return rated


@called
def find_ends(form: Form, real: Array) -> tuple[float, float]:
    """Return the ends of a round's interval."""
    threshold, first, second = real[THRESHOLD], real[FIRST], real[SECOND]
    lower, upper = -np.inf, np.inf
    if threshold > 1.0:
        lower, upper = np.inf, -np.inf
    elif form.score == BOUNDED:
        half = form.bound * (1.0 - max(threshold, 0.0))
        lower, upper = first - half, first + half
    elif threshold > 0.0 and form.score == BANDS:
        middle = 0.5 * (first + second)
        half = 0.5 * (second - first) * (1.0 / threshold - 1.0)
        lower, upper = middle - half, middle + half
    elif threshold > 0.0 and second != ENDLESS:
        if form.score == BOTH:
            half = second * (1.0 / threshold - 1.0)
            lower, upper = first - half, first + half
        else:
            reach = -second * logit(threshold, EDGE)
            if form.score == UPPER:
                upper = first + reach
            else:
                lower = first - reach
    return lower, upper


@called
def measure(key: Key, form: Form, own: Array, real: Array) -> None:
    """Note the output of a round whose threshold is chosen, and how large its set or interval is."""
    size = 0.0
    if form.score == LABELS:
        for place in range(own.size):
            size += own[place] >= real[THRESHOLD]
    else:
        real[FIRST] = own[0]
        if form.score == BANDS:
            real[SECOND] = own[1]
        elif form.score != BOUNDED:
            scale = key.real[SCALE_NOW]
            real[SECOND] = scale if scale != 0.0 else ENDLESS
        lower, upper = find_ends(form, real)
        if upper > lower:
            size = upper - lower
    real[SIZE] = size


@called
def judge(
    key: Key, form: Form, events: Counts, told: float, outputs: Array, event: int, which: int
) -> tuple[float, float, bool]:
    """Return whether a round missed, its score as far as it is told, and whether it is out of reach.

    The miss is NaN where the fold must say what is wrong.
    """
    by, real = events[event, TOLD], key.rounds_real[which]
    threshold, score, miss, is_beyond = real[THRESHOLD], np.nan, 0.0, False
    if by == LABEL and form.score != LABELS:
        miss, score, is_beyond = _judge_value(form, real, told)
    elif by == LABEL:
        row, place = key.rounds[which, ROW], events[event, PLACE]
        if row < key.events:
            score = outputs[row, place]
        elif place < key.ids[row, OUTPUTS]:
            score = read_output(key, row, place)
        miss = 1.0 if score < threshold else 0.0 if score >= threshold else np.nan
    else:
        if by == SCORE:
            score = told
            miss = 1.0 if score < threshold else 0.0
        elif by == MISS:
            miss = 1.0
        is_unscaled = BOTH <= form.score <= LOWER and real[SECOND] == ENDLESS
        if (by == HIT and real[SIZE] == 0.0) or (is_unscaled and real[SIZE] == ENDLESS):
            miss = np.nan
    return miss, score, is_beyond


@called
def _judge_value(form: Form, real: Array, value: float) -> tuple[float, float, bool]:
    """Return what a true value says; what was shown decides between hit and miss, not rounding."""
    lower, upper = find_ends(form, real)
    score = _rate(form, real[FIRST], real[SECOND], value)
    miss, threshold = 0.0 if lower <= value <= upper else 1.0, real[THRESHOLD]
    if (miss == 1.0) != (score < threshold):
        score = np.nextafter(threshold, -np.inf) if miss == 1.0 else threshold
    is_beyond = miss == 1.0 and score < 0.0
    return miss, 0.0 if score < 0.0 else score if score < 1.0 else 1.0, is_beyond
