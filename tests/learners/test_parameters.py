"""What a parameter may be, and is unless told: a release that changes it changes streams that exist."""

import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from keyhole import LEARNERS, make
from keyhole.errors import HorizonError, InvalidError
from keyhole.learners import GATES, find
from keyhole.learners.parameters import Constraint, number, positive, whole

OCP = [
    "horizon None a whole number from 1 to 1e+15",
    "arms None a whole number from 2 to 20000",
    "cost 40.0 a number of at least 0",
    "delta 0.05 a number between 0 and 1",
    "bonus None a number of at least 0",
    "exploration None in (0, 1]",
    "rate None positive and finite",
]
# parameter, default, what it may be; alpha, which every rule has, is below
TABLE = {
    "aci": ["step 0.005 positive and finite", "window 500 a whole number from 1 to 1e+06"],
    "agaci": [
        "steps (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128) positive and finite",
        "start 0.5 in [0, 1]",
    ],
    "contextual-tracker": [
        "features 0 a whole number from 0 to 100000",
        "groups 0 a whole number from 0 to 100000",
        "size_weight 0.0 in [0, 1]",
        "step 0.1 positive and finite",
        "first 0.5 positive and finite",
        "prior 0.5 positive and finite",
        "memory 50.0 positive and finite",
        "knots 8 a whole number from 2",
        "reach 8.0 positive and finite",
        "kept 100 a whole number from 1",
        "window 1000 a whole number from 1",
        "guard 150.0 positive and finite",
        "dead 50.0 positive and finite",
    ],
    "dtaci": ["interval 500 a whole number from 1", "window 500 a whole number from 1 to 1e+06"],
    "exp3-ix": [
        "horizon None a whole number from 1 to 1e+15",
        "arms None a whole number from 2 to 20000",
        "cost 40.0 a number of at least 0",
    ],
    "kt": [],
    "informed-tracker": ["step 0.1 positive and finite", "guard 150.0 positive and finite"],
    "logit-tracker": [
        "step 0.1 positive and finite",
        "first 0.5 positive and finite",
        "margin 1e-06 a number between 0 and 0.5",
    ],
    "mvp": [
        "buckets 40 a whole number from 2 to 1e+06",
        "resolution 800000.0 a number of at least 1",
        "rate None positive and finite",
        "groups 0 a whole number from 0",
    ],
    "ocp-bandit": OCP,
    "ocp-unlock": OCP,
    "ocp-unlock+": OCP,
    "pi": [
        "step 0.005 positive and finite",
        "gain 0.1 positive and finite",
        "saturation 5.0 positive and finite",
        "start 0.5 in [0, 1]",
    ],
    "saocp": [],
    "self-scaled": [
        "step 0.1 positive and finite",
        "stretch 0.1 positive and finite",
        "budget 100.0 positive and finite",
    ],
    "sf-ogd": [],
    "sps": [
        "horizon None a whole number from 1 to 1e+15",
        "arms 1000 a whole number from 2 to 20000",
        "delta None a number between 0 and 1",
    ],
    "tracker": ["step 0.005 positive and finite", "start 0.5 in [0, 1]"],
    "tracker-decaying": [
        "first 1.0 positive and finite",
        "decay 0.6 a number between 0 and 1",
        "start 0.5 in [0, 1]",
        "window 200 a whole number from 1 to 1e+06",
        "alarm 4.0 positive and finite",
    ],
    "unlock-hedge": [
        "arms None a whole number from 2 to 20000",
        "window 2000 a whole number from 2",
        "rate None positive and finite",
    ],
    "gate-tracker": [
        "budget 20.0 a number of at least 1",
        "growth 0.3 a number of at least 0",
        "memory None a number of at least 10",
    ],
    "exaul": ["arms None a whole number from 2 to 20000", "weight None positive and finite"],
    "gate-split": ["calibration 500 a whole number from 20 to 1e+06"],
    "gate-fixed": ["threshold 0.9 in [0, 1]"],
}


