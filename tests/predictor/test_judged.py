"""A judge who errs at unknown rates, and a few checks: what is promised speaks of the truth."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Gate, Predictor
from keyhole.errors import FeedbackError, TheoremError
from keyhole.predictor.tally import Tally, count_check

FALSE_MISS, FALSE_HIT = 0.035, 0.10  # as 51 people erred about pictures


def test_a_judges_word_counts_with_what_checks_have_found_by_hand() -> None:
    """Of two checks the judge errs in the first: the bias is -1 / 21, then -1 / 21 (1 - 1 / 22)."""
    predictor = Predictor("logit-tracker", alpha=0.1)
    tally = predictor._progress.tally
    predictor.learn(predictor.predict([0.7, 0.3]), judged=MISS)
    assert (tally.misses, tally.bias, tally.checks) == (1.0, 0.0, -1)
    predictor.learn(predictor.predict([0.7, 0.3]), HIT, judged=MISS)
    assert (tally.misses, tally.checks) == (2.0, 1)
    assert tally.bias == pytest.approx(-1 / 21)
    predictor.learn(predictor.predict([0.7, 0.3]), label=0, judged=HIT)
    assert tally.misses == pytest.approx(2.0 - 1 / 21)
    assert tally.bias == pytest.approx(-1 / 21 * (1 - 1 / 22))
    assert predictor._progress.state.excess[0] == pytest.approx(2.0 - 1 / 21 - 0.3)


@pytest.mark.parametrize("verdict", [True, "hit", 1.0])
def test_a_verdict_that_is_none_is_named(verdict: Any) -> None:
    predictor = Predictor(alpha=0.1)
    shown = predictor.predict([0.6, 0.4])
    with pytest.raises(FeedbackError, match=r"judged=.* is no verdict on a set; give keyhole.HIT or"):
        predictor.learn(shown, label=0, judged=verdict)
    assert predictor.open_rounds == 1


def test_a_verdict_on_a_decision_is_named() -> None:
    gate = Gate(alpha=0.1)
    with pytest.raises(FeedbackError, match="judged=<hit> is neither True nor False"):
        gate.learn(gate.decide(1.0), judged=HIT)  # type: ignore[arg-type]


def play(*, checked: float, seed: int = 0, rounds: int = 20_000) -> float:
    """Return the share of rounds that truly missed, of one who hears the judge, and a few checks."""
    predictor: Predictor[Any] = Predictor("logit-tracker", alpha=0.05, feedback="bandit")
    missed = 0
    for score, lie, check in np.random.default_rng(seed).random((rounds, 3)).tolist():
        shown = predictor.predict([1.0, score])
        miss = score < shown.threshold
        missed += miss
        is_wrong = lie < (FALSE_HIT if miss else FALSE_MISS)
        told, truth = (HIT if miss == is_wrong else MISS), (MISS if miss else HIT)
        if check < checked:
            predictor.learn(shown, truth, judged=told)
        else:
            predictor.learn(shown, judged=told)
    return missed / rounds


def test_with_one_check_in_twenty_the_truth_misses_at_alpha_and_without_it_does_not() -> None:
    """Of what the judge says .05 miss where truly .015 / .865 = .017 do."""
    error = math.sqrt(0.05 * 0.95 / 20_000) + math.sqrt(0.05 / (0.05 * 20_000))
    assert play(checked=0.05) == pytest.approx(0.05, abs=2 * error)
    assert play(checked=0.0) == pytest.approx(0.015 / 0.865, abs=0.005)


def test_a_check_counts_by_its_weight_over_the_usual_one_by_hand() -> None:
    """The usual weight is 1.5 after answers of 1 and 2, and stays what it is if all are alike."""
    biases = []
    for chances in ((1.0, 0.5), (0.5, 0.5), (1.0, 1.0)):
        predictor = Predictor("logit-tracker", alpha=0.1)
        for chance in chances:
            predictor.learn(predictor.predict([0.7, 0.3]), HIT, judged=MISS, chance=chance)
        biases.append(predictor._progress.tally.bias)
    first, alike = -1 / 21, -1 / 21 * (1 - 1 / 22) - 1 / 22
    assert biases == pytest.approx([first + (-1 - first) * (2.0 / 1.5) / 22, alike, alike])


def test_a_judge_who_errs_about_those_who_are_seldom_asked_is_found_out() -> None:
    """Half of the rounds are asked with .05, and told "hit" always; of the others the judge is right.

    Where all checks count alike, .19 miss.
    """
    rng, missed, rounds = np.random.default_rng(4), 0, 20_000
    predictor: Predictor[Any] = Predictor("logit-tracker", alpha=0.1, feedback="bandit")
    for number, (score, asked, check) in enumerate(rng.random((rounds, 3)).tolist()):
        shown = predictor.predict([1.0, score])
        miss, chance = score < shown.threshold, 1.0 if number % 2 else 0.05
        missed += miss
        if asked >= chance:
            predictor.skip(shown)
            continue
        told, truth = (MISS if miss and number % 2 else HIT), (MISS if miss else HIT)
        checked = (truth,) if check < 0.2 else ()
        predictor.learn(shown, *checked, judged=told, chance=chance)
    assert missed / rounds == pytest.approx(0.1, abs=0.04)


def test_checks_of_sets_whose_outcome_is_known_anyway_leave_the_bias_alone() -> None:
    """Always told a miss, which only full sets prevent: their checks must not pay for other misses."""
    predictor: Predictor[Any] = Predictor(alpha=0.1)
    missed = 0
    for check in np.random.default_rng(1).random(8_000).tolist():
        shown = predictor.predict({"common": 0.7, "rare": 0.0})
        missed += "rare" not in shown
        truth: Any = {"label": "rare"} if check < 0.2 else {}
        predictor.learn(shown, judged=MISS, **truth)
    assert predictor._progress.tally.bias == 0.0
    assert predictor._progress.tally.misses == missed
    assert missed <= 0.1 * 8_000 + predictor.bound().most


def follow(differences: Any, checks: Any) -> tuple[Any, float]:
    """Return what was left over in each round, truth less word less bias, and its sum over checks."""
    tally, left = Tally(), []
    for difference, is_checked in zip(differences, checks, strict=True):
        left.append(difference - tally.bias)
        if is_checked:
            count_check(tally, difference)
    return np.array(left), float(sum(np.array(left)[np.array(checks, dtype=bool)]))


def test_over_all_ways_to_check_what_is_left_is_that_of_checks_over_their_chance() -> None:
    """The statement in expectation, of rounds that an enemy chose: by enumeration of 2^10 patterns."""
    differences, chance = [1.0, -1.0, 0.0, 1.0, 1.0, 0.0, -1.0, 1.0, 0.0, 1.0], 0.3
    of_all = of_checks = 0.0
    for checks in product((True, False), repeat=10):
        likely = math.prod(chance if one else 1.0 - chance for one in checks)
        left, summed = follow(differences, checks)
        of_all += likely * left.sum()
        of_checks += likely * summed / chance
    assert of_all == pytest.approx(of_checks)


@pytest.mark.parametrize("run", [1, 50, 400, 3_000])
def test_what_is_left_over_all_checks_never_passes_779(run: int) -> None:
    """The worst judge turns round every so often; n_K + n_K - n_1 = 400 + 379 bounds the sum."""
    differences = np.where(np.arange(12_000) // run % 2, -1.0, 1.0)
    left, _ = follow(differences, np.ones(12_000))
    assert np.abs(np.cumsum(left)).max() <= 779.0
    assert np.abs(np.cumsum(left)).max() > 700.0 or run < 3_000  # It is nearly reached.


def test_with_high_probability_the_truth_is_near_what_was_counted() -> None:
    """Freedman: |sum over all - sum over checks / p| <= sqrt(2 V L) + 2 L / 3 p, L = ln(2 / delta)."""
    rng, chance, rounds, delta = np.random.default_rng(5), 0.05, 4_000, 0.05
    level, outside = math.log(2.0 / delta), 0
    for _ in range(60):
        told = rng.random(rounds) < 0.1
        differences = np.where(
            told, -1.0 * (rng.random(rounds) < 0.3), 1.0 * (rng.random(rounds) < 0.02)
        )
        left, summed = follow(differences, rng.random(rounds) < chance)
        spread = float((left**2).sum()) * (1.0 - chance) / chance
        limit = math.sqrt(2.0 * spread * level) + 2.0 * level / (3.0 * chance)
        outside += abs(left.sum() - summed / chance) > limit
    assert outside <= 60 * delta + 3 * math.sqrt(60 * delta)


def test_a_gate_takes_a_judges_word_too() -> None:
    gate = Gate(alpha=0.1, amend_limit=9)
    decision = gate.decide(1.0)
    gate.learn(decision, right=True, judged=False)
    tally = gate._progress.tally
    assert (tally.misses, tally.checks) == (1.0, 1)
    assert tally.bias == pytest.approx(-1 / 21)
    gate.learn(gate.decide(1.0), judged=True)
    assert tally.misses == pytest.approx(1.0 - 1 / 21)
    gate.amend(decision, right=True)
    assert tally.misses == pytest.approx(-1 / 21)


def test_of_the_truth_nothing_is_stated_once_a_judge_was_heard_checked_or_not() -> None:
    """Told "hit" for every miss, it would else state that no more than 151 were missed too many."""
    predictor, gate = Predictor(alpha=0.1), Gate(alpha=0.1)
    for holder in (predictor, gate):
        assert holder.bound(delta=0.05).most > 0.0
    predictor.learn(predictor.predict([0.7, 0.3]), judged=HIT)
    gate.learn(gate.decide(1.0), judged=True)
    for holder in (predictor, gate, Predictor.restore(predictor.dump())):
        with pytest.raises(TheoremError, match="a judge's errors"):
            holder.bound(delta=0.05)
        assert holder.bound().most > 0.0


@pytest.mark.parametrize("name", ["kt", "mvp"])
def test_a_rule_that_takes_whole_misses_only_refuses_a_judge(name: str) -> None:
    predictor: Predictor[Any] = Predictor(name, alpha=0.1)
    with pytest.raises(FeedbackError, match="not what a judge says"):
        predictor.learn(predictor.predict([0.7, 0.3]), judged=MISS)


def test_a_judge_of_known_rate_and_one_of_unknown_exclude_each_other() -> None:
    predictor, gate = Predictor(alpha=0.1), Gate(alpha=0.1)
    shown, decision = predictor.predict([0.7, 0.3]), gate.decide(1.0)
    with pytest.raises(FeedbackError, match="give one"):
        predictor.learn(shown, judged=MISS, wrong=0.1)
    with pytest.raises(FeedbackError, match="give one"):
        gate.learn(decision, judged=True, wrong=0.1)
    with pytest.raises(FeedbackError):
        predictor.learn(shown)
    with pytest.raises(FeedbackError):
        gate.learn(decision)
    assert (predictor.open_rounds, gate.open_rounds) == (1, 1)


def test_a_gate_bears_a_bias_of_half_an_answer_and_steps_no_farther_for_it() -> None:
    """Kills: steps over |2 wrong - 1|, which is 0 at a half, where the judge's rate is not known."""
    gate = Gate(alpha=0.2)
    gate.calibrate([1.0] * 400, [True] * 400)
    checked, positions = 0, list[float]()
    while checked < 30:
        decision = gate.decide(1.0)
        if decision.accepted:
            gate.learn(decision, right=False, judged=True)
            checked += 1
            positions.append(float(gate.progress.state.position[0]))
    assert gate.progress.tally.bias == pytest.approx(30 / 50)
    assert max(np.diff(positions)) < 0.5


def test_a_judge_may_say_that_an_empty_set_was_right_and_it_counts_as_the_miss_that_it_is() -> None:
    predictor = Predictor("logit-tracker", alpha=0.3)
    shown = predictor.predict([0.3, 0.2])
    assert not shown.labels
    predictor.learn(shown, judged=HIT)
    assert predictor._progress.tally.misses == 1.0
