"""The contextual tracker: round for round as worked out anew here, its theorem attacked."""

import math
from bisect import bisect_left, bisect_right, insort
from typing import Any

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner, bounds
from keyhole.learners.lateness import Lateness
from keyhole.learners.rules.contextual_tracker import contextual_tracker, weigh_size
from keyhole.learners.rules.informed_tracker import compute_bin, find_odds, informed_tracker
from keyhole.numeric import Array
from keyhole.predictor.rounds import measure_delay
from keyhole.simulation import Channel
from tests.docs.anew import Case, ContextualTracker, Opened
from tests.learners.lanes import play_script
from tests.learners.states import draw_informed_state

KNOTS = 8


class ByHand:
    """The rule in plain lists: an informed tracker, and a dictionary of cells."""

    kept, window, guard, dead = 100, 1_000, 150.0, 50.0

    def __init__(self, alpha: float, *, features: int, groups: int, size_weight: float = 0.0) -> None:
        self.alpha, self.features, self.groups, self.weight = alpha, features, groups, size_weight
        self.inner = informed_tracker(alpha=alpha)
        self.base = self.inner.start()
        self.n, self.level = 0, 0
        self.table: dict[Any, float] = {}
        self.visits: dict[Any, float] = {}
        self.samples: list[list[float]] = [[] for _ in range(features)]
        self.seen = [0] * features
        self.debt = [0.0] * (1 + groups)
        self.band, self.usual = 0.5, 0.0

    def cells(self, x: list[float], groups: list[int]) -> list[tuple[Any, float]]:
        active: list[tuple[Any, float]] = []
        for j, value in enumerate(x):
            if math.isnan(value):
                active.append(((j, "missing"), 1.0))
                continue
            row = self.samples[j]
            rank = (bisect_left(row, value) + bisect_right(row, value) + 1) / (2 * (len(row) + 1))
            place = rank * (KNOTS - 1)
            low = min(int(place), KNOTS - 2)
            active += [((j, low), 1.0 - (place - low)), ((j, low + 1), place - low)]
        return active + [(("group", g), 1.0) for g in groups]

    def logit(self, active: list[tuple[Any, float]], groups: list[int]) -> float:
        offset = 0.0
        for cell, share in active:
            offset += self.table.get(cell, 0.0) * share
        dead = self.dead * (1.0 + self.level / 60.0)
        for g in groups:
            offset -= 0.1 * (max(self.debt[1 + g] - dead, 0.0) + min(self.debt[1 + g] + dead, 0.0))
        cap = 18.0 if self.groups else 8.0
        return min(max(offset, -cap), cap)

    def bare(self) -> float:
        """The logit if the case said nothing."""
        return math.log(find_odds(self.alpha, self.base)) + self.base.offset[0]

    def threshold(self, z: float, groups: list[int]) -> float:
        bound = self.guard + 2.0 * self.level
        own = [self.debt[0], *(self.debt[1 + g] for g in groups)]
        high = [debt - bound for debt in own if debt >= bound]
        low = [-debt - bound for debt in own if debt <= -bound]
        if high and sum(max(v - 1.0, 0.0) for v in high) >= sum(max(v - 1.0, 0.0) for v in low):
            return 0.0
        return 2.0 if low else 1.0 / (1.0 + math.exp(-z))

    def observe(
        self,
        active: Any,
        x: list[float],
        groups: list[int],
        answer: Answer,
        played: tuple[float, float, float],
    ) -> None:
        above, said, bare = played
        self.level += answer.age > self.level
        slow, error = 1.0 + answer.stale / 60.0, answer.miss - self.alpha
        for row in (0, *(1 + g for g in groups)):
            self.debt[row] += error
        heard = answer._replace(score=shift(answer.score, -said))
        news, longest = self.find_news(bare, answer), self.find_longest(answer)
        self.inner.observe(self.base, [bare], heard)
        self.base.excess[0] = self.debt[0]
        if self.weight > 0.0:
            near = float(answer.miss == 0.0 and answer.score < above)
            self.usual += (answer.cost - self.usual) / min(self.n + 1, 500)
            dear = min(answer.cost / self.usual, 10.0) if self.usual > 0.0 else 1.0
            self.band = min(max(self.band * math.exp(-0.2 * (near - self.alpha)), 0.02), 5.0)
            error = (1 - self.weight) * error + self.weight * (near - self.alpha * dear)
        for cell, share in active:
            visits = self.visits.get(cell, 0.0)
            pace = 0.5 * len(active) + min(self.alpha * visits, 50.0)
            most = longest * (self.n + 1) / (2.0 * len(active) * (1.0 + visits))
            step = news * min(0.5 / pace / slow, most)
            self.table[cell] = self.table.get(cell, 0.0) - step * error * share
            self.visits[cell] = visits + share * share
        for j, value in enumerate(x):
            if not math.isnan(value):
                self.keep(j, value)
        self.n += 1

    def find_news(self, bare: float, answer: Answer) -> float:
        if self.n >= answer.stale or (self.base.bare[0] and not self.base.word[0]):
            return 1.0
        lower, fair = sum(self.base.bins[: compute_bin(bare)]), self.alpha * self.base.total[0]
        over = fair > lower if answer.miss == 0.0 else lower > 2.0 * fair
        return (lower / fair if answer.miss == 0.0 else 2.0 * fair / lower) if over else 1.0

    def find_longest(self, answer: Answer) -> float:
        if answer.stale == 0.0 or self.base.bare[0]:
            return math.inf
        place, bins = self.base.place[0], self.base.bins
        apart = int(3.0 * abs(self.base.offset[0]) / math.log(2.0))
        near = bins[max(place - apart, 0) : place + apart + 1]
        held = answer.stale * sum(near)
        most = math.log(2.0) / 3.0 * len(near) * self.base.total[0]
        if self.n >= answer.stale:
            most *= max(1.0, self.base.excess[0] / (self.alpha * answer.stale + 10.0))
        return most * (1.0 + answer.stale / 1_000.0) / held if held else math.inf

    def keep(self, j: int, value: float) -> None:
        row = self.samples[j]
        self.seen[j] += 1
        if len(row) < self.kept:
            insort(row, value)
            return
        chance = self.kept / min(self.seen[j], self.window)
        draw = ((self.n * 2654435769 + j * 1640531527 + 12345) % 2**32) / 2**32
        if draw < chance:
            del row[int(draw / chance * self.kept)]
            insort(row, value)


