"""The contextual tracker: an informed tracker whose threshold depends on the case.

The gradient of the pinball loss in a threshold that is linear in some cells is miss - alpha times what
the cells say, so that hit or miss is enough to learn a threshold for every case. The logit is that of
the informed tracker plus what the case says: for every feature a table over its running rank, piecewise
linear, with a cell of its own for "missing"; for every group one cell. The informed tracker hears of a
score what it is without that: so its histogram is of what the cases do not explain.

**Ranks** make units, outliers and infinities harmless: that of a value is among small sorted samples of
the last thousand rounds or so, reservoirs whose draws are a function of the round's number, so that the
learner stays deterministic.

**Guards** stand on the excess of misses, of all rounds and of each group: where the excess of a group
that the round belongs to has reached its bound, every label is shown, or none, so that the outcome is
forced and the count turns back. Guards can be at odds. Where an outcome cannot be forced, because sets
have a floor or a cap, or an empty set loses little, a guard must not push all the same: see
``count_miss``.

The **size weight** asks what a smaller set would save, in the currency of misses: sets are best if the
density of truths in a band above the threshold is everywhere the same in proportion to the size that
the band costs.
"""

import math
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import HALVED_AT, Excess, Lateness, bound_late_tracker, slow
from keyhole.learners.layout import ANY, COUNT
from keyhole.learners.parameters import check_room, number, parameters, positive, target, whole
from keyhole.learners.rule import EVERY, NONE, ON_ANY, About, Ask, Rule
from keyhole.learners.rules.informed_tracker import (
    ALWAYS,
    EDGE,
    LARGEST_ALPHA,
    MARGIN,
    InformedTrackerSettings,
    InformedTrackerState,
    find_odds,
    find_step,
    informed_tracker,
    shift_odds,
)
from keyhole.learners.rules.informed_tracker import observe as observe_base
from keyhole.learners.window import put
from keyhole.numeric import Array, Counts, called, exp, kernel

# A round remembers the thresholds of its logit and of a band above it, what its guards asked for, the
# threshold without what the case said, and what that was; then of each feature its value, its lower
# cell and the upper one's share; then its groups.
_OWN, _ABOVE, _GUARD, _BARE, _SAID, _FEATURES = 0, 1, 2, 3, 4, 5
_VALUE, _CELL, _SHARE, _PER_FEATURE = 0, 1, 2, 3
_BASE = len(InformedTrackerState._fields)
# Where truths are told: the share of a step that each of two errors moves the offset, and its leak.
_PART, _LEAK = 0.6, 0.004
_MOVED, _SQUARES, _LONGEST, _WAITED, _RAISED = 0, 1, 2, 3, 4
_LARGEST = np.finfo(np.float64).max  # Infinities are kept as this, so that a state stays finite.
_TURN = 2.0**32
_COSTS = 500  # rounds over which the usual cost of a band is averaged
_DEAREST = 10.0  # as many times the usual cost counts at most
_STRETCH, _NARROWEST, _WIDEST = 0.2, 0.02, 5.0


