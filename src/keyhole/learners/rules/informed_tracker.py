"""The informed tracker: a default that uses all that it is told.

The logit of its threshold is a base and an offset. The base is the alpha-quantile of a histogram of the
truth's scores: of the scores that answers tell, of answers that leave some possible (one step of EM),
and, before the first answers, of what the model itself says. The offset is the logit tracker, which
moves by hits and misses and needs no histogram to be right. Guards on the excess of misses keep the
promise, however the position was found. docs/rules.md has the update rule in full.

The histogram's bins are thirds of a doubling of the odds of a score, and hold whole numbers: an answer
is worth 32. So both lanes, and a state that was packed into a few bytes, agree exactly.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import frexp, inf
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import (
    Excess,
    Lateness,
    bound_late_tracker,
    check_guards,
    raise_level,
    shorten,
    slow,
)
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import (
    find_settings,
    parameters,
    positive,
    prepare_settings,
    target,
)
from keyhole.learners.rule import EVERY, NONE, About, Ask, Rule
from keyhole.numeric import Array, Counts, called, compiled_as, exp, kernel

UNITS = 32  # that one answer adds to the bins
ANSWER = float(UNITS)  # The interpreter computes with floats alone in half the time.
THIRDS = 3.0  # bins of a doubling of the odds
DOUBLINGS = 14.0  # from even odds to each end of the histogram
BINS = int(2.0 * DOUBLINGS * THIRDS)
LOWER = 1.0 - 2.0**-30  # times the odds: a score at the edge of two bins is in the lower one
POWERS = tuple(2.0 ** (power - DOUBLINGS) for power in range(int(2.0 * DOUBLINGS) + 1))
MOST = 1386 * UNITS  # where all bins are halved: an answer loses half its weight in about 700 others
HELD = 2**16 - 1  # the most that a bin, or all of them, can hold
WORD = 20  # answers that the model's word is worth once there is a real one
LOWEST = -13.0  # doublings: the last bin holds all that is lower, and must not mean every label
HIGHEST = 6.0  # from farther up the offset would be long on its way down if the model turns unsure
LEAST, TOP = int(THIRDS * (LOWEST + DOUBLINGS)), int(THIRDS * (HIGHEST + DOUBLINGS))  # their bins
MARGIN = 1e-6  # A threshold below this is every label,
MOST_MARGIN = 1.0 - MARGIN  # above this none.
# The guards keep their bounds at any alpha; who writes 0.9 means a coverage.
LARGEST_ALPHA = 0.8
EDGE = math.log((1.0 - MARGIN) / MARGIN)  # the farthest that the offset goes
FIRST = 0.5  # the first step where nothing but hits and misses is known, as the logit tracker's
BARE = 300  # bare answers that the histogram hears after the model's word
SMOOTH = UNITS / 2  # what EM adds to the bin of a missed threshold, and less to those farther away
# How much less a bin on: over 2 logits, 4/3, or 1/2.
FAR, MIDDLE, NEAR = 0.8908987181403393, 0.8408964152537145, 0.6299605249474366
SHAPE = 5.5  # outputs of the model: more than what is assumed of residuals counts as
KNEE = 400.0  # staleness beyond which the offset slows down more than the logit tracker does
LOGITS = math.log(2.0) / THIRDS  # of a bin
DELAYS = 10.0  # over how many an excess is paid back
HURRY = 1_000.0  # staleness at which a step may be twice as long as would not overshoot
USUAL = 10.0  # misses that a delay may have too many by chance
LEAK, PULL = 0.008, 0.04  # how the offset falls back where the truth is always told
CLIP = 0.3  # and the farthest from 0 that it falls back to
FALL = 0.3  # of what a hit adds: by more it does not fall, or hits could not raise it far
ALWAYS = 5  # misses in a row whose scores were told: the truth is always told
NOWHERE = -1  # the bin of a score that is not told, or of a label that was cut


Told: TypeAlias = tuple[Array, Array, Array, Array]  # miss, score, age and staleness of answers


@parameters
class InformedTrackerParameters:
    """The parameters of the informed tracker; none of them needs tuning."""

    alpha: float = target("Target miss rate, between 0 and 0.8.", below=LARGEST_ALPHA)
    step: float = positive("The step of the offset, in logits.", default=0.1)
    guard: float = positive(
        "Every label is shown while misses exceed alpha a round by more than this, and none while they "
        "fall short of it by more.",
        default=150.0,
    )

    informed: ClassVar[bool] = True
    interpreted: ClassVar[bool] = True

    def hear_all(self, state: Any, scores: Sequence[float], shares: Sequence[float]) -> None:
        """Learn the model's word of all labels at once, as ``observe`` would one after the other."""
        hear_together(self.alpha, state, scores, shares)

    def observe_all(self, state: Any, memos: Iterable[Any], told: Told) -> None:
        """Learn from answers that tell every score, as ``observe`` would one after the other."""
        observe_table(prepare_settings(self), state, [memo[0] for memo in memos], told)

    def excess(self, rounds: int) -> Excess:
        """Return the bounds that the guards keep: at a guard the next answer turns the excess back."""
        return self.late_excess(rounds, Lateness())

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds that the guards keep, which stand farther out the later answers come."""
        guards = Excess(least=-self.guard, most=self.guard)
        return bound_late_tracker(guards, alpha=self.alpha, rounds=rounds, lateness=lateness)


InformedTrackerSettings: Any = find_settings(InformedTrackerParameters)


class InformedTrackerState(NamedTuple):
    """What is known of the truth's scores, and the tracker's offset from that.

    ``bins`` are the histogram, ``total`` their sum, ``place`` the bin of the quantile and ``below`` the
    sum of the bins below it; before the first answer both also count what cut outputs leave over.
    ``word`` is how many outputs of the model were heard, ``bare`` whether the last hit came without its
    score, ``told`` how many misses in a row came with theirs. ``scale`` is the largest weight that was
    ever usual: the guards stand that many times as far out.
    """

    offset: Array = np.zeros(1)
    excess: Array = np.zeros(1)
    scale: Array = np.ones(1)
    word: Array = np.zeros(1)
    rounds: Counts = np.zeros(1, dtype=np.int64)
    lateness: Counts = np.zeros(1, dtype=np.int64)
    bare: Counts = np.zeros(1, dtype=np.int64)
    told: Counts = np.zeros(1, dtype=np.int64)
    place: Counts = np.zeros(1, dtype=np.int64)
    below: Counts = np.zeros(1, dtype=np.int64)
    total: Counts = np.zeros(1, dtype=np.int64)
    bins: Counts = np.zeros(BINS, dtype=np.int64)


@kernel
def compute_bin(score: float) -> int:
    """Return the bin of a score; between powers of two of its odds bins are equally wide in these."""
    if score <= 0.0:
        return 0
    if score >= 1.0:
        return BINS - 1
    part, power = frexp(LOWER * (score / (1.0 - score)))
    place = int((power + 2.0 * part - 2.0 + DOUBLINGS) * THIRDS) if power > -DOUBLINGS else 0
    return place if place < BINS else BINS - 1


def list_edges() -> list[float]:
    """Return the least score of each bin but the first."""
    edges = []
    for place in range(1, BINS):
        power, third = divmod(place, THIRDS)
        odds = (1.0 + third / THIRDS) * POWERS[int(power)] / LOWER
        edge = odds / (1.0 + odds)
        while compute_bin(edge) >= place:
            edge = math.nextafter(edge, 0.0)
        while compute_bin(edge) < place:
            edge = math.nextafter(edge, 1.0)
        edges.append(edge)
    return edges


EDGES = list_edges()


@compiled_as(compute_bin)
def find_bin(score: float) -> int:
    """Return the bin of a score, looked up: interpreted that takes a third of the time."""
    return bisect_right(EDGES, score)


@kernel
def find_odds(alpha: float, state: InformedTrackerState) -> float:
    """Return the odds of the base, the quantile at alpha: 1, or nearer to 1, while little is known."""
    _, _, _, word, rounds, _, _, _, places, below, totals, bins = state
    total = 1.0 * totals[0]
    if total == 0.0:
        return 1.0
    place = places[0]
    held = bins[place]
    need = alpha * total * total / (total + ANSWER)
    # Within the bin, even if alpha was changed since the last answer.
    within = (need - below[0]) / held if held > 0 else 0.0
    if not 0.0 <= within <= 1.0:
        within = 1.0 if within > 1.0 else 0.0
    base = (place + within) / THIRDS - DOUBLINGS
    if word[0] == 0.0:  # Nothing but answers: few of them move it little.
        base *= total / (total + WORD * ANSWER)
    if base > 0.0:  # The model alone is not believed: it may be far too sure of itself.
        known = rounds[0] * alpha
        if known < 1.0:
            base *= known
        if base > HIGHEST:
            base = HIGHEST
    elif base < LOWEST:
        base = LOWEST
    whole = int(base + DOUBLINGS)
    return (1.0 + base - (whole - DOUBLINGS)) * POWERS[whole]


@kernel
def shift_odds(odds: float, by: float) -> float:
    """Return the odds of what lies so far away, in logits; exp is for numbers up to 0."""
    power = exp(by if by < 0.0 else -by)
    return odds * power if by < 0.0 else odds / power


@kernel
def choose(settings: Any, state: InformedTrackerState, memo: Array, ask: Ask) -> float:
    """Return the threshold of base and offset, which the memo keeps; all or nothing at the guards."""
    alpha, _, most = settings
    excess = state.excess[0]
    odds = shift_odds(find_odds(alpha, state), state.offset[0])
    threshold = odds / (1.0 + odds)
    if not MARGIN <= threshold <= MOST_MARGIN:
        threshold = EVERY if threshold < MARGIN else NONE
    if not -most <= excess <= most:  # Late answers move the guards further out.
        guard = check_guards(excess / state.scale[0], state.lateness[0], most, -most)
        if guard != 0:
            threshold = EVERY if guard > 0 else NONE
    memo[0] = threshold
    return threshold


@called
def trim(alpha: float, state: InformedTrackerState) -> None:
    """Halve the bins; at the first answer, let the model's word weigh no more than it may instead.

    What cut outputs leave over is forgotten then: answers tell how often the truth is cut.
    """
    bins, times, over = state.bins, 1, 2
    if state.rounds[0] == 0:
        held = 0
        for place in range(BINS):
            held += bins[place]
        times = min(WORD * UNITS, held)
        over = held
    state.total[0], state.below[0] = 0, 0
    if over == 0:
        return
    for place in range(BINS):
        bins[place] = bins[place] * times // over
        state.total[0] += bins[place]
        if place < state.place[0]:
            state.below[0] += bins[place]
    move_place(alpha, state)


@kernel
def find_place(bins: Counts, need: float, place: int, below: int) -> tuple[int, int]:
    """Return the bin in which the sum of all bins reaches what is needed, and the sum below it."""
    while below > need and place > 0:
        place -= 1
        below -= bins[place]
    while below + bins[place] < need and place < BINS - 1:
        below += bins[place]
        place += 1
    return place, below


@called
def move_place(alpha: float, state: InformedTrackerState) -> None:
    """Move the place of the quantile to where it is now."""
    total = state.total[0]
    need = alpha * total * total / (total + UNITS)
    state.place[0], state.below[0] = find_place(state.bins, need, state.place[0], state.below[0])


@kernel
def is_word_full(state: InformedTrackerState) -> bool:
    """Return whether there are answers, and as many outputs of the model as may stand beside them."""
    return state.rounds[0] > 0 and state.word[0] > WORD - 1e-6  # Each adds 1, up to its last bits.


@called
def hear(alpha: float, state: InformedTrackerState, scores: Any, shares: Any) -> None:
    """Learn the model's word: that each of these scores would be the truth's, with this probability.

    A score of 0 stands for what a cut output leaves over: it lies below all bins, until there is an
    answer. From then on the model's word weighs no more than it may: where few rounds are answered, it
    would soon outweigh them.
    """
    if is_word_full(state):
        return
    _, _, _, words, rounds, _, _, _, places, lower, totals, bins = state
    word, place, below, total = words[0], places[0], lower[0], totals[0]
    known = int(word * UNITS)
    for which in range(len(scores)):
        word += shares[which]
        before, known = known, int(word * UNITS)
        units = known - before
        is_cut = scores[which] <= 0.0
        if units > 0 and total + units <= MOST and not (is_cut and rounds[0] > 0):
            total += units
            at = NOWHERE
            if not is_cut:
                at = find_bin(scores[which])
                bins[at] += units
            if at < place:
                below += units
            need = alpha * total * total / (total + UNITS)
            if not below <= need <= below + bins[place]:
                place, below = find_place(bins, need, place, below)
    words[0], places[0], lower[0], totals[0] = word, place, below, total


def hear_together(
    alpha: float, state: InformedTrackerState, scores: Sequence[float], shares: Sequence[float]
) -> None:
    """Learn the model's word as ``hear`` does, interpreted in less than half the time.

    Bins are looked up, and the quantile is looked for once. It has one place, in whatever order the
    scores come, unless what is needed for it ends just where a bin does.
    """
    if is_word_full(state):
        return
    if len(scores) > 0 and scores[0] <= 0.0:
        hear(alpha, state, scores, shares)
        return
    _, _, _, words, _, _, _, _, places, lower, totals, bins = state
    word, place, units = words[0], places[0], float(UNITS)
    known, below, total = int(word * units), lower[0], totals[0] - int(word * units)
    for score, share in zip(scores, shares):  # noqa: B905
        word += share
        more = int(word * units)
        if more > known:
            at = bisect_right(EDGES, score)
            bins[at] += more - known
            if at < place:
                below += more - known
            known = more
    total += known
    need = alpha * total * total / (total + UNITS)
    if not below < need < below + bins[place]:
        place, below = find_place(bins, need, place, below)
    if total > MOST or not below < need < below + bins[place]:
        _unhear(state, scores, shares)
        hear(alpha, state, scores, shares)
        return
    words[0], places[0], lower[0], totals[0] = word, place, below, total


def _unhear(state: InformedTrackerState, scores: Sequence[float], shares: Sequence[float]) -> None:
    """Take what was heard together out of the bins again."""
    words = accumulate(shares, initial=state.word[0])
    for score, (before, after) in zip(scores, pairwise(words), strict=True):
        state.bins[find_bin(score)] -= int(after * UNITS) - int(before * UNITS)


@called
def count_below(state: InformedTrackerState, edge: int) -> int:
    """Return what the bins below one hold together."""
    below, place, bins = state.below[0], state.place[0], state.bins
    for between in range(place, edge):
        below += bins[between]
    for between in range(edge, place):
        below -= bins[between]
    return below


@called
def add_spread(
    alpha: float, state: InformedTrackerState, edge: int, step: int, units: int, less: float
) -> None:
    """Spread an answer over the bins that it leaves possible, as they hold: those from an edge on.

    ``step`` is -1 after a miss and 1 after a hit; ``less`` is what the next bin gets of what is added
    lest an empty one stay empty. What is left at the end of the bins is not given.
    """
    bins, place = state.bins, state.place[0]
    below = count_below(state, edge)
    # After a hit less than alpha of it may lie near the threshold: else hits would lower the quantile.
    extra = SMOOTH if step < 0 else alpha * SMOOTH
    held = extra / (1.0 - less) + (state.total[0] - below if step > 0 else below + bins[edge])
    share, given, at = 0.0, 0, edge
    while given < units and 0 <= at < BINS:
        share += bins[at] + extra
        extra *= less
        until = int(units * (share / held) + 0.5)
        bins[at] += until - given
        if at < place:
            state.below[0] += until - given
        given = until
        at += step
    state.total[0] += given
    move_place(alpha, state)


@called
def hear_aside(alpha: float, last: float, state: InformedTrackerState, answer: Answer) -> None:
    """Learn from what answers no round: the model's word of one label, or that an answer was wrong."""
    if answer.amends == 0.0:
        hear(alpha, state, (answer.score,), (answer.weight,))
        return
    error = answer.miss - alpha
    state.offset[0] = min(max(state.offset[0] - last * answer.pace * error, -EDGE), EDGE)
    state.excess[0] += answer.weight * error


