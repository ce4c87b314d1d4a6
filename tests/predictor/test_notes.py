"""When a user is told how things stand."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from keyhole import LEARNERS, MISS, Gate, Predictor, Probabilities, make
from keyhole.errors import KeyholeWarning
from keyhole.predictor.bandit import Exp3P
from keyhole.predictor.kinds import GATE
from keyhole.predictor.monitor import Alarm, Watch
from keyhole.predictor.report import (
    describe_alarm,
    describe_lateness,
    describe_reach,
)
from keyhole.predictor.tally import Tally
from keyhole.scores import BoundedResiduals

EITHER = (
    " Either sets could be smaller, or the answers are wrong: if they say hit where nobody looked, "
    "sets shrink until they hold nothing. Check some answers against the truth."
)


@pytest.mark.parametrize(("answered", "stale", "said"), [(100, 30.0, 1), (99, 30.0, 0), (100, 29.9, 0)])
def test_lateness_is_told_from_a_hundred_answers_and_thirty_rounds_on(
    answered: int, stale: float, said: int
) -> None:
    notes = describe_lateness(make("kt", alpha=0.1), Tally(answered=answered, stale=stale))
    assert len(notes) == said


def test_lateness_says_what_it_does_to_the_learner_or_that_nobody_knows() -> None:
    late = Tally(answered=100, stale=1234.4)
    (told,) = describe_lateness(make("logit-tracker", alpha=0.1), late)
    assert "about 1,234 rounds pass" in told
    assert "logit-tracker: a stale answer moves it less" in told
    kt = LEARNERS["kt"]
    untold = dataclasses.replace(kt, about=dataclasses.replace(kt.about, late=""))(alpha=0.1)
    assert "kt: what late answers do to it has not been measured" in describe_lateness(untold, late)[0]


def test_an_alarm_is_told_with_its_side_and_its_rounds() -> None:
    assert describe_alarm(None, Tally(), alpha=0.1) == []
    assert describe_alarm(Watch(), Tally(), alpha=0.1) == []
    for alarm, often in ((Alarm.TOO_MANY, "more often"), (Alarm.TOO_FEW, "less often")):
        watch = Watch(alarm=alarm, since=1_200, raised=1_350)
        assert describe_alarm(watch, Tally(), alpha=0.1) == [
            f"Rounds miss {often} than 0.1, since about answer 1,200; it was found at answer 1,350."
            + ("" if alarm > 0 else EITHER)
        ]
        late = " Answers come late or in batches, which makes the miss rate swing."
        assert describe_alarm(watch, Tally(stale=30.0), alpha=0.1)[0].endswith(late)
        assert not describe_alarm(watch, Tally(stale=29.0), alpha=0.1)[0].endswith(late)


@pytest.mark.parametrize(
    ("accepted", "judged", "wrong", "said"),
    [
        (50, 1, 1, 1),
        (49, 1, 1, 0),  # too early
        (50, 0, 0, 0),
        (50, 25, 9, 1),
        (50, 26, 26, 0),  # most are judged: the model is bad, and the gate right
        (400, 100, 11, 0),  # 5 are expected, and 3 standard deviations more: 11.7
        (400, 100, 12, 1),
        (400, 160, 17, 1),  # 8 and 16.49
        (400, 160, 16, 0),
    ],
)
def test_a_gate_says_when_mostly_wrong_answers_are_reported(
    accepted: int, judged: int, wrong: int, said: int
) -> None:
    tally = Tally(decides=True, accepted=accepted, weight=judged, misses=wrong)
    assert len(GATE.list_notes(tally, alpha=0.05)) == said


def test_thumbs_of_the_unhappy_alone_close_a_gate_and_it_says_why() -> None:
    rng = np.random.default_rng(0)
    scores, draws = rng.random(1_500), rng.random(1_500)
    notes: dict[str, list[str]] = {}
    for reported in ("wrong ones", "all", "audits"):
        gate = Gate(alpha=0.1)
        gate.calibrate([0.6, 0.7, 0.8, 0.9] * 50, [True] * 200)
        for n, (score, draw) in enumerate(zip(scores, draws, strict=True)):
            decision, right = gate.decide(score), bool(draw < 0.5 + score / 2)
            if decision.accepted and (reported == "all" or (reported == "wrong ones" and not right)):
                gate.learn(decision, right=right)
            elif decision.accepted and reported == "audits" and n % 5 == 0:
                gate.learn(decision, right=right, chance=0.2)
        notes[reported] = gate.notes
        if reported == "wrong ones":
            judged = gate.rounds
            assert not gate.decide(0.9).accepted
            assert gate.accepted_share < 0.2
    (note,) = notes["wrong ones"]
    assert f"{judged} of them judged, {judged} of these wrong" in note
    assert notes["all"] == notes["audits"] == []


@pytest.mark.parametrize(
    ("answered", "unreachable", "said"), [(100, 11, 1), (100, 10, 0), (99, 99, 0), (10_000, 900, 0)]
)
def test_truths_that_no_set_could_hold_are_told_from_a_hundred_answers_and_alpha_on(
    answered: int, unreachable: int, said: int
) -> None:
    tally = Tally(answered=answered, unreachable=unreachable)
    assert len(describe_reach(make("kt", alpha=0.1), Probabilities(), tally)) == said


@pytest.mark.parametrize(
    ("cap", "remedy"), [(None, "give more candidates"), (3, "raise at_most above 3, or bear more")]
)
def test_truths_out_of_reach_are_counted_and_a_remedy_named(cap: int | None, remedy: str) -> None:
    tally = Tally(answered=1_000, unreachable=250)
    told = describe_reach(make("kt", alpha=0.1), Probabilities(at_most=cap), tally)
    assert len(told) == (1 if cap is None else 2)
    assert "The target 0.1 is out of reach: of 1,000 truths 250 (25.0%) could be in no set" in told[-1]
    assert remedy in told[-1]
    assert cap is None or "No set holds more than 3 labels" in told[0]


def go_past_the_horizon() -> None:
    predictor = Predictor("ocp-bandit", alpha=0.1, arms=5, horizon=117, seed=1)
    for _ in range(118):
        predictor.learn(predictor.predict([0.5]), MISS)


def go_past_the_bandits_horizon() -> None:
    bandit = Exp3P(arms=5, horizon=117, seed=1)
    for _ in range(118):
        bandit.choose()
        bandit.report(0.5)


def go_beyond_the_bound() -> None:
    predictor = Predictor(alpha=0.1, score=BoundedResiduals(bound=1.0))
    predictor.learn(predictor.predict(0.0), label=7.0)


@pytest.mark.parametrize("go", [go_past_the_horizon, go_past_the_bandits_horizon, go_beyond_the_bound])
def test_warnings_name_the_line_of_the_caller(go: Callable[[], None]) -> None:
    """Not one within keyhole: whoever reads it looks for the call."""
    with pytest.warns(KeyholeWarning) as caught:
        go()
    code = go.__code__
    (warned,) = caught
    assert warned.filename == __file__
    assert warned.lineno in {line for _, _, line in code.co_lines()}