def shift(score: float, by: float) -> float:
    return 1.0 / (1.0 + (1.0 / score - 1.0) * math.exp(-by))


def draw_case(rng: np.random.Generator, features: int, groups: int) -> tuple[Array, list[int], float]:
    """Return features, some missing or huge, groups, and a score that depends on the first feature."""
    x = rng.standard_normal(features) * 10.0 ** rng.integers(-3, 4, features)
    x[rng.random(features) < 0.1] = np.nan
    if features and rng.random() < 0.02:
        x[-1] = rng.choice([np.inf, -np.inf, 1e300])
    own = np.flatnonzero(rng.random(groups) < 0.4).tolist()
    spread = 0.5 if not features or not x[0] > 0.0 else 2.0
    return x, own, float(1.0 / (1.0 + np.exp(-1.0 - spread * rng.standard_normal())))


def compare(learner: Learner, by_hand: ByHand, *, rounds: int, delay: int, seed: int = 4) -> float:
    """Return the largest difference between the thresholds, with answers up to so many rounds late."""
    rng = np.random.default_rng(seed)
    state, worst, answered = learner.start(), 0.0, 0
    waiting: list[Any] = []
    for n in range(rounds):
        x, own, score = draw_case(rng, learner.features, learner.groups)
        context: Array = np.concatenate((x, np.isin(np.arange(learner.groups), own)), dtype=np.float64)
        threshold, memo = learner.choose(state, 0.5, context)
        active = by_hand.cells(x.tolist(), own)
        said, bare = by_hand.logit(active, own), by_hand.bare()
        z = said + bare
        expected, above = by_hand.threshold(z, own), 1.0 / (1.0 + math.exp(-z - by_hand.band))
        played = above, said, by_hand.threshold(bare, own)
        worst = max(worst, abs(threshold - expected))
        due = n + int(rng.integers(0, delay + 1))
        waiting.append((due, n, answered, memo, active, x.tolist(), own, score, expected, played))
        for one in [w for w in waiting if w[0] <= n]:
            waiting.remove(one)
            _, number, then, memo, active, values, own, score, expected, played = one
            above = played[0]
            miss = float(score < expected)
            told = math.nan if miss else score
            age, stale = measure_delay(number, then, n + 1, answered)
            cost = above - 1.0 / (1.0 + math.exp(-math.log(above / (1 - above)) + 0.5))
            answer = Answer(miss, told, age, stale, cost)
            learner.observe(state, memo, answer)
            by_hand.observe(active, values, own, answer, played)
            answered += 1
    assert state.excess == pytest.approx(by_hand.debt, abs=1e-9)
    return worst


@pytest.mark.parametrize("delay", [0, 40])
@pytest.mark.parametrize(("features", "groups"), [(3, 0), (0, 3), (2, 2)])
def test_thresholds_are_those_worked_out_by_hand(features: int, groups: int, delay: int) -> None:
    """Kills: any change of the tables, the ranks, the reservoir, the dead zone or the damping."""
    learner = contextual_tracker(alpha=0.1, features=features, groups=groups)
    by_hand = ByHand(0.1, features=features, groups=groups)
    assert compare(learner, by_hand, rounds=2_500, delay=delay) < 1e-9