@parameters
class ContextualParameters:
    """The parameters of the contextual tracker; beside the first three none needs tuning."""

    alpha: float = target("Target miss rate, between 0 and 0.8.", below=LARGEST_ALPHA)
    features: int = whole("How many features a case has.", default=0, least=0, most=100_000)
    groups: int = whole(
        "How many groups, each of which is to miss at the target rate; they may overlap.",
        default=0,
        least=0,
        most=100_000,
    )
    size_weight: float = number(
        "From 0, equal miss rates whatever the features say, to 1, small sets on average. It takes "
        "the true label of a hit, and goes without groups.",
        default=0.0,
        least=0.0,
        most=1.0,
        remedy="try 0.5",
    )
    step: float = positive("The step in logits, for ever.", default=0.1)
    first: float = positive("A cell's first step is first / (prior x cells of the round).", default=0.5)
    prior: float = positive("See first.", default=0.5)
    memory: float = positive("A cell's step falls for memory / alpha visits.", default=50.0)
    knots: int = whole("How many cells a feature has over its rank.", default=8, least=2)
    reach: float = positive("How far features and groups may move the logit.", default=8.0)
    kept: int = whole("How many values of a feature are kept for its ranks.", default=100)
    window: int = whole("Over about how many rounds they are spread.", default=1_000)
    guard: float = positive("The excess at which every label is shown, or none.", default=150.0)
    dead: float = positive("The excess of a group up to which only its cell corrects it.", default=50.0)

    informed: ClassVar[bool] = True

    def complete(self) -> None:
        """Raise if the parameters pull against each other, or ask for too much."""
        per_feature = 2 * (self.knots + 1) + self.kept
        check_room(self.features * per_feature + self.groups, f"{self.features:,} features")
        if self.size_weight > 0.0 and self.groups > 0:
            raise InvalidError(
                f"size_weight {self.size_weight:g} and {self.groups} groups pull against each other: "
                "one trades equal miss rates for size, the other asks for them; use one"
            )
        if self.dead > self.guard:
            raise InvalidError(
                f"dead {self.dead:g} is above the guard, {self.guard:g}; make it smaller"
            )

    @property
    def needs(self) -> Needs:
        return Needs.LABEL_IF_HIT if self.size_weight > 0.0 else Needs.HIT_OR_MISS

    @property
    def cap(self) -> float:
        """How far features, groups and their excess may move the logit together."""
        return self.reach + (self.step * (self.guard - self.dead) if self.groups else 0.0)

    def excess(self, rounds: int) -> Excess:
        return self.late_excess(rounds, Lateness())

    def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
        """Return the bounds on the misses of all rounds.

        Without groups the guard keeps them: at the guard the outcome is forced, and the count turns
        back. Nothing is used of how the offset is learnt. With groups see ``bound_groups``; here every
        round may be a conflict of as many groups as there are.
        """
        if self.groups == 0:
            guards = Excess(least=-self.guard, most=self.guard)
            return bound_late_tracker(guards, alpha=self.alpha, rounds=rounds, lateness=lateness)
        low, high = lateness.told
        step = max(high - self.alpha, self.alpha - low)
        longest, level = lateness.weight * step, lateness.level(rounds)
        moved = (1.0 + self.groups) * rounds * step
        # Of one old answer another is younger: the ages of all add up to (open - 1) a round at most.
        waited = min(level * moved, (lateness.open - 1) * (1.0 + self.groups) * rounds * longest)
        conflicts = moved, moved * longest, max(1.0, longest), waited, float(level)
        worst = SimpleNamespace(conflicts=conflicts, lateness=[level], scale=[lateness.scale])
        most = self.bound_groups(worst, lateness, is_spared=True)
        return Excess(least=-most, most=most)

    def bound_groups(
        self, state: Any, lateness: Lateness, *, amended: float = 0.0, is_spared: bool = False
    ) -> float:
        """Return what the size of no account, of a group or of all rounds, has passed by now.

        ``amended`` is what amendments have moved accounts by, ``is_spared`` whether a set that was to
        be empty ever lost less than alpha. Of the state it takes the conflicts, the scale, and how late
        answers came (L).

        If an answer moved accounts by a, those of K groups, k of them hot or cold: ``moved`` and
        ``squares`` are the sums of K a and of k a^2 over conflicts, and the ``longest`` is the largest
        a of any answer, or 1; ``waited`` is the sum of K a times the age, but for the conflicts that
        ``raised`` L themselves. Where answers have weights the guard is ``scale`` times as far out.
        docs/guarantees.md has the proof.
        """
        level, scale = int(state.lateness[0]), float(state.scale[0])
        moved, squares, longest, waited, raised = map(float, state.conflicts)
        guard = scale * (self.guard + 2.0 * level)
        if level == 0:
            return guard + longest + amended + math.sqrt(squares + 2.0 * moved * amended)
        carried = min(lateness.open, level + 1)
        passed = guard + (carried + raised) * longest + amended
        if moved == 0.0:
            return passed
        known = 2.0 + raised + (3.0 if is_spared else 1.0) * carried
        behind = guard - self.guard + known * longest + 2.0 * amended
        return passed + math.sqrt(moved * (longest + 2.0 * behind) + 2.0 * longest * waited)


