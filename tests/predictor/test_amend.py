"""Answers that turn out otherwise: the accounts become those of the final truths."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole import HIT, MISS, Gate, Predictor, make
from keyhole.errors import AnsweredError, FeedbackError, InvalidError, UnknownRoundError
from keyhole.learners import LEARNERS

WEIGHED = ["informed-tracker", "logit-tracker", "tracker", "pi", "contextual-tracker"]


@pytest.mark.parametrize("name", WEIGHED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_after_any_amendments_the_accounts_are_those_of_the_final_truths(
    name: str, data: st.DataObject
) -> None:
    """Rounds in groups, of known chances, late, graded, and amended again and again."""
    grouped: Any = {"groups": ["a", "b"]} if name == "contextual-tracker" else {}
    predictor: Predictor[Any] = Predictor(name, alpha=0.1, amend_limit=50, feedback="bandit", **grouped)
    truths: dict[int, tuple[float, float, list[str]]] = {}
    losses = st.sampled_from([0.0, 0.25, 1.0])
    waiting: list[Any] = []
    for _ in range(data.draw(st.integers(5, 25))):
        member = data.draw(st.sampled_from([[], ["a"], ["a", "b"]])) if grouped else []
        waiting.append((predictor.predict([0.9, 0.3], groups=member), member))
        if data.draw(st.booleans()):
            shown, member = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            chance, loss = data.draw(st.sampled_from([1.0, 0.5, 0.05])), data.draw(losses)
            predictor.learn(shown, loss=loss, chance=chance)
            truths[shown.id] = 1.0 / chance, loss, member
        if data.draw(st.booleans()) and truths:
            number = data.draw(st.sampled_from(sorted(truths)))
            weight, _, member = truths[number]
            truths[number] = weight, data.draw(losses), member
            predictor.amend(number, loss=truths[number][1])
    tally, state = predictor._progress.tally, predictor._progress.state
    for group, account in [(None, 0), ("a", 1), ("b", 2)][: state.excess.size if grouped else 1]:
        own = [(w, loss) for w, loss, member in truths.values() if group is None or group in member]
        excess = sum(weight * (loss - 0.1) for weight, loss in own)
        assert state.excess[account] == pytest.approx(excess, abs=1e-9)
        if group is not None:
            assert predictor.groups[group].excess == pytest.approx(excess, abs=1e-9)
    assert tally.misses == pytest.approx(sum(w * loss for w, loss, _ in truths.values()))
    assert tally.weight == pytest.approx(sum(w for w, _, _ in truths.values()))
    assert tally.answered == len(truths)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_after_any_amendments_a_gates_accounts_are_those_of_the_final_judgements(
    data: st.DataObject,
) -> None:
    gate = Gate(alpha=0.1, feedback="both", groups=["x"], amend_limit=50)
    truths: dict[int, tuple[float, bool, bool]] = {}
    for _ in range(data.draw(st.integers(3, 20))):
        member = data.draw(st.booleans())
        score = data.draw(st.sampled_from([1.0, 0.2]))
        decision = gate.decide(score, groups=["x"] if member else [])
        right, chance = data.draw(st.booleans()), data.draw(st.sampled_from([1.0, 0.25]))
        gate.learn(decision, right=right, chance=chance)
        truths[decision.id] = (1.0 / chance if decision.accepted else 0.0), right, member
        if data.draw(st.booleans()):
            number = data.draw(st.sampled_from(sorted(truths)))
            truths[number] = truths[number][0], data.draw(st.booleans()), truths[number][2]
            gate.amend(number, right=truths[number][1])
    tally, states = gate._progress.tally, [gate._progress.state, *gate._progress.states]
    assert tally.misses == pytest.approx(sum(w for w, right, _ in truths.values() if not right))
    assert tally.weight == pytest.approx(sum(w for w, _, _ in truths.values()))
    for state, group in zip(states, (False, True), strict=True):
        own = [(w, right) for w, right, member in truths.values() if member or not group]
        excess = sum(w * ((not right) - 0.1) for w, right in own)
        assert state.excess[0] == pytest.approx(excess, abs=1e-9)


@pytest.mark.parametrize("name", ["logit-tracker", "tracker"])
def test_an_answer_amended_at_once_leaves_a_learner_where_the_right_one_would(name: str) -> None:
    """Once steps are constant: the step of the wrong answer is undone, that of the right one made."""
    options = {"first": 0.1} if name == "logit-tracker" else {}
    amended, told = (
        Predictor(make(name, alpha=0.1, options=options), feedback="bandit", amend_limit=9)
        for _ in range(2)
    )
    shown, other = amended.predict([0.7, 0.3]), told.predict([0.7, 0.3])
    amended.learn(shown, HIT)
    amended.amend(shown, MISS)
    told.learn(other, MISS)
    for one, two in zip(amended._progress.state, told._progress.state, strict=True):
        assert np.asarray(one) == pytest.approx(np.asarray(two), abs=1e-12)


def test_labels_scores_and_reach_are_amended_too() -> None:
    predictor = Predictor(alpha=0.1, amend_limit=9, history=9)
    shown = predictor.predict({"cat": 0.7, "dog": 0.3})
    predictor.learn(shown, label="cat")
    predictor.amend(shown, label="emu")
    assert (predictor.miss_rate, predictor.unreachable) == (1.0, 1)
    assert predictor.history()["miss"].tolist() == [1.0]
    predictor.amend(shown, score=0.7)
    assert (predictor.miss_rate, predictor.unreachable) == (0.0, 0)
    assert predictor.rounds == 1


def test_a_bound_is_wider_by_what_was_amended() -> None:
    predictor = Predictor("logit-tracker", alpha=0.1, amend_limit=1_000)
    for _ in range(1_000):
        predictor.learn(predictor.predict([1.0, 0.3]), loss=0.0)
    before = predictor.bound(rounds=10_000)
    for number in range(0, 1_000, 2):
        predictor.amend(number, MISS)
    after = predictor.bound(rounds=10_000)
    assert (after.least, after.most) == (before.least - 500.0, before.most + 500.0)
    assert predictor._progress.tally.misses - 100.0 <= after.most


def test_what_cannot_be_amended_is_refused_and_nothing_changes() -> None:
    predictor = Predictor(alpha=0.1, amend_limit=2)
    rounds = [predictor.predict({"cat": 0.7, "dog": 0.3}) for _ in range(4)]
    for shown in rounds[:3]:
        predictor.learn(shown, label="cat")
    before = predictor.dump()
    for number in (rounds[0], 3, 99, "a", None):
        with pytest.raises(AnsweredError, match=r"cannot be amended: .* amend_limit"):
            predictor.amend(number, MISS)  # type: ignore[arg-type]
    with pytest.raises(FeedbackError, match="one answer"):
        predictor.amend(rounds[2])
    others = Predictor(alpha=0.2).predict_batch([[1.0]] * 3)
    with pytest.raises(UnknownRoundError):
        predictor.amend(others[2], MISS)
    assert predictor.dump() == before
    keeps_none = Predictor(alpha=0.1)
    keeps_none.learn(keeps_none.predict([1.0]), label=0)
    with pytest.raises(AnsweredError, match="no answered rounds are kept for that; make it with amend"):
        keeps_none.amend(0, MISS)
    with pytest.raises(InvalidError, match="amend_limit -1"):
        Predictor(alpha=0.1, amend_limit=-1)


@pytest.mark.parametrize("name", ["kt", "aci", "mvp"])
def test_a_rule_that_cannot_take_an_answer_back_says_so(name: str) -> None:
    assert not LEARNERS[name].graded
    predictor: Predictor[Any] = Predictor(make(name, alpha=0.1), amend_limit=9)
    shown = predictor.predict([0.7, 0.3])
    predictor.learn(shown, label=0)
    before = predictor.dump()
    with pytest.raises(FeedbackError, match=f"{name} cannot take an answer back; use"):
        predictor.amend(shown, label=1)
    assert predictor.dump() == before


def test_rounds_kept_for_amending_are_pickled() -> None:
    predictor = Predictor(alpha=0.1, amend_limit=9)
    shown = predictor.predict([0.7, 0.3])
    predictor.learn(shown, HIT)
    for again in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor)):  # noqa: S301
        again.amend(shown, MISS)
        assert again.miss_rate == 1.0
    assert predictor.miss_rate == 0.0


def test_an_alarm_that_amended_answers_raised_says_what_it_goes_by() -> None:
    predictor = Predictor(alpha=0.1, watch=True, amend_limit=1_000)
    shown = []
    for _ in range(220):
        shown.append(predictor.predict([0.7, 0.3]))
        predictor.learn(shown[-1], MISS)
    assert "more often than 0.1" in predictor.notes[-1]
    assert "amending" not in predictor.notes[-1]
    for one in shown:
        predictor.amend(one, HIT)
    assert predictor.miss_rate == 0.0
    assert predictor.notes[-1].endswith("as they first came; amending them does not end it.")