@called
def learn_partly(alpha: float, state: InformedTrackerState, threshold: float, answer: Answer) -> None:
    """Let the histogram hear an answer that tells no score, if those that do not are heard in full."""
    bare, miss, is_known = state.bare, answer.miss, False
    state.told[0] = 0
    if miss != 1.0:
        bare[0] = 1
    elif bare[0] == 0:
        is_known = True
    if state.word[0] > 0.0 and state.rounds[0] < BARE and (miss == 0.0 or miss == 1.0):
        is_known = True
    if is_known:
        units = int(UNITS * answer.pace + 0.5)
        # Probabilities that are off are so by far; errors of forecasts have a size.
        less = NEAR if bare[0] else FAR if state.word[0] > SHAPE else MIDDLE
        add_spread(alpha, state, find_bin(threshold), -1 if miss == 1.0 else 1, units, less)


@called
def find_news(alpha: float, state: InformedTrackerState, threshold: float, miss: float) -> float:
    """Return how much of a stale answer is news to the base at the start, at most 1.

    A threshold may have missed often, or hardly ever, because it was far off. The base
    knows of that by now and has moved away; the offset must not do so again.
    """
    lower, fair = 1.0 * count_below(state, find_bin(threshold)), alpha * state.total[0]
    if miss == 1.0 and lower > 2.0 * fair:
        return 2.0 * fair / lower
    if miss == 0.0 and lower < fair:
        return lower / fair
    return 1.0


