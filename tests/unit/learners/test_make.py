from typing import Any

import numpy as np
import pytest

from keyhole import LEARNERS, make, ocp_bandit, ocp_unlock, ocp_unlock_plus
from keyhole.errors import (
    GridError,
    HorizonError,
    LearnerError,
    RateError,
    TheoryWarning,
)
from keyhole.grid import geometric


@pytest.mark.parametrize("rule", [ocp_bandit, ocp_unlock, ocp_unlock_plus])
def test_named_and_typed_constructors_give_the_same_learner(rule: Any) -> None:
    assert LEARNERS[rule.name] is rule
    assert make(rule.name, alpha=0.1, horizon=900, arms=9) == rule(alpha=0.1, horizon=900, arms=9)


def test_needs_are_declared_in_words() -> None:
    assert LEARNERS["ocp-bandit"].needs == "hit or miss"
    assert LEARNERS["ocp-unlock+"].needs == "label if hit"


def test_options_override_the_rates() -> None:
    options = {"bonus": 0.02, "exploration": 0.3, "rate": 0.004, "cost": 20.0}
    settings = make("ocp-unlock+", alpha=0.1, horizon=900, arms=9, options=options).settings
    assert settings.rates[0].tolist() == [0.02, 0.3, 0.004]
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
        ({"arms": 1}, GridError, "1 arms are not a whole number"),
        (
            {"arms": 200, "horizon": 1_000},
            HorizonError,
            "exploration would be 1.08 > 1; use at least 1169",
        ),
        ({"horizon": -5}, HorizonError, "horizon -5"),
        ({"options": {"speed": 3}}, LearnerError, "no option 'speed'; it takes bonus, cost"),
        ({"options": {"delta": 0.0}}, RateError, "delta 0.0"),
        ({"options": {"cost": -1.0}}, RateError, "cost"),
        ({"options": {"cost": "40"}}, RateError, "cost"),
        ({"options": {"delta": None}}, RateError, "delta None"),
        ({"options": {"alpha": 0.2}}, LearnerError, "no option 'alpha'"),
        ({"options": {"thresholds": ["a", "b"]}}, GridError, "not numbers"),
        ({"horizon": 10**30}, HorizonError, "horizon 10000"),
        ({"arms": 10.0}, GridError, "10.0 arms are not a whole number"),
        ({"arms": 4, "options": {"thresholds": [0.0, 0.5]}}, GridError, "4 arms were asked for"),
    ],
)
def test_bad_parameters_are_named(
    arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        make("ocp-unlock+", alpha=0.1, **arguments)


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(LearnerError, match="did you mean 'ocp-bandit'"):
        make("ocp-bandid", alpha=0.1)
    with pytest.raises(LearnerError, match=r"see keyhole.LEARNERS"):
        make("???", alpha=0.1)
