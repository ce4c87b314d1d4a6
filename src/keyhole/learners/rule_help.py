"""What a rule must have, what ``help`` shows of it, and a notebook of a learner."""

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

from keyhole.errors import InvalidError
from keyhole.feedback import Needs

_EXAMPLE = """>>> predictor = keyhole.Predictor(keyhole.make("{}", alpha=0.1), feedback="full")
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


def check_rule(rule: Any) -> None:
    """Raise if a rule lacks something that its learners are made of."""
    kind = rule.parameters
    if not isinstance(rule.name, str):
        raise InvalidError(f"{rule.name!r} cannot name a learner; use text")
    if rule.needs not in list(Needs):
        known = ", ".join(repr(need.value) for need in Needs)
        raise InvalidError(f"{rule.name} needs {rule.needs!r}, which is none of {known}")
    # A valve has alpha as a property: it is that of the rule inside.
    if not is_dataclass(kind) or not (hasattr(kind, "alpha") or "alpha" in kind.__dataclass_fields__):
        raise InvalidError(
            f"the parameters of {rule.name} are no dataclass with alpha; make one with "
            "keyhole.learners.parameters"
        )
    if rule.state is None and rule.start is None:
        raise InvalidError(
            f"{rule.name} does not say what it remembers; give state=, a named tuple of arrays"
        )


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