class ContextualState(NamedTuple):
    """The state of an informed tracker; of each cell its weight and visits; samples of the features.

    ``excess`` holds the accounts of misses, of all rounds, then of each group. ``conflicts`` holds of
    the rounds in which a guard wanted every label and another none two sums of what they moved; the
    most that an answer ever moved an account, or 1; how late they were answered, and how many were
    older than any before: see ``ContextualParameters``.
    ``band`` and ``cost`` serve the size weight: a stretch above the logit, and what it usually costs.
    """

    offset: Array
    excess: Array
    scale: Array
    word: Array
    rounds: Counts
    lateness: Counts
    bare: Counts
    told: Counts
    place: Counts
    below: Counts
    total: Counts
    bins: Counts
    weight: Array
    visits: Array
    kept: Array
    held: Counts
    seen: Counts
    conflicts: Array
    band: Array
    cost: Array


class Ranks(NamedTuple):
    """Of each feature a row of kept values, sorted; how many there are; and how many were ever seen."""

    kept: Array
    held: Counts
    seen: Counts


def start_ranks(features: int, room: int) -> Ranks:
    counts = np.zeros(features, dtype=np.int64)
    return Ranks(np.zeros((features, room)), counts, counts.copy())


def start(settings: ContextualParameters) -> ContextualState:
    cells = settings.features * (settings.knots + 1) + settings.groups
    base: Any = informed_tracker.start_state(None)._replace(excess=np.zeros(1 + settings.groups))
    own: Any = (
        np.zeros(cells), np.zeros(cells), *start_ranks(settings.features, settings.kept),
        np.array([0.0, 0.0, 1.0, 0.0, 0.0]), np.full(1, 0.5), np.zeros(1),
    )  # fmt: skip
    return ContextualState(*base, *own)


@called
def choose(settings: ContextualParameters, state: ContextualState, memo: Array, ask: Ask) -> float:
    """Return the threshold of the case, or all or nothing where a guard says so."""
    _place_features(settings, state, memo, ask.context)
    own = _FEATURES + _PER_FEATURE * settings.features
    for group in range(settings.groups):
        memo[own + group] = ask.context[settings.features + group]
    said = _say(settings, state, memo)
    bare = shift_odds(find_odds(settings.alpha, _find_base(state)), state.offset[0])
    memo[_SAID], memo[_BARE] = said, _find_threshold(bare)
    memo[_OWN] = _find_threshold(shift_odds(bare, said))
    memo[_ABOVE] = _find_threshold(shift_odds(bare, said + state.band[0]))
    bound = state.scale[0] * (settings.guard + 2.0 * state.lateness[0])
    memo[_GUARD] = ask_guards(state.excess, memo[own:], bound, state.conflicts[_LONGEST])
    if memo[_GUARD] == 0.0:
        return memo[_OWN]
    memo[_BARE] = EVERY if memo[_GUARD] > 0.0 else NONE
    return memo[_BARE]


@called
def _say(settings: ContextualParameters, state: ContextualState, memo: Array) -> float:
    """Return what the cells of a case, and the accounts of its groups, add to the logit."""
    said = 0.0
    for feature in range(settings.features):
        at = _FEATURES + _PER_FEATURE * feature
        cell = feature * (settings.knots + 1) + int(memo[at + _CELL])
        share = memo[at + _SHARE]
        said += state.weight[cell] * (1.0 - share)
        if memo[at + _CELL] < settings.knots:
            said += state.weight[cell + 1] * share
    own, cells = _FEATURES + _PER_FEATURE * settings.features, settings.features * (settings.knots + 1)
    for group in range(settings.groups):
        if memo[own + group] > 0.0:
            said += state.weight[cells + group]
    dead = settings.dead * (1.0 + state.lateness[0] / HALVED_AT)
    for group in range(settings.groups):
        if memo[own + group] > 0.0:
            excess = state.excess[1 + group] / state.scale[0]  # row 0 is of all rounds
            said -= settings.step * (max(excess - dead, 0.0) + min(excess + dead, 0.0))
    return min(max(said, -settings.cap), settings.cap)


