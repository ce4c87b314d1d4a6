"""What is proven of a predictor by now."""

from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import MISS, Predictor, Probabilities, bounds
from keyhole.errors import InvalidError, TheoremError, TheoryWarning
from keyhole.learners.lateness import Excess, Lateness
from keyhole.predictor.report import judge_groups
from keyhole.predictor.setup import change_alpha


def test_regret_bound_is_that_of_the_theorem() -> None:
    predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=2000, arms=10, seed=7)
    assert predictor.regret_bound() == keyhole.bounds.regret(predictor.learner)
    assert Predictor("ocp-unlock+", alpha=0.1, arms=10, seed=7).regret_bound() > 0.0


def test_regret_bound_ends_with_the_horizon() -> None:
    predictor = Predictor("ocp-unlock+", alpha=0.1, horizon=150, arms=10, seed=7)
    for _ in range(150):
        predictor.learn(predictor.predict([0.7, 0.2]), label=0)
    assert predictor.regret_bound() > 0.0
    with pytest.warns(TheoryWarning):
        predictor.learn(predictor.predict([0.7, 0.2]), label=0)
    with pytest.raises(TheoremError, match="horizon of 150 rounds, not of 151"):
        predictor.regret_bound()


def test_without_a_horizon_the_regret_bound_is_that_of_the_rounds_up_to_now() -> None:
    predictor = Predictor("ocp-unlock", alpha=0.1, arms=8)
    assert predictor.regret_bound() == bounds.regret(predictor.learner, rounds=1)
    for _ in range(5):
        predictor.learn(predictor.predict([0.9]), label=0)
    assert predictor.regret_bound() == bounds.regret(predictor.learner, rounds=5)


def test_a_calibrated_bound_claims_no_more_misses_than_rounds() -> None:
    """Kills: a first round whose bound is that of its history."""
    predictor = Predictor(alpha=0.1)
    predictor.calibrate([(0.7,)] * 300, [0] * 300)
    assert predictor.bound(rounds=2) == (-0.2, 1.8)


def test_the_bound_of_a_predictor_is_the_late_one_once_answers_came_late() -> None:
    """Kills: a promise for prompt answers that is shown although they were late; by hand L is 3."""
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict_batch([(0.7, 0.3)] * 4)
    predictor.learn_batch(shown, [0] * 4)
    learner = predictor.learner
    late = keyhole.bounds.excess(learner, rounds=10_000, open=4, age=3)
    assert predictor.bound(rounds=10_000) == late
    assert late.most > keyhole.bounds.excess(learner, rounds=10_000).most


def play(predictor: Predictor[Any], *, miss: bool, shown: Any = None) -> None:
    """Answer a round, or the next one, against the set's will where it allows that."""
    shown = shown or predictor.predict([1.0, 1e-9])
    forced = shown.threshold <= 0.0 or shown.threshold > 1.0
    predictor.learn(shown, label=1 if shown.threshold > 1.0 or (miss and not forced) else 0)


def find_excess(predictor: Predictor[Any]) -> float:
    return predictor.rounds * (predictor.miss_rate - predictor.alpha) if predictor.rounds else 0.0


@pytest.mark.parametrize("kept", [1, 3])
def test_the_late_bound_counts_the_rounds_that_were_open_and_not_how_old_answers_were(
    kept: int,
) -> None:
    """Answers 20 others old, and few open: those and a prompt one carry the excess on; by hand.

    Kills: the level and one for what was open; and what was open without the prompt one.
    """
    learner = keyhole.make("informed-tracker", alpha=0.1, options={"guard": 4.0})
    predictor: Predictor[Any] = Predictor(learner)
    for age in range(1, 21):
        held = predictor.predict([1.0, 1e-9])
        for _ in range(age):
            play(predictor, miss=find_excess(predictor) < 0.0)
        play(predictor, miss=False, shown=held)
    assert predictor.bound(rounds=10_000) == pytest.approx((-44.2, 44.0 + 2 * 0.9))
    while find_excess(predictor) < 44.05:  # The guard stands at 4 + 2 * 20.
        play(predictor, miss=True)
    while find_excess(predictor) > 43.95:
        play(predictor, miss=False)
    waiting = [predictor.predict([1.0, 1e-9]) for _ in range(kept)]
    play(predictor, miss=True)
    for shown in waiting:
        play(predictor, miss=True, shown=shown)
    most = 44.0 + (kept + 1) * 0.9
    assert predictor.bound().most == pytest.approx(most)
    assert most - 0.11 < find_excess(predictor) <= most