@called
def find_most(alpha: float, state: InformedTrackerState, stale: float) -> float:
    """Return the longest step with which that many answers do not overshoot.

    If all of them missed, the threshold then moves to where the histogram says that nothing does, and
    no farther. A step that suits scores that are spread out would throw it from end to end where they
    lie close together. The bins around the quantile, as far away as the offset goes, tell how many
    truths there are in a logit. They are the same on both sides and for every round that is open: if
    hits moved the offset by other steps than misses do, the miss rate would not be alpha.
    Very late answers may take longer steps, because the stream changes before short ones correct it;
    so may those after more misses than a delay can make up: the histogram is no longer right then.
    """
    offset, excess, scale, _, rounds, _, _, _, places, _, totals, bins = state
    place, over = places[0], excess[0]
    apart = int(abs(offset[0]) / LOGITS)
    low = place - apart if place > apart else 0
    high = place + apart + 1 if place + apart < BINS else BINS
    held = bins[low]
    for between in range(low + 1, high):
        held += bins[between]
    if held == 0:
        return inf
    most = LOGITS * (high - low) * totals[0] * (1.0 + stale / HURRY)
    if over > 0.0 and rounds[0] >= stale:
        longer = over / (scale[0] * (alpha * stale + USUAL))
        most = most * longer if longer > 1.0 else most
    return most / (stale * held)