@pytest.mark.parametrize("delay", [0, 10])
@pytest.mark.parametrize(("features", "groups", "weight"), [(2, 2, 0.0), (2, 0, 0.4), (0, 3, 0.0)])
def test_small_samples_and_near_guards_are_those_worked_out_by_hand(
    features: int, groups: int, weight: float, delay: int
) -> None:
    """Kills: the same in a tenth of the rounds, with guards and dead zones that are reached."""
    options: dict[str, Any] = {"kept": 8, "window": 60, "guard": 4.0, "dead": 1.0}
    learner = contextual_tracker(
        alpha=0.1, features=features, groups=groups, size_weight=weight, **options
    )
    by_hand = ByHand(0.1, features=features, groups=groups, size_weight=weight)
    for name, value in options.items():
        setattr(by_hand, name, value)
    assert compare(learner, by_hand, rounds=250, delay=delay) < 1e-9


class FromThePage(ContextualTracker):
    """The rule as docs/rules.md has it, told how late an answer is and what it weighs."""

    age, stale, pace = 0, 0.0, 1.0

    def __init__(self, alpha: float, *, features: int, groups: int) -> None:
        super().__init__(alpha, features=features, groups=groups)
        self.conflicts = np.zeros(4)  # moved, squares, waited, raised

    def find_delay(self, opened: Opened) -> tuple[int, float]:  # noqa: ARG002
        return self.age, self.stale

    def find_pace(self, weight: float) -> float:  # noqa: ARG002
        return self.pace

    def count_conflict(self, opened: Opened, change: float, level: int) -> None:
        """Add to the sums of conflicts what docs/guarantees.md says, before the answer is counted."""
        bound = self.scale * (150.0 + 2.0 * level)
        own = [self.accounts[0], *(self.accounts[1 + group] for group in opened.case.groups)]
        sides = [sum(one >= bound for one in own), sum(one <= -bound for one in own)]
        if min(sides) == 0:
            return
        change = 0.0 if opened.asked * change > 0.0 else change  # what guards asked for and did not get
        moved, raises = len(own) * abs(change), self.age > level
        late = [0.0, 1.0] if raises else [moved * self.age, 0.0]
        self.conflicts += [moved, sum(sides) * change**2, *late]

    def pack(self) -> list[Any]:
        cells = [*(one for row in self.weights for one in row), *self.group_weights]
        visits = [*(one for row in self.visits for one in row), *self.group_visits]
        kept = [row + [0.0] * (100 - len(row)) for row in self.samples]
        moved, squares, waited, raised = self.conflicts
        return [
            [self.x], self.accounts, [self.scale], [self.word], [self.k], [self.level],
            [int(self.bare)], [self.told], [self.place], [self.below], [self.total], self.bins,
            cells, visits, kept, [len(row) for row in self.samples], self.seen,
            [moved, squares, self.longest, waited, raised], [0.5], [0.0],
        ]  # fmt: skip


def draw_state(rng: np.random.Generator, alpha: float, features: int, groups: int) -> FromThePage:
    anew = FromThePage(alpha, features=features, groups=groups)
    draw_informed_state(rng, anew)
    if rng.random() >= 0.9:
        anew.k, anew.left = 2**31 + 7, 0
        anew.move_place()
    anew.longest = float(rng.choice([1.0, 2.5]))
    bound = anew.scale * (150.0 + 2.0 * anew.level)
    some = [0.0, bound, bound - 1e-6, bound + 2.0, bound + 5.0, anew.scale * 75.0, rng.normal(0.0, 9.0)]
    anew.accounts = (rng.choice(some, 1 + groups) * rng.choice([-1.0, 1.0], 1 + groups)).tolist()
    if rng.random() < 0.3:
        anew.accounts[0] = -alpha * anew.k  # no miss up to now
    for feature in range(features):
        held = int(rng.choice([0, 1, 99, 100, 100]))
        anew.samples[feature] = np.sort(rng.integers(-4, 5, held) / 2).tolist()
        anew.seen[feature] = held + int(rng.choice([0, 300, 899, 900, 901, 5_000]))
        anew.weights[feature] = rng.normal(0.0, 1.0, 9).tolist()
        anew.visits[feature] = (rng.random(9) * rng.choice([1.0, 1_000.0])).tolist()
    anew.group_weights = rng.normal(0.0, rng.choice([1.0, 15.0]), groups).tolist()
    anew.group_visits = rng.choice([0.0, 3.0, 9_000.0], groups).tolist()
    return anew


def check_same(state: Any, anew: FromThePage) -> None:
    for name, held, expected in zip(state._fields, state, anew.pack(), strict=True):
        assert np.abs(held.ravel() - np.ravel(expected)).max(initial=0.0) < 1e-9, name


