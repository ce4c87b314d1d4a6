"""What ``help`` shows of a rule, and a notebook of a learner."""

import inspect
from dataclasses import fields
from typing import Any

_EXAMPLE = """>>> predictor = keyhole.Predictor(keyhole.make("{}", alpha=0.1), regime="full")
>>> shown = predictor.predict({{"cat": 0.7, "lynx": 0.3}})
>>> predictor.learn(shown, label="cat")
>>> predictor.rounds
1
"""
_GATE_EXAMPLE = """>>> gate = keyhole.Gate(keyhole.make("{}", alpha=0.1))
>>> decision = gate.decide(1.0)
>>> gate.learn(decision, right=True)
>>> gate.rounds
1
"""


def describe_rule(rule: Any) -> str:
    """Return what ``help`` shows of a rule."""
    told = inspect.getdoc(rule.parameters) or ""
    _, _, listed = told.partition("Parameters\n----------\n")
    takes = f"\n\nParameters\n----------\n{listed.rstrip()}" if listed else ""
    return (
        f"{rule.name}: {rule.summary}.\n\nIt needs {rule.needs.value!r}. It promises: "
        f"{rule.guarantee}.\nSource: {rule.source}.{takes}\n\nExamples\n--------\n"
        ">>> import keyhole\n" + (_GATE_EXAMPLE if rule.kind == "gate" else _EXAMPLE).format(rule.name)
    )


def list_given(parameters: Any) -> list[tuple[str, Any]]:
    """Return the parameters that have a value, each by its name."""
    known = [(one.name, getattr(parameters, one.name)) for one in fields(parameters) if one.repr]
    return [(name, value) for name, value in known if value is not None]


def show_learner(learner: Any) -> str:
    """Return HTML with a learner's rule and its parameters."""
    given = list_given(learner.parameters)
    rows = "".join(f"<tr><td>{name}</td><td>{value!r}</td></tr>" for name, value in given)
    return f"<b>{learner.name}</b>: {learner.rule.summary}<table>{rows}</table>"
