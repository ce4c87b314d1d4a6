"""Online conformal prediction when you only see part of the truth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from keyhole import learners, scores
from keyhole.feedback import HIT, MISS
from keyhole.learners import GATES, LEARNERS, make
from keyhole.numeric import kernel
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Probabilities, QuantileBands, ScaledResiduals

if TYPE_CHECKING:
    from keyhole.learners import bounds
    from keyhole.predictor.gate import Gate
    from keyhole.service.client.client import AsyncClient, Client
    from keyhole.simulation.simulate import simulate
    from keyhole.studies.compare.contest import compare

__version__ = "0.3.0"

# What a first round does without is imported when it is first asked for.
_LATER = {
    "AsyncClient": "service.client.client",
    "Client": "service.client.client",
    "Gate": "predictor.gate",
    "bounds": "learners.bounds",
    "compare": "studies.compare.contest",
    "simulate": "simulation.simulate",
}
_ROOMS = ("integrations", "keyed", "scenarios", "simulation")  # those that nothing above imports

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
    anything: Any = given
    if isinstance(given, type):
        scores.register(anything)
    else:
        learners.register(anything)
    return given


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"keyhole.{name}")
    if name in _LATER:
        module = import_module(f"keyhole.{_LATER[name]}")
        return getattr(module, name, module)
    return _find_rule(name)


def _find_rule(name: str) -> Any:
    """Return the rule of this name, as for ``help(keyhole.ocp_unlock)``, or raise."""
    spelt = name.replace("_plus", "+").replace("_", "-")
    for rules in (LEARNERS, GATES):
        if not name.startswith("_") and spelt in rules:
            return rules[spelt]
    raise AttributeError(f"module 'keyhole' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