@pytest.mark.parametrize("alpha", [0.1, 0.25])
@pytest.mark.parametrize(("features", "groups"), [(2, 2), (0, 3), (3, 0)])
def test_any_round_in_any_state_does_what_the_page_says(
    features: int, groups: int, alpha: float
) -> None:
    """Kills: what long runs notice, conflicts of guards, weights and amendments too."""
    rng, learner = np.random.default_rng(6), contextual_tracker(
        alpha=alpha, features=features, groups=groups
    )  # fmt: skip
    start = learner.start()
    check_same(start, FromThePage(alpha, features=features, groups=groups))
    odd = [math.nan, math.inf, -math.inf, -2.5, 0.0, 0.5]
    for _ in range(150):
        anew = draw_state(rng, alpha, features, groups)
        x = np.where(rng.random(features) < 0.5, rng.choice(odd, features), rng.normal(size=features))
        own = np.flatnonzero(rng.random(groups) < 0.7).tolist()
        context: Array = np.concatenate((x, np.isin(np.arange(groups), own)), dtype=np.float64)
        opened = anew.choose(Case(x.tolist(), own))
        threshold, memo = learner.choose(make_state(start, anew), 0.5, context)
        assert threshold == pytest.approx(opened.threshold, abs=1e-11)
        anew.move_place()
        state = make_state(start, anew)
        miss = float(rng.choice([0.0, 1.0, 0.0, 1.0, 0.5, alpha, -0.125, 1.125]))
        score = float(rng.choice([math.nan, math.nan, rng.beta(0.5, 0.5), 0.5, 0.0, 1.0]))
        anew.age = int(rng.choice([0, 3, 4, 60]))
        anew.stale = anew.age + float(rng.choice([0.0, 0.0, 1.0, 400.0]))
        weight = float(rng.choice([1.0, 1.0, 0.5, 4.0]))
        anew.pace = 1.0 if weight == 1.0 else float(rng.choice([0.5, 1.0, 2.0]))
        anew.count_conflict(opened, weight * (miss - alpha), anew.level)
        answer = Answer(miss, score, float(anew.age), anew.stale, weight=weight, pace=anew.pace)
        learner.observe(state, memo, answer)
        anew.observe(opened, miss, weight=weight, score=None if math.isnan(score) else score)
        check_same(state, anew)
        change = float(rng.choice([-1.0, 1.0]))
        amended = Answer(alpha + change, weight=weight, pace=anew.pace, amends=1.0)
        learner.observe(state, memo, amended)
        anew.amend_round(opened, change, weight=weight, pace=anew.pace)
        check_same(state, anew)


@pytest.mark.parametrize(
    ("before", "cost", "near", "band", "usual", "saved"),
    [
        ((0.5, 2.0, 9), 4.0, 0.6, 0.5 * math.exp(-0.18), 2.2, 1.0 - 0.1 * 4.0 / 2.2),
        ((0.5, 2.0, 9), 4.0, 0.7, 0.5 * math.exp(0.02), 2.2, -0.1 * 4.0 / 2.2),
        ((0.5, 1.0, 498), 500.0, 0.7, 0.5 * math.exp(0.02), 1.0 + 499.0 / 499, -0.1 * 10.0),
        ((0.5, 1.0, 5_000), 51.0, 0.7, 0.5 * math.exp(0.02), 1.1, -0.1 * 10.0),
        ((0.02, 1.0, 9), 1.0, 0.6, 0.02, 1.0, 0.9),
        ((5.0, 1.0, 9), 1.0, 0.7, 5.0, 1.0, -0.1),
        ((0.5, 0.0, 9), 0.0, 0.7, 0.5 * math.exp(0.02), 0.0, -0.1),
    ],
)
def test_the_band_and_what_it_costs_step_by_hand(
    before: tuple[float, float, int], cost: float, near: float, band: float, usual: float, saved: float
) -> None:  # fmt: skip
    """A tenth of the band's truths; its usual cost over 500 rounds; ten times as dear at most."""
    bands, costs = np.array([before[0]]), np.array([before[1]])
    answer = Answer(0.0, near, cost=cost)
    assert weigh_size(bands, costs, 0.1, before[2], 0.7, answer) == pytest.approx(saved, abs=1e-12)
    assert (bands[0], costs[0]) == (pytest.approx(band, abs=1e-12), pytest.approx(usual, abs=1e-12))


def test_a_miss_is_in_no_band() -> None:
    bands, costs = np.array([0.5]), np.array([1.0])
    assert weigh_size(bands, costs, 0.1, 9, 0.7, Answer(1.0, 0.6, cost=1.0)) == pytest.approx(-0.1)


