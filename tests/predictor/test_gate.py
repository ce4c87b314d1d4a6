"""The gate at work: what it accepts, what it learns from, what it refuses."""

import copy
import dataclasses
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import GATES, Gate, Predictor, make
from keyhole.errors import (
    AnsweredError,
    ExpiredError,
    FeedbackError,
    InvalidError,
    ReferredError,
    ScoreError,
    SnapshotError,
    TheoremError,
    UnknownRoundError,
)
from keyhole.learners.lateness import Lateness
from keyhole.predictor.tally import CountedRound
from keyhole.simulation.gate_runs import simulate_gate


def play(gate: Gate, rounds: int, *, seed: int = 1) -> None:
    """GateCases whose score is the chance to be right; judged where the feedback allows it."""
    rng = np.random.default_rng(seed)
    for score in rng.beta(4, 1, rounds).tolist():
        decision = gate.decide(score)
        if decision.accepted or gate.setup.feedback != "accepted":
            gate.learn(decision, right=bool(rng.random() < score), chance=1.0)


def test_it_accepts_scores_from_its_threshold_on() -> None:
    gate = Gate(alpha=0.05)
    assert gate.decide(1.0).accepted
    assert not gate.decide(0.0).accepted


def test_of_several_candidates_the_best_is_decided() -> None:
    decision = Gate(alpha=0.05).decide({"letter": 0.04, "invoice": 0.97})
    assert (decision.candidate, decision.score, decision.accepted) == ("invoice", 0.97, True)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True, {}, {"a": 2.0}])
def test_what_is_no_score_is_refused_and_changes_nothing(score: object) -> None:
    gate = Gate(alpha=0.05)
    before = gate.dump()
    with pytest.raises(ScoreError):
        gate.decide(score)  # type: ignore[arg-type]
    assert gate.dump() == before


def judge_unknown(gate: Gate) -> None:
    gate.learn(7, right=True)


def judge_twice(gate: Gate) -> None:
    decision = gate.decide(1.0)
    gate.learn(decision, right=True)
    gate.learn(decision, right=True)


def judge_skipped(gate: Gate) -> None:
    decision = gate.decide(1.0)
    gate.skip(decision)
    gate.learn(decision, right=False)


def judge_referred(gate: Gate) -> None:
    gate.learn(gate.decide(0.0), right=True)


def judge_foreign(gate: Gate) -> None:
    gate.decide(1.0)
    gate.learn(Gate(alpha=0.2).decide(0.99), right=True)


def judge_by_word(gate: Gate) -> None:
    gate.learn(gate.decide(1.0), right="yes")  # type: ignore[arg-type]


def judge_by_chance_0(gate: Gate) -> None:
    gate.learn(gate.decide(1.0), right=True, chance=0.0)


def judge_by_coin(gate: Gate) -> None:
    gate.learn(gate.decide(1.0), right=True, wrong=0.5)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (judge_unknown, UnknownRoundError),
        (judge_twice, AnsweredError),
        (judge_skipped, AnsweredError),
        (judge_referred, ReferredError),
        (judge_foreign, UnknownRoundError),
        (judge_by_word, FeedbackError),
        (judge_by_chance_0, FeedbackError),
        (judge_by_coin, FeedbackError),
    ],
)
def test_judgements_that_fit_no_round_have_a_name_each(
    act: Callable[[Gate], None], error: type[Exception]
) -> None:
    with pytest.raises(error):
        act(Gate(alpha=0.05))


def test_a_refused_judgement_leaves_the_round_open() -> None:
    gate = Gate(alpha=0.05)
    decision = gate.decide(1.0)
    before = gate.dump()
    with pytest.raises(FeedbackError):
        gate.learn(decision, right=True, chance=2.0)
    assert gate.dump() == before
    gate.learn(decision, right=True)


def test_past_the_limit_the_oldest_round_expires() -> None:
    gate = Gate(alpha=0.05, open_limit=2)
    first, *_ = [gate.decide(1.0) for _ in range(3)]
    with pytest.raises(ExpiredError):
        gate.learn(first, right=True)
    assert (gate.open_rounds, gate.expired_rounds) == (2, 1)


