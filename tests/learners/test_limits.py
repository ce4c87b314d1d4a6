"""Stored numbers that are places in a table, or counts: those that cannot be are refused."""

import math
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from keyhole import make
from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners import GATES, LEARNERS, About, Learner, Rule, safety_valve
from keyhole.learners.parameters import AlphaParameters
from keyhole.learners.rule import EVERY, NONE
from keyhole.learners.window import Window, quantile
from tests.learners.corrupt import SECONDS, make_small, play

VALVES = ["sps+valve", "mvp+valve", "aci+valve", "kt+valve", "contextual-tracker+valve"]
NAMES = [*sorted(LEARNERS), *sorted(GATES), *VALVES]
FEW = 4  # learners in one process


@pytest.mark.parametrize("disable", ["1", "0"], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("first", range(0, len(NAMES), FEW), ids=lambda n: ",".join(NAMES[n : n + FEW]))
def test_a_number_that_was_spoilt_is_refused_or_does_no_harm(first: int, disable: str) -> None:
    """Interpreted, a place beyond a table is an error; compiled, it may or may not end the process.

    Kills: a limit that a rule forgets, or that is one too high; a climb that does not end at the grid.
    """
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-m", "tests.learners.corrupt", *NAMES[first : first + FEW]],
        env={**os.environ, "NUMBA_DISABLE_JIT": disable},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS + 30,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("refused") == len(NAMES[first : first + FEW])


def replace(content: bytes, place: int, value: float, code: str) -> bytes:
    changed = bytearray(content)
    struct.pack_into(code, changed, 8 * place, value)
    return bytes(changed)


# With 9 arms: after the counts of the arms SPS keeps rounds, scores below, and the arm.
@pytest.mark.parametrize(
    ("name", "place", "code", "most"),
    [
        ("sps", 11, "<q", 8),
        ("sps", 0, "<q", 2**53),
        ("ocp-unlock+", 10, "<q", 34),  # the epoch
        ("saocp", 1, "<q", 256),  # how many live
        ("gate-split", 40, "<q", 20),  # how many were gathered
        ("kt", 2, "<d", 2**53),  # rounds, of a light state
        ("logit-tracker", 3, "<q", 2**53),
        ("kt+valve", 4, "<d", 2**53),  # those of the valve
    ],
)
def test_a_stored_number_goes_up_to_its_limit(name: str, place: int, code: str, most: int) -> None:
    """Kills: a limit that is one off on either side."""
    learner = make_small(name)
    packed = learner.pack(learner.start())
    for value in (0, most):
        spoilt = replace(packed, place, value, code)
        assert learner.pack(learner.unpack(spoilt)) == spoilt
    for value in (-1, most + 2, 2**62):  # 2**53 + 1 is no float
        with pytest.raises(InvalidError, match=f"of {name.replace('+', '.')} holds .*, not a whole"):
            learner.unpack(replace(packed, place, value, code))
    if code == "<d":
        with pytest.raises(InvalidError, match=r"holds 0\.5, not a whole number from 0 to 9\.007"):
            learner.unpack(replace(packed, place, 0.5, code))


def open_round(learner: Learner) -> bytes:
    return bytes(play(learner, learner.start(), range(1), late=1)[0][0])


@pytest.mark.parametrize(
    ("name", "place", "most"),
    [
        ("mvp", 0, 39),  # the bucket
        ("mvp+valve", 2, 39),
        ("exp3-ix", 0, 8),  # the arm
        ("ocp-unlock", 1, 34),  # the epoch
        ("contextual-tracker", 6, 8),  # the cell of the first feature
        ("contextual-tracker", 9, 8),
        ("contextual-tracker+valve", 8, 8),
    ],
)
def test_what_a_round_remembers_goes_up_to_its_limit(name: str, place: int, most: int) -> None:
    learner = make_small(name)
    packed = open_round(learner)
    for value in (0.0, float(most)):
        assert learner.unpack_memo(replace(packed, place, value, "<d"))[place] == value
    for value in (-1.0, 0.5, most + 1.0, 1e9, 1e300):
        with pytest.raises(InvalidError, match=f"memo of a round of {name.replace('+', '.')} holds .*"):
            learner.unpack_memo(replace(packed, place, value, "<d"))


class TableState(NamedTuple):
    """Ten numbers, and where in them the rule is."""

    numbers: Any = np.linspace(0.0, 0.9, 10)
    place: Any = np.zeros(1)


def choose(_settings: Any, state: Any, memo: Any, _ask: Any) -> float:
    memo[0] = state.place[0]
    return float(state.numbers[int(state.place[0])])


def observe(_settings: Any, state: Any, memo: Any, _answer: Any) -> None:
    state.place[0] = (memo[0] + 1) % 10


def make_table(limits: Mapping[str, Any]) -> Learner:
    rule = Rule(
        name="table", needs=Needs.HIT_OR_MISS, parameters=AlphaParameters, choose=choose,
        observe=observe, state=TableState, memory=2, limits=lambda _: limits,
        about=About(summary="", guarantee="", source=""),
    )  # fmt: skip
    return rule(alpha=0.1)


def test_a_rule_of_ones_own_says_its_limits() -> None:
    for learner in (table := make_table({"place": 9, "memo": [9]}), safety_valve(table)):
        state, memo = learner.start(), learner.new_memo()
        state.place[0] = 10.0
        with pytest.raises(InvalidError, match=r"place of the state of table.* holds 10, not"):
            learner.unpack(learner.pack(state))
        memo[-2:] = 0.0, 10.0  # Only the first number of its memo is a place.
        assert learner.unpack_memo(learner.pack_memo(memo))[-1] == 10.0
        memo[-2:] = 10.0, 0.0
        with pytest.raises(InvalidError, match=r"memo of a round of table.* holds 10, not"):
            learner.unpack_memo(learner.pack_memo(memo))


def test_without_limits_any_number_is_taken() -> None:
    learner = make("tracker", alpha=0.1)
    spoilt = replace(learner.pack(learner.start()), 2, -5, "<q")
    assert learner.unpack(spoilt).lateness == [-5]


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"plaice": 9}, "table has limits for 'plaice', which its state does not have"),
        ({"place": [9, 9]}, "2 limits are too many for 1 numbers"),
        ({"memo": [9, 9, 9]}, "3 limits are too many for 2 numbers"),
    ],
)
def test_limits_of_what_is_not_there_are_refused(limits: Mapping[str, Any], fault: str) -> None:
    with pytest.raises(InvalidError, match=fault):
        make_table(limits)


def test_a_level_that_is_no_number_shows_every_label() -> None:
    """Kills: a rank that is looked up though it is neither below the first nor above the last."""
    scores = Window(np.array([0.2, 0.4, 2.0]), np.array([0.4, 0.2, 0.0]), np.array([2]))
    assert quantile(scores, math.nan) == EVERY
    assert [quantile(scores, level) for level in (0.3, 0.4, 0.7, 1.0)] == [EVERY, 0.2, 0.4, NONE]


def test_a_full_house_of_experts_who_live_for_ever_takes_in_no_more() -> None:
    """Kills: an expert that is written behind the last place, though each number could be."""
    learner = make("saocp", alpha=0.1)
    state = learner.start()
    state.clock[:] = 300, 256
    state.birth[:] = 2**40
    learner.rule.observe(learner.settings, state, np.zeros(0), Answer(0.0, 0.5))  # interpreted
    assert state.clock.tolist() == [301, 256]
    assert state.birth[-2:].tolist() == [2**40, 301]