def test_it_takes_graded_answers_and_says_how_many_numbers_a_round_remembers() -> None:
    learner = contextual_tracker(alpha=0.1, features=2, groups=3)
    assert (learner.memory, learner.context, learner.rule.graded) == (5 + 3 * 2 + 3, 5, True)
    assert (learner.informed, learner.runs_interpreted, learner.rule.draws) == (True, False, False)
    state = learner.start()
    memo = learner.choose(state, 0.5, np.array([0.1, math.nan, 1.0, 0.0, 1.0]))[1]
    assert memo[[5, 6, 8, 9]].tolist() == [0.1, 3.0, 0.0, 8.0]  # value and cell of both features
    for name, most in (("held", 100), ("seen", 2**53)):
        for count in (most, most + 2):
            spoilt = state._replace(**{name: np.full(2, count)})
            if count == most:
                assert (getattr(learner.unpack(learner.pack(spoilt)), name) == most).all()
            else:
                with pytest.raises(InvalidError, match=f"the {name} of the state"):
                    learner.unpack(learner.pack(spoilt))
    for place, fits in ((6, True), (9, True), (5, False), (8, False)):  # where the cells are
        far = memo.copy()
        far[place] = 9.0
        if fits:
            with pytest.raises(InvalidError, match="the memo of a round"):
                learner.layout.unpack_memo(far.tobytes())
        else:
            assert (learner.layout.unpack_memo(far.tobytes()) == far).all()


@pytest.mark.parametrize("knots", [2, 3])
def test_the_cells_of_few_knots_lie_where_the_rank_says(knots: int) -> None:
    """One value kept, 0: a smaller one has rank 1/4, the same 1/2, a larger one 3/4."""
    learner = contextual_tracker(alpha=0.1, features=1, knots=knots)
    state = learner.start()
    memo = learner.choose(state, 0.5, np.array([0.0]))[1]
    learner.observe(state, memo, Answer(0.0))
    for value, rank in ((-1.0, 0.25), (0.0, 0.5), (1.0, 0.75)):
        memo = learner.choose(state, 0.5, np.array([value]))[1]
        lower = min(int(rank * (knots - 1)), knots - 2)
        assert memo[5:8].tolist() == [value, lower, rank * (knots - 1) - lower]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"features": -1}, "features -1 is not a whole number from 0 to 100000"),
        ({"features": 100_001}, "features 100001"),
        ({"groups": 100_001}, "groups 100001"),
        ({"size_weight": 1.1}, r"size_weight 1.1 is not in \[0, 1\]"),
        ({"knots": 1}, "knots 1"),
        ({"kept": 0}, "kept 0"),
        ({"window": 0}, "window 0"),
        ({"dead": 151.0}, "dead 151 is above the guard, 150"),
        ({"features": 85_000}, "85,000 features are 10,030,000 numbers"),
    ],
)
def test_parameters_out_of_their_range_are_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        contextual_tracker(alpha=0.1, **given)


def test_parameters_at_the_ends_of_their_range_are_taken() -> None:
    one = contextual_tracker(
        alpha=0.79, features=1, size_weight=1.0, knots=2, kept=1, window=1, dead=150.0
    )
    assert one.parameters.cap == 8.0
    assert contextual_tracker(alpha=0.1, groups=2, guard=60.0, dead=40.0).parameters.cap == 10.0


def make_state(start: Any, anew: FromThePage) -> Any:
    parts = zip(start, anew.pack(), strict=True)
    return type(start)(*(np.array(part, dtype=like.dtype).reshape(like.shape) for like, part in parts))


@pytest.mark.parametrize("delay", [0, 40])
def test_size_weight_trades_as_worked_out_by_hand(delay: int) -> None:
    learner = contextual_tracker(alpha=0.1, features=3, size_weight=0.5)
    by_hand = ByHand(0.1, features=3, groups=0, size_weight=0.5)
    assert compare(learner, by_hand, rounds=2_500, delay=delay) < 1e-9


def test_a_set_that_costs_nothing_is_as_dear_as_usual() -> None:
    """Kills: a cost divided by a mean of 0."""
    learner = contextual_tracker(alpha=0.1, features=1, size_weight=0.5)
    states = []
    for cost in (0.0, 3.0):  # the first is the mean: as dear as usual either way
        state = learner.start()
        _, memo = learner.choose(state, 0.5, np.array([0.3]))
        learner.observe(state, memo, Answer(0.0, 0.9, cost=cost))
        states.append(state.offset[0])
    assert states[0] == states[1]


def test_size_weight_needs_the_label_of_a_hit_and_goes_without_groups() -> None:
    assert contextual_tracker(alpha=0.1, features=1).needs == Needs.HIT_OR_MISS
    assert contextual_tracker(alpha=0.1, features=1, size_weight=0.5).needs == Needs.LABEL_IF_HIT
    with pytest.raises(InvalidError, match=r"size_weight 0.5 and 2 groups pull .*; use one"):
        contextual_tracker(alpha=0.1, groups=2, size_weight=0.5)
    with pytest.raises(InvalidError, match="use a Predictor"):
        simulate(contextual_tracker(alpha=0.1, size_weight=0.5), [0.5])