@pytest.mark.parametrize("kept", [1, 3])
def test_the_late_bound_of_a_group_counts_the_rounds_that_were_open(kept: int) -> None:
    """As of all rounds, and those are stated as their account is; by hand.

    Kills: the level and one for what was open, of a group; all rounds as if every one had been a
    conflict.
    """
    # With small steps, lest the position itself end the attack.
    options = {"guard": 4.0, "dead": 2.0, "step": 0.01, "first": 0.02, "groups": 1}
    learner = keyhole.make("contextual-tracker", alpha=0.1, options=options)
    predictor: Predictor[Any] = Predictor(learner, groups=1)

    def ask() -> Any:
        return predictor.predict([1.0, 1e-9], groups=[0])

    for age in range(1, 21):
        held = ask()
        for _ in range(age):
            play(predictor, miss=find_excess(predictor) < 0.0, shown=ask())
        play(predictor, miss=False, shown=held)
    while find_excess(predictor) < 44.05:  # The guard stands at 4 + 2 * 20.
        play(predictor, miss=True, shown=ask())
    while find_excess(predictor) > 43.95:
        play(predictor, miss=False, shown=ask())
    waiting = [ask() for _ in range(kept)]
    play(predictor, miss=True, shown=ask())
    for shown in waiting:
        play(predictor, miss=True, shown=shown)
    (group,) = predictor.groups.values()
    most = 44.0 + (kept + 1) * 1.0  # An answer moves an account by 0.9, and counts as 1.
    assert group.bound is not None
    assert group.bound.most == pytest.approx(most)
    assert predictor.bound().most == pytest.approx(most)
    assert most - 0.11 - 0.1 * (kept + 1) < group.excess <= most


def test_a_learner_that_promises_prompt_answers_only_says_so_once_they_were_late() -> None:
    predictor = Predictor("pi", alpha=0.1)
    predictor.bound()
    shown = predictor.predict_batch([(0.7, 0.3)] * 4)
    predictor.learn_batch(shown, [0] * 4)
    with pytest.raises(TheoremError, match="unless every round is answered before"):
        predictor.bound()


def test_a_hard_group_keeps_its_promise_although_no_set_is_empty() -> None:
    """Kills: a guard of all rounds that asks for an empty set, which a floor never shows."""
    rng = np.random.default_rng(1)
    predictor: Predictor[Any] = Predictor(
        alpha=0.1, groups=["hard"], score=Probabilities(at_least=1), seed=1
    )
    missed = []
    for _ in range(20_000):
        hard = rng.random() < 0.1
        best = (0.4 + 0.2 * rng.random()) if hard else (0.5 + 0.45 * rng.random())
        right = rng.random() < (0.5 if hard else 0.985)
        shown = predictor.predict([best, 0.8 * (1 - best), 0.2 * (1 - best)], groups=["hard"] * hard)
        truth = 0 if right else 1 + int(rng.random() > 0.9)
        if hard:
            missed.append(truth not in shown)
        predictor.learn(shown, label=truth) if truth in shown else predictor.learn(shown, MISS)
        group = predictor.groups["hard"]
        assert group.bound is not None
        assert group.excess <= group.bound.most <= 151.0 + 0.2  # the rest for guards that conflicted
        assert group.excess <= 151.0 - 0.1
    assert abs(np.mean(missed[1_000:]) - 0.1) < 0.03  # three standard errors of a thousand rounds


def test_a_group_keeps_its_promise_although_an_empty_set_may_lose_nothing() -> None:
    """Kills: an account that sinks where no set can lose, and outweighs one that is too high."""
    predictor: Predictor[Any] = Predictor(alpha=0.1, groups=["A", "B"], seed=1)
    for _ in range(6_000):
        predictor.learn(predictor.predict([0.9, 0.1], groups=["B"]), loss=0.0)
    for _ in range(800):
        shown = predictor.predict([0.9, 0.1], groups=["A", "B"])
        predictor.learn(shown, loss=0.0 if shown.threshold <= 0.0 else 1.0)
        for group in predictor.groups.values():
            assert group.bound is not None
            assert group.bound.least <= group.excess + 1e-6 <= group.bound.most + 2e-6