def test_in_the_feedback_referred_an_accepted_answer_needs_its_chance() -> None:
    gate = Gate(alpha=0.05, feedback="referred")
    gate.learn(gate.decide(0.0), right=True)
    decision = gate.decide(1.0)
    with pytest.raises(FeedbackError, match="chance"):
        gate.learn(decision, right=True)
    gate.learn(decision, right=True, chance=0.1)


def test_referred_rounds_do_not_wait_where_nobody_will_judge_them() -> None:
    gate = Gate(alpha=0.05)
    gate.decide(0.0)
    assert gate.open_rounds == 0


def test_it_decides_as_the_simulation_does() -> None:
    gate, rng = Gate(alpha=0.1), np.random.default_rng(2)
    scores = rng.beta(4, 1, 2_000)
    wrong = (rng.random(2_000) >= scores).astype(float)
    thresholds = []
    for score, outcome in zip(scores.tolist(), wrong.tolist(), strict=True):
        decision = gate.decide(score)
        thresholds.append(decision.threshold)
        if decision.accepted:
            gate.learn(decision, right=not outcome)
    run = simulate_gate(make("gate-tracker", alpha=0.1), scores, wrong)
    assert thresholds == run.thresholds.tolist()
    assert gate.accepted_share == run.accepted_share
    assert gate.wrong_share == pytest.approx(run.wrong_share)


def test_audits_count_by_their_chance() -> None:
    gate = Gate(alpha=0.1)
    for chance, right in ((0.5, True), (0.25, False)):
        gate.learn(gate.decide(1.0), right=right, chance=chance)
    assert gate.wrong_share == 4.0 / 6.0


def test_what_judges_who_err_say_is_corrected() -> None:
    gate = Gate(alpha=0.1)
    gate.learn(gate.decide(1.0), right=False, wrong=0.1)
    assert gate.wrong_share == pytest.approx(0.9 / 0.8)


@pytest.mark.parametrize("rule", sorted(GATES))
@pytest.mark.parametrize("feedback", ["accepted", "referred", "both"])
def test_a_saved_gate_continues_bit_for_bit(rule: str, feedback: str, tmp_path: Path) -> None:
    gate = Gate(rule, alpha=0.1, feedback=feedback, seed=5, groups=["new"])
    play(gate, 300)
    waiting = gate.decide({"a": 1.0}, groups=["new"])
    gate.save(tmp_path / "gate")
    for other in (Gate.load(tmp_path / "gate"), copy.deepcopy(gate), pickle.loads(pickle.dumps(gate))):  # noqa: S301
        if waiting.accepted:
            other.learn(waiting, right=False, chance=0.5)
        play(other, 300, seed=2)
        reference = Gate.load(tmp_path / "gate")
        if waiting.accepted:
            reference.learn(waiting, right=False, chance=0.5)
        play(reference, 300, seed=2)
        assert other.dump() == reference.dump()


def test_another_file_is_no_gate(tmp_path: Path) -> None:
    Predictor(alpha=0.1).save(tmp_path / "predictor")
    with pytest.raises(SnapshotError, match=r"restore it with keyhole\.Predictor"):
        Gate.load(tmp_path / "predictor")


