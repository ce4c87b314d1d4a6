"""Online conformal prediction when you only see part of the truth."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keyhole.feedback import HIT, MISS
    from keyhole.learners import GATES, LEARNERS, bounds, make
    from keyhole.numeric import kernel
    from keyhole.predictor.gate import Gate
    from keyhole.predictor.predictor import Predictor
    from keyhole.scores import Probabilities, QuantileBands, ScaledResiduals
    from keyhole.service.client.client import AsyncClient, Client
    from keyhole.simulation.simulate import simulate
    from keyhole.studies.compare.contest import compare

__version__ = "0.3.0"

# Every name is imported when it is first asked for, so that nobody waits for what they do not use.
_HOMES = {
    "GATES": "learners",
    "HIT": "feedback",
    "LEARNERS": "learners",
    "MISS": "feedback",
    "AsyncClient": "service.client.client",
    "Client": "service.client.client",
    "Gate": "predictor.gate",
    "Predictor": "predictor.predictor",
    "Probabilities": "scores",
    "QuantileBands": "scores",
    "ScaledResiduals": "scores",
    "bounds": "learners.bounds",
    "compare": "studies.compare.contest",
    "kernel": "numeric",
    "make": "learners",
    "simulate": "simulation.simulate",
}
_ROOMS = (
    "errors",
    "feedback",
    "integrations",
    "keyed",
    "learners",
    "predictor",
    "scenarios",
    "scores",
    "simulation",
)

__all__ = [
    "GATES",
    "HIT",
    "LEARNERS",
    "MISS",
    "AsyncClient",
    "Client",
    "Gate",
    "Predictor",
    "Probabilities",
    "QuantileBands",
    "ScaledResiduals",
    "bounds",
    "compare",
    "kernel",
    "make",
    "register",
    "simulate",
]


_Given = TypeVar("_Given")


def register(given: _Given) -> _Given:
    """Register a rule or the class of a score, and return it; it can then be used like Keyhole's own.

    A rule joins ``keyhole.LEARNERS``, or ``keyhole.GATES``, and can be named wherever a learner is; a
    score can then be saved, loaded and served.

    Examples
    --------
    >>> register(LEARNERS["kt"]).name, register(ScaledResiduals).name
    ('kt', 'scaled residuals')
    """
    home = "scores" if isinstance(given, type) else "learners"
    import_module(f"keyhole.{home}").register(given)
    return given


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"keyhole.{name}")
    if name not in _HOMES:
        return _find_rule(name)
    home = import_module(f"keyhole.{_HOMES[name]}")
    found = getattr(home, name, home)
    setattr(sys.modules[__name__], name, found)  # the next time it is found without asking here
    return found


def _find_rule(name: str) -> Any:
    """Return the rule of this name, as for ``help(keyhole.ocp_unlock)``, or raise."""
    if not name.startswith("_"):
        learners = import_module("keyhole.learners")
        spelt = name.replace("_plus", "+").replace("_", "-")
        for rules in (learners.LEARNERS, learners.GATES):
            if spelt in rules:
                return rules[spelt]
    raise AttributeError(f"module 'keyhole' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