@kernel
def _find_threshold(odds: float) -> float:
    threshold = odds / (1.0 + odds)
    if MARGIN <= threshold <= 1.0 - MARGIN:
        return threshold
    return EVERY if threshold < MARGIN else NONE


@called
def _place_features(
    settings: ContextualParameters, state: ContextualState, memo: Array, context: Array
) -> None:
    """Let the memo keep the values of the features, and their cells."""
    ranks = Ranks(state.kept, state.held, state.seen)
    for feature in range(settings.features):
        at, value = _FEATURES + _PER_FEATURE * feature, context[feature]
        if value != value:  # NaN: missing, which has a cell of its own
            memo[at + _VALUE], memo[at + _CELL], memo[at + _SHARE] = 0.0, settings.knots, 0.0
            continue
        value = make_finite(value)
        place = rank(ranks, feature, value) * (settings.knots - 1)
        cell = min(int(place), settings.knots - 2)
        memo[at + _VALUE], memo[at + _CELL], memo[at + _SHARE] = value, cell, place - cell


@called
def observe(
    settings: ContextualParameters, state: ContextualState, memo: Array, answer: Answer
) -> None:
    """Teach the informed tracker what the case does not say, and the cells of the case; count the miss.

    Where the truth is always told, the cells learn whether it would miss if the case said what it says
    now, not what it said then; and so does half of the offset: see ``_move_offset``.
    """
    number, excess, always = state.rounds[0], state.excess[0], state.told[0] == ALWAYS
    level, offset, base = state.lateness[0], state.offset[0], _find_base(state)
    step, news, most = find_step(
        settings.alpha, settings.step, base, memo[_BARE], answer.miss, answer.stale
    )
    bare = _find_threshold(shift_odds(find_odds(settings.alpha, base), offset))
    _teach_base(
        InformedTrackerSettings(settings.alpha, settings.step, settings.guard),
        base,
        memo[_BARE:],
        _leave_out(answer, memo[_SAID]),
    )
    if answer.miss != answer.miss:  # It is the model's word.
        return
    state.excess[0] = excess  # which is counted here, with those of groups
    own, error = _FEATURES + _PER_FEATURE * settings.features, answer.miss - settings.alpha
    guard = 0.0 if answer.amends > 0.0 else memo[_GUARD]  # What it asked for is long over.
    change, conflicts = answer.weight * error, state.conflicts
    groups = count_miss(state.excess, memo[own:], change, guard, conflicts, answer.age, level)
    if answer.amends > 0.0:
        return
    if always and answer.score == answer.score:
        score = _leave_out(answer, _say(settings, state, memo)).score
        if settings.features > 0:
            error += (1.0 if score < bare else 0.0) - settings.alpha
            owed = excess / state.scale[0]
            state.offset[0] = _move_offset(settings.step, step, offset, answer.pace * error, owed)
        error = (1.0 if score < memo[_BARE] else 0.0) - settings.alpha
    if settings.size_weight > 0.0:
        saved = weigh_size(state.band, state.cost, settings.alpha, number, memo[_ABOVE], answer)
        error = (1.0 - settings.size_weight) * error + settings.size_weight * saved
    pull = news * answer.pace * error
    _step_cells(settings, state, memo, pull, slow(answer.stale), most, groups)
    _keep_features(settings, state, memo, number)