def test_a_group_keeps_its_lower_bound_although_sets_have_a_cap() -> None:
    """Kills: an account that climbs where no set can hit, and outweighs one that is too low."""
    predictor: Predictor[Any] = Predictor(
        alpha=0.3, groups=["A", "B"], score=Probabilities(at_most=1), seed=1
    )
    for _ in range(1_000):
        predictor.learn(predictor.predict([0.9, 0.1], groups=["A"]), MISS)
    for _ in range(1_500):
        shown = predictor.predict([0.9, 0.1], groups=["A", "B"])
        predictor.learn(shown, MISS if len(shown) == 0 else keyhole.HIT)
    group = predictor.groups["B"]
    assert group.bound is not None
    assert -200.0 < group.bound.least <= group.excess


def test_the_bound_of_a_group_is_that_of_its_account_under_whatever_target() -> None:
    """Kills: a group whose excess at today's target lies beyond its bound; by hand 151 + 0.39 n."""
    predictor: Predictor[Any] = Predictor(alpha=0.4, groups=["new"])
    for _ in range(400):
        shown = predictor.predict([1.0, 0.0], groups=["new"])
        predictor.learn(shown, MISS if shown.threshold > 0.0 else keyhole.HIT)
    (before,) = predictor.groups.values()
    (after,) = judge_groups(change_alpha(predictor.setup, 0.01), predictor._progress).values()
    assert before.bound is not None
    assert after.bound is not None
    assert before.bound == (-151.0, 151.0)
    assert after.bound == pytest.approx((-151.0 + 0.39 * 400, 151.0 + 0.39 * 400))
    assert after.excess <= after.bound.most


def test_misses_that_nothing_prevents_are_counted_into_the_bound() -> None:
    """Kills: a bound that is stated although truths that are no candidates are beyond it."""
    predictor = Predictor(alpha=0.1)
    for _ in range(400):
        predictor.learn(predictor.predict({"cat": 0.9, "dog": 0.1}), label="zebra")
    excess = predictor.miss_rate * 400 - 0.1 * 400
    assert excess == pytest.approx(360.0)
    learner, full = predictor.learner, predictor._progress.tally.lost_in_full
    assert excess <= predictor.bound().most <= bounds.excess(learner, lost=True).most + full
    kt = Predictor("kt", alpha=0.1)
    for _ in range(400):
        kt.learn(kt.predict({"cat": 0.9, "dog": 0.1}), label="zebra")
    with pytest.raises(TheoremError, match="threshold 0 never misses"):
        kt.bound()


def test_no_lower_bound_is_stated_once_an_empty_set_lost_less_than_alpha() -> None:
    """Kills: -179 stated where the excess is -600."""
    predictor = Predictor(alpha=0.1)
    for _ in range(6_000):
        predictor.learn(predictor.predict([0.9, 0.1]), loss=0.0)
    assert predictor.bound().least == pytest.approx(-600.0)
    assert predictor.bound().most < 151.0
    calm = Predictor(alpha=0.1)
    for _ in range(6_000):
        shown = calm.predict([0.9, 0.1])
        calm.learn(shown, loss=0.1 if shown.threshold > 1.0 else 0.0)
    assert -179.0 < calm.bound().least <= calm._progress.tally.misses - 600.0


@pytest.mark.parametrize(("told", "wide"), [({"chance": 0.1}, 10.0), ({"wrong": 0.2}, 1.0)])
def test_the_bound_of_what_is_told_allows_for_chance_and_wrong_answers(told: Any, wide: float) -> None:
    """Kills: the prompt bound stated of answers that count for ten rounds, or for more than a miss."""
    predictor, rng = Predictor(alpha=0.1, seed=1), np.random.default_rng(2)
    for _ in range(3_000):
        shown = predictor.predict([0.9, 0.1])
        missed = (shown.threshold > 0.0) ^ (rng.random() < told.get("wrong", 0.0))
        predictor.learn(shown, MISS if missed else keyhole.HIT, **told)
        tally = predictor._progress.tally
        excess = tally.misses - 0.1 * tally.weight
        assert predictor.bound().least - 1e-6 <= excess <= predictor.bound().most + 1e-6
    plain = bounds.excess(predictor.learner)
    assert wide * plain.most <= predictor.bound().most < wide * (plain.most + 2.0)


