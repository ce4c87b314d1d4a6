"""Who writes the rules of docs/rules.md anew, from that page alone, gets the package's choices."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import keyhole
from keyhole.learners import Learner
from keyhole.learners.rules.contextual_tracker import contextual_tracker
from tests.docs.anew import Case, ContextualTracker, InformedTracker, LogitTracker

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


def draw_case(rng: np.random.Generator, rule: str, *, speaks: bool) -> Case:
    scores = rng.dirichlet(np.full(6, 0.5)) * (1.0 if speaks else 0.8)
    if rule != "contextual":
        return Case(scores=scores.tolist())
    odd = rng.choice([math.nan, math.inf, 0.0, 1.0], 2)
    features = np.where(rng.random(2) < 0.6, rng.normal(size=2), odd)
    return Case(features.tolist(), np.flatnonzero(rng.random(2) < 0.5).tolist(), scores.tolist())


@pytest.mark.parametrize("feedback", ["bandit", "semi-bandit", "full"])
@pytest.mark.parametrize("late", [0, 40])
@pytest.mark.parametrize("rule", list(RULES))
def test_rules_written_from_the_page_make_the_same_choices(rule: str, late: int, feedback: str) -> None:
    """Also where some answers never come, and others have a known chance."""
    make_learner, make_anew = RULES[rule]
    rng = np.random.default_rng(4)
    predictor, anew = keyhole.Predictor(make_learner(), feedback=feedback), make_anew()
    waiting = []
    for _ in range(500):
        case = draw_case(rng, rule, speaks=late == 0)
        shown = predictor.predict(case.scores, features=case.features or None, groups=case.groups)
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
        case = draw_case(rng, rule, speaks=False)
        shown = predictor.predict(case.scores, features=case.features or None, groups=case.groups)
        opened = anew.choose(case)
        assert shown.threshold == pytest.approx(opened.threshold, abs=1e-11)
        loss = float(0 in case.groups) if rule == "contextual" else float(number < 600)
        predictor.learn(shown, loss=loss)
        anew.observe(opened, loss, weight=1.0, score=None)
