"""A fleet makes the choices of its predictors one by one."""

import math
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import Fleet, Predictor
from keyhole.errors import AnsweredError, FeedbackError, InvalidError
from keyhole.numeric import bind
from keyhole.predictor.fleet import _ROWS
from keyhole.scores import LabelSet


@pytest.mark.parametrize("name", ["logit-tracker", "kt", "aci", "self-scaled", "agaci", "dtaci"])
def test_a_fleet_is_its_predictors_one_by_one(name: str) -> None:
    rng, learner = np.random.default_rng(3), keyhole.make(name, alpha=0.1)
    fleet = Fleet(learner, 4)
    alone: list[Predictor[LabelSet]] = [Predictor(learner, feedback="full") for _ in range(4)]
    for _ in range(60):
        rows = np.flatnonzero(rng.random(4) < 0.7)
        if rows.size == 0:
            continue
        scores, labels = rng.dirichlet(np.ones(5), rows.size), rng.integers(5, size=rows.size)
        held = fleet.predict(scores, rows=rows)
        for place, row in enumerate(rows.tolist()):
            shown = alone[row].predict(scores[place])
            assert sorted(shown.labels) == np.flatnonzero(held[place]).tolist()  # type: ignore[type-var]
            alone[row].learn(shown, label=int(labels[place]))
        fleet.learn(labels=labels)
    assert fleet.rounds.tolist() == [one.rounds for one in alone]
    assert fleet.misses.tolist() == [round(one.miss_rate * one.rounds) for one in alone]


@pytest.mark.parametrize("parts", range(1, 9))
def test_a_row_of_states_holds_every_part_of_that_row(parts: int) -> None:
    """Kills: a part taken from its neighbour, for rules of as many parts as none of ours has."""
    states = [[f"part {part} of {row}" for row in range(3)] for part in range(parts)]
    take = bind(_ROWS[parts - 1], _State=lambda *taken: list(taken))
    assert take(states, 2) == [f"part {part} of 2" for part in range(parts)]


def test_hits_and_misses_are_enough_for_the_default() -> None:
    fleet = Fleet(keyhole.make("logit-tracker", alpha=0.1), 2)
    fleet.predict([[0.9], [0.2]])
    fleet.learn(missed=[False, True])
    assert fleet.misses.tolist() == [0, 1]


def test_bad_answers_are_named_and_change_nothing() -> None:
    fleet = Fleet(keyhole.make("aci", alpha=0.1), 2)
    with pytest.raises(AnsweredError, match="predict first"):
        fleet.learn(labels=[0, 0])
    fleet.predict([[0.9], [0.2]])
    for given in ({"labels": [0]}, {"labels": [0, 1]}, {"missed": [False, False]}, {}):
        with pytest.raises(FeedbackError):
            fleet.learn(**given)
    assert fleet.rounds.tolist() == [0, 0]
    with pytest.raises(FeedbackError, match="a row for each"):
        fleet.predict([[0.9]], rows=[0, 1])


@pytest.mark.parametrize("rows", [[2], [-1], [10**9], [0.5], [True], ["a"], [[0]]])
def test_only_the_predictors_of_a_fleet_are_asked(rows: Any) -> None:
    """Kills: rows that are not looked at, past which compiled code reads and writes."""
    fleet = Fleet(keyhole.make("logit-tracker", alpha=0.1), 2)
    with pytest.raises(InvalidError, match="not places from 0 to 1"):
        fleet.predict([[0.9, 0.2]], rows=rows)


@pytest.mark.parametrize("missed", [["x", "y"], [2, 0], [math.nan, 0.0], [True]])
def test_a_set_of_a_fleet_missed_or_it_did_not(missed: Any) -> None:
    """Kills: anything that is not 0 taken for a miss."""
    fleet = Fleet(keyhole.make("logit-tracker", alpha=0.1), 2)
    fleet.predict([[0.9], [0.2]])
    with pytest.raises(FeedbackError, match="True or False for each"):
        fleet.learn(missed=missed)
    assert fleet.misses.tolist() == [0, 0]


def test_a_fleet_is_made_of_a_learner_and_a_whole_number() -> None:
    with pytest.raises(InvalidError, match="'kt' is not a learner"):
        Fleet("kt", 3)  # type: ignore[arg-type]
    for count in (2.5, True, "3"):
        with pytest.raises(InvalidError, match="no fleet"):
            Fleet(keyhole.make("kt", alpha=0.1), count)  # type: ignore[arg-type]


def test_rules_that_draw_do_not_sail() -> None:
    with pytest.raises(InvalidError, match="give each its own Predictor"):
        Fleet(keyhole.make("ocp-unlock+", alpha=0.1), 2)


def test_one_predictor_is_a_fleet_and_none_is_not() -> None:
    learner = keyhole.make("kt", alpha=0.1)
    fleet = Fleet(learner, 1)
    fleet.predict([[0.9, 0.2]])
    fleet.learn(labels=[1])
    assert (len(fleet), fleet.rounds.tolist(), fleet.misses.tolist()) == (1, [1], [1])
    assert repr(fleet) == "<Fleet of 1, kt: 1 rounds>"
    with pytest.raises(InvalidError, match="0 predictors are no fleet"):
        Fleet(learner, 0)


@pytest.mark.parametrize("labels", [[0, -1], [0, 2], [0, 0, 0], [0.0, 1.0]])
def test_labels_of_a_fleet_are_places_one_for_each(labels: list[float]) -> None:
    fleet = Fleet(keyhole.make("kt", alpha=0.1), 2)
    fleet.predict([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(FeedbackError):
        fleet.learn(labels=labels)
    fleet.learn(labels=[0, 1])
    assert fleet.rounds.tolist() == [1, 1]


def test_a_predictor_of_a_fleet_is_asked_once_at_a_time() -> None:
    fleet = Fleet(keyhole.make("kt", alpha=0.1), 2)
    with pytest.raises(FeedbackError, match="each predictor once"):
        fleet.predict([[0.9], [0.2]], rows=[1, 1])
    fleet.predict([[0.9], [0.2]])
    with pytest.raises(FeedbackError, match="one of the two"):
        fleet.learn(labels=[0, 0], missed=[False, False])


@pytest.mark.parametrize(
    ("name", "heard"),
    [("kt", [np.nan, np.nan]), ("aci", [0.9, np.nan]), ("dtaci", [0.9, 0.2])],
)
def test_a_learner_hears_of_the_true_scores_what_it_uses(name: str, heard: list[float]) -> None:
    """The first set was a hit, the second a miss."""
    fleet = Fleet(keyhole.make(name, alpha=0.1), 2)
    told = fleet._hear(np.array([0.9, 0.2]), np.array([False, True]))
    np.testing.assert_array_equal(told, heard)


@pytest.mark.parametrize(
    ("name", "missed", "taken"),
    [("kt", [False, True], True), ("aci", [True, True], True), ("aci", [False, True], False),
     ("dtaci", [True, True], False)],
)  # fmt: skip
def test_answers_without_labels_are_enough_where_none_is_used(
    name: str, missed: list[bool], *, taken: bool
) -> None:
    fleet = Fleet(keyhole.make(name, alpha=0.1), 2)
    fleet.predict([[0.9], [0.2]])
    if not taken:
        with pytest.raises(FeedbackError, match="give labels="):
            fleet.learn(missed=missed)
        return
    fleet.learn(missed=missed)
    assert fleet.misses.tolist() == [int(one) for one in missed]