@pytest.mark.parametrize("name", [*LEARNERS, *GATES])
def test_every_parameter_has_its_range_and_its_default(name: str) -> None:
    kind = find(name).parameters
    held = {one.name: one.metadata.get("constraint") for one in fields(kind)}  # type: ignore[arg-type]
    found = [f"{one.name} {one.default} {held[one.name]}" for one in fields(kind) if held[one.name]]  # type: ignore[arg-type]
    first, *others = found
    most = 0.8 if name in ("informed-tracker", "contextual-tracker") else 0.5
    assert first == f"alpha {MISSING} a number between 0 and {most}"
    assert others == TABLE[name]


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        (Constraint(above=0.0, below=0.5), (1e-300, 0.4999), (0.0, 0.5, -1.0, 1.0, math.nan)),
        (Constraint(above=0.0), (1e-300, 1e300), (0.0, -1e-300, math.inf)),
        (Constraint(least=0.0, most=1.0), (0, 0.5, 1), (-1e-300, 1.0000001, math.nan)),
        (Constraint(above=0.0, most=1.0), (1e-300, 1.0), (0.0, 1.0000001)),
        (Constraint(least=2, whole=True), (2, 10**9, 2**63 - 1), (1, 2**63, 2.5, math.nan)),
        (Constraint(least=1, most=9, whole=True), (1, 9), (0, 10)),
    ],
)
def test_ends_named_above_and_below_are_refused_and_those_named_least_and_most_allowed(
    constraint: Constraint, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    for value in inside:
        assert constraint.check("x", value) == value
    for value in outside:
        with pytest.raises(InvalidError, match=r"^x .* is not "):
            constraint.check("x", value)


def test_a_fault_names_the_parameter_its_value_and_a_remedy() -> None:
    with pytest.raises(InvalidError, match=r"^start 2\.0 is not in \[0, 1\]; try 0\.5$"):
        make("tracker", alpha=0.1, options={"start": 2.0})
    with pytest.raises(
        InvalidError, match=r"^alpha 0\.5 is not a number between 0 and 0\.5; it is the share"
    ):
        make("tracker", alpha=0.5)
    with pytest.raises(
        InvalidError, match=r"^arms 1 is not a whole number from 2 to 20000; the theorems"
    ):
        make("unlock-hedge", alpha=0.1, arms=1)
    with pytest.raises(HorizonError, match=r"^horizon 0 is not a whole number from 1 to 1e\+15; give"):
        make("sps", alpha=0.1, horizon=0)
    with pytest.raises(InvalidError, match=r"^steps 0 is not positive and finite; try 0\.01$"):
        make("agaci", alpha=0.1, options={"steps": (0.1, 0)})


@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        (lambda: positive("A step.", default=0.25), "try 0.25"),
        (lambda: number("A bound.", default=None, remedy="try 5"), "try 5, or None"),
        (lambda: number("A bound.", default=None, remedy="give more"), "give more"),
        (lambda: whole("Rounds.", default=7, least=2), "try 7"),
        (lambda: number("Anything."), ""),
    ],
)
def test_the_remedy_is_the_default_or_what_was_given_and_none_where_that_is_allowed(
    made: Callable[[], Any], remedy: str
) -> None:
    assert made().metadata["constraint"].remedy == remedy


def test_a_grid_is_not_part_of_what_a_prompt_shows() -> None:
    for name in ("exp3-ix", "ocp-bandit", "ocp-unlock", "ocp-unlock+", "unlock-hedge"):
        learner = make(name, alpha=0.1, arms=9)
        assert learner.thresholds is not None
        assert "thresholds" not in repr(learner)
        assert "arms=9" in repr(learner)


@pytest.mark.parametrize(
    ("name", "arms"), [("ocp-bandit", 20), ("ocp-unlock+", 20), ("exp3-ix", 20), ("unlock-hedge", 101)]
)
def test_a_grid_has_so_many_thresholds_unless_told(name: str, arms: int) -> None:
    thresholds = make(name, alpha=0.1).thresholds
    assert thresholds is not None
    assert thresholds.size == arms