def test_the_cell_of_a_group_steps_by_hand() -> None:
    """first (miss - alpha) / (prior x cells of the round) at first, each cell by its whole share."""
    learner = contextual_tracker(alpha=0.1, groups=3)
    state = learner.start()
    _, memo = learner.choose(state, 0.5, np.array([1.0, 0.0, 1.0]))
    learner.observe(state, memo, Answer(1.0))
    assert state.weight == pytest.approx([-0.5 * 0.9 / (0.5 * 2), 0.0, -0.5 * 0.9 / (0.5 * 2)])
    assert state.visits.tolist() == [1.0, 0.0, 1.0]


def test_without_features_and_groups_it_is_the_default() -> None:
    scores = np.random.default_rng(2).beta(6, 2, 3_000)
    plain, contextual = (
        simulate(make(n, alpha=0.1), scores) for n in ("informed-tracker", "contextual-tracker")
    )
    assert (plain.thresholds == contextual.thresholds).all()


def test_state_stays_finite_and_of_one_size_whatever_the_features() -> None:
    learner = contextual_tracker(alpha=0.1, features=1)
    known = np.resize([np.inf, -np.inf, np.nan, 1e308, -5e-324], 500).reshape(-1, 1)
    run = simulate(learner, np.full(500, 0.5), features=known)
    assert np.isfinite(run.thresholds).all()
    state = learner.start()
    for value in known:
        threshold, memo = learner.choose(state, 0.5, value)
        learner.observe(state, memo, Answer(float(threshold > 0.5)))
    assert np.isfinite(learner.unpack(learner.pack(state)).kept).all()
    assert len(learner.pack(state)) == len(learner.pack(learner.start()))


PLAY = """
import sys
import numpy as np
from keyhole import simulate
from keyhole.simulation import Channel
from keyhole.learners.rules.contextual_tracker import contextual_tracker, weigh_size

rng = np.random.default_rng(5)
features = rng.standard_normal((1_200, 2))
features[rng.random(features.shape) < 0.1] = np.nan
learner = contextual_tracker(alpha=0.1, features=2, groups=2)
for feedback in ("bandit", "semi-bandit", "full"):
  for channel in (Channel(), Channel(delay=70, geometric=True, lost=0.3)):
    run = simulate(learner, rng.beta(3, 2, 1_200), features=features, feedback=feedback,
                   groups=rng.random((1_200, 2)) < 0.3, channel=channel)
    sys.stdout.buffer.write(run.thresholds.tobytes())
"""


def test_both_lanes_play_the_same_bits() -> None:
    assert play_script(PLAY, compiled=True) == play_script(PLAY, compiled=False)


def test_it_finds_the_spread_that_a_feature_tells() -> None:
    """Kills: an offset that is not learnt; both halves of the feature are to miss at alpha."""
    rng = np.random.default_rng(3)
    feature = rng.random((20_000, 1))
    spread = 0.3 * 10.0 ** feature[:, 0]
    scores = np.clip(1.0 - np.abs(spread * rng.standard_normal(20_000)) / 15.0, 0.0, 1.0)
    run = simulate(contextual_tracker(alpha=0.1, features=1), scores, features=feature)
    plain = simulate(make("logit-tracker", alpha=0.1), scores)
    high = feature[:, 0] > 0.5
    for half in (high, ~high):
        assert abs(run.misses[0, half].mean() - 0.1) < 0.012  # four standard errors of 10,000 rounds
        assert abs(plain.misses[0, half].mean() - 0.1) > 0.05
    # Knowing the spread s, an interval is 1.645 s, on average 1.645 x 1.17 = 1.93; one for all is 2.26.
    assert (1.0 - run.thresholds).mean() < 0.9 * (1.0 - plain.thresholds).mean()