@kernel
def damp(last: float, stale: Any) -> Any:
    """Return the step of a stale answer, or the steps of several, if it does not overshoot."""
    return last / (slow(stale) + (stale / KNEE) * (stale / KNEE))


@called
def find_step(
    alpha: float, last: float, state: InformedTrackerState, threshold: float, miss: float, stale: float
) -> tuple[float, float, float]:
    """Return the step of the offset; how much of the answer is news; and the longest step there is."""
    rounds, bare = state.rounds[0], state.bare[0]
    if bare != 0 and state.word[0] == 0.0:  # Nothing but hits and misses: this is the logit tracker.
        step, error = max(last, FIRST / (1.0 + alpha * rounds)), miss - alpha
        if stale > 0.0:
            hit = error < 0.0 and state.excess[0] + alpha * rounds < 0.5
            step = shorten(step, last, stale, -error if hit else 0.0)
        return step, 1.0, inf
    if stale == 0.0:
        return last, 1.0, inf
    step = damp(last, stale)
    news = find_news(alpha, state, threshold, miss) if rounds < stale else 1.0
    # Bare hits do not tell the histogram where truths are.
    most = find_most(alpha, state, stale) if bare == 0 else inf
    return (step if step < most else most) * news, news, most


@called
def pay_back(alpha: float, state: InformedTrackerState, step: float, stale: float) -> None:
    """Let the offset make up for some of the excess so far, because a step was cut short.

    Steps of different lengths do not add up to the excess: alone they would let it grow up to a guard.
    """
    due = state.excess[0] / (state.scale[0] * DELAYS * stale)
    state.offset[0] -= step * (due if -alpha <= due <= alpha else alpha if due > 0.0 else -alpha)


