"""Who writes the rules of docs/rules.md anew, from that page alone, gets the package's choices."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import keyhole
from keyhole.learners import Learner
from keyhole.learners.rules.contextual_tracker import contextual_tracker
from tests.docs.anew import Case, ContextualTracker, GateTracker, InformedTracker, LogitTracker

ALPHA = 0.2
Anew = LogitTracker | InformedTracker | ContextualTracker
RULES: dict[str, tuple[Callable[[], Learner], Callable[[], Anew]]] = {
    "logit": (lambda: keyhole.make("logit-tracker", alpha=ALPHA), lambda: LogitTracker(ALPHA)),
    "informed": (lambda: keyhole.make("informed-tracker", alpha=ALPHA), lambda: InformedTracker(ALPHA)),
    "contextual": (
        lambda: contextual_tracker(alpha=ALPHA, features=2, groups=2),
        lambda: ContextualTracker(ALPHA, features=2, groups=2),
    ),
}


def draw_case(rng: np.random.Generator, rule: str, *, total: float, is_cut: bool = False) -> Case:
    scores = rng.dirichlet(np.full(6, 0.5)) * total
    if rule != "contextual":
        return Case(scores=scores.tolist(), is_cut=is_cut)
    odd = rng.choice([math.nan, math.inf, 0.0, 1.0], 2)
    features = np.where(rng.random(2) < 0.6, rng.normal(size=2), odd)
    groups = np.flatnonzero(rng.random(2) < 0.5).tolist()
    return Case(features.tolist(), groups, scores.tolist(), is_cut)


@pytest.mark.parametrize("feedback", ["bandit", "semi-bandit", "full"])
@pytest.mark.parametrize("late", [0, 40])
@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("is_cut", [False, True])
def test_rules_written_from_the_page_make_the_same_choices(
    rule: str, late: int, feedback: str, *, is_cut: bool
) -> None:
    """Also where some answers never come, and others have a known chance, or candidates were cut."""
    make_learner, make_anew = RULES[rule]
    rng = np.random.default_rng(4)
    predictor, anew = keyhole.Predictor(make_learner(), feedback=feedback), make_anew()
    waiting = []
    for _ in range(500):
        case = draw_case(rng, rule, total=0.8 if is_cut else 1.0, is_cut=is_cut)
        output = dict(enumerate(case.scores)) if is_cut else case.scores
        shown = predictor.predict(output, features=case.features or None, groups=case.groups)
        opened = anew.choose(case)
        assert shown.threshold == pytest.approx(opened.threshold, abs=1e-11)
        true = int(rng.choice(6, p=np.array(case.scores) / sum(case.scores)))
        waiting.append((shown, opened, true, float(rng.choice([0.5, 1.0], p=[0.2, 0.8]))))
        if len(waiting) <= late:
            continue
        shown, opened, true, chance = waiting.pop(int(rng.integers(min(3, len(waiting)))))
        score, missed = opened.case.scores[true], true not in shown
        if rng.random() < 0.1:
            continue  # never answered
        if feedback == "full" or (feedback == "semi-bandit" and not missed):
            predictor.learn(shown, label=true, chance=chance)
            anew.observe(opened, float(missed), weight=1.0 / chance, score=score)
        else:
            predictor.learn(shown, keyhole.MISS if missed else keyhole.HIT, chance=chance)
            anew.observe(opened, float(missed), weight=1.0 / chance, score=None)


@pytest.mark.parametrize("rule", list(RULES))
def test_rules_written_from_the_page_have_the_same_guards(rule: str) -> None:
    """Losses are told at will, so that groups, or all rounds, come to the guards on both sides."""
    make_learner, make_anew = RULES[rule]
    rng = np.random.default_rng(5)
    predictor, anew = keyhole.Predictor(make_learner()), make_anew()
    for number in range(2_500):
        case = draw_case(rng, rule, total=0.8)
        shown = predictor.predict(case.scores, features=case.features or None, groups=case.groups)
        opened = anew.choose(case)
        assert shown.threshold == pytest.approx(opened.threshold, abs=1e-11)
        loss = float(0 in case.groups) if rule == "contextual" else float(number < 600)
        predictor.learn(shown, loss=loss)
        anew.observe(opened, loss, weight=1.0, score=None)


@pytest.mark.parametrize("feedback", ["accepted", "both"])
@pytest.mark.parametrize(
    ("late", "chance", "wrong", "memory"),
    [(0, 1.0, 0.0, None), (40, 1.0, 0.0, None), (0, 0.3, 0.05, None), (5, 1.0, 0.0, 300.0)],
)
def test_a_gate_written_from_the_page_makes_the_same_decisions(
    feedback: str, late: int, chance: float, wrong: float, memory: float | None
) -> None:
    """Scores are worth something at first and nothing later, so that trials begin and guards close."""
    rng = np.random.default_rng(6)
    gate = keyhole.Gate(
        keyhole.make("gate-tracker", alpha=ALPHA, options={"memory": memory}), feedback=feedback
    )
    anew, waiting = GateTracker(ALPHA, memory=memory), []
    for number in range(1_500):
        score = float(rng.beta(4, 2))
        right = bool(rng.random() < (score**0.3 if number < 700 else 0.2))
        decision, made = gate.decide(score), anew.decide(score)
        assert decision.threshold == pytest.approx(made.threshold, abs=1e-11)
        assert decision.accepted == made.accepted
        waiting.append((decision, made, right))
        if len(waiting) <= late:
            continue
        decision, made, right = waiting.pop(0)
        if (not made.accepted and feedback == "accepted") or (made.accepted and rng.random() > chance):
            continue
        gate.learn(decision, right=right, chance=chance if made.accepted else None, wrong=wrong)
        told = (float(not right) - wrong) / (1.0 - 2.0 * wrong)
        anew.learn(made, told, chance=chance if made.accepted else 1.0)
