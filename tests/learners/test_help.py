"""What help and a prompt show of a rule."""

import doctest
import math
import pydoc
from dataclasses import fields
from typing import Any

import pytest

import keyhole
from keyhole import LEARNERS, make
from keyhole.learners import find, takes

NAMES = [*sorted(LEARNERS), "kt+valve"]


@pytest.mark.parametrize("name", NAMES)
def test_example_of_every_rule_runs(name: str) -> None:
    text = find(name).__doc__
    assert text is not None
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    told: list[str] = []
    failed, tried = doctest.DocTestRunner().run(example, out=told.append)
    assert (failed, tried) == (0, 5), "".join(told)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_help_names_every_parameter_and_what_the_rule_needs_and_promises(name: str) -> None:
    rule = LEARNERS[name]
    shown = pydoc.plain(pydoc.render_doc(rule))
    assert rule.about.summary in shown
    assert rule.needs.value in shown
    assert rule.about.guarantee in shown
    _, _, listed = shown.partition("Parameters")
    named = {word.strip() for line in listed.splitlines() for word in line.split(",")}
    assert takes(rule).keys() <= named


def test_help_of_a_rule_shows_its_parameters_in_words() -> None:
    shown = pydoc.plain(pydoc.render_doc(keyhole.ocp_unlock))
    assert "Number of thresholds (K), evenly spaced; 20 unless given." in shown
    assert "Beta; tuned to the horizon unless given." in shown


def test_signature_of_a_rule_is_that_of_its_parameters() -> None:
    import inspect

    shown = inspect.signature(keyhole.ocp_unlock)
    assert list(shown.parameters) == [one.name for one in fields(keyhole.ocp_unlock.parameters)]
    assert shown.parameters["cost"].default == 40.0


def test_prompt_shows_what_a_rule_and_a_learner_are() -> None:
    assert repr(LEARNERS["kt"]) == (
        "<rule kt: parameter-free coin betting on misses; errs on the side of small sets; "
        "needs hit or miss>"
    )
    assert repr(make("kt", alpha=0.1)) == "<kt: alpha=0.1>"
    assert repr(make("ocp-unlock+", alpha=0.1, horizon=900, arms=9)) == (
        "<ocp-unlock+: alpha=0.1, horizon=900, arms=9, cost=40.0, delta=0.05>"
    )
    assert repr(LEARNERS).startswith(f"<{len(LEARNERS)} rules: informed-tracker, contextual-tracker, ")


def test_notebook_shows_a_learner_as_a_table() -> None:
    shown = make("tracker", alpha=0.1)._repr_html_()
    assert shown.startswith("<b>tracker</b>")
    assert "<tr><td>step</td><td>0.005</td></tr>" in shown


PROMISED: dict[str, Any] = {  # what the help of a rule says of |miss rate - alpha|, times T
    "aci": lambda p, _: (1 - p.alpha + p.step) / p.step,
    "agaci": lambda p, _: max(p.start, 1 - p.start) / min(p.steps) + 1,
    "contextual-tracker": lambda _, __: 151,
    "informed-tracker": lambda _, __: 151,
    "kt": lambda _, t: 1 + math.sqrt(2 * t * math.log(math.e * math.sqrt(math.pi * t) * (t + 1))),
    "logit-tracker": lambda _, __: 179,
    "pi": lambda p, t: math.pi / 2 * p.saturation * (t + 1) / math.log(t + 1) + 1,
    "self-scaled": lambda p, _: p.budget + 1 - p.alpha,
    "tracker": lambda p, _: (max(p.start, 1 - p.start) + p.step) / p.step,
    "tracker-decaying": lambda p, t: (1 + p.first) * t**p.decay / p.first,
}


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_the_guarantee_in_words_is_the_bound_and_names_its_conditions(name: str) -> None:
    """Kills: a number that outruns the theorem; a promise without its conditions."""
    alphas = (0.1,) if name == "logit-tracker" else (0.01, 0.1, 0.4)
    options = {"window": None} if name == "tracker-decaying" else {}
    for alpha in alphas:
        given: Any = make(name, alpha=alpha, options=options).parameters
        for rounds in (10, 1_000, 100_000):
            least, most = given.excess(rounds)
            far = PROMISED[name](given, rounds)
            assert max(-least, most) <= far + 1e-9
            assert max(-least, most) > 0.4 * min(far, rounds)
    said = LEARNERS[name].about.guarantee
    assert "at once" in said
    assert "threshold 0 cannot miss" in said


def test_every_rule_with_a_bound_on_misses_is_checked_in_words() -> None:
    bounded = [name for name, rule in LEARNERS.items() if hasattr(rule.parameters, "excess")]
    assert sorted(bounded) == sorted(PROMISED)