@called
def begin_step(
    alpha: float,
    last: float,
    state: InformedTrackerState,
    threshold: float,
    miss: float,
    stale: float,
    pace: float,
) -> float:
    """Return the step of the offset; where it was cut short, some of the excess is paid back."""
    step, news, most = find_step(alpha, last, state, threshold, miss, stale)
    if most < inf and step >= most * news:
        pay_back(alpha, state, step * pace, stale)
    return step


@kernel
def observe(settings: Any, state: InformedTrackerState, memo: Array, answer: Answer) -> None:
    """Learn from an answer; one that is neither hit nor miss, but NaN, is the model's word."""
    alpha, last, _ = settings
    miss, score, age, stale, _, weight, pace, amends = answer
    if miss != miss or amends > 0.0:
        hear_aside(alpha, last, state, answer)
        return
    threshold, step = memo[0], last
    if stale > 0.0 or weight != 1.0:
        raise_level(state.lateness, age)
        state.scale[0] = max(state.scale[0], weight / pace)
    if stale > 0.0 or state.bare[0] != 0:
        step = begin_step(alpha, last, state, threshold, miss, stale, pace)
    if score == score:
        learn(alpha, last, state, threshold, miss, step, weight, pace, find_bin(score))
    else:  # NaN: not told
        learn(alpha, last, state, threshold, miss, step, weight, pace, NOWHERE)
        learn_partly(alpha, state, threshold, answer)