ATTACKS = {
    "hits then misses": lambda n, _: np.where(n < 1_000, 1.0, 0.0),
    "misses then hits": lambda n, _: np.where(n < 1_000, 0.0, 1.0),
    "all hits": lambda n, _: np.ones(n.size),
    "all misses": lambda n, _: np.zeros(n.size),
    "the feature decides, and turns": lambda n, x: ((x > 0.5) ^ (n // 1_500 % 2 == 1)).astype(float),
    "long waves": lambda n, _: (n // 500 % 2).astype(float),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_no_attack_carries_all_rounds_beyond_the_guard(attack: Any, alpha: float) -> None:
    """Kills: a guard that closes one answer too late."""
    rounds = 8_000
    x = np.random.default_rng(1).random((rounds, 1))
    learner = contextual_tracker(alpha=alpha, features=1)
    run = simulate(learner, attack(np.arange(rounds), x[:, 0]), features=x)
    least, most = bounds.excess(learner, rounds=10**9)
    assert (least, most) == pytest.approx((-150.0 - alpha, 151.0 - alpha))
    total = np.cumsum(run.misses[0] - alpha)
    assert least - 1e-6 <= total.min()
    assert total.max() <= most + 1e-6


def test_misses_come_near_the_guard_when_an_attacker_drives_the_offset() -> None:
    """The bound is nearly sharp: every case where the offset is low gets a miss, the rest a hit."""
    learner = contextual_tracker(alpha=0.1, features=1, guard=20.0, dead=10.0)
    run = simulate(learner, np.zeros(4_000), features=np.zeros((4_000, 1)))
    total = np.cumsum(run.misses[0] - 0.1)
    assert 20.0 <= total.max() <= 20.9 + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_no_group_passes_its_bound_even_when_guards_conflict(seed: int) -> None:
    """Kills: the farther excess losing a conflict; small guards make conflicts common."""
    rng, rounds = np.random.default_rng(seed), 6_000
    learner = contextual_tracker(alpha=0.2, groups=3, guard=10.0, dead=5.0)
    state, error = learner.start(), np.zeros(4)
    habit = rng.random(3)
    for n in range(rounds):
        if n % 300 == 0:
            habit = rng.random(3)
        own = rng.random(3) < 0.5
        threshold, memo = learner.choose(state, 0.5, own.astype(float))
        score = float(rng.random() < (habit[own].mean() if own.any() else 0.5))
        miss = float(score < threshold)
        learner.observe(state, memo, Answer(miss))
        error += np.concatenate(([1.0], own)) * (miss - 0.2)
        bound = learner.parameters.bound_groups(state, Lateness())
        assert np.abs(error).max() <= bound + 1e-9
    assert state.conflicts[0] > 0


def test_bound_of_groups_counts_conflicts_and_lateness() -> None:
    learner = contextual_tracker(alpha=0.1, groups=2)
    state, bound = learner.start(), learner.parameters.bound_groups
    late = Lateness(open=9)
    assert bound(state, Lateness()) == 151.0
    state.conflicts[:] = (10.8, 6.5, 1.0, 21.6, 2.0)
    assert bound(state, Lateness()) == pytest.approx(151.0 + math.sqrt(6.5))
    assert bound(state, Lateness(), amended=3.0) == pytest.approx(
        154.0 + math.sqrt(6.5 + 2 * 10.8 * 3.0)
    )
    state.lateness[0] = 5
    # Six carriers, as the level is 5; two conflicts that raised it; the guard has grown by 10.
    inner = 10.8 * (1 + 2 * (10 + 2 + 6 + 2)) + 2 * 21.6
    assert bound(state, late) == pytest.approx(160.0 + 6 + 2 + math.sqrt(inner))
    inner += 10.8 * 4 * 3.0
    assert bound(state, late, amended=3.0) == pytest.approx(160.0 + 6 + 2 + 3 + math.sqrt(inner))
    # Of which there are three where no more were open; after an empty set was spared they count thrice.
    inner = 10.8 * (1 + 2 * (10 + 2 + 3 + 2)) + 2 * 21.6
    assert bound(state, Lateness(open=3)) == pytest.approx(160.0 + 3 + 2 + math.sqrt(inner))
    inner += 10.8 * 2 * 2 * 3
    spared = bound(state, Lateness(open=3), is_spared=True)
    assert spared == pytest.approx(160.0 + 3 + 2 + math.sqrt(inner))
    state.conflicts[:] = (0.0, 0.0, 1.0, 0.0, 0.0)
    assert bound(state, late) == 166.0
    state.conflicts[2] = 3.0  # an answer that counted for more than one round
    assert bound(state, late) == 150.0 + 2 * 5 + 6 * 3.0
    assert bound(state, Lateness(open=2)) == 150.0 + 2 * 5 + 2 * 3.0


def test_a_bound_of_all_rounds_bears_the_longer_side_of_an_answer() -> None:
    """At alpha 0.7 a hit that may be wrong, told as -1/8, moves an account farther than a miss."""
    learner, step = contextual_tracker(alpha=0.7, groups=1), 0.7 + 0.125
    told = Lateness(told=(-0.125, 1.125))
    squares = 2.0 * 100 * step * step
    found = learner.parameters.late_excess(100, told)
    assert found.most == -found.least == pytest.approx(150.0 + 1.0 + math.sqrt(squares))


def test_late_bound_of_all_rounds_bears_a_conflict_in_every_round() -> None:
    learner = contextual_tracker(alpha=0.1, groups=2)
    moved = 3 * 1_000 * 0.9
    # Level 9, ten carriers and nine that raised it; the guard has grown by 18.
    most = 150.0 + 18 + 10 + 9 + math.sqrt(moved * (1 + 2 * (18 + 2 + 9 + 30)) + 2 * 9 * moved)
    assert bounds.excess(learner, rounds=1_000, open=10, age=9) == pytest.approx((-100.0, most))
    # With two open an age is 1 on average, and the level at most 9 all the same.
    inner = moved * (1 + 2 * (18 + 2 + 9 + 6)) + 2 * 3 * 1_000 * 0.9
    most = 150.0 + 18 + 2 + 9 + math.sqrt(inner)
    assert bounds.excess(learner, rounds=1_000, open=2, age=9).most == pytest.approx(most)


class Conspiracy:
    """A world of two groups: one is to miss too often, the other too rarely, and both share rounds.

    Misses of the first and hits of the second are answered at once, what would turn them back is held
    back as long as rounds may be open; rounds of both are asked for in the meantime.
    """

    def __init__(self, learner: Learner, seed: int) -> None:
        self.learner, self.rng = learner, np.random.default_rng(seed)
        self.state, self.error = learner.start(), np.zeros(3)
        self.waiting: list[tuple[np.ndarray, np.ndarray, float, int]] = []
        self.answered, self.most, self.lateness = 0, np.zeros(3), Lateness()

    def ask(self, own: np.ndarray, score: float) -> None:
        threshold, memo = self.learner.choose(self.state, 0.5, own)
        self.waiting.append((own, memo, float(score < threshold), self.answered))

    def tell(self, place: int) -> None:
        own, memo, miss, then = self.waiting.pop(place)
        age = float(self.answered - then)
        self.learner.observe(self.state, memo, Answer(miss, math.nan, age, 2.0 * age, 0.0))
        self.answered += 1
        self.error += np.concatenate(([1.0], own)) * (miss - self.learner.alpha)
        bound = self.learner.parameters.bound_groups(self.state, self.lateness)
        assert np.abs(self.error).max() <= bound + 1e-9
        self.most = np.maximum(self.most, np.abs(self.error))

    def play(self, rounds: int, most_open: int) -> None:
        self.lateness = Lateness(open=most_open)
        for _ in range(rounds):
            kind = self.rng.integers(4)
            own = np.array([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 1.0)][kind])
            self.ask(own, (0.0, 1.0, 0.0, 1.0)[kind])
            wanted = [
                n
                for n, (of, _, miss, _) in enumerate(self.waiting)
                if (of[0] > 0.0 and miss) or (of[1] > 0.0 and not miss)
            ]
            if wanted and self.rng.random() < 0.9:
                self.tell(wanted[self.rng.integers(len(wanted))])
            if len(self.waiting) == most_open:
                while self.waiting:
                    self.tell(0)


@pytest.mark.parametrize("most_open", [2, 8, 20])
@pytest.mark.parametrize("seed", range(3))
def test_no_group_passes_its_late_bound_when_lateness_and_conflicts_conspire(
    seed: int, most_open: int
) -> None:
    """Kills: a guard or a conflict that lateness lets pass; small guards make conflicts common."""
    # With small steps, lest the position itself end the attack.
    learner = contextual_tracker(alpha=0.3, groups=2, guard=4.0, dead=2.0, step=0.01, first=0.02)
    world = Conspiracy(learner, seed)
    world.play(2_500, most_open)
    assert world.state.conflicts[0] > 0
    assert world.state.lateness[0] > 0
    assert world.most.max() > 4.0 + world.state.lateness[0]  # beyond the guard that began it


@pytest.mark.parametrize("batch", [10, 200])
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_batches_of_the_worst_stay_within_the_late_bound(score: float, batch: int) -> None:
    rounds = 12_000
    learner = contextual_tracker(alpha=0.1, features=1)
    run = simulate(
        learner, np.full(rounds, score), features=np.zeros((rounds, 1)), channel=Channel(batch=batch)
    )
    least, most = learner.parameters.late_excess(rounds, Lateness(batch, age=batch - 1))
    total = np.cumsum(run.misses[0] - 0.1)[batch - 1 :: batch]
    assert least - 1e-6 <= total.min()
    assert total.max() <= most + 1e-6


def test_context_of_the_wrong_shape_is_refused() -> None:
    learner = contextual_tracker(alpha=0.1, features=2, groups=1)
    with pytest.raises(InvalidError, match=r"features have shape \(3, 1\).*give \(3, 2\)"):
        simulate(learner, np.zeros(3), features=np.zeros((3, 1)))
    with pytest.raises(InvalidError, match="groups hold NaN"):
        simulate(learner, np.zeros(3), groups=np.full((3, 1), np.nan))