def test_the_bound_of_the_truth_is_that_of_what_is_told_where_nothing_is_by_chance() -> None:
    predictor = Predictor(alpha=0.1)
    for n in range(2_000):
        predictor.learn(predictor.predict([0.9, 0.1]), label=int(n % 9 == 0))
    assert predictor.bound(delta=0.01) == predictor.bound()


def miss_unheard(chance: float, *, delta: float, runs: int, name: str = "informed-tracker") -> float:
    """Return in which share of runs the truth ever passes its bound, if it misses wherever it can."""
    rng, passed, width = np.random.default_rng(5), 0, 0.0
    for _ in range(runs):
        options = {"guard": 4.0} if name == "informed-tracker" else {"step": 0.2}
        learner = keyhole.make(name, alpha=0.1, options=options)
        predictor: Predictor[Any] = Predictor(learner, least_chance=chance, seed=int(rng.integers(99)))
        excess, is_passed = 0.0, False
        for n in range(1, 241):
            shown = predictor.predict([1.0, 1e-9])
            missed = shown.threshold > 0.0
            excess += missed - 0.1
            if rng.random() < chance:
                predictor.learn(shown, label=int(missed), chance=chance)
            else:
                predictor.skip(shown)
            if n in (4, 8, 12, 20, 60, 240):
                bound = predictor.bound(delta=delta)
                is_passed |= not bound.least - 1e-9 <= excess <= bound.most + 1e-9
                width = bound.most
        passed += is_passed
    assert width < 0.9 * 240  # It says more than that there were so many rounds.
    return passed / runs


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("chance", [0.25, 0.5])
def test_the_truth_passes_its_bound_no_more_often_than_delta_before_the_first_answer_too(
    chance: float, delta: float
) -> None:
    """Kills: the largest weight heard so far for that of rounds that were never heard."""
    assert miss_unheard(chance, delta=delta, runs=40) <= delta


def test_a_rule_that_hears_an_answer_whole_times_keeps_the_bound_of_the_truth() -> None:
    assert miss_unheard(0.4, delta=0.2, runs=30, name="tracker") <= 0.2


def test_rounds_without_an_answer_may_have_had_the_least_chance() -> None:
    """Kills: a bound of the truth that is certain although nothing was heard."""
    learner = keyhole.make("informed-tracker", alpha=0.1, options={"guard": 4.0})
    predictor: Predictor[Any] = Predictor(learner, least_chance=0.2)
    for _ in range(200):
        predictor.skip(predictor.predict([1.0, 1e-9]))
    rare = Lateness(weight=5.0)
    found = bounds.bound_truth(Excess(-4.1, 4.9), 0.1, 200, rare, delta=0.1)
    assert found.most < 180.0
    assert predictor.bound(delta=0.1) == pytest.approx(found)
    predictor.learn(predictor.predict([1.0, 1e-9]), label=0, chance=0.2)
    settled = predictor.bound(delta=0.1).most
    predictor.predict([1.0, 1e-9])  # open: it may be a miss
    assert settled + 0.9 < predictor.bound(delta=0.1).most < settled + 1.2


def test_flips_are_known_from_either_answer() -> None:
    """Kills: after misses alone, hits that could not have been told as misses."""
    predictor: Predictor[Any] = Predictor(alpha=0.1)
    shown = predictor.predict([1.0, 1e-9])
    predictor.learn(shown, MISS, wrong=0.2)
    flips = Lateness(told=(-0.2 / 0.6, 0.8 / 0.6))
    certain = predictor.bound()
    found = bounds.bound_truth(certain, 0.1, 1, flips, delta=0.5)
    assert predictor.bound(delta=0.5) == pytest.approx((max(found.least, -0.1), min(found.most, 0.9)))
    assert predictor.bound(delta=0.5).least == pytest.approx(-0.1)


def test_a_second_history_adds_its_excess_to_that_of_the_first() -> None:
    """Kills: the first history's excess forgotten, so that a bound is off by it."""
    once, twice = Predictor(alpha=0.1), Predictor(alpha=0.1)
    outputs, labels = [(1.0, 0.0)] * 200, [0] * 200  # which hit until no label is shown
    once.calibrate(outputs, labels)
    for part in (slice(120), slice(120, 200)):
        twice.calibrate(outputs[part], labels[part])
    plain = Predictor(alpha=0.1).bound(rounds=500).most
    assert once.bound(rounds=500).most == pytest.approx(plain + 20.0)
    assert twice.bound(rounds=500) == pytest.approx(once.bound(rounds=500))