@kernel
def learn(
    alpha: float,
    last: float,
    state: InformedTrackerState,
    threshold: float,
    miss: float,
    step: float,
    weight: float,
    pace: float,
    at: int,
) -> None:
    """Step the offset against miss - alpha; let the histogram hear the bin of a score that is told."""
    offset, excess, scale, _, rounds, _, bare, told, places, below, totals, bins = state
    error, over, heard = miss - alpha, excess[0], rounds[0]
    moved = offset[0] - step * pace * error
    # The base learns what the offset knew, unless it is as far up or down as it goes.
    if told[0] == ALWAYS and LEAST <= places[0] < TOP:
        aim = -PULL * over / scale[0]
        aim = aim if -CLIP <= aim <= CLIP else CLIP if aim > 0.0 else -CLIP
        fall, least = LEAK * (aim - moved), -FALL * alpha * last
        moved += (step / last) * (fall if fall > least else least)
    offset[0] = moved if -EDGE <= moved <= EDGE else EDGE if moved > 0.0 else -EDGE
    # After a set that was to be empty and did not miss, what is below 0 is not owed: no guard gets it.
    owed = 0.0 if threshold > 1.0 and over < 0.0 and error < 0.0 else over
    excess[0] = owed + weight * error
    if heard == 0 or totals[0] > MOST:
        trim(alpha, state)
    rounds[0] = heard + 1
    if at != NOWHERE:
        units = UNITS if pace == 1.0 else int(UNITS * pace + 0.5)
        place, lower, total = places[0], below[0], totals[0] + units
        bins[at] += units
        totals[0] = total
        if at < place:
            lower += units
            below[0] = lower
        held = 1.0 * total
        need = alpha * held * held / (held + ANSWER)
        if not 0.0 <= need - lower <= 1.0 * bins[place]:
            places[0], below[0] = find_place(bins, need, place, lower)
        if miss == 0.0:
            bare[0] = 0
        elif miss == 1.0 and told[0] < ALWAYS:
            told[0] += 1


def observe_table(
    settings: Any, state: InformedTrackerState, thresholds: Iterable[float], told: Told
) -> None:
    """Learn from told scores as ``observe`` does from one after the other, in half the time."""
    misses, scores, ages, stales = told
    alpha, last, _ = settings
    bins = np.searchsorted(EDGES, scores, side="right")
    columns = (misses, bins, ages, stales, damp(last, stales))
    rows = zip(thresholds, *(column.tolist() for column in columns), strict=True)
    bare, lateness, rounds = state.bare, state.lateness, state.rounds
    for threshold, miss, at, age, stale, step in rows:
        if stale > 0.0 and age > lateness[0]:
            raise_level(lateness, age)
        if bare[0] or rounds[0] < stale:
            step = begin_step(alpha, last, state, threshold, miss, stale, 1.0)
        elif stale > 0.0 and step >= (most := find_most(alpha, state, stale)):
            step = most
            pay_back(alpha, state, step, stale)
        learn(alpha, last, state, threshold, miss, step, 1.0, 1.0, at)


informed_tracker = Rule(
    name="informed-tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=InformedTrackerParameters,
    choose=choose,
    observe=observe,
    state=InformedTrackerState,
    memory=1,
    limits=lambda _: {
        "rounds": COUNT,
        "lateness": COUNT,
        "bare": 1,
        "told": ALWAYS,
        "place": BINS - 1,
        "below": HELD,
        "total": HELD,
        "bins": HELD,
    },
    graded=True,
    about=About(
        summary="the logit tracker around a quantile of all that answers and the model's outputs tell",
        guarantee="miss rate within 151 / T of alpha on any sequence, if answers come at once (late "
        "ones: bounds.excess(open=...)) and threshold 0 cannot miss",
        source="this project; keyhole.bounds.excess has the numbers",
        late="the histogram learns from late answers as well, and the offset moves less: with "
        "answers 1,000 rounds late sets are 1.2 times the best on average and 3.9 times at worst once "
        "it has settled; where scores begin far off, or jump, 1.9 times those of prompt answers on "
        "average (1.6 at alpha below 0.05) and 8.1 times at worst (28.2 in batches of 1,000), so that "
        "logit-tracker is better there",
    ),
)
