from typing import Any

import numpy as np
import pytest

from keyhole import LEARNERS, make
from keyhole.errors import HorizonError, InvalidError, TheoryWarning
from keyhole.grid import geometric
from keyhole.learners import GATES, find
from keyhole.learners.rules.ocp_bandit import ocp_bandit
from keyhole.learners.rules.ocp_unlock import ocp_unlock
from keyhole.learners.rules.ocp_unlock_plus import ocp_unlock_plus


@pytest.mark.parametrize("rule", [ocp_bandit, ocp_unlock, ocp_unlock_plus])
def test_named_and_typed_constructors_give_the_same_learner(rule: Any) -> None:
    assert LEARNERS[rule.name] is rule
    assert make(rule.name, alpha=0.1, horizon=900, arms=9) == rule(alpha=0.1, horizon=900, arms=9)


def test_needs_are_declared_in_words() -> None:
    assert LEARNERS["ocp-bandit"].needs == "hit or miss"
    assert LEARNERS["ocp-unlock+"].needs == "label if hit"


def test_who_draws_and_who_takes_graded_answers() -> None:
    """Kills: a rule that is handed no draw, or graded answers, without a word."""
    rules = [find(name) for name in (*LEARNERS, *GATES)]
    assert {rule.name for rule in rules if rule.draws} == {
        "mvp", "exp3-ix", "ocp-bandit", "ocp-unlock", "ocp-unlock+", "unlock-hedge", "exaul",
    }  # fmt: skip
    assert {rule.name for rule in rules if rule.graded} == {
        "informed-tracker", "logit-tracker", "contextual-tracker", "tracker", "pi",
        "gate-tracker", "gate-split", "gate-fixed", "exaul",
    }  # fmt: skip


def test_options_override_the_rates() -> None:
    options = {"bonus": 0.02, "exploration": 0.3, "rate": 0.004, "cost": 20.0}
    settings = make("ocp-unlock+", alpha=0.1, horizon=900, arms=9, options=options).settings
    assert settings.epochs[0].tolist() == [0.02, 0.3, 0.004, 900]
    plain = make("ocp-unlock+", alpha=0.1, horizon=900, arms=9).settings
    assert not np.array_equal(settings.hit_gains, plain.hit_gains)


def test_grid_of_ones_own_is_taken_as_it_is() -> None:
    grid = geometric(30)
    learner = ocp_unlock_plus(alpha=0.1, horizon=5_000, thresholds=grid.tolist())
    assert learner.thresholds is not None
    assert (learner.thresholds == grid).all()


def test_fewer_than_five_arms_work_with_a_note() -> None:
    with pytest.warns(TheoryWarning, match="begins at 5") as said:
        make("ocp-unlock+", alpha=0.1, horizon=900, arms=4)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (
            {"arms": 1},
            InvalidError,
            "arms 1 is not a whole number from 2 to 20000; the theorems want at least 5",
        ),
        (
            {"arms": 200, "horizon": 1_000},
            HorizonError,
            "exploration would be 1.08 > 1; use at least 1169",
        ),
        ({"horizon": -5}, HorizonError, "horizon -5"),
        (
            {"options": {"speed": 3}},
            InvalidError,
            "no parameter 'speed'; it takes bonus, cost, delta, exploration, rate, thresholds",
        ),
        ({"options": {"delta": 0.0}}, InvalidError, "delta 0.0"),
        ({"options": {"cost": -1.0}}, InvalidError, "cost"),
        ({"options": {"cost": "40"}}, InvalidError, "cost"),
        ({"options": {"delta": None}}, InvalidError, "delta None"),
        (
            {"options": {"alpha": 0.2}},
            InvalidError,
            "alpha is not an option of ocp-unlock\\+; give it beside",
        ),
        ({"options": {"thresholds": ["a", "b"]}}, InvalidError, "not numbers"),
        ({"horizon": 10**30}, HorizonError, "horizon 10000"),
        ({"arms": 10.0}, InvalidError, "arms 10.0 is not a whole number"),
        ({"arms": 4, "options": {"thresholds": [0.0, 0.5]}}, InvalidError, "4 arms were asked for"),
    ],
)
def test_bad_parameters_are_named(
    arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        make("ocp-unlock+", alpha=0.1, **arguments)


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InvalidError, match="did you mean 'ocp-bandit'"):
        make("ocp-bandid", alpha=0.1)
    with pytest.raises(
        InvalidError, match=r"no learner '\?\?\?'; there are informed-tracker, contextual"
    ):
        make("???", alpha=0.1)


@pytest.mark.parametrize("given", [{"horizon": 900}, {"arms": 9}, {"options": {"cost": 40.0}}])
def test_what_a_rule_has_no_use_for_is_refused(given: dict[str, Any]) -> None:
    name = next(iter(given.get("options", given)))
    with pytest.raises(InvalidError, match=f"kt has no parameter '{name}'"):
        make("kt", alpha=0.1, **given)


def test_mistyped_option_gets_the_nearest() -> None:
    with pytest.raises(InvalidError, match="no parameter 'budgett'; did you mean 'budget'"):
        make("self-scaled", alpha=0.1, options={"budgett": 1.0})


@pytest.mark.parametrize("name", [["kt"], {"kt"}, None, 3, LEARNERS["kt"], make("kt", alpha=0.1)])
def test_what_is_no_name_is_told_so(name: Any) -> None:
    with pytest.raises(
        InvalidError, match=r"is no learner's name; give one, such as '(kt|informed-tracker)'"
    ):
        make(name, alpha=0.1)


@pytest.mark.parametrize("name", ["locker", "tracking", "cat"])
def test_a_name_that_is_not_near_gets_all_of_them(name: str) -> None:
    """Kills: difflib's usual 0.6, at which 'tracking' becomes 'tracker-decaying'."""
    with pytest.raises(
        InvalidError, match=f"there is no learner '{name}'; there are informed-tracker, "
    ):
        make(name, alpha=0.1)


@pytest.mark.parametrize("steps", [0.1, "0.1", None])
def test_one_number_is_not_several(steps: Any) -> None:
    with pytest.raises(InvalidError, match="are not a list of numbers; give several"):
        make("agaci", alpha=0.1, options={"steps": steps})