def test_of_the_truth_behind_a_judge_nothing_is_stated() -> None:
    predictor = Predictor(alpha=0.1)
    predictor.learn(predictor.predict([0.9, 0.1]), MISS, judged=keyhole.HIT)
    assert predictor.bound().most > 0.0
    with pytest.raises(TheoremError, match="corrected by an estimate"):
        predictor.bound(delta=0.05)


def test_misses_of_a_new_hard_time_are_not_paid_from_an_easy_one() -> None:
    """Kills: an excess that sinks for thousands of rounds where a floor keeps sets from being empty."""
    rng, missed = np.random.default_rng(4), []
    learner = keyhole.make("informed-tracker", alpha=0.1)
    predictor: Predictor[Any] = Predictor(learner, score=Probabilities(at_least=1))
    for n in range(8_000):
        shown = predictor.predict([0.6, 0.3, 0.1])
        truth = int(rng.random() < (0.005 if n < 7_000 else 0.5))
        missed.append(truth not in shown)
        predictor.learn(shown, label=truth) if truth in shown else predictor.learn(shown, MISS)
    assert np.mean(missed[7_000:]) < 0.25


def test_another_target_is_refused_by_name_where_the_state_has_another_size() -> None:
    setup = Predictor("self-scaled", alpha=0.2).setup
    with pytest.raises(InvalidError, match="self-scaled keeps a state of another size"):
        change_alpha(setup, 0.1)


@pytest.mark.parametrize("miss", [0, 1])
def test_a_few_answers_of_known_chance_are_within_what_is_stated_of_them(miss: int) -> None:
    """Kills: weights that are cut to whole numbers, or not counted, where bounds are cut to rounds."""
    predictor: Predictor[Any] = Predictor(alpha=0.2)
    for _ in range(3):
        shown = predictor.predict([1.0, 1e-9])
        predictor.learn(shown, label=miss, chance=0.4)
        excess = predictor._progress.tally.weight * (predictor.miss_rate - 0.2)
        assert excess == pytest.approx(2.5 * predictor.rounds * (miss - 0.2))
        for least, most in (predictor.bound(), predictor.bound(rounds=predictor.rounds)):
            assert least - 1e-9 <= excess <= most + 1e-9


def test_so_many_answers_of_a_known_chance_come_to_as_many_times_their_excess() -> None:
    found = bounds.excess(keyhole.make("logit-tracker", alpha=0.2), rounds=10, chance=0.25)
    assert found == pytest.approx((-0.2 * 40, 0.8 * 40))


@pytest.mark.parametrize("seed", range(3))
def test_no_group_passes_its_bound_when_answers_are_amended_in_conflicts(seed: int) -> None:
    """Kills: amendments that widen the bound by their sum alone, or not at all."""
    rng = np.random.default_rng(seed)
    options = {"guard": 4.0, "dead": 2.0, "step": 0.01, "first": 0.02, "groups": 2}
    learner = keyhole.make("contextual-tracker", alpha=0.3, options=options)
    predictor: Predictor[Any] = Predictor(learner, groups=2, amend_limit=50)
    answered: list[tuple[Any, int]] = []
    for n in range(600):
        groups = [[0], [1], [0, 1]][rng.integers(3)]
        shown = predictor.predict([1.0, 1e-9], groups=groups)
        label = int(0 in groups if len(groups) == 1 else rng.random() < 0.5)
        predictor.learn(shown, label=label)
        answered.append((shown, label))
        if n % 10 == 0 and rng.random() < 0.5:  # What drove a group back turns out otherwise.
            shown, label = answered[-1 - int(rng.integers(min(40, len(answered))))]
            predictor.amend(shown, label=1 - label)
            answered = [(one, 1 - label if one is shown else was) for one, was in answered]
        for group in predictor.groups.values():
            assert group.bound is not None
            assert group.bound.least - 1e-5 <= group.excess <= group.bound.most + 1e-5
        least, most = predictor.bound()
        excess = predictor.rounds * (predictor.miss_rate - 0.3)
        assert least - 1e-5 <= excess <= most + 1e-5
    assert predictor._progress.tally.amended > 2.0
