"""Bounds on misses under late answers, attacked by worlds in which lateness and outcome conspire."""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from keyhole import HIT, LEARNERS, MISS, Predictor, make
from keyhole.errors import InvalidError, TheoremError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner, bounds, safety_valve
from keyhole.learners.lateness import (
    Excess,
    Lateness,
    bound_late_tracker,
    guard_threshold,
    widen_guards,
)
from keyhole.learners.parameters import parameters, target
from keyhole.learners.rule import EVERY, NONE

from .attacks import ATTACKS, World, attack

LATE = sorted(
    name
    for name, rule in LEARNERS.items()
    if hasattr(rule.parameters, "late_excess") and rule.needs == Needs.HIT_OR_MISS
)


@dataclass
class Guarded:
    """Plays 1/2 between two guards, every label above the upper one and none below the lower one."""

    alpha: float
    guards: Excess
    excess: float = 0.0

    def choose(self) -> tuple[float, None]:
        if self.excess > self.guards.most:
            return 0.0, None
        return (2.0 if self.excess < self.guards.least else 0.5), None

    def observe(self, memo: None, miss: float) -> None:  # noqa: ARG002
        self.excess += miss - self.alpha


class Asked:
    """A learner as a player: behind a predictor that hears of hits and misses."""

    def __init__(self, learner: Learner) -> None:
        self.predictor: Predictor[Any] = Predictor(learner, feedback="bandit", seed=1)

    def choose(self) -> tuple[float, Any]:
        shown = self.predictor.predict([1.0])
        return shown.threshold, shown

    def observe(self, memo: Any, miss: float) -> None:
        self.predictor.learn(memo, MISS if miss else HIT)


def levels(world: World) -> list[int]:
    """Return, after each answer, the level that every answer older than it raises by one."""
    level, reached = 0, []
    for age in world.ages:
        level += age > level
        reached.append(level)
    return reached