@kernel
def _move_offset(usual: float, step: float, offset: float, errors: float, owed: float) -> float:
    """Return the offset after an answer that tells the truth, as a controller of two terms moves it.

    Of the two errors one is that of the set that was shown: its sum, the excess, is what the offset
    falls back to, so that the miss rate is right in the long run. The other is that of a set at the
    position of now. It follows the truths at once and does not overshoot: of a late batch that missed
    often, the first answers move the offset, and the others would no longer miss.
    """
    aim = -_PART * step * owed
    moved = offset - _PART * step * errors
    moved += _LEAK * (step / usual) * (aim - moved)
    return min(max(moved, -EDGE), EDGE)


@called
def _teach_base(settings: Any, state: InformedTrackerState, memo: Array, answer: Answer) -> None:
    observe_base(settings, state, memo, answer)


@kernel
def _find_base(state: Any) -> InformedTrackerState:
    return InformedTrackerState(*state[:_BASE])


@called
def _keep_features(
    settings: ContextualParameters, state: ContextualState, memo: Array, number: int
) -> None:
    """Keep the values of the features that are not missing, perhaps."""
    ranks = Ranks(state.kept, state.held, state.seen)
    for feature in range(settings.features):
        at = _FEATURES + _PER_FEATURE * feature
        if memo[at + _CELL] < settings.knots:
            keep(ranks, feature, memo[at + _VALUE], number, settings.window)


@called
def _leave_out(answer: Answer, said: float) -> Answer:
    """Return the answer with the score that it would have if the case had said nothing."""
    miss, score, age, stale, cost, weight, pace, amends = answer
    if 0.0 < score < 1.0 and said != 0.0:
        odds = shift_odds(score / (1.0 - score), -said)
        score = odds / (1.0 + odds)
    return Answer(miss, score, age, stale, cost, weight, pace, amends)


@called
def _step_cells(
    settings: ContextualParameters,
    state: ContextualState,
    memo: Array,
    pull: float,
    damping: float,
    most: float,
    groups: int,
) -> None:
    """Move every cell of the case, which is in so many groups, against the pull, by its share.

    Together they move no farther than half of what the offset may, which moves as well; a cell that
    few cases have may move as much farther as they are fewer.
    """
    active = groups + 2 * settings.features
    for feature in range(settings.features):
        if memo[_FEATURES + _PER_FEATURE * feature + _CELL] == settings.knots:
            active -= 1  # a missing feature has one cell, not two
    prior = settings.prior * active
    for feature in range(settings.features):
        at = _FEATURES + _PER_FEATURE * feature
        cell = feature * (settings.knots + 1) + int(memo[at + _CELL])
        share = memo[at + _SHARE]
        _step_cell(settings, state, cell, 1.0 - share, pull, damping, most, prior)
        if memo[at + _CELL] < settings.knots:
            _step_cell(settings, state, cell + 1, share, pull, damping, most, prior)
    own, cells = _FEATURES + _PER_FEATURE * settings.features, settings.features * (settings.knots + 1)
    for group in range(settings.groups):
        if memo[own + group] > 0.0:
            _step_cell(settings, state, cells + group, 1.0, pull, damping, most, prior)


@called
def _step_cell(
    settings: ContextualParameters,
    state: ContextualState,
    cell: int,
    share: float,
    pull: float,
    damping: float,
    most: float,
    prior: float,
) -> None:
    pace = prior + min(settings.alpha * state.visits[cell], settings.memory)
    longest = 0.5 * most * state.rounds[0] * settings.prior / (prior * (1.0 + state.visits[cell]))
    state.weight[cell] -= pull * share * min(settings.first / pace / damping, longest)
    state.visits[cell] += share * share


@called
def ask_guards(excess: Array, members: Array, bound: float, longest: float) -> float:
    """Return a number above 0 if guards want every label, below 0 if none, else 0.

    The first account is that of all rounds; the others are of groups, to which the round belongs where
    ``members`` is not 0. Of guards at odds those farther beyond their bound win; the number is then how
    many they are on both sides, with its sign, else 1.
    """
    hot, cold, high, low = 0, 0, 0.0, 0.0
    for row in range(excess.size):
        if row > 0 and members[row - 1] == 0.0:
            continue  # not a group of this round
        if excess[row] >= bound:
            hot += 1
            high += max(excess[row] - bound - longest, 0.0)
        if excess[row] <= -bound:
            cold += 1
            low += max(-excess[row] - bound - longest, 0.0)
    size = float(hot + cold) if hot > 0 and cold > 0 else 1.0
    if hot > 0 and (cold == 0 or high >= low):
        return size
    return -size if cold > 0 else 0.0