def test_a_share_in_the_place_of_the_rule_is_told_where_it_goes() -> None:
    with pytest.raises(InvalidError, match=r"write alpha=0\.05"):
        Gate(0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", [[0.5, 0.3], "0.93"])
def test_what_is_no_number_is_told_what_a_gate_takes(score: Any) -> None:
    with pytest.raises(ScoreError, match="give one number, or a dict of candidates"):
        Gate(alpha=0.05).decide(score)


def test_groups_keep_the_promise_each_by_itself() -> None:
    gate = Gate(alpha=0.1, groups=["old", "new"])
    rng = np.random.default_rng(3)
    excess = {"old": 0.0, "new": 0.0}
    rounds = {"old": 0, "new": 0}
    for number in range(6_000):
        group = "new" if number % 4 == 0 else "old"
        score = float(rng.beta(8, 1))
        decision = gate.decide(score, groups=[group])
        rounds[group] += 1
        if decision.accepted:
            right = bool(rng.random() < (0.5 if group == "new" else 0.97))  # the new are hopeless
            gate.learn(decision, right=right)
            excess[group] += (not right) - 0.1
        assert excess[group] <= 20.0 + 0.3 * math.sqrt(rounds[group]) + 1e-9
    assert gate.accepted_share > 0.6  # the old go on being accepted


def test_features_are_refused_with_the_reason() -> None:
    with pytest.raises(InvalidError, match="let through alone"):
        Gate(alpha=0.1).decide(0.5, features={"hour": 7})


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(InvalidError, match="no group 'odd'; there are 'old'"):
        Gate(alpha=0.1, groups=["old"]).decide(0.5, groups=["odd"])


def test_a_gates_rule_is_not_for_sets_nor_a_sets_rule_for_gates() -> None:
    with pytest.raises(InvalidError, match=r"keyhole\.Gate"):
        Predictor("gate-tracker", alpha=0.1)
    with pytest.raises(InvalidError, match=r"keyhole\.Predictor"):
        Gate("logit-tracker", alpha=0.1)


def test_alpha_must_be_given() -> None:
    with pytest.raises(InvalidError, match="alpha is missing"):
        Gate()


def test_an_unknown_feedback_is_refused() -> None:
    with pytest.raises(FeedbackError, match="accepted, referred, both"):
        Gate(alpha=0.1, feedback="full")


def test_it_tells_its_bound_and_says_where_there_is_none() -> None:
    gate = Gate(alpha=0.1)
    play(gate, 100)
    assert gate.bound().most == pytest.approx(2.8 + 0.0105 * 100)
    for _ in range(9_900):
        gate.decide(0.0)
    assert gate.bound().most == pytest.approx(0.004 * 10_000)
    with pytest.raises(TheoremError, match="gate-tracker's are bounded"):
        Gate("exaul", alpha=0.1).bound()


def test_late_judgements_widen_the_bound_by_what_the_guards_level_says() -> None:
    gate = Gate(alpha=0.1)
    waiting = [gate.decide(1.0) for _ in range(4)]
    for decision in waiting:  # 0, 1, 2 and 3 judgements old: the level rises three times
        gate.learn(decision, right=False)
    assert gate.bound().most == 4 * 0.9
    for _ in range(96):
        gate.decide(1.0)
    assert gate.bound().most == pytest.approx(2.8 + 0.0105 * 100 + 2.0 * 3 + 3 * 0.9)


def test_wrong_answers_judged_late_stay_within_the_bound_that_the_gate_tells() -> None:
    gate = Gate(make("gate-tracker", alpha=0.1, options={"budget": 1.0}))
    waiting, judged, beyond = [], 0, 0.0
    for _ in range(600):
        waiting.append(gate.decide(1.0))
        if len(waiting) == 40:  # a batch of late judgements, the oldest first, all of them wrong
            for decision in waiting:
                if decision.accepted:
                    gate.learn(decision, right=False)
                    judged += 1
            waiting.clear()
            assert 0.9 * judged <= gate.bound().most
            beyond = max(beyond, 0.9 * judged - 1.0 - 0.3 * gate.predicted_rounds**0.5)
    assert beyond > 0.0  # the prompt bound is broken: it did not speak of this


def test_no_bound_is_told_of_late_judgements_together_with_a_memory() -> None:
    gate = Gate(alpha=0.1, memory=5_000)
    first, second = gate.decide(1.0), gate.decide(1.0)
    gate.learn(first, right=True)
    assert gate.bound().most > 0.0
    gate.learn(second, right=True)
    with pytest.raises(TheoremError, match="late judgements together with a memory"):
        gate.bound()


def test_a_notebook_shows_its_shares_and_the_target() -> None:
    gate = Gate(alpha=0.1)
    assert "<td>-</td>" in gate._repr_html_()  # nothing was judged yet
    gate.learn(gate.decide(0.99), right=False)
    shown = gate._repr_html_()
    assert "<td>wrong among the accepted</td><td>1.0000</td>" in shown
    assert "share wrong; the mark is the target" in shown


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"features": ["load"]}, InvalidError, "a gate takes no features"),
        ({"budget": 30.0}, InvalidError, "Gate(keyhole.make('gate-tracker', alpha=..., options={"),
        ({"thresholds": 0.5}, TypeError, "Gate takes no 'thresholds'; see help(keyhole.Gate)"),
        ({"confidence": 0.9}, TypeError, "for a coverage of 0.9 write alpha=0.1"),
        ({"coverage": 0.9}, TypeError, "how much it accepts cannot be asked for"),
    ],
)
def test_what_a_gate_does_not_take_is_refused_with_the_reason(
    given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        Gate(alpha=0.1, **given)


def test_a_hit_is_no_judgement() -> None:
    gate = Gate(alpha=0.1, feedback="both")
    with pytest.raises(FeedbackError, match=r"neither True nor False; say True if.*keyhole\.HIT"):
        gate.learn(gate.decide(0.9), keyhole.HIT)  # type: ignore[arg-type]
    assert gate.open_rounds == 1


def test_its_repr_shows_both_shares() -> None:
    gate = keyhole.Gate(alpha=0.05)
    gate.learn(gate.decide(1.0), right=True)
    told = "1 decided, 1.0000 accepted, 0.0000 of them wrong"
    assert repr(gate) == f"<Gate gate-tracker, alpha 0.05: {told}>"


def test_where_every_case_is_in_a_group_the_group_decides_as_the_gate_alone_does() -> None:
    """Kills: the first group sharing the state of all rounds, which then hears everything twice."""
    plain, grouped = Gate(alpha=0.1), Gate(alpha=0.1, groups=["new", "old"])
    rng = np.random.default_rng(6)
    for score in rng.beta(3, 1, 300).tolist():
        right = bool(rng.random() < score)
        decisions = plain.decide(score), grouped.decide(score, groups=["new"])
        assert decisions[0] == decisions[1]
        if decisions[0].accepted:
            plain.learn(decisions[0], right=right)
            grouped.learn(decisions[1], right=right)


def test_a_group_that_errs_is_referred_and_the_other_is_not() -> None:
    gate = Gate(alpha=0.1, groups=["new", "old"])
    for _ in range(300):
        for group, right in (("new", False), ("old", True)):
            decision = gate.decide(0.9, groups=[group])
            if decision.accepted:
                gate.learn(decision, right=right)
    assert not gate.decide(0.9, groups=["new"]).accepted
    assert gate.decide(0.9, groups=["old"]).accepted
    assert not gate.decide(0.9, groups=["old", "new"]).accepted  # the stricter of the two


def test_a_rule_with_its_parameters_is_taken_as_it_is_and_given_no_others() -> None:
    rule = make("gate-tracker", alpha=0.1, options={"memory": 500})
    assert Gate(rule).learner is rule
    for more in ({"alpha": 0.2}, {"memory": 100.0}):
        with pytest.raises(InvalidError, match="comes with its parameters"):
            Gate(rule, **more)  # type: ignore[arg-type]
    assert Gate(alpha=0.1, memory=500).learner.parameters == rule.parameters


def test_a_decision_is_true_where_the_answer_is_accepted() -> None:
    """Kills: ``if gate.decide(score):`` uses what was referred."""
    gate = Gate(alpha=0.05)
    assert gate.decide(0.99)
    assert not gate.decide(0.01)


def test_groups_by_true_and_false_are_refused_by_a_gate_too() -> None:
    with pytest.raises(InvalidError, match="give the names of those it is in"):
        Gate(alpha=0.05, groups=["fr", "de"]).decide(0.9, groups={"fr": False})


def test_gate_and_predictor_have_one_shape() -> None:
    shared = {name for name in dir(keyhole.Predictor) if not name.startswith("_")}
    of_sets = {"predict", "predict_batch", "distribution", "regret_bound", "unreachable"}
    of_sets |= {"miss_rate", "mean_size", "median_size", "unbounded_share"}
    of_gates = {"decide", "decide_batch", "accepted_share", "wrong_share"}
    assert {name for name in dir(Gate) if not name.startswith("_")} - of_gates == shared - of_sets


def test_rounds_are_those_that_were_judged() -> None:
    gate = Gate(alpha=0.1, feedback="both")
    decisions = [gate.decide(score) for score in (1.0, 0.0, 1.0)]
    gate.learn(decisions[1], right=False)
    gate.skip(decisions[2])
    counts = (gate.predicted_rounds, gate.rounds, gate.open_rounds, gate.skipped_rounds)
    assert counts == (3, 1, 1, 1)


def test_groups_tell_how_each_has_fared() -> None:
    gate = Gate(alpha=0.1, groups=["new", "old"])
    gate.learn(gate.decide(1.0, groups=["new", "old"]), right=True)
    gate.learn(gate.decide(1.0, groups=["new"]), right=False, chance=0.4)
    assert gate.groups["new"][:3] == (3.5, 2.5, 2.5 - 0.1 * 3.5)
    assert gate.groups["new"].bound == pytest.approx((-0.35, 3.5 * 0.9))
    assert gate.groups["old"] == (1, 0.0, -0.1, (-0.1, 0.9))


def test_the_bound_of_a_group_is_of_its_own_rounds_and_history_and_none_where_none_is_proven() -> None:
    gate = Gate(alpha=0.1, groups=["new", "old"])
    gate.calibrate([1.0] * 10, [True] * 10, groups=[["old"]] * 10)
    for name in ["new"] * 100 + ["old"] * 10:
        gate.learn(gate.decide(1.0, groups=[name]), right=True)
    new, old = (gate.groups[name].bound for name in ("new", "old"))
    assert new == pytest.approx((-0.1 * 100, 2.8 + 0.0105 * 100))
    assert old == pytest.approx((-0.1 * 10, 2.8 + 0.0105 * 20 + 0.1 * 10))
    assert Gate(alpha=0.1, memory=50, groups=["new"]).groups["new"].bound is None
    assert Gate("exaul", alpha=0.1, groups=["new"]).groups["new"].bound is None


def test_a_watched_gate_raises_an_alarm_and_says_so() -> None:
    gate = Gate("gate-fixed", alpha=0.1, watch=True)
    for _ in range(131):
        gate.learn(gate.decide(1.0), right=False)
    assert gate.watch.starting
    gate.learn(gate.decide(1.0), right=False)
    assert (gate.watch.since, gate.watch.raised) == (101, 132)
    assert gate.notes == [
        "Rounds miss more often than 0.1, since about answer 101; it was found at answer 132."
    ]
    with pytest.raises(InvalidError, match="are not watched"):
        _ = Gate(alpha=0.1).watch


def test_a_referred_round_that_is_judged_by_its_number_is_refused_and_says_that_it_may_be() -> None:
    gate = Gate(alpha=0.1)
    number = gate.decide(0.0).id
    with pytest.raises(AnsweredError, match="round 0 is not open any more: it was referred, answered"):
        gate.learn(number, right=True)


def test_a_batch_decides_and_learns_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    scores, rights = rng.beta(4.0, 1.0, 200), rng.random(200) < 0.9
    groups = [["new"] if n % 3 else [] for n in range(200)]
    alone, together = (Gate(alpha=0.1, feedback="both", groups=["new"]) for _ in range(2))
    for start in range(0, 200, 20):
        part = slice(start, start + 20)
        ours = [alone.decide(s, groups=g) for s, g in zip(scores[part], groups[part], strict=True)]
        for decision, right in zip(ours, rights[part], strict=True):
            alone.learn(decision, bool(right))
        theirs = together.decide_batch(scores[part], groups=groups[part])
        together.learn_batch(theirs, rights[part].tolist())
        assert theirs == ours
    assert together.setup.seed != alone.setup.seed
    assert (together.wrong_share, together.groups) == (alone.wrong_share, alone.groups)


def test_a_batch_is_judged_whole_or_not_at_all() -> None:
    gate = Gate(alpha=0.1)
    decisions = gate.decide_batch([1.0, 1.0])
    for rights in ([True, "no"], [True]):
        with pytest.raises(FeedbackError):
            gate.learn_batch(decisions, rights)  # type: ignore[arg-type]
    with pytest.raises(AnsweredError, match="twice"):
        gate.learn_batch([decisions[0], 0], [True, True])
    assert (gate.rounds, gate.open_rounds) == (0, 2)


def draw_history(cases: int) -> tuple[list[float], list[bool]]:
    rng = np.random.default_rng(11)
    scores = rng.beta(4.0, 1.0, cases)
    return scores.tolist(), (rng.random(cases) < scores).tolist()


def test_a_calibrated_gate_stands_where_one_stands_that_decided_the_history() -> None:
    scores, rights = draw_history(400)
    groups = [["new"] if n % 3 else [] for n in range(400)]
    played, taught = (Gate(alpha=0.1, feedback="both", groups=["new"]) for _ in range(2))
    for score, right, own in zip(scores, rights, groups, strict=True):
        played.learn(played.decide(score, groups=own), right=right)
    taught.calibrate(scores[:150], rights[:150], groups=groups[:150])
    taught.calibrate(scores[150:], rights[150:], groups=groups[150:])
    assert (taught.rounds, taught.predicted_rounds) == (0, 0)
    again = Gate.restore(taught.dump())
    for score in scores[:50]:
        expected = played.decide(score, groups=["new"]).threshold
        assert taught.decide(score, groups=["new"]).threshold == expected
        assert again.decide(score, groups=["new"]).threshold == expected


def test_the_bound_of_a_calibrated_gate_covers_history_and_rounds_together() -> None:
    scores, rights = draw_history(300)
    gate, played = Gate(alpha=0.1), Gate(alpha=0.1, feedback="both")
    excess = 0.0
    for score, right in zip(scores, rights, strict=True):
        decision = played.decide(score)
        played.learn(decision, right=right)
        excess += decision.accepted * (float(not right) - 0.1)
    gate.calibrate(scores, rights)
    for _ in range(100):
        gate.decide(0.0)
    assert gate.bound().most == pytest.approx(4.0 - excess)


def test_history_that_does_not_fit_changes_nothing() -> None:
    gate = Gate(alpha=0.1)
    before = gate.dump()
    for scores, rights, error in (
        ([0.5], [True, False], FeedbackError),
        ([0.5, 2.0], [True, True], ScoreError),
        ([0.5], ["yes"], FeedbackError),
    ):
        with pytest.raises(error):
            gate.calibrate(scores, rights)  # type: ignore[arg-type]
    assert gate.dump() == before
    gate.decide(0.5)
    with pytest.raises(InvalidError, match="make a new gate"):
        gate.calibrate([0.5], [True])


@pytest.mark.parametrize("wrong_rate", [0.0, 0.1])
def test_audited_judgements_stay_within_the_bound_that_the_gate_tells_and_so_does_the_truth(
    wrong_rate: float,
) -> None:
    """Kills: bounds that ignore chance=, wrong=, or what nobody audited."""
    rng, chance, passed, beyond = np.random.default_rng(3), 0.2, 0, 0.0
    for run in range(20):
        rule = make("gate-tracker", alpha=0.1, options={"budget": 1.0, "growth": 0.0})
        gate = Gate(rule, least_chance=chance)
        true, is_passed = 0.0, False
        for _ in range(400):
            decision = gate.decide(1.0)
            bad = rng.random() < (1.0 if run % 2 else 0.3)
            if not decision.accepted:
                continue
            true += bad - 0.1
            if rng.random() < chance:
                told = bool(bad) ^ bool(rng.random() < wrong_rate)
                gate.learn(decision, right=not told, chance=chance, wrong=wrong_rate)
                counted = gate.wrong_share * gate._progress.tally.weight
                excess = counted - 0.1 * gate._progress.tally.weight
                assert excess <= gate.bound().most + 1e-9
                beyond = max(beyond, excess - 1.0)
            else:
                gate.skip(decision)
            is_passed = is_passed or true > gate.bound(delta=0.2).most
        passed += is_passed
    assert beyond > 0.0  # The bound of plain judgements is broken: it does not speak of this.
    assert passed <= 20 * 0.2


class Slow:
    """A gate whose judgements come late, with few waiting, and what its judged answers add up to."""

    def __init__(self, **known: Any) -> None:
        learner = make("gate-tracker", alpha=0.1, options={"budget": 2.0, "growth": 0.0})
        self.gate, self.excess = Gate(learner, groups=["new"]), 0.0
        self.known: dict[str, Any] = known
        for age in range(1, 5):
            held = self.decide()
            for _ in range(age):
                self.judge(self.decide(), wrong=self.excess < -0.5)
            self.judge(held, wrong=False)

    def decide(self) -> Any:
        """Return the next accepted answer."""
        while not (shown := self.gate.decide(1.0, **self.known)).accepted:
            pass
        return shown

    def judge(self, shown: Any, *, wrong: bool) -> None:
        self.gate.learn(shown, right=not wrong)
        self.excess += wrong - 0.1

    def fill(self, most: float) -> None:
        """Bring the excess to within a tenth below this."""
        while self.excess < most - 0.1:
            self.judge(self.decide(), wrong=self.excess + 0.9 <= most)


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("known", [{}, {"groups": ["new"]}])
def test_a_gates_late_bound_counts_what_waited_and_not_how_old_judgements_were(
    kept: int, known: Any
) -> None:
    """Judgements up to 4 old and few waiting: those and a prompt one pass the guard; by hand.

    Kills: the level in place of what waited, of the gate or of a group; and one fewer.
    """
    slow = Slow(**known)
    gate = slow.gate
    assert gate.bound().most == pytest.approx(2.0 + 2 * 4 + 0.9)
    slow.fill(2.0 + 2 * 4 - 0.9)
    waiting = [slow.decide() for _ in range(kept)]
    slow.judge(slow.decide(), wrong=True)
    for shown in waiting:
        slow.judge(shown, wrong=True)
    most = 2.0 + 2 * 4 + kept * 0.9
    assert gate.bound().most == pytest.approx(most)
    assert most - 0.11 < slow.excess <= most
    if known:
        bound = gate.groups["new"].bound
        assert bound is not None
        assert bound.most == pytest.approx(most)


def test_a_group_of_few_rounds_counts_its_lateness_by_the_judgements_of_all() -> None:
    """Kills: a level of a group that is cut to what its own few rounds could have raised it to."""
    gate = Gate(alpha=0.1, groups=["rare"])
    for _ in range(3):
        held = gate.decide(1.0, groups=["rare"])
        for _ in range(10):
            gate.learn(gate.decide(1.0), right=True)
        gate.learn(held, right=True)
    state = gate._progress.states[0]
    assert state.late[0] == 3.0
    bound = gate.groups["rare"].bound
    assert bound is not None
    assert bound.most == pytest.approx(2.7)  # three rounds, of which all may be wrong
    raised = gate.learner.parameters.bound_group(state, Lateness(open=2))
    assert raised.most == pytest.approx(2.8 + 0.0105 * 3 + 2 * 3 + 0.9)


@pytest.mark.parametrize("chosen", [math.nan, None, "0.5"])
def test_a_rule_that_chooses_no_threshold_is_refused(chosen: Any) -> None:
    """Kills: a NaN that every score is below, so that all would be referred without a word."""
    rule = dataclasses.replace(GATES["gate-fixed"], name="no-gate", choose=lambda *_: chosen)
    with pytest.raises(InvalidError, match=r"no-gate chose .* not a threshold"):
        Gate(rule(alpha=0.1)).decide(0.9)


def test_a_judgement_of_which_only_its_account_is_known_counts_once_and_teaches_nothing() -> None:
    gate = Gate(alpha=0.1, watch=True)
    for _ in range(3):
        gate.decide(0.99)
    setup: Any = gate._setup
    progress = gate._progress
    before = setup.learner.pack(progress.state)
    setup.kind.count(setup, progress, CountedRound(0, 1.0, 1.0, 4.0), then=0)
    setup.kind.count(setup, progress, CountedRound(1, 1.0, 0.0, 0.0), then=1)
    tally = progress.tally
    assert (tally.answered, tally.misses, tally.weight) == (2, 4.0, 4.0)
    assert gate.watch.rounds == 1
    assert setup.learner.pack(progress.state) == before