@pytest.mark.parametrize("most_open", [1, 2, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_behind_guards_only_rounds_that_are_open_can_go_on(alpha: float, most_open: int) -> None:
    guards = Excess(least=-5.0, most=20.0)
    bound = widen_guards(guards, alpha=alpha, lateness=Lateness(most_open))
    seen = []
    for name in ATTACKS:
        player = Guarded(alpha, guards)
        world = attack(player, name, alpha=alpha, most_open=most_open, answers=3_000)
        assert world.most_open <= most_open
        seen += world.excess
    assert bound.least - 1e-9 <= min(seen) <= bound.least + alpha
    assert bound.most - (1.0 - alpha) <= max(seen) <= bound.most + 1e-9


@pytest.mark.parametrize("most_open", [1, 2, 10, 100])
def test_the_level_of_lateness_never_passes_what_ages_allow(most_open: int) -> None:
    for name in ATTACKS:
        world = attack(
            Guarded(0.1, Excess(-9.0, 9.0)), name, alpha=0.1, most_open=most_open, answers=2_000
        )
        known = Lateness(most_open, max(world.ages))
        for answers, level in enumerate(levels(world), start=1):
            assert level <= known.level(answers) <= Lateness(most_open).level(answers)


def test_the_level_of_lateness_comes_near_what_the_sum_of_ages_allows() -> None:
    """Nine rounds are kept open while just as many answers pass as make each of them raise it."""
    player = Guarded(0.1, Excess(-9.0, 9.0))
    world = attack(player, "old answers, then hits", alpha=0.1, most_open=10, answers=20_000)
    allowed = Lateness(10).level(len(world.ages))
    assert 0.6 * allowed < levels(world)[-1] <= allowed


@pytest.mark.parametrize(("open_", "rounds", "level"), [(1, 10**9, 0), (2, 1, 1), (2, 2, 1), (2, 3, 2)])
def test_level_by_hand(open_: int, rounds: int, level: int) -> None:
    """To reach 2 takes ages 1 + 2 = 3, and with one other round open each answer gives 1."""
    assert Lateness(open_).level(rounds) == level
    assert Lateness(open_, age=0).level(rounds) == 0


def test_an_answer_that_is_heard_several_times_may_raise_the_level_as_often() -> None:
    """Of three answers the last is 2 old and heard five times: its ages are 10 together, as 4 takes."""
    assert Lateness(2, weight=5.0).level(2) == Lateness(2, weight=4.5).level(2) == 4


def test_a_fixed_delay_costs_three_misses_a_round_of_it() -> None:
    """Answers d rounds late, in order: d + 1 open, age d, so up + 2 d + (d + 1)(1 - alpha)."""
    up = Excess(least=-179.0, most=148.0)
    late = bound_late_tracker(up, alpha=0.1, rounds=10**6, lateness=Lateness(101, age=100))
    assert late == pytest.approx((-179.0 - 200.0 - 10.1, 148.0 + 200.0 + 90.9))
    assert late.most <= up.most + 3 * 100 + 1


def test_one_very_late_answer_costs_three_misses_and_not_its_age() -> None:
    """A thousand may be open, but if no answer is older than 1, two can carry the excess on."""
    up = Excess(least=-179.0, most=148.0)
    late = bound_late_tracker(up, alpha=0.1, rounds=10**6, lateness=Lateness(1_000, age=1))
    assert late == pytest.approx((-179.0 - 2.0 - 0.2, 148.0 + 2.0 + 1.8))


@pytest.mark.parametrize("most_open", [2, 10, 60])
def test_no_more_rounds_carry_the_excess_past_a_guard_than_the_level_and_one(most_open: int) -> None:
    guards = Excess(least=-5.0, most=20.0)
    for name in ATTACKS:
        world = attack(Guarded(0.1, guards), name, alpha=0.1, most_open=most_open, answers=3_000)
        for excess, level in zip(world.excess, levels(world), strict=True):
            bound = widen_guards(guards, alpha=0.1, lateness=Lateness(level + 1))
            assert bound.least - 1e-9 <= excess <= bound.most + 1e-9


@pytest.mark.parametrize("most_open", [2, 40])
def test_as_many_misses_pass_a_valve_as_rounds_are_open(most_open: int) -> None:
    """Kills: a late bound without the rounds that were open when the valve closed."""
    learner, nearest = safety_valve(make("tracker", alpha=0.1)), 1e9
    for how in ATTACKS:
        world = attack(Asked(learner), how, alpha=0.1, most_open=most_open, answers=800)
        for answers, excess in enumerate(world.excess, start=1):
            most = bounds.excess(learner, rounds=answers, open=most_open).most
            assert excess <= most + 1e-9
            nearest = min(nearest, most - excess)
    assert nearest < 2.0


def test_a_rule_without_a_late_form_says_so() -> None:
    proven = {name: vars(rule.parameters) for name, rule in LEARNERS.items()}
    silent = [name for name, says in proven.items() if "excess" in says and "late_excess" not in says]
    assert "kt" in silent
    for name in silent:
        with pytest.raises(TheoremError, match="unless every round is answered before"):
            bounds.excess(make(name, alpha=0.1), rounds=1_000, open=3)


def test_a_rule_with_a_late_form_is_asked_for_it_and_no_more_than_all_can_miss() -> None:
    told = []

    @parameters
    class Proven:
        alpha: float = target()

        def excess(self, rounds: int) -> Excess:
            return Excess(least=-0.5 * rounds, most=0.01 * rounds)

        def late_excess(self, rounds: int, lateness: Lateness) -> Excess:
            told.append((self.alpha, rounds, lateness))
            return Excess(least=-1e9, most=7.0)

    learner = replace(LEARNERS["sf-ogd"], parameters=Proven)(alpha=0.1)
    assert bounds.excess(learner, rounds=1_000, open=3, age=2) == (-100.0, 7.0)
    assert told == [(0.1, 1_000, Lateness(3, 2))]
    assert bounds.excess(learner, rounds=1_000) == (-100.0, 10.0)


def test_lateness_is_checked() -> None:
    learner = make("logit-tracker", alpha=0.1)
    with pytest.raises(InvalidError, match="0 rounds open at once"):
        bounds.excess(learner, rounds=10, open=0)
    with pytest.raises(InvalidError, match="age -1"):
        bounds.excess(learner, rounds=10, open=2, age=-1)


@pytest.mark.parametrize("most_open", [2, 60])
@pytest.mark.parametrize("name", LATE)
def test_late_forms_hold_against_every_attack(name: str, most_open: int) -> None:
    """Bounds only widen with every answer: it is enough to look where the excess sets a record."""
    learner = make(name, alpha=0.1)
    for how in ATTACKS:
        world = attack(Asked(learner), how, alpha=0.1, most_open=most_open, answers=1_500)
        least = most = oldest = 0.0
        for answers, (excess, age) in enumerate(zip(world.excess, world.ages, strict=True), start=1):
            oldest = max(oldest, age)
            if least <= excess <= most:
                continue
            least, most = min(least, excess), max(most, excess)
            limits = bounds.excess(learner, rounds=answers, open=most_open, age=int(oldest))
            assert limits.least - 1e-6 <= excess <= limits.most + 1e-6


@pytest.mark.parametrize("alpha", [0.01, 0.1])
@pytest.mark.parametrize("name", ["tracker", "aci", "agaci", "self-scaled", "logit-tracker"])
def test_rounds_that_are_never_answered_do_not_carry_misses_past_a_bound(
    name: str, alpha: float
) -> None:
    """Kills: guards that are off until an answer is old. A thousand lost rounds make misses stale."""
    learner, rng = make(name, alpha=alpha), random.Random(0)  # noqa: S311
    state, excess = learner.start(), 0.0
    least, most = bounds.excess(learner, rounds=10**9, lost=True)
    for _ in range(8_000):
        threshold, memo = learner.choose(state, 0.5)
        score = rng.random()
        miss = float(score < threshold)
        learner.observe(state, memo, Answer(miss, score, age=0.0, stale=1_000.0 * miss))
        excess += miss - alpha
        assert least - 1e-6 <= excess <= most + 1e-6


def test_one_lost_round_costs_the_default_the_room_of_one_miss() -> None:
    """At its guard, and one round carries it on: by hand 1 - alpha above, alpha below."""
    learner = make("logit-tracker", alpha=0.1)
    prompt, lost = bounds.excess(learner), bounds.excess(learner, lost=True)
    assert lost == pytest.approx((prompt.least - 0.1, prompt.most + 0.9))
    with pytest.raises(TheoremError, match="unless every round is answered"):
        bounds.excess(make("kt", alpha=0.1), rounds=100, lost=True)


def test_an_answer_that_counts_for_many_rounds_carries_the_excess_as_far() -> None:
    """Ten rounds each, two open: guards ten times as far out, and twenty misses that pass them."""
    learner = make("logit-tracker", alpha=0.1)
    up = bounds.excess(learner)
    told = bounds.excess(learner, rounds=10**9, open=2, age=1, chance=0.1)
    assert told == pytest.approx((10 * (up.least - 2.0) - 2.0, 10 * (up.most + 2.0) + 18.0))


@pytest.mark.parametrize("threshold", [-0.1, 0.0, 0.5, 1.0])
def test_below_its_guard_nothing_is_shown_wherever_the_threshold_is(threshold: float) -> None:
    """Answers of a known chance move the excess more than the threshold, which may still be below 0."""
    assert guard_threshold(threshold, -5.1, 0, 5.0, -5.0) == NONE
    assert guard_threshold(threshold, 5.1, 0, 5.0, -5.0) == EVERY
    assert guard_threshold(threshold, 0.0, 0, 5.0, -5.0) == max(threshold, EVERY)