@called
def count_miss(
    excess: Array,
    members: Array,
    error: float,
    guard: float,
    conflicts: Array,
    age: float,
    level: int,
) -> int:
    """Add miss - alpha to the accounts of all rounds and of the round's groups; return their number.

    A miss that guards could not prevent is left out, so that its group cannot keep others from what
    they need. After a set that was to be empty and did not miss, the accounts of the round begin anew
    from 0 where they were below: they may count more misses than there were, and never fewer.
    """
    lifted = guard < 0.0 and error < 0.0
    change = 0.0 if lifted or (guard > 0.0 and error > 0.0) else error
    groups = 0
    for row in range(excess.size):
        if row == 0 or members[row - 1] > 0.0:
            excess[row] = max(excess[row], 0.0) if lifted else excess[row] + change
            groups += 1
    size = abs(change)
    if abs(guard) > 1.0:
        conflicts[_MOVED] += groups * size
        conflicts[_SQUARES] += abs(guard) * size * size
        if age > level:
            conflicts[_RAISED] += 1.0
        else:
            conflicts[_WAITED] += groups * size * age
    conflicts[_LONGEST] = max(conflicts[_LONGEST], size)
    return groups - 1  # all rounds are none of them


@called
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


@called
def rank(ranks: Ranks, feature: int, value: float) -> float:
    """Return which share of the kept values lies below the value, those equal to it counting half."""
    held = ranks.held[feature]
    row = ranks.kept[feature, :held]
    below = np.searchsorted(row, value)
    up_to = np.searchsorted(row, value, side="right")
    return (below + up_to + 1) / (2 * (held + 1))


@kernel
def make_finite(value: float) -> float:
    """Return the value, or the largest number of its sign."""
    return min(max(value, -_LARGEST), _LARGEST)


@called
def keep(ranks: Ranks, feature: int, value: float, number: int, window: int) -> None:
    """Keep the value of round ``number``, perhaps: any of the last ``window`` is as likely kept."""
    row, held = ranks.kept[feature], ranks.held[feature]
    ranks.seen[feature] += 1
    if held < row.size:
        ranks.held[feature] += 1
        put(row[: held + 1], held, value)
        return
    chance = row.size / min(ranks.seen[feature], window)
    # Multiples of an odd number modulo 2^32, which spread evenly (the golden ratio's, by Knuth).
    draw = ((number % 2**31) * 2654435769 + feature * 1640531527 + 12345) % 2**32 / _TURN
    if draw < chance:
        put(row, int(draw / chance * row.size), value)


contextual_tracker = Rule(
    name="contextual-tracker",
    needs=Needs.HIT_OR_MISS,
    parameters=ContextualParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=lambda s: int(_FEATURES + _PER_FEATURE * s.features + s.groups),
    limits=lambda s: {
        **informed_tracker.list_limits(s),
        "held": s.kept,
        "seen": COUNT,
        "memo": [ANY] * _FEATURES + [ANY, s.knots, ANY] * s.features,  # where the cell is
    },
    graded=True,
    about=About(
        summary="the informed tracker with a threshold for every case: by its features, and for each "
        "group",
        guarantee=f"miss rate within 151 / T of alpha {ON_ANY}; with groups |misses - "
        "alpha n| <= 151 + sqrt(S) in each, where a round whose guards conflict adds at most K "
        "max(alpha, 1 - alpha)^2 to S, K being its groups and all rounds",
        source="this project; keyhole.bounds.excess has the numbers",
        late="a stale answer moves it less; without groups the miss rate still tends to alpha; with "
        "groups that of each group does if the delay of answers is bounded",
    ),
)
